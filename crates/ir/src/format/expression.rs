//! Expressions as text, with as few parentheses as the tree needs.

use super::INDENT;
use crate::ast::{Access, Action, Argument, Call, Expr, ExprKind, FunctionCall};

/// Whether an expression stays in one line, or what is in its outermost brackets gets lines of its
/// own, one level deeper than this.
#[derive(Clone, Copy)]
pub(super) enum Layout {
    Flat,
    Broken(usize),
}

/// How tightly an expression holds together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Or,
    And,
    Not,
    Compare,
    Sum,
    Product,
    Unary,
    Primary,
}

pub(super) fn expr(expr: &Expr, layout: Layout) -> String {
    match &expr.kind {
        ExprKind::None => "None".to_string(),
        ExprKind::Bool(true) => "True".to_string(),
        ExprKind::Bool(false) => "False".to_string(),
        ExprKind::Int(value) => value.to_string(),
        ExprKind::Float(_, literal) | ExprKind::Str(_, literal) => literal.clone(),
        ExprKind::Name(name) => name.clone(),
        ExprKind::List(items) => bracketed("[", "]", items, layout, self::expr),
        ExprKind::Dict(entries) => bracketed("{", "}", entries, layout, |(key, value), layout| {
            format!("{}: {}", self::expr(key, Layout::Flat), self::expr(value, layout))
        }),
        ExprKind::Or(terms) => joined(terms, " or ", Rank::And),
        ExprKind::And(terms) => joined(terms, " and ", Rank::Not),
        ExprKind::Not(inner) => format!("not {}", negated(inner)),
        ExprKind::Negate(inner) => format!("-{}", within(inner, Rank::Unary)),
        ExprKind::Compare(first, rest) => {
            let rest = rest.iter().map(|(sign, expr)| (sign.text(), expr));
            chain(first, rest, Rank::Sum)
        }
        ExprKind::Arithmetic(first, rest) => {
            let operand = match rank(expr) {
                Rank::Product => Rank::Unary,
                _ => Rank::Product,
            };
            chain(first, rest.iter().map(|(sign, expr)| (sign.text(), expr)), operand)
        }
        ExprKind::Access(base, steps) => access(base, steps),
        ExprKind::Call(call) => function_call(call, layout),
        ExprKind::Action(called) => action(called, layout),
        ExprKind::Parallel(calls) => bracketed("parallel(", ")", calls, layout, call),
    }
}

/// The name that an expression begins with.
pub(super) fn leftmost(expr: &Expr) -> Option<&str> {
    match &expr.kind {
        ExprKind::Name(name) => Some(name),
        ExprKind::Or(terms) | ExprKind::And(terms) => leftmost(terms.first()?),
        ExprKind::Compare(first, _) | ExprKind::Access(first, _) => leftmost(first),
        ExprKind::Arithmetic(first, _) => leftmost(first),
        _ => None,
    }
}

fn call(call: &Call, layout: Layout) -> String {
    match call {
        Call::Function(called) => function_call(called, layout),
        Call::Action(called) => action(called, layout),
    }
}

pub(super) fn function_call(call: &FunctionCall, layout: Layout) -> String {
    let open = format!("{}(", call.name.text);
    bracketed(&open, ")", &call.arguments, layout, |argument: &Argument, layout| {
        let value = expr(&argument.value, layout);
        match &argument.name {
            Some(name) => format!("{}={value}", name.text),
            None => value,
        }
    })
}

/// An action that is too long first gives each of its policies a line.
pub(super) fn action(action: &Action, layout: Layout) -> String {
    let open = format!("@{}(", action.name.text);
    let call = |layout| {
        bracketed(&open, ")", &action.arguments, layout, |(name, value), layout| {
            format!("{}={}", name.text, expr(value, layout))
        })
    };
    let policies = action.policies.iter().map(|policy| match &policy.value {
        Some(value) => format!("[fallback: {}]", expr(value, Layout::Flat)),
        None => policy.text.clone(),
    });
    let Layout::Broken(depth) = layout else {
        return std::iter::once(call(Layout::Flat)).chain(policies).collect::<Vec<_>>().join(" ");
    };
    let flat = call(Layout::Flat);
    let room = super::WIDTH.saturating_sub((depth + 2) * INDENT);
    let first = if flat.chars().count() > room { call(layout) } else { flat };
    let indent = " ".repeat((depth + 1) * INDENT);
    policies.fold(first, |text, policy| format!("{text}\n{indent}{policy}"))
}

/// Entries in brackets, in one line or one to a line.
fn bracketed<T>(
    open: &str,
    close: &str,
    entries: &[T],
    layout: Layout,
    entry: impl Fn(&T, Layout) -> String,
) -> String {
    let Layout::Broken(depth) = layout else {
        let entries: Vec<String> = entries.iter().map(|one| entry(one, Layout::Flat)).collect();
        return format!("{open}{}{close}", entries.join(", "));
    };
    if entries.is_empty() {
        return format!("{open}{close}");
    }
    let indent = " ".repeat(depth * INDENT);
    let mut text = format!("{open}\n");
    for one in entries {
        let line = super::fitting(depth + 1, |layout| entry(one, layout));
        text.push_str(&format!("{indent}    {line},\n"));
    }
    text + &indent + close
}

fn joined(terms: &[Expr], between: &str, rank: Rank) -> String {
    terms.iter().map(|term| within(term, rank)).collect::<Vec<_>>().join(between)
}

fn chain<'a>(
    first: &Expr,
    rest: impl Iterator<Item = (&'static str, &'a Expr)>,
    operand: Rank,
) -> String {
    let mut text = within(first, operand);
    for (sign, expr) in rest {
        text.push_str(&format!(" {sign} {}", within(expr, operand)));
    }
    text
}

/// Waymark's `not` binds more tightly than Python's. With parentheses both mean the same.
fn negated(inner: &Expr) -> String {
    match &inner.kind {
        ExprKind::Not(_) => expr(inner, Layout::Flat),
        _ => within(inner, Rank::Unary),
    }
}

fn access(base: &Expr, steps: &[Access]) -> String {
    let first_is_index = matches!(steps.first(), Some(Access::Index(_)));
    let mut text = match &base.kind {
        // What stands in brackets behind an action is a policy.
        ExprKind::Action(_) if first_is_index => format!("({})", expr(base, Layout::Flat)),
        _ => within(base, Rank::Primary),
    };
    for step in steps {
        match step {
            Access::Field(name) => text.push_str(&format!(".{}", name.text)),
            Access::Index(index) => text.push_str(&format!("[{}]", expr(index, Layout::Flat))),
        }
    }
    text
}

/// An expression as part of one that holds together more tightly.
fn within(part: &Expr, rank: Rank) -> String {
    let text = expr(part, Layout::Flat);
    if self::rank(part) < rank { format!("({text})") } else { text }
}

fn rank(expr: &Expr) -> Rank {
    match &expr.kind {
        ExprKind::Or(_) => Rank::Or,
        ExprKind::And(_) => Rank::And,
        ExprKind::Not(_) => Rank::Not,
        ExprKind::Compare(..) => Rank::Compare,
        ExprKind::Arithmetic(_, rest) => match rest.first() {
            Some((operator, _)) if operator.is_product() => Rank::Product,
            _ => Rank::Sum,
        },
        ExprKind::Negate(_) => Rank::Unary,
        ExprKind::Int(value) if *value < 0 => Rank::Unary,
        _ => Rank::Primary,
    }
}
