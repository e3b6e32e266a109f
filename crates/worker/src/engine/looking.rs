//! Looking at an instance while it goes on: whoever does is told when there may be something new.
//!
//! What there is stands in the store, and is read from there: by the process that works as by any
//! other. Here is only who wants to know that it is time to look again.

use std::collections::BTreeMap;

use resurgam_core::Uid;
use tokio::sync::watch;

use super::Engine;

/// The instances that somebody looks at.
#[derive(Debug, Default)]
pub(super) struct Watched(BTreeMap<Uid, watch::Sender<()>>);

impl Watched {
    /// Changes whenever something of the instance is durable.
    fn subscribe(&mut self, uid: Uid) -> watch::Receiver<()> {
        self.0.entry(uid).or_insert_with(|| watch::channel(()).0).subscribe()
    }

    /// Something of an instance is durable.
    fn changed(&mut self, uid: Uid) {
        if let Some(changed) = self.0.get(&uid)
            && changed.send(()).is_err()
        {
            self.0.remove(&uid);
        }
    }

    /// Something is, of any instance.
    fn all_changed(&mut self) {
        self.0.retain(|_, changed| changed.send(()).is_ok());
    }
}

impl Engine {
    pub(super) fn watch(&mut self, uid: Uid) -> watch::Receiver<()> {
        self.watched.subscribe(uid)
    }

    /// A step of an instance is durable.
    pub(super) fn told_those_who_look(&mut self, uid: Uid) {
        self.watched.changed(uid);
    }

    /// Somebody else has committed.
    pub(super) fn tell_all_who_look(&mut self) {
        self.watched.all_changed();
    }
}
