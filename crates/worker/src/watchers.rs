//! Looking at an instance while it goes on: whoever does is told when there may be something new.
//!
//! What there is stands in the store, and is read from there: by the process that works as by any
//! other. Here is only who wants to know that it is time to look again.

use std::collections::BTreeMap;

use resurgam_core::Uid;
use tokio::sync::watch;

/// The instances that somebody looks at.
#[derive(Debug, Default)]
pub(crate) struct Watchers(BTreeMap<Uid, watch::Sender<()>>);

impl Watchers {
    /// Changes whenever something of the instance is durable.
    pub(crate) fn subscribe(&mut self, uid: Uid) -> watch::Receiver<()> {
        self.0.entry(uid).or_insert_with(|| watch::channel(()).0).subscribe()
    }

    /// Something of an instance is durable.
    pub(crate) fn changed(&mut self, uid: Uid) {
        if let Some(changed) = self.0.get(&uid)
            && changed.send(()).is_err()
        {
            self.0.remove(&uid);
        }
    }

    /// Something is, of any instance.
    pub(crate) fn all_changed(&mut self) {
        self.0.retain(|_, changed| changed.send(()).is_ok());
    }
}
