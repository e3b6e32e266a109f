//! Stopping: no new attempts, a grace period for those that run, the rest is interrupted and
//! recorded. Nothing has to wait for a timeout on the next start. Attempts that processes of
//! somebody else run are left running, for whoever works next.
//!
//! A store that takes nothing any more does not hold up the stop for ever: after another grace
//! period it is as if the process had been killed, which loses nothing but counts what ran as lost.

use std::time::Duration;

use resurgam_core::Shard;

use super::stopping::Stopping;
use crate::error::Error;
use crate::node::Node;
use crate::node::calls::hot_call::HotCall;
use crate::node::output::{Order, Output};
use crate::node::reply::Reply;

/// The least time that the store has to take what is written last.
const LAST_WRITES: Duration = Duration::from_secs(5);

impl Node {
    pub(crate) fn stop(&mut self, reply: Reply<()>) {
        let until = self.now.saturating_add(self.options.grace);
        let stopping = Stopping { until, interrupted: false, replies: Vec::new() };
        self.stopping.get_or_insert(stopping).replies.push(reply);
        let attempts = self.memory.calls.iter().chain(self.memory.reports.attempts());
        let order =
            |call: &HotCall| if call.outlives_process() { Order::LetGo } else { Order::Tell };
        let told: Vec<(u64, Order)> =
            attempts.filter_map(|call| Some((call.begun_token()?, order(call)))).collect();
        for (token, order) in told {
            self.outputs.push(Output::OrderAttempt { token, order });
        }
        if self.is_shared && self.memory.shards.others_work() {
            // They take over at once; attempts that run have their grace period all the same.
            self.leave(Shard::all().collect());
        }
    }

    /// True when the engine was told to stop and everything is on the disk, or nothing more can be.
    pub fn is_done(&mut self) -> bool {
        let Some(stopping) = &self.stopping else { return false };
        let (is_late, interrupted) = (self.now >= stopping.until, stopping.interrupted);
        let running = self.memory.calls.iter().filter(|call| call.is_claimed()).count();
        // Outcomes that wait for a run to be read are on their way too.
        let held = self.memory.runs.waiting_for_reads();
        let away = self.memory.reports.calls().count();
        let remains = [
            (running, "attempts that have not ended"),
            (away, "attempts that were not reported"),
            (held, "runs that were not read"),
            (self.memory.runs.away(), "turns that were not taken"),
            (self.outbox.len(), "steps that were not written"),
            (self.memory.shards.leaving(), "shards that were not given up"),
        ];
        if remains.iter().all(|(count, _)| *count == 0) {
            return self.stopped(None);
        }
        if is_late && interrupted {
            let some = remains.iter().filter(|(count, _)| *count > 0);
            let some: Vec<String> = some.map(|(count, what)| format!("{count} {what}")).collect();
            let text = format!(
                "stop: the store does not take what was to be written last ({}); attempts that \
                 ran count as lost when the next process begins",
                some.join(", ")
            );
            return self.stopped(Some(&text));
        }
        if is_late {
            self.interrupt();
        }
        false
    }

    fn stopped(&mut self, trouble: Option<&str>) -> bool {
        // Before the replies: the process may end with the first.
        self.log_left_out_at_end();
        for reply in self.stopping.take().into_iter().flat_map(|stopping| stopping.replies) {
            self.answer(reply, trouble.map_or(Ok(()), |text| Err(Error::rejected(text))));
        }
        true
    }

    fn interrupt(&mut self) {
        let until = self.now.saturating_add(self.options.grace.max(LAST_WRITES));
        if let Some(stopping) = &mut self.stopping {
            stopping.interrupted = true;
            stopping.until = until;
        }
        // A claim that is not durable yet is handed back when it is.
        let attempts = self.memory.calls.iter().chain(self.memory.reports.attempts());
        let begun = attempts.filter_map(|call| Some((call.key(), call.begun_token()?)));
        let orders = begun.map(|(call, token)| Output::InterruptAttempt { call, token });
        self.outputs.extend(orders);
    }
}
