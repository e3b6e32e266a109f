//! What the engine has to say, for Python's `logging`.
//!
//! Lines gather in a queue without the interpreter's lock. The event loop of an app that is open
//! takes them with everything else that comes through its port.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use pyo3::prelude::*;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use crate::port::{Shared, lock};

/// At most so many lines wait; who does not look loses the oldest.
const MOST: usize = 1_000;

#[derive(Default)]
struct Lines {
    waiting: VecDeque<(u8, String, String)>,
    ports: Vec<Weak<Shared>>,
}

static LINES: OnceLock<Arc<Mutex<Lines>>> = OnceLock::new();

/// A subscriber that keeps what is at least of the level that was asked for.
struct Keeps {
    lines: Arc<Mutex<Lines>>,
    level: Level,
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let before = if self.0.is_empty() { "" } else { " " };
        let _text_takes_all = match field.name() {
            "message" => write!(self.0, "{before}{value:?}"),
            name => write!(self.0, "{before}{name}={value:?}"),
        };
    }
}

impl<S: Subscriber> Layer<S> for Keeps {
    fn enabled(&self, metadata: &tracing::Metadata<'_>, _: Context<'_, S>) -> bool {
        *metadata.level() <= self.level && metadata.target().starts_with("resurgam")
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        let level = match *event.metadata().level() {
            Level::ERROR => 40,
            Level::WARN => 30,
            Level::INFO => 20,
            _ => 10,
        };
        let mut lines = lock(&self.lines);
        if lines.waiting.len() == MOST {
            lines.waiting.pop_front();
        }
        lines.waiting.push_back((level, event.metadata().target().to_string(), text.0));
        let port = lines.ports.iter().find_map(Weak::upgrade);
        drop(lines);
        if let Some(port) = port {
            port.wake();
        }
    }
}

/// From now on lines of at least this level gather, and wake this port. The level of the first call
/// holds for the process.
pub(crate) fn listen(port: &Arc<Shared>, level: u8) {
    let lines = LINES.get_or_init(|| {
        let lines = Arc::<Mutex<Lines>>::default();
        let level = match level {
            0..=10 => Level::DEBUG,
            11..=20 => Level::INFO,
            21..=30 => Level::WARN,
            _ => Level::ERROR,
        };
        let keeps = Keeps { lines: lines.clone(), level };
        let subscriber = tracing_subscriber::registry().with(keeps);
        // A program that embeds Python has a subscriber of its own, which hears everything then.
        let _is_set_already = tracing::subscriber::set_global_default(subscriber);
        lines
    });
    let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
    lines.ports.retain(|port| port.strong_count() > 0);
    lines.ports.push(Arc::downgrade(port));
}

/// Lines that wait: `(level, target, text)`.
#[pyfunction]
pub(crate) fn log_lines() -> Vec<(u8, String, String)> {
    LINES.get().map_or_else(Vec::new, |lines| lock(lines).waiting.drain(..).collect())
}
