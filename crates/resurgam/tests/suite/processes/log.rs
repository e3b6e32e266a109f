//! What the engine says, in a file beside the journal, for whoever looks at a failed test.

use std::fmt::{Debug, Write as _};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use super::now_ms;

/// Appends a line for everything that is worth knowing.
struct Log {
    file: File,
    process: u32,
}

/// Writes down from now on what the engine of this process says.
pub(crate) fn begin(journal: &Path, process: u32) {
    let path = journal.with_extension("log");
    let file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    tracing::subscriber::set_global_default(Log { file, process }).unwrap();
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= Level::INFO
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(format!("{} {} {}", now_ms(), self.process, event.metadata().level()));
        event.record(&mut line);
        line.0.push('\n');
        (&self.file).write_all(line.0.as_bytes()).unwrap();
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let written = match field.name() {
            "message" => write!(self.0, " {value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
        written.unwrap();
    }
}
