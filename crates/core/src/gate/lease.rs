//! What a node may use of something of which there is only so much ([`Lease`]).

use std::collections::{BTreeMap, VecDeque};

use crate::Timestamp;

/// What a node may use.
///
/// A node follows shares some time after they were made, and tells which. Until then it may use
/// what any of them allowed since those that it follows. What it may use so, nobody else gets.
#[derive(Clone, Debug, Default)]
pub(super) struct Lease {
    /// What it was allowed, by the number of the shares that said so first, and when.
    allowed: VecDeque<(u64, u32, Timestamp)>,
    in_use: u32,
}

impl Lease {
    /// The most that the node may use.
    pub(super) fn most(&self) -> u32 {
        let allowed = self.allowed.iter().map(|(_, amount, _)| *amount).max();
        allowed.unwrap_or_default().max(self.in_use)
    }

    /// The node is allowed this much from these shares on.
    pub(super) fn allows(&mut self, amount: u32, number: u64, now: Timestamp) {
        if self.allowed.back().is_none_or(|(_, last, _)| *last != amount) {
            self.allowed.push_back((number, amount, now));
        }
    }

    /// The node follows the shares of this number, and uses so much.
    pub(super) fn is_told(&mut self, number: u64, in_use: u32) {
        self.in_use = in_use;
        while self.allowed.get(1).is_some_and(|(next, _, _)| *next <= number) {
            self.allowed.pop_front();
        }
    }

    /// What took the place of something before this time holds for every node by now.
    pub(super) fn lapses(&mut self, before: Timestamp) {
        while self.allowed.get(1).is_some_and(|(_, _, at)| *at <= before) {
            self.allowed.pop_front();
        }
    }
}

/// Shares out something evenly, nobody more than they want. Where there is too little for each to
/// have one, it goes round.
pub(super) fn fair(most: u32, wants: &[(&String, u32)], round: u64) -> BTreeMap<String, u32> {
    let mut given: BTreeMap<String, u32> = BTreeMap::new();
    let count = u64::try_from(wants.len()).unwrap_or(u64::MAX);
    let is_scarce = u64::from(most) < count;
    let first = if is_scarce { (round % count.max(1)) as usize } else { 0 };
    let mut left = most;
    loop {
        let has = |node: &String| given.get(node).copied().unwrap_or_default();
        let open: Vec<(&String, u32)> = wants[first..]
            .iter()
            .chain(&wants[..first])
            .map(|(node, wanted)| (*node, wanted.saturating_sub(has(node))))
            .filter(|(_, more)| *more > 0)
            .collect();
        if open.is_empty() || left == 0 {
            return given;
        }
        let each = (left / u32::try_from(open.len()).unwrap_or(u32::MAX)).max(1);
        for (node, more) in open {
            let more = more.min(each).min(left);
            *given.entry(node.clone()).or_default() += more;
            left -= more;
        }
    }
}
