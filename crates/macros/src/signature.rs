//! What a function under a macro may look like, and what is said when it looks otherwise.
//!
//! Most of it follows from one thing: the arguments are written down by name and read back later,
//! perhaps by another process.

use proc_macro2::Ident;
use syn::{FnArg, Pat, PatType, ReturnType, Safety, Signature, Type};

use crate::attributes::ParameterAttributes;
use crate::complaints::Complaints;
use crate::kind::Kind;
use crate::types::{Place, check_stored, names, peeled, surely_no_result, value_of_result};

/// The number of arguments up to which a name can be registered (`Constructor` in the SDK).
const MOST_ARGUMENTS: usize = 12;

/// What the macro needs to know of a signature that is as it should be.
pub(crate) struct Shape {
    pub(crate) takes_context: bool,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) output: Type,
}

/// An argument: a parameter that is not the context.
pub(crate) struct Argument {
    pub(crate) attributes: ParameterAttributes,
    pub(crate) name: Ident,
    pub(crate) ty: Type,
}

impl Shape {
    /// Reads a signature; `None` when there was something to complain about.
    pub(crate) fn read(
        kind: Kind,
        signature: &Signature,
        complaints: &mut Complaints,
    ) -> Option<Self> {
        let mut found = Complaints::default();
        let mut reader = Reader { kind, complaints: &mut found };
        reader.modifiers(signature);
        reader.generics(signature);
        let mut parameters = reader.parameters(signature);
        let takes_context = reader.context(signature, &mut parameters);
        let arguments = reader.arguments(signature, &parameters);
        let output = reader.output(signature);
        let fine = found.is_empty();
        complaints.append(found);
        output.filter(|_| fine).map(|output| Shape { takes_context, arguments, output })
    }
}

struct Reader<'a> {
    kind: Kind,
    complaints: &'a mut Complaints,
}

impl Reader<'_> {
    fn modifiers(&mut self, signature: &Signature) {
        let what = self.kind.with_article();
        if signature.asyncness.is_none() && self.kind == Kind::Workflow {
            let name = &signature.ident;
            let message = format!("a workflow waits, so it is async: write `async fn {name}`");
            self.complaints.about(signature.fn_token, message);
        }
        if let Safety::Unsafe(word) = &signature.safety {
            let message = format!(
                "{what} cannot be unsafe: the worker calls it and cannot keep its conditions; \
                 write a safe function with an `unsafe` block inside"
            );
            self.complaints.about(word, message);
        }
        if let Some(abi) = &signature.abi {
            let message =
                format!("{what} cannot be `extern`: only the worker calls it; leave it out");
            self.complaints.about(abi, message);
        }
        if let Some(word) = signature.constness {
            let message = format!("{what} cannot be `const`: it runs on a worker; leave it out");
            self.complaints.about(word, message);
        }
        if let Some(dots) = &signature.variadic {
            let message = format!("{what} has a fixed list of arguments; take a `Vec`");
            self.complaints.about(dots, message);
        }
    }

    fn generics(&mut self, signature: &Signature) {
        let message = format!(
            "{} cannot be generic: its arguments are read back by its name alone, which says \
             nothing of types; write the types out, and one function for each",
            self.kind.with_article()
        );
        let generics = &signature.generics;
        if !generics.params.is_empty() {
            self.complaints.about(generics, message);
        } else if let Some(clause) = &generics.where_clause {
            self.complaints.about(clause, message);
        }
    }

    /// The parameters without `self`.
    fn parameters<'s>(&mut self, signature: &'s Signature) -> Vec<&'s PatType> {
        let mut parameters = Vec::new();
        for parameter in &signature.inputs {
            match parameter {
                FnArg::Typed(typed) => parameters.push(typed),
                FnArg::Receiver(receiver) => {
                    let remedy = match self.kind {
                        Kind::Activity => "share what it needs as state: `ctx.state::<T>()`",
                        Kind::Workflow => "take what it needs as arguments",
                    };
                    let message = format!(
                        "{} is a free function and has no `self`; move it out of the `impl` and \
                         {remedy}",
                        self.kind.with_article()
                    );
                    self.complaints.about(receiver, message);
                }
            }
        }
        parameters
    }

    /// Takes the context away from the parameters. True when there is one.
    fn context(&mut self, signature: &Signature, parameters: &mut Vec<&PatType>) -> bool {
        let context = self.kind.context();
        let first = parameters.first().copied();
        if let Some(first) = first.filter(|first| names(&first.ty, context)) {
            if matches!(peeled(&first.ty), Type::Reference(_)) {
                let message = format!("take the context by value: `ctx: {context}`");
                self.complaints.about(&first.ty, message);
            }
            parameters.remove(0);
            return true;
        }
        let mixed_up = first.is_some_and(|first| names(&first.ty, self.kind.other().context()));
        if self.kind == Kind::Workflow && !mixed_up {
            let message = "a workflow waits through its context: make `ctx: WorkflowContext` its \
                           first parameter";
            match first {
                Some(first) => self.complaints.about(first, message),
                None => self.complaints.about(&signature.ident, message),
            }
        }
        false
    }

    fn arguments(&mut self, signature: &Signature, parameters: &[&PatType]) -> Vec<Argument> {
        if parameters.len() > MOST_ARGUMENTS {
            let message = format!(
                "{} takes at most {MOST_ARGUMENTS} arguments; put some of them into a struct",
                self.kind.with_article()
            );
            self.complaints.about(&signature.inputs, message);
        }
        parameters.iter().filter_map(|parameter| self.argument(parameter)).collect()
    }

    fn argument(&mut self, parameter: &PatType) -> Option<Argument> {
        if let Some(message) = self.misplaced_context(&parameter.ty) {
            self.complaints.about(parameter, message);
            return None;
        }
        let Some(name) = plain_name(&parameter.pat) else {
            let message = "an argument needs a plain name, because it is named on the wire; take \
                           it apart in the body";
            self.complaints.about(&parameter.pat, message);
            return None;
        };
        check_stored(&parameter.ty, Place::Argument, self.complaints);
        let attributes = ParameterAttributes::of_parameter(&parameter.attrs);
        Some(Argument { attributes, name: name.clone(), ty: (*parameter.ty).clone() })
    }

    fn misplaced_context(&self, ty: &Type) -> Option<String> {
        let (own, other) = (self.kind.context(), self.kind.other().context());
        let what = self.kind.with_article();
        if names(ty, own) {
            return Some(format!("the context comes first: `ctx: {own}`"));
        }
        names(ty, other).then(|| match self.kind {
            Kind::Activity => format!(
                "{what} does the work and cannot wait as a workflow does; take `ctx: {own}`, or \
                 make it a #[workflow]"
            ),
            Kind::Workflow => format!(
                "{what} takes `ctx: {own}`; work that needs `{other}` belongs into an #[activity]"
            ),
        })
    }

    fn output(&mut self, signature: &Signature) -> Option<Type> {
        let what = self.kind.with_article();
        let ReturnType::Type(_, output) = &signature.output else {
            let message = format!(
                "{what} returns `Result<T, Failure>`, because it may fail; with nothing to tell, \
                 write `-> Result<(), Failure>`"
            );
            self.complaints.about(&signature.ident, message);
            return None;
        };
        if let Some(value) = surely_no_result(output) {
            let message = format!(
                "{what} returns `Result<T, Failure>`, because it may fail: write \
                 `-> Result<{value}, Failure>`"
            );
            self.complaints.about(output, message);
            return None;
        }
        let value = value_of_result(output).unwrap_or(output);
        check_stored(value, Place::Output, self.complaints);
        Some((**output).clone())
    }
}

/// The name in a pattern that is nothing but a name.
fn plain_name(pattern: &Pat) -> Option<&Ident> {
    match pattern {
        Pat::Ident(name) if name.by_ref.is_none() && name.subpat.is_none() => Some(&name.ident),
        _ => None,
    }
}
