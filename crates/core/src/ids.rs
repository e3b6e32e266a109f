//! Ids. Each is a type of its own, so that two of them cannot be swapped.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What identifies one start of an instance for ever. The instance's id can be used again after
/// it closed; its uid cannot, so a late message to an earlier holder of the id misses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(pub u128);

impl Uid {
    /// The sixteen bytes that are stored.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// The uid of the child with this id that a run starts at this place: the same on every replay.
    pub fn of_child(parent: RunKey, seq: Seq, id: &str) -> Self {
        let [high, low] = [(parent.uid.0 >> 64) as u64, parent.uid.0 as u64];
        let place = crate::retry::mix(seq.0 ^ (u64::from(parent.run) << 32));
        let half = |part: u64, salt: u64| crate::retry::mix(crate::retry::mix(part ^ salt) ^ place);
        Uid((u128::from(half(high, 1)) << 64) | u128::from(half(low, 2))).placed(id)
    }

    /// The uid of sixteen stored bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Uid(u128::from_be_bytes(bytes))
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Reads a uid as it is printed.
///
/// ```
/// use resurgam_core::Uid;
///
/// let uid = Uid(255);
/// assert_eq!(uid.to_string().parse(), Ok(uid));
/// assert!("ff".parse::<Uid>().is_err());
/// ```
impl FromStr for Uid {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_uid = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let uid = u128::from_str_radix(text, 16).ok().filter(|_| is_uid);
        uid.map(Uid).ok_or_else(|| "a uid has 32 hexadecimal digits".to_string())
    }
}

/// The place of an event in the history of a run, from 1. An activity call, a timer or a child is
/// known by the place of the event that began it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    /// The place of the first event.
    pub const FIRST: Seq = Seq(1);

    /// The place that no event has: it stands for the run itself, where something is done to a call
    /// or to its run.
    pub const RUN: Seq = Seq(0);

    /// The place after this one.
    pub const fn next(self) -> Seq {
        Seq(self.0 + 1)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One run of an instance: its first is number 1, each continuation counts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunKey {
    /// The instance.
    pub uid: Uid,
    /// Which of its runs.
    pub run: u32,
}

impl RunKey {
    /// The first run of an instance.
    pub const fn first(uid: Uid) -> Self {
        RunKey { uid, run: 1 }
    }

    /// The activity call that began at this place.
    pub const fn call(self, seq: Seq) -> CallKey {
        CallKey { run: self, seq }
    }
}

/// One activity call of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallKey {
    /// The run.
    pub run: RunKey,
    /// The place of its `ActivityScheduled`.
    pub seq: Seq,
}

impl fmt::Display for CallKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.run.uid, self.run.run, self.seq)
    }
}
