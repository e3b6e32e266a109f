//! The two kinds of durable functions, and what is said differently about them.

/// Which macro it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Activity,
    Workflow,
}

impl Kind {
    /// The macro's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Activity => "activity",
            Kind::Workflow => "workflow",
        }
    }

    /// For the beginning of a message.
    pub(crate) fn with_article(self) -> &'static str {
        match self {
            Kind::Activity => "an activity",
            Kind::Workflow => "a workflow",
        }
    }

    /// The trait that is implemented.
    pub(crate) fn trait_name(self) -> &'static str {
        match self {
            Kind::Activity => "Activity",
            Kind::Workflow => "Workflow",
        }
    }

    /// The type of its context.
    pub(crate) fn context(self) -> &'static str {
        match self {
            Kind::Activity => "ActivityContext",
            Kind::Workflow => "WorkflowContext",
        }
    }

    /// The other kind, for those who mix them up.
    pub(crate) fn other(self) -> Kind {
        match self {
            Kind::Activity => Kind::Workflow,
            Kind::Workflow => Kind::Activity,
        }
    }

    /// What the struct is.
    pub(crate) fn describe(self, name: &str) -> String {
        match self {
            Kind::Activity => format!("One call of the activity `{name}`: its arguments by name."),
            Kind::Workflow => format!("One start of the workflow `{name}`: its arguments by name."),
        }
    }

    /// What to do with the value that the constructor builds.
    pub(crate) fn must_use(self) -> &'static str {
        match self {
            Kind::Activity => "this builds a call and does not make it: pass it to `ctx.call(..)`",
            Kind::Workflow => {
                "this builds a start and does not make it: pass it to `app.start(..)`"
            }
        }
    }
}
