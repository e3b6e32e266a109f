//! Tasks of queues that the holder of their shard does not serve: whoever serves them claims them.

use std::collections::HashSet;
use std::sync::Arc;

use resurgam_core::{CallKey, Seq, Timestamp};
use resurgam_postgres_server::Database;
use resurgam_store::rows::{Progress, TaskRow};
use resurgam_store::{
    Commit, Inspect, Node, Own, Ownership, Owning, Runnable, Step, TaskWrite, Work,
};
use resurgam_store_postgres::PostgresStore;
use resurgam_watchdog::test;

use crate::proxy::Cut::{AfterCommit, BeforeCommit};
use crate::proxy::Proxy;
use crate::support::*;

fn serving(name: &str, queues: &[&str]) -> Node {
    Node { queues: Some(names(queues)), ..Node::new(name) }
}

fn names(names: &[&str]) -> Arc<[String]> {
    names.iter().map(|name| name.to_string()).collect()
}

async fn join(store: &PostgresStore, node: Node) -> Ownership {
    match store.try_own(node).await.unwrap() {
        Owning::Taken(right) => right,
        Owning::Held(owner) => panic!("held by {owner}"),
    }
}

/// A holder of all shards that serves the queue `here`, and another node that serves `there`.
struct Ground {
    holder: Open,
    other: PostgresStore,
    _rights: [Ownership; 2],
}

impl Ground {
    async fn new() -> Ground {
        let holder = open().await;
        let first = join(&holder, serving("holder", &["here"])).await;
        let other = connect(&holder.database).await;
        let second = join(&other, serving("other", &["there", "elsewhere"])).await;
        Ground { holder, other, _rights: [first, second] }
    }

    /// Stores tasks of one instance.
    async fn store(&self, tasks: impl IntoIterator<Item = TaskRow>) {
        let mut step = start(1);
        step.tasks = tasks.into_iter().map(TaskWrite::Insert).collect();
        write(&self.holder, [step]).await;
    }

    async fn claim(&self, runnable: Runnable, limit: usize) -> Vec<u64> {
        let (claimed, _) = self.other.claim_shared("other", runnable, LATER, limit).await.unwrap();
        claimed.iter().map(|task| task.call.seq.0).collect()
    }
}

fn queued(seq: u64, queue: &str) -> TaskRow {
    TaskRow { queue: queue.into(), ..task(run(1), seq) }
}

#[test]
async fn a_task_that_its_holder_leaves_is_claimed_by_who_serves_its_queue() {
    let ground = Ground::new().await;
    let deadline_at = Some(Timestamp::from_millis(1));
    let left = TaskRow { deadline_at, attempt: 3, ..queued(2, "there") };
    let not_due = TaskRow { wake_at: Timestamp::from_millis(i64::MAX), ..queued(4, "there") };
    let unknown = TaskRow { name: "unheard of".into(), ..queued(5, "there") };
    ground.store([left.clone(), queued(3, "here"), not_due, unknown, queued(6, "nowhere")]).await;

    let served = Runnable { queues: Some(names(&["here"])), ..Runnable::default() };
    let due = ground.holder.due_tasks(served, LATER, 10).await.unwrap();
    assert_eq!(due.iter().map(|task| task.call.seq.0).collect::<Vec<_>>(), [3]);

    let runnable = Runnable {
        activities: Some(names(&["charge"])),
        queues: Some(names(&["there", "elsewhere"])),
        ..Runnable::default()
    };
    let claiming = ground.other.claim_shared("other", runnable.clone(), LATER, 10);
    let (claimed, next) = claiming.await.unwrap();
    assert_eq!(next, Some(Timestamp::from_millis(i64::MAX)));
    let [claimed] = &claimed[..] else { panic!("{claimed:?}") };
    let claim = claimed.claim.clone().unwrap();
    assert_eq!((claim.node.as_str(), claim.started_at), ("other", LATER));
    assert_eq!((claimed.attempt, claimed.deadline_at), (4, None));
    assert_eq!(claimed.progress.first_started, Some(LATER));
    assert_eq!((claimed.call, &claimed.queue), (left.call, &left.queue));
    // It is durable, and not claimed twice.
    let stored = ground.holder.tasks_of(Arc::new([left.call])).await.unwrap();
    assert_eq!(stored, std::slice::from_ref(claimed));
    assert_eq!(ground.claim(runnable, 10).await, [0; 0]);
    assert_eq!(ground.holder.abandoned("holder", 10).await.unwrap(), []);
}

#[test]
async fn who_serves_all_queues_takes_what_is_left_and_nothing_else() {
    let ground = Ground::new().await;
    let urgent = TaskRow { priority: 7, ..queued(5, "c") };
    let waiting = (10..200).map(|seq| queued(seq, "here"));
    let left = [queued(2, "a"), queued(3, "b"), queued(4, "z"), urgent];
    ground.store(left.into_iter().chain(waiting)).await;
    assert_eq!(ground.claim(Runnable::default(), 2).await, [5, 2]);
    assert_eq!(ground.claim(Runnable::default(), 100).await, [3, 4]);
    assert_eq!(ground.claim(Runnable::default(), 100).await, [0; 0]);
}

#[test]
async fn a_task_of_a_free_shard_or_of_a_holder_that_serves_it_is_left_alone() {
    let ground = Ground::new().await;
    ground.store([queued(2, "there"), queued(3, "here")]).await;
    let call = |seq| run(1).call(Seq(seq));
    let claim = async |seq| ground.other.claim_shared_call("other", call(seq), LATER).await;
    assert_eq!(claim(3).await.unwrap(), None);
    ground.holder.release("holder", Arc::new([run(1).uid.shard()])).await.unwrap();
    assert_eq!(ground.claim(Runnable::default(), 10).await, [0; 0]);
    assert_eq!(claim(2).await.unwrap(), None);
    // The one who serves it holds it by now, and claims it by a step of its own.
    let shard = run(1).uid.shard();
    assert_eq!(ground.other.take("other", Arc::new([shard])).await.unwrap(), [shard]);
    assert_eq!(ground.claim(Runnable::default(), 10).await, [0; 0]);
}

#[test]
async fn a_task_that_lacks_something_is_claimed_by_who_has_it_and_by_nobody_else() {
    let ground = Ground::new().await;
    let lacking = |seq, what: &str| {
        let mut task = queued(seq, "here");
        task.progress.lacks = Some(what.to_string());
        task
    };
    let of =
        |provides: &[&str]| Runnable { provides: Some(names(provides)), ..Runnable::default() };
    ground.store([lacking(2, "key a"), lacking(3, "key b"), queued(4, "here")]).await;
    // The holder serves the queue, and leaves them all the same.
    let due = ground.holder.due_tasks(of(&["key a", "key b"]), LATER, 10).await.unwrap();
    assert_eq!(due.iter().map(|task| task.call.seq.0).collect::<Vec<_>>(), [4]);
    assert_eq!(ground.claim(of(&[]), 10).await, [0; 0]);
    assert_eq!(ground.claim(of(&["key c", "key"]), 10).await, [0; 0]);
    assert_eq!(ground.claim(of(&["key c", "key b"]), 10).await, [3]);
    // The holder has the other key by now.
    let claimed = ground.holder.claim_shared("holder", of(&["key a"]), LATER, 10).await.unwrap().0;
    let found: Vec<_> =
        claimed.iter().map(|task| (task.call.seq.0, &task.progress.lacks)).collect();
    assert_eq!(found, [(2, &None)]);
    assert_eq!(ground.claim(of(&["key a", "key b"]), 10).await, [0; 0]);
}

#[test]
async fn a_task_that_lacks_something_is_left_to_who_has_it_in_a_queue_that_nobody_serves_too() {
    let ground = Ground::new().await;
    let mut lacking = queued(2, "there");
    lacking.progress.lacks = Some("key a".to_string());
    ground.store([lacking, queued(3, "there")]).await;
    let of =
        |provides: &[&str]| Runnable { provides: Some(names(provides)), ..Runnable::default() };
    assert_eq!(ground.claim(of(&[]), 10).await, [3]);
    assert_eq!(ground.claim(of(&["key b"]), 10).await, [0; 0]);
    assert_eq!(ground.claim(of(&["key a"]), 10).await, [2]);
}

#[test]
async fn one_call_can_be_claimed_by_its_key_whether_it_is_due_or_not() {
    let ground = Ground::new().await;
    let later = TaskRow { wake_at: Timestamp::from_millis(i64::MAX), ..queued(2, "nowhere") };
    ground.store([later]).await;
    let claim = || ground.other.claim_shared_call("other", run(1).call(Seq(2)), LATER);
    let claimed = claim().await.unwrap().unwrap();
    assert_eq!((claimed.attempt, claimed.progress.to_end), (1, true));
    assert_eq!(claim().await.unwrap(), None);
    let missing = ground.other.claim_shared_call("other", run(1).call(Seq(9)), LATER).await;
    assert_eq!(missing.unwrap(), None);
}

#[test]
async fn of_many_who_want_the_same_tasks_each_gets_others() {
    let ground = Ground::new().await;
    ground.store((2..102).map(|seq| queued(seq, "there"))).await;
    let third = connect(&ground.holder.database).await;
    let _right = join(&third, serving("third", &["there"])).await;
    let mut claimed: HashSet<CallKey> = HashSet::new();
    for _ in 0..10 {
        let all = Runnable::default;
        let (one, two) = tokio::join!(
            ground.other.claim_shared("other", all(), LATER, 10),
            third.claim_shared("third", all(), LATER, 10)
        );
        let both = [one.unwrap().0, two.unwrap().0].concat();
        assert!(both.iter().all(|task| claimed.insert(task.call)), "claimed twice");
    }
    // What somebody skipped is still there for the next.
    for call in ground.claim(Runnable::default(), 200).await {
        assert!(claimed.insert(run(1).call(Seq(call))));
    }
    assert_eq!(claimed.len(), 100);
}

#[test]
async fn a_node_that_was_taken_for_dead_claims_nothing() {
    let ground = Ground::new().await;
    ground.store([queued(2, "there")]).await;
    ground.holder.database.run("DELETE FROM resurgam.node WHERE node = 'other'").await;
    let error = ground.other.claim_shared("other", Runnable::default(), LATER, 10).await;
    assert!(error.unwrap_err().is_fenced());
    // What it had claimed is abandoned, as soon as it is gone.
    let claimed = ground.holder.database.ask("SELECT count(token) FROM resurgam.task").await;
    assert_eq!(claimed, "0");
}

/// Claims with a connection that is cut; what was claimed, as the caller and the database see it.
async fn cut(database: &Database<'_>, cut: crate::proxy::Cut) -> (Vec<TaskRow>, bool) {
    let proxy = Proxy::before(database).await;
    let store = PostgresStore::connect(&proxy.url, few().without_listening()).await.unwrap();
    let right = join(&store, serving("behind", &["there"])).await;
    proxy.plan(&[cut]);
    let claimed = store.claim_shared("behind", Runnable::default(), LATER, 10).await;
    assert!(proxy.is_done());
    drop(right);
    let error = claimed.as_ref().err().map(resurgam_store::Error::is_transient);
    (claimed.unwrap_or_default().0, error.unwrap_or_default())
}

#[test]
async fn a_lost_answer_leaves_no_claim_that_nobody_knows_of() {
    let ground = Ground::new().await;
    ground.store([queued(2, "there")]).await;
    let stored = async || ground.holder.tasks(run(1)).await.unwrap();
    let (claimed, again) = cut(&ground.holder.database, BeforeCommit).await;
    assert_eq!((claimed, again), (vec![], true));
    assert_eq!(stored().await, [queued(2, "there")]);
    let (claimed, _) = cut(&ground.holder.database, AfterCommit).await;
    assert_eq!(claimed.len(), 1);
    assert_eq!(stored().await, claimed);
    // The holder may always end a task, also one that runs elsewhere.
    let end = Step { tasks: vec![TaskWrite::Delete(run(1).call(Seq(2)))], ..Step::default() };
    ground.holder.commit([end].into()).await.unwrap();
}

#[test]
async fn of_calls_that_may_kill_their_process_one_is_claimed_at_a_time() {
    let ground = Ground::new().await;
    let poison = |seq, lacks: Option<&str>| {
        let lacks = lacks.map(str::to_string);
        let progress = Progress { poison: true, lacks, ..Progress::default() };
        TaskRow { progress, ..queued(seq, if seq < 4 { "there" } else { "here" }) }
    };
    let lacking = [poison(4, Some("key a")), poison(5, Some("key b")), poison(6, None)];
    let left = [poison(2, None), poison(3, None), queued(7, "there")];
    ground.store(left.into_iter().chain(lacking)).await;
    let without = Runnable { no_poison: true, ..Runnable::default() };
    assert_eq!(ground.claim(without, 10).await, [7]);
    let of_a = || Runnable { provides: Some(names(&["key a"])), ..Runnable::default() };
    assert_eq!(ground.claim(of_a(), 10).await, [2]);
    assert_eq!(ground.claim(of_a(), 10).await, [3]);
    assert_eq!(ground.claim(of_a(), 10).await, [4]);
    assert_eq!(ground.claim(of_a(), 10).await, [0; 0]);
    assert_eq!(ground.claim(Runnable::default(), 10).await, [5]);
}
