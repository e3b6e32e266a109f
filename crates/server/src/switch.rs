//! Switches: what stands in for a dependency in a demo or a drill, turned off and on from the
//! dashboard. Deliberately not here: anything durable. A switch is as old as its process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Something that the dashboard lets people turn off and on, for demos and drills; see
/// [`Options::switch`](crate::Options::switch).
///
/// ```
/// use resurgam_server::{Options, Switch};
///
/// let gateway = Switch::new("payment gateway");
/// let options = Options::default().open().switch(&gateway);
/// assert!(gateway.is_on(), "until somebody turns it off");
/// gateway.turn(false);
/// assert!(!gateway.clone().is_on());
/// # let _ = options;
/// ```
#[derive(Clone, Debug)]
pub struct Switch {
    name: Arc<str>,
    is_on: Arc<AtomicBool>,
}

impl Switch {
    /// One that is on.
    pub fn new(name: &str) -> Self {
        Switch { name: name.into(), is_on: Arc::new(AtomicBool::new(true)) }
    }

    /// What people call it by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is on.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Turns it on or off.
    pub fn turn(&self, on: bool) {
        self.is_on.store(on, Ordering::Relaxed);
    }
}
