//! The model of a dependency: what it serves, and when.

use std::time::Duration;

use resurgam_core::Timestamp;

/// How long a request may wait to be served.
const PATIENCE: f64 = 0.5;

/// A dependency that serves one request after another.
#[derive(Clone, Debug)]
pub(super) struct Dependency {
    /// How long serving and refusing take, in seconds.
    serving: f64,
    refusing: f64,
    /// When everything that it has accepted is served, in seconds.
    busy_until: f64,
}

impl Dependency {
    pub(super) fn new(capacity: f64, refusal: f64) -> Self {
        let serving = 1.0 / capacity.max(1e-6);
        Dependency { serving, refusing: serving * refusal, busy_until: 0.0 }
    }

    /// A request has come: after which time it is served, `None` when it is refused.
    pub(super) fn take(&mut self, now: Timestamp, is_out: bool) -> Option<Duration> {
        if is_out {
            return None;
        }
        let now = now.since(Timestamp::EPOCH).as_secs_f64();
        self.busy_until = self.busy_until.max(now);
        if self.busy_until - now > PATIENCE {
            self.busy_until += self.refusing;
            return None;
        }
        self.busy_until += self.serving;
        Duration::try_from_secs_f64(self.busy_until - now).ok()
    }
}

#[cfg(test)]
mod tests {
    use resurgam_watchdog::test;

    use super::*;

    #[test]
    fn it_serves_as_many_as_it_can_and_refusing_costs_a_part_of_that() {
        let mut dependency = Dependency::new(10.0, 0.5);
        let mut ask = |millis| {
            let served = dependency.take(Timestamp::from_millis(millis), false);
            served.map(|wait| wait.as_millis())
        };
        let served: Vec<_> = (0..7).map(|_| ask(0)).collect();
        let all = [100, 200, 300, 400, 500, 600].map(Some);
        assert_eq!(served, all.into_iter().chain([None]).collect::<Vec<_>>());
        assert_eq!(ask(600), Some(150));
        assert_eq!(dependency.take(Timestamp::from_millis(9_000), true), None);
    }
}
