//! Signals that are stored and that nobody waits for.
//!
//! A signal becomes an event when somebody waits for one of its name, and not before. Until then it
//! is a message that wakes nobody: it is there for the next run too, everybody can count it, and a
//! history does not grow by what its workflow never reads.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use resurgam_core::{EventKind, Payload};
use resurgam_store::rows::MessageRow;

use crate::node::news::{News, Origin};

/// The unread signals of a run in memory.
#[derive(Debug, Default)]
pub(crate) struct UnreadSignals {
    by_name: BTreeMap<String, VecDeque<Kept>>,
    /// The messages that they are.
    ids: BTreeSet<String>,
    arrivals: u64,
}

#[derive(Debug)]
struct Kept {
    arrival: u64,
    id: String,
    value: Payload,
}

impl UnreadSignals {
    pub(crate) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    /// True when this message is one of them.
    pub(crate) fn has(&self, id: &str) -> bool {
        self.ids.contains(id)
    }

    /// Keeps a signal, behind those that came before it.
    pub(crate) fn keep(&mut self, id: String, name: String, value: Payload) {
        if self.ids.insert(id.clone()) {
            let kept = Kept { arrival: self.arrivals, id, value };
            self.by_name.entry(name).or_default().push_back(kept);
            self.arrivals += 1;
        }
    }

    /// True when one of these names is there.
    pub(crate) fn has_any(&self, names: &[String]) -> bool {
        names.iter().any(|name| self.by_name.contains_key(name))
    }

    /// The first signal that has one of these names.
    pub(crate) fn take(&mut self, names: &[String]) -> Option<News> {
        let first = |name: &&String| self.by_name.get(*name)?.front().map(|kept| kept.arrival);
        let name = names.iter().filter(|name| first(name).is_some()).min_by_key(first)?;
        let line = self.by_name.get_mut(name)?;
        let Kept { id, value, .. } = line.pop_front()?;
        if line.is_empty() {
            self.by_name.remove(name);
        }
        self.ids.remove(&id);
        Some(signal_news(id, name.clone(), value))
    }
}

/// A stored signal as news.
pub(crate) fn signal_news(message: String, name: String, value: Payload) -> News {
    let id = message.strip_prefix(MessageRow::REPEATABLE_SIGNAL).map(str::to_string);
    let event = EventKind::SignalReceived { name, value, id };
    News { event, origin: Origin::Stored { id: message }, reply: None }
}
