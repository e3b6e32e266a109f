//! `#[derive(FailureType)]`: what an error of the user's is called among failures.
//!
//! A struct is one type of failures. An enum is a family: each variant is a type that descends from
//! the enum's name, so a rule can mean one variant or all of them. Attributes say the rest; those
//! of an enum hold for the variants that say nothing else.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Fields, LitStr};

use crate::complaints::Complaints;
use crate::failure_settings::{Place, Settings};

/// Writes the implementation of `FailureType`.
pub(crate) fn expand(item: TokenStream) -> TokenStream {
    let item: DeriveInput = match syn::parse2(item) {
        Ok(item) => item,
        Err(error) => return error.into_compile_error(),
    };
    let mut complaints = Complaints::default();
    let code = implementation(&item, &mut complaints);
    let complaints = complaints.into_code();
    quote!(#complaints #code)
}

/// A type of failures: a struct, or a variant of an enum.
struct Kind<'a> {
    name: &'a Ident,
    /// The variant, for an enum.
    variant: Option<&'a Ident>,
    fields: &'a Fields,
    settings: Settings,
}

fn implementation(item: &DeriveInput, complaints: &mut Complaints) -> Option<TokenStream> {
    if !item.generics.params.is_empty() {
        let message = "a type of failures cannot be generic: it is read back by its name alone, \
                       which says nothing of types";
        complaints.about(&item.generics, message);
        return None;
    }
    let (whole, kinds) = kinds(item, complaints)?;
    check_names(&kinds, complaints);
    let at = item.ident.span().resolved_at(Span::mixed_site());
    let path = whole.path(at);
    let name = &item.ident;
    let names = kinds.iter().flat_map(Kind::names);
    let family = matches!(item.data, Data::Enum(_)).then(|| family(item, &whole));
    let family_const = family.as_ref().map(|family| {
        quote_spanned! {at=>
            const FAMILY: ::core::option::Option<&'static str> =
                ::core::option::Option::Some(#family);
        }
    });
    let labels = kinds.iter().map(|kind| kind.label(&path, &whole, family.as_ref()));
    let own = Ident::new("self", at);
    let body = match kinds.is_empty() {
        true => quote_spanned!(at=> match *#own {}),
        false => quote_spanned!(at=> match #own { #(#labels)* }),
    };
    Some(quote_spanned! {at=>
        #[automatically_derived]
        impl #path::FailureType for #name {
            const NAMES: &'static [&'static str] = &[#(#names),*];
            #family_const
            fn label(&#own) -> #path::FailureLabel {
                #body
            }
        }
    })
}

/// The settings of the whole, and the types it consists of.
fn kinds<'a>(
    item: &'a DeriveInput,
    complaints: &mut Complaints,
) -> Option<(Settings, Vec<Kind<'a>>)> {
    let mut read = |attributes: &[Attribute], place| Settings::read(attributes, place, complaints);
    match &item.data {
        Data::Struct(data) => {
            let settings = read(&item.attrs, Place::Struct);
            let whole = Settings { root: settings.root.clone(), ..Settings::default() };
            let kind = Kind { name: &item.ident, variant: None, fields: &data.fields, settings };
            Some((whole, vec![kind]))
        }
        Data::Enum(data) => {
            let whole = read(&item.attrs, Place::Enum);
            let mut kinds = Vec::new();
            for variant in &data.variants {
                let settings = read(&variant.attrs, Place::Variant);
                let name = &variant.ident;
                kinds.push(Kind { name, variant: Some(name), fields: &variant.fields, settings });
            }
            Some((whole, kinds))
        }
        Data::Union(_) => {
            complaints.about(&item.ident, "a type of failures is a struct or an enum");
            None
        }
    }
}

fn family(item: &DeriveInput, whole: &Settings) -> LitStr {
    let own = || LitStr::new(&item.ident.unraw().to_string(), item.ident.span());
    whole.name.clone().unwrap_or_else(own)
}

fn check_names(kinds: &[Kind<'_>], complaints: &mut Complaints) {
    let mut seen: Vec<String> = Vec::new();
    for name in kinds.iter().flat_map(Kind::names) {
        let text = name.value();
        if seen.contains(&text) {
            complaints.about(&name, format!("`{text}` is already the name of a failure here"));
        }
        seen.push(text);
    }
}

impl Kind<'_> {
    fn type_name(&self) -> LitStr {
        let own = || LitStr::new(&self.name.unraw().to_string(), self.name.span());
        self.settings.name.clone().unwrap_or_else(own)
    }

    /// Its name and those it had before.
    fn names(&self) -> Vec<LitStr> {
        [self.type_name()].into_iter().chain(self.settings.aliases.iter().cloned()).collect()
    }

    /// One arm of the match that labels a value.
    fn label(&self, path: &TokenStream, whole: &Settings, family: Option<&LitStr>) -> TokenStream {
        let name = self.type_name();
        let parents: Vec<&LitStr> =
            self.settings.parents.iter().chain(family).chain(&whole.parents).collect();
        let parents = (!parents.is_empty()).then(|| quote!(.parents(&[#(#parents),*])));
        let code = self.settings.code.as_ref().or(whole.code.as_ref());
        let set_code = code.map(|code| quote_spanned!(code.span()=> .code(#code)));
        let wait = self.settings.retry_after.as_ref();
        let set_wait = wait.map(|wait| quote_spanned!(wait.span()=> .retry_after(#wait)));
        let outcome = self.settings.outcome.as_ref().or(whole.outcome.as_ref());
        let outcome = outcome.map(|word| quote_spanned!(word.span()=> .#word()));
        let pattern = self.pattern(self.settings.code.as_ref().or(wait).is_some());
        quote! {
            #[allow(unused_variables)]
            #pattern => #path::FailureLabel::new(#name) #parents #set_code #set_wait #outcome,
        }
    }

    /// What a value looks like. Its fields have names where an expression may mention them: their
    /// own, or `_0`, `_1` and so on.
    fn pattern(&self, mentioned: bool) -> TokenStream {
        let constructor = match self.variant {
            Some(variant) => quote!(Self::#variant),
            None => quote!(Self),
        };
        match self.fields {
            Fields::Named(fields) if mentioned => {
                let names = fields.named.iter().map(|field| &field.ident);
                quote!(#constructor { #(#names),* })
            }
            Fields::Unnamed(fields) if mentioned => {
                let names = (0..fields.unnamed.len()).map(|place| format_ident!("_{place}"));
                quote!(#constructor(#(#names),*))
            }
            _ => quote!(#constructor { .. }),
        }
    }
}
