//! What goes wrong, and how often.

use std::collections::BTreeMap;
use std::fmt;

use resurgam_core::action::Action;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A process is killed; another one takes its place after a while.
    Kill,
    /// A process is told to stop; another one takes its place after a while.
    Stop,
    /// A process stands still, often for longer than its lease.
    Pause,
    /// A process is started with other code.
    OtherCode,
    /// A process is started that serves other queues.
    OtherQueues,
    /// One more process comes, and leaves later: shards move.
    Join,
    /// The database refuses a commit for now.
    CommitRefused,
    /// A row of a commit is refused for good.
    RowRefused,
    /// A commit takes long.
    CommitLate,
    /// A commit is in, and its answer is lost.
    AnswerLost,
    /// A commit is lost before it reaches the database.
    RequestLost,
    /// A commit reaches the database only after its sender has given up.
    RequestLate,
    /// A read is answered late: what it says is old.
    ReadLate,
    /// A read of what is due takes long: much is written before its answer comes.
    ScanLate,
    /// A read is not answered.
    ReadLost,
    /// That others have committed is heard of late.
    HintLate,
    /// The database stops, and comes back.
    Restart,
    /// A standby takes over that has everything.
    Failover,
    /// A standby takes over, and the primary before it comes back as it was left.
    OldPrimary,
    /// The database is set back to what it was a while ago.
    SetBack,
    /// The disk is full for a while.
    DiskFull,
    /// A clock is set, forward or back.
    ClockJump,
    /// A clock goes wrong little by little.
    ClockDrift,
}

impl Fault {
    /// Every kind.
    pub const ALL: [Fault; 23] = [
        Fault::Kill,
        Fault::Stop,
        Fault::Pause,
        Fault::OtherCode,
        Fault::OtherQueues,
        Fault::Join,
        Fault::CommitRefused,
        Fault::RowRefused,
        Fault::CommitLate,
        Fault::AnswerLost,
        Fault::RequestLost,
        Fault::RequestLate,
        Fault::ReadLate,
        Fault::ScanLate,
        Fault::ReadLost,
        Fault::HintLate,
        Fault::Restart,
        Fault::Failover,
        Fault::OldPrimary,
        Fault::SetBack,
        Fault::DiskFull,
        Fault::ClockJump,
        Fault::ClockDrift,
    ];

    /// The name on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Fault::Kill => "kill",
            Fault::Stop => "stop",
            Fault::Pause => "pause",
            Fault::OtherCode => "other-code",
            Fault::OtherQueues => "other-queues",
            Fault::Join => "join",
            Fault::CommitRefused => "commit-refused",
            Fault::RowRefused => "row-refused",
            Fault::CommitLate => "commit-late",
            Fault::AnswerLost => "answer-lost",
            Fault::RequestLost => "request-lost",
            Fault::RequestLate => "request-late",
            Fault::ReadLate => "read-late",
            Fault::ScanLate => "scan-late",
            Fault::ReadLost => "read-lost",
            Fault::HintLate => "hint-late",
            Fault::Restart => "restart",
            Fault::Failover => "failover",
            Fault::OldPrimary => "old-primary",
            Fault::SetBack => "set-back",
            Fault::DiskFull => "disk-full",
            Fault::ClockJump => "clock-jump",
            Fault::ClockDrift => "clock-drift",
        }
    }

    /// The fault of this name.
    pub fn named(name: &str) -> Option<Fault> {
        Fault::ALL.into_iter().find(|fault| fault.name() == name)
    }

    /// Whether it can happen to a file that one process works on. A process and its file are on one
    /// machine, so nothing is lost between them.
    pub const fn happens_on_a_file(self) -> bool {
        !matches!(
            self,
            Fault::AnswerLost
                | Fault::RequestLost
                | Fault::RequestLate
                | Fault::Restart
                | Fault::Failover
                | Fault::OldPrimary
                | Fault::SetBack
                | Fault::Join
        )
    }

    /// Whether it befalls single messages, and not the whole.
    pub(crate) const fn is_of_messages(self) -> bool {
        matches!(
            self,
            Fault::CommitRefused
                | Fault::CommitLate
                | Fault::AnswerLost
                | Fault::RequestLost
                | Fault::RequestLate
                | Fault::ReadLate
                | Fault::ScanLate
                | Fault::ReadLost
                | Fault::HintLate
        )
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How often each kind of fault came, and what operators asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    faults: BTreeMap<Fault, u64>,
    actions: BTreeMap<&'static str, u64>,
    changed: BTreeMap<&'static str, u64>,
    others: BTreeMap<&'static str, u64>,
}

impl Counts {
    /// One more.
    pub fn add(&mut self, fault: Fault) {
        *self.faults.entry(fault).or_default() += 1;
    }

    /// An operator asked for this.
    pub(crate) fn add_action(&mut self, action: &Action) {
        *self.actions.entry(action.name()).or_default() += 1;
    }

    /// An action changed something, as far as the database knows in the end.
    pub(crate) fn add_change(&mut self, action: &Action) {
        *self.changed.entry(action.name()).or_default() += 1;
    }

    /// Something else happened that people want to know of.
    pub(crate) fn note(&mut self, what: &'static str) {
        self.note_all(what, 1);
    }

    /// Something else happened so many times.
    pub(crate) fn note_all(&mut self, what: &'static str, count: u64) {
        *self.others.entry(what).or_default() += count;
    }

    /// All of these, too.
    pub fn add_all(&mut self, other: &Counts) {
        for (fault, count) in &other.faults {
            *self.faults.entry(*fault).or_default() += count;
        }
        for (action, count) in &other.actions {
            *self.actions.entry(action).or_default() += count;
        }
        for (action, count) in &other.changed {
            *self.changed.entry(action).or_default() += count;
        }
        for (what, count) in &other.others {
            *self.others.entry(what).or_default() += count;
        }
    }

    /// How often a kind came.
    pub fn of(&self, fault: Fault) -> u64 {
        self.faults.get(&fault).copied().unwrap_or_default()
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for fault in Fault::ALL {
            writeln!(f, "{:>12} {fault}", self.of(fault))?;
        }
        for (action, count) in &self.actions {
            let changed = self.changed.get(action).copied().unwrap_or_default();
            writeln!(f, "{count:>12} action {action}, {changed} changed something")?;
        }
        for (what, count) in &self.others {
            writeln!(f, "{count:>12} {what}")?;
        }
        Ok(())
    }
}
