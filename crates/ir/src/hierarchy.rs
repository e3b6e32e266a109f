//! Which types of failures descend from which.
//!
//! A failure reports its own hierarchy (`mro`). Where it reports none, the built-in exceptions of
//! Python have the one that they have there.

use resurgam_core::{Failure, Kind};

/// What every failure is.
pub(crate) const EXCEPTION: &str = "Exception";

/// What an attempt that ran too long is called.
pub(crate) const TIMEOUT: &str = "ActionTimeout";

/// Python's built-in exceptions with their parents, and ours.
const PARENTS: [(&str, &str); 46] = [
    (TIMEOUT, "TimeoutError"),
    ("ArithmeticError", EXCEPTION),
    ("FloatingPointError", "ArithmeticError"),
    ("OverflowError", "ArithmeticError"),
    ("ZeroDivisionError", "ArithmeticError"),
    ("AssertionError", EXCEPTION),
    ("AttributeError", EXCEPTION),
    ("BufferError", EXCEPTION),
    ("EOFError", EXCEPTION),
    ("ImportError", EXCEPTION),
    ("ModuleNotFoundError", "ImportError"),
    ("LookupError", EXCEPTION),
    ("IndexError", "LookupError"),
    ("KeyError", "LookupError"),
    ("MemoryError", EXCEPTION),
    ("NameError", EXCEPTION),
    ("UnboundLocalError", "NameError"),
    ("OSError", EXCEPTION),
    ("BlockingIOError", "OSError"),
    ("ChildProcessError", "OSError"),
    ("ConnectionError", "OSError"),
    ("BrokenPipeError", "ConnectionError"),
    ("ConnectionAbortedError", "ConnectionError"),
    ("ConnectionRefusedError", "ConnectionError"),
    ("ConnectionResetError", "ConnectionError"),
    ("FileExistsError", "OSError"),
    ("FileNotFoundError", "OSError"),
    ("InterruptedError", "OSError"),
    ("IsADirectoryError", "OSError"),
    ("NotADirectoryError", "OSError"),
    ("PermissionError", "OSError"),
    ("ProcessLookupError", "OSError"),
    ("TimeoutError", "OSError"),
    ("ReferenceError", EXCEPTION),
    ("RuntimeError", EXCEPTION),
    ("NotImplementedError", "RuntimeError"),
    ("RecursionError", "RuntimeError"),
    ("StopIteration", EXCEPTION),
    ("SyntaxError", EXCEPTION),
    ("SystemError", EXCEPTION),
    ("TypeError", EXCEPTION),
    ("ValueError", EXCEPTION),
    ("UnicodeError", "ValueError"),
    ("UnicodeDecodeError", "UnicodeError"),
    ("UnicodeEncodeError", "UnicodeError"),
    ("JSONDecodeError", "ValueError"),
];

/// The type of a failure as programs see it.
pub(crate) fn type_of(failure: &Failure) -> &str {
    let own = failure.type_name.as_deref().or(failure.mro.first().map(String::as_str));
    own.unwrap_or(match failure.kind {
        Kind::Error => EXCEPTION,
        Kind::Timeout | Kind::HeartbeatTimeout | Kind::QueueTimeout | Kind::TotalTimeout => TIMEOUT,
        Kind::Panic => "Panic",
        Kind::WorkerLost => "WorkerLost",
        Kind::Throttled => "Throttled",
        Kind::Cancelled => "Cancelled",
    })
}

/// True when a failure is of a type, or of one that descends from it.
pub(crate) fn is_a(failure: &Failure, wanted: &str) -> bool {
    let own = type_of(failure);
    let reported = || failure.has_type(wanted, true);
    let timed_out = || wanted == TIMEOUT && is_timeout(failure.kind);
    wanted == EXCEPTION
        || wanted == "BaseException"
        || own == wanted
        || reported()
        || timed_out()
        || (failure.mro.is_empty() && ancestors(own).any(|name| name == wanted))
}

fn is_timeout(kind: Kind) -> bool {
    use Kind::{HeartbeatTimeout, QueueTimeout, Timeout, TotalTimeout};
    matches!(kind, Timeout | HeartbeatTimeout | QueueTimeout | TotalTimeout)
}

/// What one of Python's types descends from, nearest first.
pub(crate) fn ancestors(name: &str) -> impl Iterator<Item = &'static str> + use<> {
    std::iter::successors(parent(name), |name| parent(name))
}

fn parent(name: &str) -> Option<&'static str> {
    PARENTS.iter().find(|(child, _)| *child == name).map(|(_, parent)| *parent)
}

/// What descends from one of Python's types. Timeouts are a matter of their own.
pub(crate) fn descendants(name: &str) -> Vec<&'static str> {
    let below = PARENTS.iter().map(|(child, _)| *child).filter(|child| *child != TIMEOUT);
    below.filter(|child| ancestors(child).any(|ancestor| ancestor == name)).collect()
}
