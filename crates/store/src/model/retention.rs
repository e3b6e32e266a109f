//! Deleting closed instances, with everything of theirs, a bounded piece at a time.
//!
//! The instance's own row goes last, so that one whose deletion was cut short is found again.

use resurgam_core::{CallKey, Timestamp, Uid};

use super::Model;
use super::tables::{Rows, Tables, calls_of, ledger_of};
use crate::rows::InstanceRow;
use crate::{Deleted, Deletion, INSTANCES, Place, ROWS, Sweep};

/// How many closed instances one piece looks at.
const LOOKS: usize = 5_000;

/// A closed instance.
struct Candidate {
    uid: Uid,
    place: Place,
    wanted: bool,
}

impl Model {
    /// Deletes one piece of what is wanted.
    pub fn delete_closed(&mut self, wanted: &Deletion) -> Deleted {
        match wanted {
            Deletion::One(uid) => self.delete_one(*uid),
            Deletion::Many(sweep) => self.delete_many(sweep),
            Deletion::Letters { before } => self.delete_letters(*before),
            Deletion::Bulk { before } => self.delete_bulk(*before),
        }
    }

    fn delete_one(&mut self, uid: Uid) -> Deleted {
        let mut done = Deleted::default();
        let instance = self.tables.instances.get(uid);
        if instance.is_some_and(|instance| instance.row.closed_at.is_some()) {
            done.more = !delete_instance(&mut self.tables, uid, &mut done);
        }
        done
    }

    fn delete_many(&mut self, sweep: &Sweep) -> Deleted {
        let mut done = Deleted { go_on: sweep.after, ..Deleted::default() };
        let candidates = candidates(&self.tables, sweep);
        done.more = candidates.len() == LOOKS;
        for Candidate { uid, place, wanted } in candidates {
            if place.closed_at >= sweep.closed_before {
                return Deleted { more: false, next: Some(place.closed_at), ..done };
            }
            let full = done.instances >= INSTANCES || done.rows >= ROWS;
            if full || (wanted && !delete_instance(&mut self.tables, uid, &mut done)) {
                return Deleted { more: true, ..done };
            }
            done.go_on = Some(place);
        }
        done
    }
}

/// Those that closed first, from the place where the last piece ended.
fn candidates(tables: &Tables, sweep: &Sweep) -> Vec<Candidate> {
    let first = (Timestamp::from_millis(i64::MIN), u64::MIN);
    let after = sweep.after.map_or(first, |place| (place.closed_at, place.row.cast_unsigned()));
    let closed = tables.instances.closed_after(sweep.status, after).take(LOOKS);
    let candidates = closed.map(|(closed_at, arrival, row)| Candidate {
        uid: row.uid,
        place: Place { closed_at, row: arrival.cast_signed() },
        wanted: is_wanted(row, sweep),
    });
    candidates.collect()
}

fn is_wanted(row: &InstanceRow, sweep: &Sweep) -> bool {
    let tag = sweep.tag.as_ref().is_none_or(|(name, value)| row.tags.get(name) == Some(value));
    tag && sweep.workflow.as_ref().is_none_or(|workflow| row.workflow == *workflow)
}

/// Deletes an instance with everything of it. False when the piece is full before that.
fn delete_instance(tables: &mut Tables, uid: Uid, done: &mut Deleted) -> bool {
    let tables_of =
        [delete_events, delete_attempts, delete_messages, delete_tasks, delete_actions, delete_kv];
    for delete in tables_of {
        let room = ROWS.saturating_sub(done.rows);
        let deleted = delete(tables, uid, usize::try_from(room).unwrap_or(usize::MAX)) as u64;
        done.rows += deleted;
        if deleted == room {
            // Perhaps that was all of it; the next piece finds out.
            return false;
        }
    }
    // The row of an instance holds its tags, which count as rows.
    let tags = tables.instances.put(uid, None).map_or(0, |instance| instance.row.tags.len());
    done.rows += tags as u64 + 1;
    done.instances += 1;
    true
}

fn delete_events(tables: &mut Tables, uid: Uid, room: usize) -> usize {
    let places = tables.events.map().range(calls_of(uid)).take(room);
    let places: Vec<CallKey> = places.map(|(place, _)| *place).collect();
    places.iter().for_each(|place| drop(tables.events.put(*place, None)));
    places.len()
}

fn delete_attempts(tables: &mut Tables, uid: Uid, room: usize) -> usize {
    let keys = tables.attempts.map().range(ledger_of(calls_of(uid))).take(room);
    let keys: Vec<(CallKey, u64)> = keys.map(|(key, _)| *key).collect();
    keys.iter().for_each(|key| drop(tables.attempts.put(*key, None)));
    keys.len()
}

fn delete_messages(tables: &mut Tables, uid: Uid, room: usize) -> usize {
    let keys: Vec<(Uid, u64)> = tables.messages.of(uid).take(room).map(|(key, _)| key).collect();
    keys.iter().for_each(|key| drop(tables.messages.put(*key, None)));
    keys.len()
}

fn delete_tasks(tables: &mut Tables, uid: Uid, room: usize) -> usize {
    let calls: Vec<CallKey> = tables.tasks.of(uid).take(room).map(|row| row.call).collect();
    calls.iter().for_each(|call| drop(tables.tasks.put(*call, None)));
    calls.len()
}

fn delete_actions(tables: &mut Tables, uid: Uid, room: usize) -> usize {
    delete_named(&mut tables.actions, uid, room)
}

fn delete_kv(tables: &mut Tables, uid: Uid, room: usize) -> usize {
    delete_named(&mut tables.kv, uid, room)
}

/// Deletes rows of an instance that have names of their own.
fn delete_named<V>(rows: &mut Rows<(Uid, String), V>, uid: Uid, room: usize) -> usize {
    let entries = rows.map().range((uid, String::new())..);
    let keys = entries.map(|(key, _)| key).take_while(|(of, _)| *of == uid).take(room);
    let keys: Vec<(Uid, String)> = keys.cloned().collect();
    let count = keys.len();
    keys.into_iter().for_each(|key| drop(rows.put(key, None)));
    count
}
