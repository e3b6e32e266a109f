//! The beat of a node: it shows that it is alive for as long as its right is held, then it leaves.

use std::pin::pin;
use std::sync::{Arc, Weak};

use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::member::Beat;
use crate::store::Inner;

/// Beats until the node leaves, or is no node any more.
pub(super) async fn live(store: Weak<Inner>, node: String) {
    loop {
        let Some(inner) = store.upgrade() else { return };
        let (changes, pause) = (inner.changes.clone(), inner.member.next_beat());
        // Nothing of the store is held meanwhile, so that dropping it ends this.
        drop(inner);
        tokio::select! {
            () = changes.moves() => {}
            () = sleep(pause) => {}
        }
        let Some(inner) = store.upgrade() else { return };
        if !beat(&inner, &node).await {
            return;
        }
    }
}

/// One beat. False when it was the last.
async fn beat(inner: &Arc<Inner>, node: &str) -> bool {
    let member = &inner.member;
    let mut beating = pin!(timeout(member.beat_timeout(), member.beat(inner, node)));
    // That nothing may begin any more must be said in time, also when nobody answers.
    let until = member.may_begin_until().map_or_else(Instant::now, Instant::from_std);
    let beaten = match timeout_at(until, &mut beating).await {
        Ok(beaten) => beaten,
        Err(_) => {
            member.say_may_begin();
            beating.await
        }
    };
    member.say_may_begin();
    let asked = ("show that this node is alive", 0);
    match &beaten {
        Ok(answer) => inner.outages().heard(asked, answer),
        Err(_) => {
            let error = format!("in {}: show that node {node} is alive: no answer", inner.place);
            inner.outages().refused(asked, &error);
        }
    }
    match beaten {
        Ok(Ok(Beat::Alive)) => return true,
        Ok(Ok(Beat::Over)) => return false,
        Ok(Ok(Beat::Overtaken)) => {
            tracing::warn!(node, "others took this node for dead, or have shards of it");
            inner.is_overtaken_by_others();
            return false;
        }
        Ok(Ok(Beat::Rewound)) => {
            tracing::warn!(node, "the database went back in time; everything is read anew");
            inner.is_overtaken_by_others();
            return false;
        }
        Ok(Err(_)) | Err(_) => {}
    }
    !inner.is_closed()
}
