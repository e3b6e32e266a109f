//! What the semantics say about a program, worked out with sums and minima.
//!
//! Nothing here knows of commits, rows or queues: an attempt takes its time, a failed one is
//! followed by the next after the backoff, a cancellation ends every open wait at its moment, what
//! is dropped is given up, and what completed is undone, last first, when the run fails and no
//! attempt of it works any more.

use std::collections::BTreeMap;

use super::program::{Call, Outcome, Stmt};

/// How something ended.
pub(crate) type Ended = Result<Vec<u32>, String>;

/// Two things happen in the same millisecond: which one is first, the semantics do not say.
#[derive(Debug)]
pub(crate) struct Tie;

/// What is to be expected of a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Expected {
    pub(crate) at: u64,
    pub(crate) ended: Ended,
    pub(crate) cancelled: bool,
    pub(crate) compensation: Option<&'static str>,
}

/// How often attempts of each call begin.
pub(crate) type Begins = BTreeMap<u32, u32>;

const NEVER: u64 = u64::MAX;

/// How long an attempt goes on that has run out of time, or whose call was given up and cannot be
/// undone.
const GRACE: u64 = 10_000;

/// A run that starts at `start` and is cancelled at `cancel`.
pub(crate) fn run(
    program: &Stmt,
    start: u64,
    cancel: u64,
    begins: &mut Begins,
) -> Result<Expected, Tie> {
    let mut world = World::new(begins);
    let scope = Scope { cancel, cut: NEVER };
    let Some((at, ended)) = world.eval(program, start, scope)? else { unreachable!("nobody cuts") };
    let World { undo, settled, works_until, .. } = world;
    if ended.is_ok() {
        return Ok(Expected { at, ended, cancelled: false, compensation: None });
    }
    let mut expected = Expected { at, ended, cancelled: false, compensation: None };
    if !undo.is_empty() || settled > at {
        expected.at = expected.at.max(settled);
        compensate(undo, works_until, begins, &mut expected)?;
    }
    // Also when that was asked for while the rest was undone.
    expected.cancelled = cancel <= expected.at;
    Ok(expected)
}

fn compensate(
    mut undo: Vec<(u64, Call)>,
    mut works_until: u64,
    begins: &mut Begins,
    expected: &mut Expected,
) -> Result<(), Tie> {
    expected.compensation = (!undo.is_empty()).then_some("complete");
    undo.sort_by_key(|(recorded, _)| *recorded);
    if undo.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return Err(Tie);
    }
    for (_, call) in undo.into_iter().rev() {
        let mut world = World::new(begins);
        let start = expected.at.max(works_until);
        let ended = world.call(&call, start, Scope { cancel: NEVER, cut: NEVER })?;
        let (at, ended) = ended.expect("nobody cuts");
        (expected.at, works_until) = (at, world.works_until);
        if ended.is_err() {
            expected.compensation = Some("incomplete");
        }
    }
    Ok(())
}

/// When open waits end: with a failure at `cancel`, without a word at `cut`.
#[derive(Clone, Copy)]
struct Scope {
    cancel: u64,
    cut: u64,
}

impl Scope {
    fn limit(self) -> u64 {
        self.cancel.min(self.cut)
    }

    /// How a wait ends that is open at the limit.
    fn ended(self) -> Option<(u64, Ended)> {
        (self.cancel <= self.cut).then(|| (self.cancel, Err("Cancelled".to_string())))
    }

    /// A wait that would end at `at`: it, or what the scope makes of it.
    fn wait(self, at: u64, ended: Ended) -> Result<Option<(u64, Ended)>, Tie> {
        match at.cmp(&self.limit()) {
            std::cmp::Ordering::Less => Ok(Some((at, ended))),
            std::cmp::Ordering::Equal => Err(Tie),
            std::cmp::Ordering::Greater => Ok(self.ended()),
        }
    }
}

struct World<'a> {
    begins: &'a mut Begins,
    /// What undoes calls that completed, with the time of that.
    undo: Vec<(u64, Call)>,
    /// When the last call ends that was given up and can be undone.
    settled: u64,
    /// When the last attempt ends that has run out of time, or whose call was given up.
    works_until: u64,
}

/// `None` when it was cut before it ended.
type Evaluated = Result<Option<(u64, Ended)>, Tie>;

impl<'a> World<'a> {
    fn new(begins: &'a mut Begins) -> Self {
        World { begins, undo: Vec::new(), settled: 0, works_until: 0 }
    }

    fn eval(&mut self, stmt: &Stmt, start: u64, scope: Scope) -> Evaluated {
        // A wait that begins after the cancellation ends at once.
        let over = start >= scope.cancel;
        match stmt {
            Stmt::Call(_) | Stmt::Sleep(_) | Stmt::Child(_) if over => {
                Ok(Some((start, Err("Cancelled".to_string()))))
            }
            Stmt::Call(call) => self.call(call, start, scope),
            Stmt::Sleep(time) => scope.wait(start + time, Ok(Vec::new())),
            Stmt::Child(program) => {
                let child = run(program, start, scope.limit(), self.begins)?;
                scope.wait(child.at, child.ended)
            }
            Stmt::Seq(all) => self.seq(all, start, scope),
            Stmt::All(all) => self.all(all, start, scope),
            Stmt::Race(all) => self.race(all, start, scope),
            Stmt::Catch(stmt) => Ok(self
                .eval(stmt, start, scope)?
                .map(|(at, ended)| (at, Ok(ended.unwrap_or_default())))),
            Stmt::Within(time, stmt) => {
                self.within(start.saturating_add(*time), stmt, start, scope)
            }
            Stmt::Fail => Ok(Some((start, Err("Own".to_string())))),
        }
    }

    fn call(&mut self, call: &Call, start: u64, scope: Scope) -> Evaluated {
        let (mut begin, mut failures) = (start, 0);
        for number in 1.. {
            match begin.cmp(&scope.limit()) {
                std::cmp::Ordering::Less => {}
                std::cmp::Ordering::Equal => return Err(Tie),
                std::cmp::Ordering::Greater => return Ok(scope.ended()),
            }
            *self.begins.entry(call.id).or_default() += 1;
            let attempt = call.attempt(number);
            let in_time = call.timeout.is_none_or(|timeout| attempt.takes < timeout);
            if call.timeout == Some(attempt.takes) {
                return Err(Tie);
            }
            let end = begin + attempt.takes.min(call.timeout.unwrap_or(NEVER));
            if in_time && attempt.outcome == Outcome::Ok {
                self.undo.extend(call.undo.iter().map(|undo| (end, (**undo).clone())));
            }
            if scope.limit() <= end {
                // Given up while an attempt runs: it settles when that ends.
                match call.undo {
                    Some(_) => self.settled = self.settled.max(end),
                    None => self.works_on(scope.limit(), begin + attempt.takes),
                }
            }
            if !in_time && (scope.limit() > end || call.undo.is_some()) {
                self.works_on(end, begin + attempt.takes);
            }
            if scope.limit() <= end {
                return scope.wait(end, Ok(Vec::new()));
            }
            let failed = match attempt.outcome {
                _ if !in_time => "timeout".to_string(),
                Outcome::Ok => return Ok(Some((end, Ok(vec![call.id])))),
                Outcome::Terminal => return Ok(Some((end, Err(format!("F{}", call.id))))),
                Outcome::Fail => format!("F{}", call.id),
                Outcome::Panic => "panic".to_string(),
                Outcome::Snooze(time) => {
                    begin = end + time;
                    continue;
                }
            };
            failures += 1;
            if failures >= call.max_attempts {
                return Ok(Some((end, Err(failed))));
            }
            begin = end + call.backoff;
        }
        unreachable!("an attempt ends")
    }

    /// An attempt is to end at `told`, and would end by itself at `end`.
    fn works_on(&mut self, told: u64, end: u64) {
        self.works_until = self.works_until.max(end.min(told.saturating_add(GRACE)));
    }

    fn seq(&mut self, all: &[Stmt], start: u64, scope: Scope) -> Evaluated {
        let (mut now, mut done) = (start, Vec::new());
        for stmt in all {
            let Some((at, ended)) = self.eval(stmt, now, scope)? else { return Ok(None) };
            now = at;
            match ended {
                Ok(more) => done.extend(more),
                Err(failure) => return Ok(Some((at, Err(failure)))),
            }
        }
        Ok(Some((now, Ok(done))))
    }

    fn all(&mut self, all: &[Stmt], start: u64, scope: Scope) -> Evaluated {
        let (mut end, mut done, mut cut) = (start, Ok(Vec::new()), false);
        for stmt in all {
            let Some((at, ended)) = self.eval(stmt, start, scope)? else {
                cut = true;
                continue;
            };
            end = end.max(at);
            done = done.and_then(|mut done: Vec<u32>| {
                done.extend(ended?);
                Ok(done)
            });
        }
        Ok((!cut).then_some((end, done)))
    }

    fn race(&mut self, all: &[Stmt], start: u64, scope: Scope) -> Evaluated {
        let mut ends = Vec::new();
        for (place, stmt) in all.iter().enumerate() {
            let mut begins = Begins::new();
            let mut alone = World::new(&mut begins);
            if let Some((at, ended)) = alone.eval(stmt, start, scope)? {
                ends.push((at, place, ended));
            }
        }
        ends.sort_by_key(|(at, place, _)| (*at, *place));
        let Some((at, winner, ended)) = ends.first().cloned() else {
            // Everything that was under way is given up with the rest.
            for stmt in all {
                self.eval(stmt, start, scope)?;
            }
            return Ok(None);
        };
        if ends.iter().skip(1).any(|(other, _, result)| *other == at && *result != ended) {
            return Err(Tie);
        }
        for (place, stmt) in all.iter().enumerate() {
            // The winner has ended by then; what ends with the others, ends by the cancellation.
            let cut = if place == winner || at == scope.cancel { scope.cut } else { at };
            // A loser that is over at once has begun nothing, unless it comes before the winner.
            if at == start && place > winner {
                continue;
            }
            self.eval(stmt, start, Scope { cut: cut.min(scope.cut), ..scope })?;
        }
        Ok(Some((at, ended)))
    }

    fn within(&mut self, end: u64, stmt: &Stmt, start: u64, scope: Scope) -> Evaluated {
        // After the cancellation no timer is started.
        let own = if start >= scope.cancel { NEVER } else { end };
        let inner = Scope { cut: scope.cut.min(own), ..scope };
        if own == scope.cut || own == scope.cancel {
            return Err(Tie);
        }
        match self.eval(stmt, start, inner)? {
            Some((at, _)) if at == own => Err(Tie),
            Some(ended) => Ok(Some(ended)),
            None if own < scope.cut => Ok(Some((own, Err("Elapsed".to_string())))),
            None => Ok(None),
        }
    }
}
