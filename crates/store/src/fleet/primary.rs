//! Which of several servers is the primary, and which one only believes that it is.
//!
//! A PostgreSQL database may have copies on several servers. One of them is the primary, which
//! takes writes; the others are standbys. When a standby is promoted it begins a new timeline, one
//! higher than the last. An old primary that comes back as it was left is writable too, and knows
//! nothing of the promotion: only its timeline is lower.
//!
//! | a server is | and so it is |
//! |---|---|
//! | on a lower timeline than any that was seen | refused: an old primary |
//! | on a lower timeline than its own mark | refused: tables in an older copy of their server |
//! | on the highest timeline, and does not know its mark | refused: a fork |
//! | one of two primaries on one timeline | refused: a fork, and so is the other |
//! | of another cluster, and does not know the mark | refused |
//! | a standby, or read-only | refused, unless it is enough for the purpose |
//! | none of these | taken, the highest timeline first |
//!
//! Two servers may be promoted to the same timeline, each without the other. So the first node that
//! works on a new timeline leaves a mark there, a random name in a row of our own. Standbys get the
//! mark as they get every row; the other side of a fork does not. A mark also proves that its
//! timeline exists, wherever it is read: also on a standby, while the new primary is out of reach.
//!
//! What nobody here can see: a process without a memory that reaches an old primary and no other
//! server takes it for the primary.

use std::fmt;

/// What a server says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerReport {
    /// What can be done there.
    pub access: ServerAccess,
    /// Which server it is; `None` where it does not tell.
    pub identity: Option<ServerIdentity>,
    /// The mark that is in the database.
    pub mark: MarkRead,
}

/// What can be done on a server, the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServerAccess {
    /// It follows a primary: it can be read, and what is read may be old.
    Standby,
    /// It is a primary whose transactions may only read, for this role at least.
    ReadOnly,
    /// It takes writes.
    Writable,
}

/// Which server it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerIdentity {
    /// What all copies of one database cluster share.
    pub system: i64,
    /// The timeline that a primary writes; `None` on a standby.
    pub timeline: Option<u32>,
    /// When it was started: the same server under another address tells the same.
    pub started: String,
}

/// What a look for the mark found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MarkRead {
    /// It could not be read: the tables are not there yet, or the role may not.
    Unreadable,
    /// No node has left one yet.
    Missing,
    /// This one.
    Found(TimelineMark),
}

/// What the first node that works on a timeline leaves there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineMark {
    /// The cluster that it was left in.
    pub system: i64,
    /// The timeline that it was left on.
    pub timeline: u32,
    /// A name that no other mark has.
    pub name: String,
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To work: only a server that takes writes will do.
    Work,
    /// To ask those who work, which may be no more than looking: only a primary will do.
    Ask,
    /// To look: a standby will do where there is no primary.
    Look,
}

/// Why a server is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerRefused {
    /// It is a standby.
    Standby,
    /// Its transactions may only read.
    ReadOnly,
    /// Another server was promoted since it was the primary.
    OldTimeline {
        /// The timeline that it writes.
        timeline: u32,
        /// The highest that was seen.
        highest: u32,
    },
    /// Its tables were worked on at a higher timeline than its own: they were restored into an
    /// older copy of the server.
    BehindItsMark {
        /// The timeline that it writes.
        timeline: u32,
        /// The timeline of the mark in its tables.
        marked: u32,
    },
    /// Two servers were promoted to this timeline, and it is not the one that is known.
    Fork {
        /// The timeline of both.
        timeline: u32,
    },
    /// It belongs to another database cluster.
    OtherCluster {
        /// What its cluster says about itself.
        system: i64,
    },
}

/// The primary as this process last knew it, and the choice among servers that follows.
///
/// The caller asks the servers. [`choose`](Self::choose) says which one to use, and
/// [`admitted`](Self::admitted) that it is used. Whoever [`should_mark`](Self::should_mark) leaves
/// a mark before that.
///
/// ```
/// use resurgam_store::fleet::{
///     MarkRead, PrimaryMemory, Purpose, ServerAccess, ServerIdentity, ServerRefused, ServerReport,
/// };
///
/// let server = |timeline, started: &str| ServerReport {
///     access: ServerAccess::Writable,
///     identity: Some(ServerIdentity {
///         system: 7,
///         timeline: Some(timeline),
///         started: started.into(),
///     }),
///     mark: MarkRead::Missing,
/// };
/// let mut memory = PrimaryMemory::default();
/// // An old primary is back beside the new one.
/// assert_eq!(memory.choose(Purpose::Work, &[server(1, "noon"), server(2, "one")]), Ok(1));
/// memory.admitted(&server(2, "one"));
/// // The new one does not answer. The old one is still an old one.
/// let refused = memory.choose(Purpose::Work, &[server(1, "noon")]).unwrap_err();
/// assert_eq!(refused, [ServerRefused::OldTimeline { timeline: 1, highest: 2 }]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrimaryMemory {
    known: Option<Known>,
    moves: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    system: i64,
    timeline: u32,
    /// The name of the mark on that timeline, once it was read.
    mark: Option<String>,
}

impl ServerReport {
    /// A server that tells nothing about itself, and takes writes for all that is known.
    pub fn unknown() -> Self {
        ServerReport { access: ServerAccess::Writable, identity: None, mark: MarkRead::Unreadable }
    }

    fn system(&self) -> Option<i64> {
        self.identity.as_ref().map(|identity| identity.system)
    }

    /// The timeline that it writes; `None` where it does not tell, and on a standby.
    pub fn timeline(&self) -> Option<u32> {
        self.identity.as_ref().and_then(|identity| identity.timeline)
    }

    fn mark(&self) -> Option<&TimelineMark> {
        match &self.mark {
            MarkRead::Found(mark) => Some(mark),
            MarkRead::Unreadable | MarkRead::Missing => None,
        }
    }

    /// The mark of the timeline that it writes.
    fn present_mark(&self) -> Option<&TimelineMark> {
        let is_present = |mark: &&TimelineMark| {
            (Some(mark.system), Some(mark.timeline)) == (self.system(), self.timeline())
        };
        self.mark().filter(is_present)
    }

    /// Whether both are primaries that write the same timeline, and are not one and the same.
    fn forks_with(&self, other: &ServerReport) -> bool {
        let (Some(one), Some(two)) = (&self.identity, &other.identity) else { return false };
        one.timeline.is_some()
            && (one.system, one.timeline) == (two.system, two.timeline)
            && one.started != two.started
    }
}

impl PrimaryMemory {
    /// How often the primary has become another one, or another timeline. Connections that were
    /// made before the last time lead to a server that is none any more.
    pub fn moves(&self) -> u64 {
        self.moves
    }

    /// The highest timeline that was seen, once one was.
    pub fn timeline(&self) -> Option<u32> {
        self.known.as_ref().map(|known| known.timeline)
    }

    /// Which of these servers to use, by its place among them. Otherwise why each of them is not
    /// used, in their order.
    pub fn choose(
        &self,
        purpose: Purpose,
        servers: &[ServerReport],
    ) -> Result<usize, Vec<ServerRefused>> {
        let mut chosen: Option<(usize, _)> = None;
        let mut refused = Vec::new();
        for (place, server) in servers.iter().enumerate() {
            match self.judge(purpose, server, servers) {
                Ok(()) => {
                    let rank = (server.access, server.timeline());
                    if chosen.as_ref().is_none_or(|(_, best)| rank > *best) {
                        chosen = Some((place, rank));
                    }
                }
                Err(why) => refused.push(why),
            }
        }
        chosen.map(|(place, _)| place).ok_or(refused)
    }

    /// Whether a node should leave a mark on this server before it uses it.
    pub fn should_mark(&self, server: &ServerReport) -> bool {
        server.access == ServerAccess::Writable
            && server.timeline().is_some()
            && server.mark != MarkRead::Unreadable
            && server.present_mark().is_none()
    }

    /// This server is used from now on. True when the primary is another one than before.
    pub fn admitted(&mut self, server: &ServerReport) -> bool {
        let (Some(system), Some(timeline)) = (server.system(), server.timeline()) else {
            return false;
        };
        let mark = server.present_mark().map(|mark| mark.name.clone());
        match &mut self.known {
            Some(known) if (known.system, known.timeline) == (system, timeline) => {
                if known.mark.is_none() {
                    known.mark = mark;
                }
                false
            }
            known => {
                let is_move = known.is_some();
                *known = Some(Known { system, timeline, mark });
                self.moves += u64::from(is_move);
                is_move
            }
        }
    }

    /// These servers answered. A timeline that one of them proves to exist is remembered, whoever
    /// is used. True when that makes connections useless that were made before.
    pub fn heard(&mut self, servers: &[ServerReport]) -> bool {
        let Some(system) = self.cluster_of(servers) else { return false };
        let highest = proven(system, servers);
        let before = self.known.as_ref();
        if highest <= before.map_or(0, |known| known.timeline) {
            return false;
        }
        // Who begins cannot tell which side of a fork is meant, and two marks do not say it either.
        let mark = before.and_then(|_| only_mark(system, highest, servers));
        let is_move = before.is_some();
        self.known = Some(Known { system, timeline: highest, mark });
        self.moves += u64::from(is_move);
        is_move
    }

    /// The cluster that is known, or else that of all these servers.
    fn cluster_of(&self, servers: &[ServerReport]) -> Option<i64> {
        let mut systems = servers.iter().filter_map(ServerReport::system);
        match &self.known {
            Some(known) => Some(known.system),
            None => systems.next().filter(|first| systems.all(|other| other == *first)),
        }
    }

    fn judge(
        &self,
        purpose: Purpose,
        server: &ServerReport,
        all: &[ServerReport],
    ) -> Result<(), ServerRefused> {
        match (server.access, purpose) {
            (ServerAccess::Standby, Purpose::Look) => return Ok(()),
            (ServerAccess::Standby, _) => return Err(ServerRefused::Standby),
            (ServerAccess::ReadOnly, Purpose::Work) => return Err(ServerRefused::ReadOnly),
            (ServerAccess::ReadOnly, _) | (ServerAccess::Writable, _) => {}
        }
        let (Some(system), Some(timeline)) = (server.system(), server.timeline()) else {
            return Ok(());
        };
        let ahead = |mark: &&TimelineMark| mark.system == system && mark.timeline > timeline;
        if let Some(mark) = server.mark().filter(ahead) {
            return Err(ServerRefused::BehindItsMark { timeline, marked: mark.timeline });
        }
        let highest = self.highest(system, all).max(timeline);
        if timeline < highest {
            return Err(ServerRefused::OldTimeline { timeline, highest });
        }
        if self.is_foreign(server, system, all) {
            return Err(ServerRefused::OtherCluster { system });
        }
        if self.is_fork(server, timeline, all) {
            return Err(ServerRefused::Fork { timeline });
        }
        Ok(())
    }

    /// The highest timeline of a cluster that is known to exist.
    fn highest(&self, system: i64, all: &[ServerReport]) -> u32 {
        let known = self.known.iter().filter(|known| known.system == system);
        let known = known.map(|known| known.timeline);
        known.max().unwrap_or(0).max(proven(system, all))
    }

    /// Whether it belongs to another cluster than the one that is known. A database that was moved
    /// there by a dump or by logical replication brings the mark along. Where nothing is known, two
    /// primaries of different clusters are both foreign.
    fn is_foreign(&self, server: &ServerReport, system: i64, all: &[ServerReport]) -> bool {
        match &self.known {
            Some(known) => {
                let has_mark =
                    server.mark().is_some_and(|mark| Some(&mark.name) == known.mark.as_ref());
                known.system != system && !has_mark
            }
            None => all.iter().any(|other| {
                other.timeline().is_some() && other.system().is_some_and(|other| other != system)
            }),
        }
    }

    fn is_fork(&self, server: &ServerReport, timeline: u32, all: &[ServerReport]) -> bool {
        let known = self
            .known
            .as_ref()
            .filter(|known| (Some(known.system), known.timeline) == (server.system(), timeline));
        let Some(mark) = known.and_then(|known| known.mark.as_ref()) else {
            return all.iter().any(|other| server.forks_with(other));
        };
        let knows =
            |server: &ServerReport| server.present_mark().is_some_and(|found| found.name == *mark);
        match server.mark {
            MarkRead::Unreadable => all.iter().any(|other| server.forks_with(other)),
            _ if !knows(server) => true,
            _ => all.iter().any(|other| server.forks_with(other) && knows(other)),
        }
    }
}

/// The highest timeline of a cluster that these servers write, or have a mark of.
fn proven(system: i64, servers: &[ServerReport]) -> u32 {
    let written = servers.iter().filter(|server| server.system() == Some(system));
    let written = written.filter_map(ServerReport::timeline);
    let marked = marks(system, servers).map(|mark| mark.timeline);
    written.chain(marked).max().unwrap_or(0)
}

/// The name of the mark of a timeline, where all that these servers have of it is the same.
fn only_mark(system: i64, timeline: u32, servers: &[ServerReport]) -> Option<String> {
    let mut names = marks(system, servers).filter(|mark| mark.timeline == timeline);
    let first = names.next()?;
    names.all(|mark| mark.name == first.name).then(|| first.name.clone())
}

fn marks(system: i64, servers: &[ServerReport]) -> impl Iterator<Item = &TimelineMark> {
    servers.iter().filter_map(ServerReport::mark).filter(move |mark| mark.system == system)
}

/// What is wrong with it, and what to do.
impl fmt::Display for ServerRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerRefused::Standby => f.write_str(
                "it is a standby, which takes no writes; name the primary in the URL too, or wait \
                 until this one is promoted",
            ),
            ServerRefused::ReadOnly => f.write_str(
                "its transactions are read-only for this user (default_transaction_read_only); \
                 use a user that may write",
            ),
            ServerRefused::OldTimeline { timeline, highest } => write!(
                f,
                "it is an old primary: it is on timeline {timeline}, and a server was promoted to \
                 timeline {highest} since; what is written here is lost, so stop it, and rewind it \
                 (pg_rewind) or copy it anew (pg_basebackup) before it comes back; if it was \
                 restored from a backup on purpose, restart the processes that refuse it"
            ),
            ServerRefused::BehindItsMark { timeline, marked } => write!(
                f,
                "it is on timeline {timeline}, and its tables were worked on at timeline {marked}: \
                 they were restored into an older copy of their server; if that was meant, run \
                 UPDATE resurgam.meta SET timeline = NULL there, in the schema of the tables, and \
                 restart the processes that refuse it"
            ),
            ServerRefused::Fork { timeline } => write!(
                f,
                "two servers were promoted to timeline {timeline}, each without the other; decide \
                 which one stays, stop the other one, and restart the processes that refuse the \
                 one that stays; if the database was restored instead, restart them as well"
            ),
            ServerRefused::OtherCluster { system } => write!(
                f,
                "it belongs to another database cluster (system identifier {system}) and does not \
                 have what this process knows; if the database was moved there on purpose, restart \
                 this process"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::ServerRefused::{BehindItsMark, Fork, OldTimeline, OtherCluster, ReadOnly, Standby};
    use super::*;

    const CLUSTER: i64 = 7;

    /// A server that was started at this hour, and writes this timeline.
    fn primary(started: &str, timeline: u32, mark: MarkRead) -> ServerReport {
        let identity = ServerIdentity {
            system: CLUSTER,
            timeline: Some(timeline),
            started: started.to_string(),
        };
        ServerReport { access: ServerAccess::Writable, identity: Some(identity), mark }
    }

    fn standby(mark: MarkRead) -> ServerReport {
        let mut server = primary("standby", 0, mark);
        server.access = ServerAccess::Standby;
        server.identity.as_mut().unwrap().timeline = None;
        server
    }

    fn mark(timeline: u32, name: &str) -> MarkRead {
        MarkRead::Found(TimelineMark { system: CLUSTER, timeline, name: name.to_string() })
    }

    fn knowing(timeline: u32, name: &str) -> PrimaryMemory {
        let mut memory = PrimaryMemory::default();
        assert!(!memory.admitted(&primary("noon", timeline, mark(timeline, name))));
        memory
    }

    fn of_cluster(system: i64, mut server: ServerReport) -> ServerReport {
        server.identity.as_mut().unwrap().system = system;
        server
    }

    #[test]
    fn the_writable_server_with_the_highest_timeline_is_chosen() {
        let (old, new) = (primary("noon", 1, mark(1, "a")), primary("one", 2, mark(1, "a")));
        let memory = PrimaryMemory::default();
        for servers in [[old.clone(), new.clone()], [new.clone(), old.clone()]] {
            let place = memory.choose(Purpose::Work, &servers).unwrap();
            assert_eq!(servers[place], new);
        }
        assert_eq!(memory.choose(Purpose::Work, &[standby(mark(1, "a")), old]), Ok(1));
    }

    #[test]
    fn what_each_purpose_is_content_with() {
        let mut read_only = primary("noon", 1, mark(1, "a"));
        read_only.access = ServerAccess::ReadOnly;
        let table = [
            (Purpose::Work, standby(mark(1, "a")), Err(vec![Standby])),
            (Purpose::Ask, standby(mark(1, "a")), Err(vec![Standby])),
            (Purpose::Look, standby(mark(1, "a")), Ok(0)),
            (Purpose::Work, read_only.clone(), Err(vec![ReadOnly])),
            (Purpose::Ask, read_only.clone(), Ok(0)),
            (Purpose::Look, read_only.clone(), Ok(0)),
        ];
        for (purpose, server, expected) in table {
            let chosen = PrimaryMemory::default().choose(purpose, std::slice::from_ref(&server));
            assert_eq!(chosen, expected, "{purpose:?} on {server:?}");
        }
        // Who could do with a standby still prefers a primary.
        let servers = [standby(mark(1, "a")), read_only];
        assert_eq!(PrimaryMemory::default().choose(Purpose::Look, &servers), Ok(1));
    }

    #[test]
    fn an_old_primary_is_refused_by_who_remembers_the_new_one() {
        let old = primary("noon", 1, mark(1, "a"));
        let refused = OldTimeline { timeline: 1, highest: 2 };
        assert_eq!(
            knowing(2, "b").choose(Purpose::Work, std::slice::from_ref(&old)),
            Err(vec![refused.clone()])
        );
        assert_eq!(knowing(2, "b").choose(Purpose::Look, &[old]), Err(vec![refused]));
    }

    #[test]
    fn a_standby_that_knows_of_a_promotion_gives_an_old_primary_away() {
        let servers = [primary("noon", 1, mark(1, "a")), standby(mark(2, "b"))];
        let refused = vec![OldTimeline { timeline: 1, highest: 2 }, Standby];
        assert_eq!(PrimaryMemory::default().choose(Purpose::Work, &servers), Err(refused));
        // It is remembered when the standby does not answer any more.
        let mut memory = knowing(1, "a");
        assert!(memory.heard(&servers) && !memory.heard(&servers));
        assert_eq!((memory.moves(), memory.timeline()), (1, Some(2)));
        assert!(memory.choose(Purpose::Work, &servers[..1]).is_err());
    }

    #[test]
    fn who_begins_remembers_a_promotion_although_nobody_could_be_used() {
        let old = primary("noon", 1, mark(1, "a"));
        let mut read_only = primary("one", 2, mark(1, "a"));
        read_only.access = ServerAccess::ReadOnly;
        for proof in [standby(mark(2, "b")), read_only] {
            let mut memory = PrimaryMemory::default();
            assert!(!memory.heard(&[old.clone(), proof]), "no connection was made before");
            let refused = vec![OldTimeline { timeline: 1, highest: 2 }];
            assert_eq!(memory.choose(Purpose::Work, std::slice::from_ref(&old)), Err(refused));
        }
    }

    #[test]
    fn of_two_marks_on_a_timeline_that_is_new_none_is_believed() {
        let both = [primary("noon", 2, mark(2, "b")), primary("one", 2, mark(2, "c"))];
        let mut memory = knowing(1, "a");
        assert!(memory.heard(&both));
        let neither = Err(vec![Fork { timeline: 2 }, Fork { timeline: 2 }]);
        assert_eq!(memory.choose(Purpose::Work, &both), neither);
    }

    #[test]
    fn tables_that_were_restored_into_an_older_copy_of_their_server_are_refused() {
        let server = primary("noon", 1, mark(2, "b"));
        let refused = BehindItsMark { timeline: 1, marked: 2 };
        let text = refused.to_string();
        assert!(text.contains("UPDATE resurgam.meta SET timeline = NULL"), "{text}");
        assert_eq!(PrimaryMemory::default().choose(Purpose::Work, &[server]), Err(vec![refused]));
    }

    #[test]
    fn a_refusal_says_what_to_do_when_a_backup_was_restored_on_purpose() {
        for refused in [OldTimeline { timeline: 1, highest: 2 }, Fork { timeline: 2 }] {
            let text = refused.to_string();
            assert!(text.contains("restored") && text.contains("restart"), "{text}");
        }
    }

    #[test]
    fn of_a_fork_only_the_known_side_is_used() {
        let (known, other) = (primary("noon", 2, mark(2, "b")), primary("one", 2, mark(2, "c")));
        let unmarked = primary("one", 2, mark(1, "a"));
        let memory = knowing(2, "b");
        for other in [other, unmarked] {
            let both = [other.clone(), known.clone()];
            assert_eq!(memory.choose(Purpose::Work, &both), Ok(1));
            assert_eq!(memory.choose(Purpose::Work, &both[..1]), Err(vec![Fork { timeline: 2 }]));
            // Who knows neither cannot tell which one is meant.
            let neither = Err(vec![Fork { timeline: 2 }, Fork { timeline: 2 }]);
            assert_eq!(PrimaryMemory::default().choose(Purpose::Work, &both), neither);
        }
    }

    #[test]
    fn one_server_under_two_addresses_is_no_fork() {
        let server = primary("noon", 2, mark(2, "b"));
        let both = [server.clone(), server];
        assert_eq!(PrimaryMemory::default().choose(Purpose::Work, &both), Ok(0));
        assert_eq!(knowing(2, "b").choose(Purpose::Work, &both), Ok(0));
    }

    #[test]
    fn a_server_whose_mark_cannot_be_read_is_no_fork() {
        let server = primary("noon", 2, MarkRead::Unreadable);
        assert_eq!(knowing(2, "b").choose(Purpose::Ask, &[server]), Ok(0));
    }

    #[test]
    fn a_database_that_was_moved_to_another_cluster_brings_its_mark_along() {
        let moved = of_cluster(8, primary("one", 1, mark(3, "b")));
        let mut memory = knowing(3, "b");
        assert_eq!(memory.choose(Purpose::Work, std::slice::from_ref(&moved)), Ok(0));
        assert!(memory.should_mark(&moved));
        let new = TimelineMark { system: 8, timeline: 1, name: "c".to_string() };
        let marked = ServerReport { mark: MarkRead::Found(new), ..moved };
        assert!(memory.admitted(&marked));
        // From then on the cluster before is a foreign one.
        let before = primary("noon", 3, mark(3, "b"));
        let foreign = Err(vec![OtherCluster { system: CLUSTER }]);
        assert_eq!(memory.choose(Purpose::Work, &[before]), foreign);
    }

    #[test]
    fn primaries_of_two_clusters_in_one_url_are_both_refused_by_who_knows_neither() {
        let both = [
            primary("noon", 1, MarkRead::Missing),
            of_cluster(8, primary("one", 4, MarkRead::Missing)),
        ];
        let refused = vec![OtherCluster { system: CLUSTER }, OtherCluster { system: 8 }];
        assert_eq!(PrimaryMemory::default().choose(Purpose::Work, &both), Err(refused));
        assert_eq!(knowing(1, "a").choose(Purpose::Ask, &both[1..]).unwrap_err().len(), 1);
    }

    #[test]
    fn a_timeline_is_marked_once_by_who_may_write() {
        let memory = PrimaryMemory::default();
        assert!(memory.should_mark(&primary("noon", 1, MarkRead::Missing)));
        assert!(memory.should_mark(&primary("noon", 2, mark(1, "a"))));
        assert!(!memory.should_mark(&primary("noon", 1, mark(1, "a"))));
        assert!(!memory.should_mark(&primary("noon", 1, MarkRead::Unreadable)));
        assert!(!memory.should_mark(&standby(MarkRead::Missing)));
        assert!(!memory.should_mark(&ServerReport::unknown()));
    }

    #[test]
    fn connections_are_of_no_use_once_the_primary_is_another_one() {
        let mut memory = knowing(1, "a");
        assert!(!memory.admitted(&primary("later", 1, mark(1, "a"))), "only restarted");
        assert!(memory.admitted(&primary("one", 2, mark(2, "b"))));
        assert!(!memory.admitted(&ServerReport::unknown()));
        assert_eq!((memory.moves(), memory.timeline()), (1, Some(2)));
    }

    #[test]
    fn a_server_that_tells_nothing_is_used() {
        let servers = [ServerReport::unknown()];
        assert_eq!(knowing(2, "b").choose(Purpose::Work, &servers), Ok(0));
        // One that tells more is preferred.
        let servers = [ServerReport::unknown(), primary("noon", 2, mark(2, "b"))];
        assert_eq!(knowing(2, "b").choose(Purpose::Work, &servers), Ok(1));
    }
}
