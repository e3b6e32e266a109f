//! The function under a macro, as the user wrote it.
//!
//! The body stays a group of tokens: nothing in it is looked at, so nothing in it can be
//! misunderstood, and every token keeps its place in the user's file.

use proc_macro2::{Group, TokenTree};
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, Signature, Visibility};

/// A function under a macro.
pub(crate) struct Function {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) visibility: Visibility,
    pub(crate) signature: Signature,
    pub(crate) body: Group,
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let function = Function {
            attributes: input.call(Attribute::parse_outer)?,
            visibility: input.parse()?,
            signature: input.parse()?,
            body: body(input)?,
        };
        Ok(function)
    }
}

fn body(input: ParseStream<'_>) -> syn::Result<Group> {
    match input.parse()? {
        TokenTree::Group(group) => Ok(group),
        other => Err(syn::Error::new_spanned(other, "expected the function's body: `{ .. }`")),
    }
}
