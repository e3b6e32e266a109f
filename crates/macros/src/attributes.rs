//! Where the user's attributes go: one function becomes several items, and each attribute belongs
//! to some of them.

use syn::{Attribute, Meta};

/// The attributes of a function, by the item they go to.
#[derive(Default)]
pub(crate) struct Attributes {
    /// To every item.
    pub(crate) all: Vec<Attribute>,
    /// To the function that builds a call.
    pub(crate) constructor: Vec<Attribute>,
    /// To the struct.
    pub(crate) structure: Vec<Attribute>,
    /// To the function with the user's body.
    pub(crate) body: Vec<Attribute>,
}

impl Attributes {
    /// Sorts a function's attributes.
    pub(crate) fn of_function(attributes: &[Attribute]) -> Self {
        let mut sorted = Attributes::default();
        for attribute in attributes {
            sorted.sort(attribute);
        }
        sorted
    }

    fn sort(&mut self, attribute: &Attribute) {
        let copy = || attribute.clone();
        match name(attribute).as_str() {
            // Not `expect`: copied, it is disappointed in all places but one.
            "cfg" | "allow" | "warn" | "deny" | "forbid" => self.all.push(copy()),
            // On the struct as well, examples in the documentation would run twice.
            "doc" if is_text(attribute) => self.constructor.push(copy()),
            "doc" => {
                self.constructor.push(copy());
                self.structure.push(copy());
            }
            "must_use" | "deprecated" => self.constructor.push(copy()),
            "derive" | "serde" => self.structure.push(copy()),
            _ => self.body.push(copy()),
        }
    }

    /// True when the user says why the value should be used.
    pub(crate) fn has_must_use(&self) -> bool {
        self.constructor.iter().any(|attribute| attribute.path().is_ident("must_use"))
    }
}

/// The attributes of a parameter, by the item they go to.
#[derive(Default)]
pub(crate) struct ParameterAttributes {
    /// To every mention of it.
    pub(crate) all: Vec<Attribute>,
    /// To the field.
    pub(crate) field: Vec<Attribute>,
    /// To the parameter of the function with the user's body.
    pub(crate) body: Vec<Attribute>,
}

impl ParameterAttributes {
    /// Sorts a parameter's attributes.
    pub(crate) fn of_parameter(attributes: &[Attribute]) -> Self {
        let mut sorted = ParameterAttributes::default();
        for attribute in attributes {
            let to = match name(attribute).as_str() {
                "cfg" => &mut sorted.all,
                "allow" | "warn" | "deny" | "forbid" | "expect" => &mut sorted.body,
                // Documentation, and what belongs to a derive: serde's and others'.
                _ => &mut sorted.field,
            };
            to.push(attribute.clone());
        }
        sorted
    }

    /// True when the user says nothing about the parameter.
    pub(crate) fn needs_doc(&self) -> bool {
        !self.field.iter().any(|attribute| attribute.path().is_ident("doc"))
    }
}

fn name(attribute: &Attribute) -> String {
    attribute.path().get_ident().map(ToString::to_string).unwrap_or_default()
}

/// True for `/// text`, false for `#[doc(hidden)]`.
fn is_text(attribute: &Attribute) -> bool {
    matches!(attribute.meta, Meta::NameValue(_))
}
