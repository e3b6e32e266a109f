//! Gates: each part of a row is written by itself. And kinds of calls that are paused.

use resurgam_store::{ByHand, GateCount, GateWrite, Hold, Result, StoredSettings};
use rusqlite::{Connection, Statement, params};

use super::prepare;
use crate::encode::millis;
use crate::errors::Attempted;

pub(crate) struct Gates<'c> {
    set: Statement<'c>,
    hand: Statement<'c>,
    decide: Statement<'c>,
    forget: Statement<'c>,
    count: Statement<'c>,
    forget_counts: Statement<'c>,
    hold: Statement<'c>,
    release: Statement<'c>,
}

const SET: &str = "
    INSERT INTO resurgam_gate (key, settings, settings_by, settings_reason, settings_at, revision)
    VALUES (?1, ?2, ?3, ?4, ?5, 1)
    ON CONFLICT (key) DO UPDATE SET
        settings = excluded.settings, settings_by = excluded.settings_by,
        settings_reason = excluded.settings_reason, settings_at = excluded.settings_at,
        revision = revision + 1";

const HAND: &str = "
    INSERT INTO resurgam_gate (key, hand, hand_by, hand_reason, hand_at, hand_until, revision)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1)
    ON CONFLICT (key) DO UPDATE SET
        hand = excluded.hand, hand_by = excluded.hand_by, hand_reason = excluded.hand_reason,
        hand_at = excluded.hand_at, hand_until = excluded.hand_until, revision = revision + 1";

const DECIDE: &str = "
    INSERT INTO resurgam_gate (key, decided, revision) VALUES (?1, ?2, 1)
    ON CONFLICT (key) DO UPDATE SET decided = excluded.decided, revision = revision + 1";

const FORGET: &str = "
    DELETE FROM resurgam_gate
    WHERE key = ?1 AND settings IS NULL AND coalesce(hand, 'auto') = 'auto'";

const COUNT: &str = "
    INSERT INTO resurgam_gate_count (gate, at, node, counts) VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT (gate, at, node) DO UPDATE SET counts = excluded.counts";

const FORGET_COUNTS: &str = "DELETE FROM resurgam_gate_count WHERE at < ?1";

const HOLD: &str = "
    INSERT INTO resurgam_hold (kind, name, by, reason, since) VALUES (?1, ?2, ?3, ?4, ?5)
    ON CONFLICT (kind, name) DO UPDATE SET
        by = excluded.by, reason = excluded.reason, since = excluded.since";

const RELEASE: &str = "DELETE FROM resurgam_hold WHERE kind = ?1 AND name = ?2";

impl<'c> Gates<'c> {
    pub(crate) fn prepare(connection: &'c Connection) -> rusqlite::Result<Self> {
        Ok(Gates {
            set: prepare(connection, SET)?,
            hand: prepare(connection, HAND)?,
            decide: prepare(connection, DECIDE)?,
            forget: prepare(connection, FORGET)?,
            count: prepare(connection, COUNT)?,
            forget_counts: prepare(connection, FORGET_COUNTS)?,
            hold: prepare(connection, HOLD)?,
            release: prepare(connection, RELEASE)?,
        })
    }

    pub(crate) fn write(&mut self, write: &GateWrite) -> Result<()> {
        let written = match write {
            GateWrite::Set { key, settings } => {
                let StoredSettings { text, by, reason, at } = settings;
                self.set.execute(params![key, text, by, reason, at.as_millis()])
            }
            GateWrite::Hand { key, hand } => {
                let ByHand { state, by, reason, at, until } = hand;
                let (at, until) = (at.as_millis(), millis(*until));
                self.hand.execute(params![key, state.name(), by, reason, at, until])
            }
            GateWrite::Decide { key, decided } => self.decide.execute(params![key, decided]),
            GateWrite::Forget { key } => self.forget.execute(params![key]),
            GateWrite::Count(GateCount { gate, at, node, counts }) => {
                self.count.execute(params![gate, at.as_millis(), node, counts])
            }
            GateWrite::ForgetCounts { before } => {
                self.forget_counts.execute(params![before.as_millis()])
            }
            GateWrite::Hold(Hold { kind, name, by, reason, since }) => {
                self.hold.execute(params![kind.name(), name, by, reason, since.as_millis()])
            }
            GateWrite::Release { kind, name } => self.release.execute(params![kind.name(), name]),
        };
        written.attempted(|| format!("write what is known of gates: {write:?}"))?;
        Ok(())
    }
}
