//! Says whether a policy is accepted, and what about it is probably not meant.

use resurgam_core::config::Problem;
use resurgam_core::retry::CheckedPolicy;
use resurgam_core::retry::lint::{self, Lint};
use serde::Serialize;

/// What is answered about policies that are accepted and those that are refused. A complaint is
/// whatever the reader of the policy has to say about it, such as a [`Mistake`].
#[derive(Debug, Serialize)]
pub struct Verdict<'a, C> {
    /// It is accepted.
    pub ok: bool,
    /// What is wrong with it.
    pub errors: &'a [C],
    /// What is probably not meant.
    pub lints: Vec<LintJson>,
    /// What was accepted and has no effect.
    pub notes: &'a [String],
}

/// Something that is probably not meant.
#[derive(Debug, Serialize)]
pub struct LintJson {
    code: String,
    message: String,
}

impl From<&Lint> for LintJson {
    fn from(lint: &Lint) -> Self {
        LintJson { code: format!("{:?}", lint.code), message: lint.message.clone() }
    }
}

/// Something that is wrong with a policy that was no text, so that it has no line.
#[derive(Debug, Serialize)]
pub struct Mistake {
    code: String,
    path: String,
    message: String,
    line: Option<usize>,
    column: Option<usize>,
}

impl From<&Problem> for Mistake {
    fn from(problem: &Problem) -> Self {
        let Problem { path, message, code, .. } = problem.clone();
        let code = code.name().to_string();
        Mistake { code, path, message, line: None, column: None }
    }
}

impl<'a, C> Verdict<'a, C> {
    /// A policy that is accepted, unless it has lints and must have none.
    ///
    /// ```
    /// use resurgam_core::retry::RetryPolicy;
    /// use resurgam_policy::check::{Mistake, Verdict};
    ///
    /// let policy = RetryPolicy::DEFAULT.check().unwrap();
    /// assert!(Verdict::<Mistake>::of(&policy, &[], true).ok);
    /// ```
    pub fn of(policy: &CheckedPolicy, notes: &'a [String], is_strict: bool) -> Self {
        let lints: Vec<LintJson> = lint::lint(policy).iter().map(LintJson::from).collect();
        Verdict { ok: lints.is_empty() || !is_strict, errors: &[], lints, notes }
    }

    /// A policy that is refused.
    pub fn refused(errors: &'a [C]) -> Self {
        Verdict { ok: false, errors, lints: Vec::new(), notes: &[] }
    }
}
