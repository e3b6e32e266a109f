//! What happened, for people: the last lines about one instance, or everything.

use std::collections::VecDeque;
use std::time::Duration;

use resurgam_core::Uid;

/// How many lines about an instance are kept.
const KEPT: usize = 80;

/// The longest line that is shown.
const WIDTH: usize = 400;

/// What is written down.
#[derive(Debug, Default)]
pub(crate) enum Trace {
    /// Nothing: it costs time.
    #[default]
    Off,
    /// Everything.
    All(String),
    /// The last lines that name an instance, as it is printed.
    Of(Vec<String>, VecDeque<String>),
}

impl Trace {
    /// The last lines about an instance.
    pub(crate) fn of(uid: Uid) -> Self {
        Trace::Of(vec![format!("{uid:?}"), uid.to_string()], VecDeque::new())
    }

    /// Something happened.
    pub(crate) fn line(&mut self, at: Duration, what: impl FnOnce() -> String) {
        match self {
            Trace::Off => {}
            Trace::All(text) => {
                text.push_str(&format!("{:>12.6} {}\n", at.as_secs_f64(), what()));
            }
            Trace::Of(names, lines) => {
                let what = what();
                // Faults and processes concern everybody.
                let concerns =
                    what.starts_with('!') || names.iter().any(|name| what.contains(name));
                if concerns {
                    let cut: String = what.chars().take(WIDTH).collect();
                    lines.push_back(format!("{:>12.6} {cut}", at.as_secs_f64()));
                    if lines.len() > KEPT {
                        lines.pop_front();
                    }
                }
            }
        }
    }

    /// What was written down.
    pub(crate) fn into_text(self) -> String {
        match self {
            Trace::Off => String::new(),
            Trace::All(text) => text,
            Trace::Of(_, lines) => lines.into_iter().collect::<Vec<_>>().join("\n"),
        }
    }
}
