//! What can be told of a type by how it is spelled, and what not to store.
//!
//! A macro sees no more than the spelling: an alias keeps its secret, and the compiler has the last
//! word.

use syn::visit::Visit;
use syn::{
    GenericArgument, Lifetime, PathArguments, Type, TypeImplTrait, TypeInfer, TypeReference,
};

use crate::complaints::Complaints;

/// What people return when they forget that an attempt may fail.
const NO_RESULTS: &[&str] = &[
    "bool", "char", "f32", "f64", "i8", "i16", "i32", "i64", "i128", "isize", "u8", "u16", "u32",
    "u64", "u128", "usize", "String", "Vec", "Option", "Box", "HashMap", "BTreeMap",
];

/// True when the type, or what it refers to, is called so.
pub(crate) fn names(ty: &Type, name: &str) -> bool {
    match peeled(ty) {
        Type::Path(path) => path.path.segments.last().is_some_and(|last| last.ident == name),
        Type::Reference(reference) => names(&reference.elem, name),
        _ => false,
    }
}

/// How to mention a type that cannot even be an alias of a `Result`. Whether the others are, is for
/// the compiler to find out.
pub(crate) fn surely_no_result(ty: &Type) -> Option<String> {
    match peeled(ty) {
        Type::Path(path) => {
            let last = path.path.segments.last()?;
            let name = NO_RESULTS.iter().find(|name| last.ident == name)?;
            Some(if last.arguments.is_empty() { name.to_string() } else { format!("{name}<..>") })
        }
        Type::Tuple(tuple) if tuple.elems.is_empty() => Some("()".to_string()),
        Type::Tuple(_) => Some("(..)".to_string()),
        Type::Array(_) => Some("[..]".to_string()),
        _ => None,
    }
}

/// `T` where `Result<T, ..>` is written, under whatever path and with or without an error.
pub(crate) fn value_of_result(ty: &Type) -> Option<&Type> {
    let Type::Path(path) = peeled(ty) else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == "Result")?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first()? {
        GenericArgument::Type(value) => Some(value),
        _ => None,
    }
}

/// The type without the brackets around it, such as those that `macro_rules!` leave.
pub(crate) fn peeled(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => peeled(&group.elem),
        Type::Paren(paren) => peeled(&paren.elem),
        ty => ty,
    }
}

/// Complains about what cannot be stored and read back, wherever it is in a type.
pub(crate) fn check_stored(ty: &Type, place: Place, complaints: &mut Complaints) {
    Unstorable { place, complaints }.visit_type(ty);
}

/// What the type is of.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    Argument,
    Output,
}

struct Unstorable<'a> {
    place: Place,
    complaints: &'a mut Complaints,
}

impl Unstorable<'_> {
    /// Why it must own what it holds.
    fn why(&self) -> &'static str {
        match self.place {
            Place::Argument => {
                "an argument is stored and read back later, perhaps by another process, so it \
                 cannot borrow"
            }
            Place::Output => {
                "a result is stored and read back later, perhaps by another process, so it cannot \
                 borrow"
            }
        }
    }
}

impl<'ast> Visit<'ast> for Unstorable<'_> {
    fn visit_type_reference(&mut self, reference: &'ast TypeReference) {
        let remedy = match peeled(&reference.elem) {
            Type::Path(path) if path.path.is_ident("str") => "take a `String`",
            Type::Slice(_) => "take a `Vec`",
            _ => "take it by value",
        };
        let remedy = match self.place {
            Place::Argument => remedy.to_string(),
            Place::Output => remedy.replace("take", "return"),
        };
        self.complaints.about(reference, format!("{}; {remedy}", self.why()));
    }

    fn visit_lifetime(&mut self, lifetime: &'ast Lifetime) {
        if lifetime.ident != "static" {
            self.complaints.about(lifetime, format!("{}; own what it holds", self.why()));
        }
    }

    fn visit_type_impl_trait(&mut self, ty: &'ast TypeImplTrait) {
        let message = "what is stored and read back needs one type, and `impl Trait` stands for \
                       many; name the type";
        self.complaints.about(ty, message);
    }

    fn visit_type_infer(&mut self, ty: &'ast TypeInfer) {
        self.complaints.about(ty, "what is stored and read back needs a type; name it");
    }
}
