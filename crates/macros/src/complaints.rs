//! What is wrong with the user's code, collected so that all of it is told at once.

use std::fmt::Display;

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::Error;

/// What is wrong, in the order it was found.
#[derive(Default)]
pub(crate) struct Complaints(Option<Error>);

impl Complaints {
    /// Adds one about these tokens.
    pub(crate) fn about(&mut self, tokens: impl ToTokens, message: impl Display) {
        self.add(Error::new_spanned(tokens, message));
    }

    /// Adds one.
    pub(crate) fn add(&mut self, error: Error) {
        match &mut self.0 {
            Some(first) => first.combine(error),
            none => *none = Some(error),
        }
    }

    /// Adds those of another list.
    pub(crate) fn append(&mut self, others: Complaints) {
        others.0.into_iter().for_each(|error| self.add(error));
    }

    /// True when there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The code that makes the compiler say them.
    pub(crate) fn into_code(self) -> TokenStream {
        self.0.map(Error::into_compile_error).unwrap_or_default()
    }
}
