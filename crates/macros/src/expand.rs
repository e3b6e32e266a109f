//! The code that the macros write.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Expr, FnArg, LitStr, Signature};

use crate::attributes::{Attributes, ParameterAttributes};
use crate::complaints::Complaints;
use crate::function::Function;
use crate::gate;
use crate::kind::Kind;
use crate::settings::Settings;
use crate::signature::{Argument, Shape};
use crate::types::value_of_result;

/// Turns a function into a struct, a constructor and the implementation of a trait.
///
/// Code comes out even when there is something to complain about, so that the rest of the user's
/// code still finds the names it mentions and is not complained about as well.
pub(crate) fn expand(kind: Kind, settings: TokenStream, item: TokenStream) -> TokenStream {
    let mut complaints = Complaints::default();
    let settings = Settings::read(kind, settings, &mut complaints);
    let code = match syn::parse2::<Function>(item.clone()) {
        Err(error) => {
            complaints.add(not_a_function(kind, &item, error));
            item
        }
        Ok(function) => match Shape::read(kind, &function.signature, &mut complaints) {
            None => as_it_is(&function),
            Some(shape) => {
                if let Some(template) = &settings.gate {
                    gate::check(template, &shape.arguments, &mut complaints);
                }
                Expansion::new(kind, &settings, &function, &shape).code()
            }
        },
    };
    let complaints = complaints.into_code();
    quote!(#complaints #code)
}

fn not_a_function(kind: Kind, item: &TokenStream, error: syn::Error) -> syn::Error {
    match syn::parse2::<syn::Item>(item.clone()) {
        Ok(_) => syn::Error::new_spanned(item, format!("#[{}] goes on a function", kind.name())),
        Err(_) => error,
    }
}

/// The function without what would go to the struct.
fn as_it_is(function: &Function) -> TokenStream {
    let Attributes { all, body: own, .. } = Attributes::of_function(&function.attributes);
    let Function { visibility, signature, body, .. } = function;
    let signature = plain(signature);
    quote!(#(#all)* #(#own)* #visibility #signature #body)
}

/// Everything that the code is written from.
struct Expansion<'a> {
    kind: Kind,
    settings: &'a Settings,
    function: &'a Function,
    shape: &'a Shape,
    attributes: Attributes,
    /// The user's name for all of it.
    name: &'a Ident,
    /// Its place, for code of the macro's own.
    at: Span,
    /// The path to what the code refers to.
    path: TokenStream,
}

impl<'a> Expansion<'a> {
    fn new(kind: Kind, settings: &'a Settings, function: &'a Function, shape: &'a Shape) -> Self {
        let name = &function.signature.ident;
        let at = name.span().resolved_at(Span::mixed_site());
        Expansion {
            kind,
            settings,
            function,
            shape,
            attributes: Attributes::of_function(&function.attributes),
            name,
            at,
            path: settings.path(at),
        }
    }

    fn code(&self) -> TokenStream {
        [self.structure(), self.constructor(), self.body(), self.implementation()]
            .into_iter()
            .collect()
    }

    /// The call as data.
    fn structure(&self) -> TokenStream {
        let Expansion { name, path, attributes, function, .. } = self;
        let visibility = &function.visibility;
        let doc = self.kind.describe(&self.wire_name().value());
        let serde = format!("{path}::serde").replace(' ', "");
        let (all, own) = (&attributes.all, &attributes.structure);
        let fields = self.shape.arguments.iter().map(|Argument { attributes, name, ty }| {
            let ParameterAttributes { all, field, .. } = attributes;
            let doc = attributes.needs_doc().then(|| {
                let doc = format!("The argument `{}`.", name.unraw());
                quote!(#[doc = #doc])
            });
            // At the name, because what serde has to say about a field lands on its first token.
            let public = quote_spanned!(name.span()=> pub);
            quote!(#(#all)* #doc #(#field)* #public #name: #ty)
        });
        quote_spanned! {self.at=>
            #[doc = #doc]
            #(#all)*
            #[allow(non_camel_case_types, non_snake_case)]
            #[derive(#path::serde::Serialize, #path::serde::Deserialize)]
            #[serde(crate = #serde)]
            #(#own)*
            #visibility struct #name { #(#fields,)* }
        }
    }

    /// The function that builds a call.
    fn constructor(&self) -> TokenStream {
        let Expansion { name, attributes, function, .. } = self;
        let visibility = &function.visibility;
        let (all, own) = (&attributes.all, &attributes.constructor);
        let must_use = (!attributes.has_must_use()).then(|| {
            let reason = self.kind.must_use();
            quote!(#[must_use = #reason])
        });
        let parameters = self.shape.arguments.iter().map(|Argument { attributes, name, ty }| {
            let all = &attributes.all;
            quote!(#(#all)* #name: #ty)
        });
        let fields = self.shape.arguments.iter().map(|Argument { attributes, name, .. }| {
            let all = &attributes.all;
            quote!(#(#all)* #name)
        });
        quote! {
            #(#all)*
            #(#own)*
            #[allow(non_snake_case, clippy::too_many_arguments)]
            #must_use
            #visibility fn #name(#(#parameters),*) -> #name { #name { #(#fields),* } }
        }
    }

    /// The user's function, whole. It is an associated function, so that its name in its own body
    /// is still the constructor's: a workflow may continue with a call of itself.
    fn body(&self) -> TokenStream {
        let Expansion { name, attributes, function, .. } = self;
        let (all, own) = (&attributes.all, &attributes.body);
        let signature = plain(&function.signature);
        let body = &function.body;
        quote! {
            #(#all)*
            // How large a `Failure` is, the user cannot change.
            #[allow(clippy::result_large_err)]
            impl #name {
                #(#own)*
                #signature #body
            }
        }
    }

    /// The implementation of the trait.
    fn implementation(&self) -> TokenStream {
        let Expansion { name, path, attributes, .. } = self;
        let all = &attributes.all;
        let implemented = format_ident!("{}", self.kind.trait_name());
        let wire_name = self.wire_name();
        let output = self.output();
        let (aliases, blocking, options) = (self.aliases(), self.blocking(), self.options());
        let (version, gate) = (self.version(), self.gate());
        let run = self.run();
        quote_spanned! {self.at=>
            #(#all)*
            impl #path::#implemented for #name {
                const NAME: &'static str = #wire_name;
                #aliases
                #version
                #gate
                #blocking
                type Output = #output;
                #options
                #run
            }
        }
    }

    /// The type of the value that the function returns. Where `Result<T, ..>` is written it is `T`;
    /// an alias of another name is left to the compiler. That way a public function may keep its
    /// error private, which is not allowed of what a public trait mentions.
    fn output(&self) -> TokenStream {
        let output = &self.shape.output;
        if let Some(value) = value_of_result(output) {
            return value.to_token_stream();
        }
        let (first, last) = ends(output);
        let path = self.settings.path(last);
        let begun = quote_spanned!(first=> <#output as);
        quote_spanned!(last=> #begun #path::Returned>::Value)
    }

    fn wire_name(&self) -> LitStr {
        let own = || LitStr::new(&self.name.unraw().to_string(), self.name.span());
        self.settings.name.clone().unwrap_or_else(own)
    }

    fn aliases(&self) -> Option<TokenStream> {
        let aliases = &self.settings.aliases;
        let code = quote!(const ALIASES: &'static [&'static str] = &[#(#aliases),*];);
        (!aliases.is_empty()).then_some(code)
    }

    fn version(&self) -> Option<TokenStream> {
        self.settings.version.as_ref().map(|(key, value)| {
            let ty = quote_spanned!(hidden(key).span()=> ::core::primitive::u32);
            quote!(const VERSION: #ty = #value;)
        })
    }

    fn gate(&self) -> Option<TokenStream> {
        self.settings.gate.as_ref().map(|template| {
            quote!(
                const GATE: ::core::option::Option<&'static str> =
                    ::core::option::Option::Some(#template);
            )
        })
    }

    fn blocking(&self) -> Option<TokenStream> {
        self.function.signature.asyncness.is_none().then(|| {
            quote!(
                const BLOCKING: bool = true;
            )
        })
    }

    fn options(&self) -> Option<TokenStream> {
        let path = &self.path;
        let keys: Vec<Ident> = self.settings.options.iter().map(|(key, _)| hidden(key)).collect();
        let values = self.settings.options.iter().map(|(key, value)| self.option(key, value));
        let code = quote! {
            #[allow(clippy::needless_update, clippy::useless_conversion)]
            fn options() -> #path::ActivityOptions {
                #(#values)*
                #path::ActivityOptions {
                    #(#keys: ::core::option::Option::Some(#keys),)*
                    ..::core::default::Default::default()
                }
            }
        };
        (!keys.is_empty()).then_some(code)
    }

    /// A variable for an option. Its type stands at the option's name, so that a value of another
    /// type is explained with it.
    fn option(&self, key: &Ident, value: &Expr) -> TokenStream {
        let variable = hidden(key);
        let span = variable.span();
        let ty = match key.to_string().as_str() {
            "retry" => {
                let path = self.settings.path(span);
                quote_spanned!(span=> #path::RetryPolicy)
            }
            "queue" => quote_spanned!(span=> ::std::string::String),
            "max_concurrent" => quote_spanned!(span=> ::core::primitive::usize),
            _ => quote_spanned!(span=> ::core::time::Duration),
        };
        let value = match key == "queue" {
            true => quote_spanned!(value.span()=> ::core::convert::From::from(#value)),
            false => value.to_token_stream(),
        };
        quote!(let #variable: #ty = #value;)
    }

    /// One attempt or run. What the compiler says about its future lands on the function's name,
    /// what it says about the result on the return type.
    fn run(&self) -> TokenStream {
        let Expansion { name, path, shape, .. } = self;
        let context_type = format_ident!("{}", self.kind.context());
        let context = if shape.takes_context { "context" } else { "_context" };
        let context = Ident::new(context, self.at);
        let passed = shape.takes_context.then(|| quote!(#context,));
        let own = Ident::new("self", self.at);
        let values = self.shape.arguments.iter().map(|Argument { attributes, name, .. }| {
            let all = &attributes.all;
            quote!(#(#all)* #own.#name)
        });
        let (first, last) = ends(&shape.output);
        let begun = quote_spanned!(first=> Self::#name);
        let ended = self.function.signature.asyncness.map(|_| quote_spanned!(last=> .await));
        let returned = quote_spanned!(last=> #begun(#passed #(#values),*)#ended);
        let last_path = self.settings.path(last);
        let result = quote_spanned!(last=> #last_path::Returned::into_result(#returned));
        // The error's type is known here, which is what makes the choice possible. What is said
        // about the argument underlines the whole return type.
        let begun = quote_spanned!(first=> ::core::convert::identity);
        let failure = quote_spanned!(last=> (&error).sort().failure(#begun(error)));
        quote_spanned! {self.at=>
            async fn run(
                #own,
                #context: #path::#context_type,
            ) -> ::core::result::Result<Self::Output, #path::Failure> {
                #[allow(unused_imports)]
                use #path::{SortAnyError as _, SortByType as _};
                let returned = #result;
                returned.map_err(|error| #failure)
            }
        }
    }
}

/// The name of a local variable that the user's expressions cannot see.
fn hidden(name: &Ident) -> Ident {
    Ident::new(&name.to_string(), name.span().resolved_at(Span::mixed_site()))
}

/// The places of the first and the last token, between which the compiler underlines.
fn ends(tokens: impl ToTokens) -> (Span, Span) {
    let mut spans = tokens.into_token_stream().into_iter().map(|token| token.span());
    let first = spans.next().unwrap_or_else(Span::call_site);
    let last = spans.last().unwrap_or(first);
    let site = Span::mixed_site();
    (first.resolved_at(site), last.resolved_at(site))
}

/// The signature without the attributes that belong to the fields.
fn plain(signature: &Signature) -> Signature {
    let mut signature = signature.clone();
    for parameter in &mut signature.inputs {
        if let FnArg::Typed(parameter) = parameter {
            let ParameterAttributes { mut all, body, .. } =
                ParameterAttributes::of_parameter(&parameter.attrs);
            all.extend(body);
            parameter.attrs = all;
        }
    }
    signature
}
