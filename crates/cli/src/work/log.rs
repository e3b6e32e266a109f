//! What happens inside goes to standard error; `RESURGAM_LOG` says how much of it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tracing_subscriber::EnvFilter;

use crate::terminal::redrawn;

/// Begins to log: this much, unless `RESURGAM_LOG` says otherwise. What is drawn on the terminal
/// makes room; that many lines are.
pub(super) fn begin(usual: &str, drawn: Option<Arc<AtomicUsize>>) {
    let filter = EnvFilter::try_from_env("RESURGAM_LOG").unwrap_or_else(|_| EnvFilter::new(usual));
    let terminal = io::IsTerminal::is_terminal(&io::stderr());
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_target(false);
    // A line that cannot be written, on a full disk for example, is lost: to complain about it on
    // standard error would panic there.
    let log = log.with_ansi(terminal).log_internal_errors(false);
    log.with_writer(move || Between(drawn.clone())).init();
}

/// Writes lines in place of what is drawn, which is then drawn below them.
struct Between(Option<Arc<AtomicUsize>>);

impl io::Write for Between {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let drawn = self.0.as_ref().map_or(0, |drawn| drawn.swap(0, Ordering::Relaxed));
        if drawn > 0 {
            io::stderr().write_all(redrawn(drawn, &[]).as_bytes())?;
        }
        io::stderr().write(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
