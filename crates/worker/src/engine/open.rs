//! The open calls of a run, and how many bytes their arguments have.

use std::collections::HashMap;

use resurgam_core::command::{Command, CommandKind};
use resurgam_core::{Event, EventKind, Seq};
use resurgam_store::rows::RunRecord;

/// The open calls of a run.
#[derive(Debug, Default)]
pub(super) struct OpenCalls {
    sizes: HashMap<Seq, usize>,
    bytes: usize,
}

impl OpenCalls {
    /// The open calls of a run that was read.
    pub(super) fn of(record: &RunRecord) -> Self {
        let mut calls = OpenCalls::default();
        for task in &record.tasks {
            let place = usize::try_from(task.call.seq.0).ok().and_then(|seq| seq.checked_sub(1));
            let event = place.and_then(|place| record.events.get(place));
            calls.insert(task.call.seq, event.map_or(0, input));
        }
        calls
    }

    pub(super) fn insert(&mut self, call: Seq, size: usize) {
        self.remove(call);
        self.sizes.insert(call, size);
        self.bytes += size;
    }

    /// False when it is not open.
    pub(super) fn remove(&mut self, call: Seq) -> bool {
        let size = self.sizes.remove(&call);
        self.bytes -= size.unwrap_or(0);
        size.is_some()
    }

    pub(super) fn contains(&self, call: Seq) -> bool {
        self.sizes.contains_key(&call)
    }

    /// Takes them all out.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Seq> + use<> {
        std::mem::take(self).sizes.into_keys()
    }

    /// How many bytes of arguments are open once these commands are carried out.
    pub(super) fn bytes_after(&self, commands: &[Command]) -> usize {
        let asked = commands.iter().map(|command| match &command.kind {
            CommandKind::ScheduleActivity(call) => call.input.len(),
            _ => 0,
        });
        self.bytes + asked.sum::<usize>()
    }
}

fn input(event: &Event) -> usize {
    match &event.kind {
        EventKind::ActivityScheduled(call) => call.input.len(),
        _ => 0,
    }
}
