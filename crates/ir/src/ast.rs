//! The tree of a program.
//!
//! What can be repeated at one level is a list and not a chain of nodes: a sum of ten thousand
//! terms is one node. So the depth of a tree is bounded by what the parser allows, and everything
//! that goes through one may call itself.

use resurgam_core::retry::dialect::Bracket;

use crate::errors::Span;

/// A file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tree {
    pub(crate) functions: Vec<Function>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Function {
    pub(crate) name: Name,
    pub(crate) inputs: Vec<Name>,
    pub(crate) outputs: Vec<Name>,
    pub(crate) body: Block,
    /// The header, `fn` to the colon.
    pub(crate) header: Span,
    /// True when its header could not be read, so that nothing is known about its inputs.
    pub(crate) broken: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Name {
    pub(crate) text: String,
    pub(crate) span: Span,
}

/// The statements of one indentation.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Block {
    pub(crate) statements: Vec<Statement>,
    /// The whole of it.
    pub(crate) span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Statement {
    pub(crate) kind: StatementKind,
    /// The statement; of one with blocks its first line.
    pub(crate) span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StatementKind {
    Assign {
        targets: Vec<Name>,
        value: Source,
    },
    Evaluate(Source),
    For {
        targets: Vec<Name>,
        items: Expr,
        body: Block,
    },
    While {
        condition: Expr,
        body: Block,
    },
    If {
        branches: Vec<Branch>,
        otherwise: Option<Otherwise>,
    },
    Try {
        body: Block,
        handlers: Vec<Handler>,
    },
    Return(Option<Expr>),
    Break,
    Continue,
    Pass,
    Sleep(Option<Expr>),
    /// A statement that could not be read, with the names that it would have assigned.
    Broken(Vec<Name>),
}

/// What gives a statement its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Source {
    Expr(Expr),
    Spread(Spread),
    Parallel(Vec<Call>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) items: Expr,
    pub(crate) item: Name,
    pub(crate) action: Action,
}

/// `if` or `elif`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Branch {
    pub(crate) condition: Expr,
    pub(crate) body: Block,
    pub(crate) header: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Otherwise {
    pub(crate) body: Block,
    pub(crate) header: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Handler {
    /// The types it is for; empty for all.
    pub(crate) types: Vec<Name>,
    pub(crate) name: Option<Name>,
    pub(crate) body: Block,
    pub(crate) header: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Expr {
    pub(crate) kind: ExprKind,
    pub(crate) span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ExprKind {
    None,
    Bool(bool),
    Int(i64),
    /// The value, and how it is written.
    Float(f64, String),
    /// The value, and how it is written, with its quotes.
    Str(String, String),
    Name(String),
    List(Vec<Expr>),
    Dict(Vec<(Expr, Expr)>),
    /// Operators of one rank, from left to right.
    Arithmetic(Box<Expr>, Vec<(Operator, Expr)>),
    Compare(Box<Expr>, Vec<(Comparison, Expr)>),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
    Negate(Box<Expr>),
    Access(Box<Expr>, Vec<Access>),
    Call(Box<FunctionCall>),
    Action(Box<Action>),
    Parallel(Vec<Call>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    FloorDivide,
    Modulo,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    In,
    NotIn,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Access {
    Field(Name),
    Index(Expr),
}

/// What can run beside others.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Call {
    Function(FunctionCall),
    Action(Action),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FunctionCall {
    pub(crate) name: Name,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Argument {
    pub(crate) name: Option<Name>,
    pub(crate) value: Expr,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Action {
    /// With its dots.
    pub(crate) name: Name,
    pub(crate) arguments: Vec<(Name, Expr)>,
    pub(crate) policies: Vec<Policy>,
    pub(crate) span: Span,
}

/// A bracket behind an action.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Policy {
    pub(crate) bracket: Bracket,
    /// What `[fallback: ..]` calculates before the call is made. What its bracket has as the value
    /// means nothing then.
    pub(crate) value: Option<Expr>,
    /// As it was written, with the blanks where they belong; nothing where it has a value.
    pub(crate) text: String,
    pub(crate) span: Span,
}

impl Operator {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Operator::Add => "+",
            Operator::Subtract => "-",
            Operator::Multiply => "*",
            Operator::Divide => "/",
            Operator::FloorDivide => "//",
            Operator::Modulo => "%",
        }
    }

    /// True for those that bind more tightly.
    pub(crate) fn is_product(self) -> bool {
        !matches!(self, Operator::Add | Operator::Subtract)
    }
}

impl Comparison {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Comparison::Equal => "==",
            Comparison::NotEqual => "!=",
            Comparison::Less => "<",
            Comparison::LessEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterEqual => ">=",
            Comparison::In => "in",
            Comparison::NotIn => "not in",
        }
    }
}

impl Function {
    /// Every statement in it, those of inner blocks included.
    pub(crate) fn visit<'a>(&'a self, look: &mut dyn FnMut(&'a Statement)) {
        self.body.visit(look);
    }
}

impl Block {
    pub(crate) fn visit<'a>(&'a self, look: &mut dyn FnMut(&'a Statement)) {
        for statement in &self.statements {
            look(statement);
            statement.blocks().into_iter().for_each(|block| block.visit(look));
        }
    }
}

impl Statement {
    /// The blocks in it.
    pub(crate) fn blocks(&self) -> Vec<&Block> {
        match &self.kind {
            StatementKind::For { body, .. } | StatementKind::While { body, .. } => vec![body],
            StatementKind::If { branches, otherwise } => {
                let bodies = branches.iter().map(|branch| &branch.body);
                bodies.chain(otherwise.iter().map(|otherwise| &otherwise.body)).collect()
            }
            StatementKind::Try { body, handlers } => {
                std::iter::once(body).chain(handlers.iter().map(|handler| &handler.body)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The names it binds itself, without those of its blocks.
    pub(crate) fn binds(&self) -> Vec<&Name> {
        match &self.kind {
            StatementKind::Assign { targets, .. } | StatementKind::For { targets, .. } => {
                targets.iter().collect()
            }
            StatementKind::Try { handlers, .. } => {
                handlers.iter().filter_map(|handler| handler.name.as_ref()).collect()
            }
            StatementKind::Broken(names) => names.iter().collect(),
            _ => Vec::new(),
        }
    }

    /// The expressions that stand in it, without those of its blocks.
    pub(crate) fn expressions(&self) -> Vec<&Expr> {
        match &self.kind {
            StatementKind::Assign { value, .. } | StatementKind::Evaluate(value) => {
                value.expressions()
            }
            StatementKind::For { items, .. } => vec![items],
            StatementKind::While { condition, .. } => vec![condition],
            StatementKind::If { branches, .. } => {
                branches.iter().map(|branch| &branch.condition).collect()
            }
            StatementKind::Return(value) | StatementKind::Sleep(value) => value.iter().collect(),
            _ => Vec::new(),
        }
    }

    /// The calls that are part of the statement and of no expression in it.
    pub(crate) fn calls(&self) -> Vec<CallRef<'_>> {
        match &self.kind {
            StatementKind::Assign { value, .. } | StatementKind::Evaluate(value) => value.calls(),
            _ => Vec::new(),
        }
    }
}

/// A call that is looked at.
#[derive(Clone, Copy)]
pub(crate) enum CallRef<'a> {
    Function(&'a FunctionCall),
    Action(&'a Action),
}

impl Call {
    pub(crate) fn as_ref(&self) -> CallRef<'_> {
        match self {
            Call::Function(call) => CallRef::Function(call),
            Call::Action(action) => CallRef::Action(action),
        }
    }
}

impl<'a> CallRef<'a> {
    pub(crate) fn arguments(self) -> Vec<&'a Expr> {
        match self {
            CallRef::Function(call) => call.arguments.iter().map(|arg| &arg.value).collect(),
            CallRef::Action(action) => {
                action.arguments.iter().map(|(_, value)| value).chain(action.fallback()).collect()
            }
        }
    }
}

impl Action {
    /// The expression whose value comes in its place when attempts run out.
    pub(crate) fn fallback(&self) -> Option<&Expr> {
        self.policies.iter().find_map(|policy| policy.value.as_ref())
    }
}

impl Source {
    fn expressions(&self) -> Vec<&Expr> {
        match self {
            Source::Expr(expr) => vec![expr],
            Source::Spread(spread) => {
                let arguments = CallRef::Action(&spread.action).arguments();
                std::iter::once(&spread.items).chain(arguments).collect()
            }
            Source::Parallel(calls) => {
                calls.iter().flat_map(|call| call.as_ref().arguments()).collect()
            }
        }
    }

    fn calls(&self) -> Vec<CallRef<'_>> {
        match self {
            Source::Expr(_) => Vec::new(),
            Source::Spread(spread) => vec![CallRef::Action(&spread.action)],
            Source::Parallel(calls) => calls.iter().map(Call::as_ref).collect(),
        }
    }
}

impl Expr {
    /// The expressions in it, one level down.
    pub(crate) fn parts(&self) -> Vec<&Expr> {
        match &self.kind {
            ExprKind::List(items) | ExprKind::And(items) | ExprKind::Or(items) => {
                items.iter().collect()
            }
            ExprKind::Dict(entries) => {
                entries.iter().flat_map(|(key, value)| [key, value]).collect()
            }
            ExprKind::Arithmetic(first, rest) => {
                std::iter::once(&**first).chain(rest.iter().map(|(_, expr)| expr)).collect()
            }
            ExprKind::Compare(first, rest) => {
                std::iter::once(&**first).chain(rest.iter().map(|(_, expr)| expr)).collect()
            }
            ExprKind::Not(inner) | ExprKind::Negate(inner) => vec![inner],
            ExprKind::Access(base, steps) => {
                let indexes = steps.iter().filter_map(|step| match step {
                    Access::Index(index) => Some(index),
                    Access::Field(_) => None,
                });
                std::iter::once(&**base).chain(indexes).collect()
            }
            _ => self.calls().into_iter().flat_map(CallRef::arguments).collect(),
        }
    }

    /// The calls that it is made of, without those of its parts.
    pub(crate) fn calls(&self) -> Vec<CallRef<'_>> {
        match &self.kind {
            ExprKind::Call(call) => vec![CallRef::Function(call)],
            ExprKind::Action(action) => vec![CallRef::Action(action)],
            ExprKind::Parallel(calls) => calls.iter().map(Call::as_ref).collect(),
            _ => Vec::new(),
        }
    }

    /// Every call in it.
    pub(crate) fn visit_calls<'a>(&'a self, look: &mut dyn FnMut(CallRef<'a>)) {
        self.calls().into_iter().for_each(&mut *look);
        self.parts().into_iter().for_each(|part| part.visit_calls(look));
    }
}

impl Function {
    /// Every call in it.
    pub(crate) fn visit_calls<'a>(&'a self, look: &mut dyn FnMut(CallRef<'a>)) {
        self.visit(&mut |statement| {
            statement.calls().into_iter().for_each(&mut *look);
            statement.expressions().into_iter().for_each(|expr| expr.visit_calls(look));
        });
    }
}
