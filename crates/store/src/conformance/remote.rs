//! What is known of remote workers is kept, and goes when it is old.

use super::fixtures::*;

use crate::{RemoteActivity, RemoteWrite, Store, WorkerSession};

fn session(session: &str, server: &str, heard: i64) -> WorkerSession {
    WorkerSession {
        session: session.to_string(),
        server: server.to_string(),
        heard_at: at(heard),
        about: format!("{{\"of\":\"ü {session}\"}}"),
    }
}

fn activity(name: &str, offered: i64) -> RemoteActivity {
    let offer = format!("{{\"timeout_ms\":{offered}}}");
    RemoteActivity { name: name.to_string(), offered_at: at(offered), offer }
}

pub async fn what_servers_hear_of_sessions_is_kept_apart_and_goes_when_it_is_old(
    store: &dyn Store,
) {
    assert_eq!(store.worker_sessions().await.unwrap(), []);
    let heard = async |sessions: Vec<WorkerSession>| {
        let write = RemoteWrite { sessions, ..RemoteWrite::default() };
        store.write_remote_workers(write).await.unwrap();
    };
    heard(vec![session("w", "b", 7), session("w", "a", 5), session("v", "b", 6)]).await;
    let all = [session("v", "b", 6), session("w", "a", 5), session("w", "b", 7)];
    assert_eq!(store.worker_sessions().await.unwrap(), all);
    heard(vec![session("w", "a", 9)]).await;
    let write = RemoteWrite { sessions_before: Some(at(7)), ..RemoteWrite::default() };
    store.write_remote_workers(write).await.unwrap();
    let left = [session("w", "a", 9), session("w", "b", 7)];
    assert_eq!(store.worker_sessions().await.unwrap(), left);
    store.write_remote_workers(RemoteWrite::default()).await.unwrap();
    assert_eq!(store.worker_sessions().await.unwrap(), left);
}

pub async fn activities_that_workers_offered_are_kept_until_they_are_old(store: &dyn Store) {
    assert_eq!(store.remote_activities().await.unwrap(), []);
    let activities = vec![activity("refund", 3), activity("charge", 4)];
    let write = RemoteWrite { activities, ..RemoteWrite::default() };
    store.write_remote_workers(write).await.unwrap();
    let all = [activity("charge", 4), activity("refund", 3)];
    assert_eq!(store.remote_activities().await.unwrap(), all);
    let write = RemoteWrite {
        activities: vec![activity("charge", 8)],
        activities_before: Some(at(4)),
        ..RemoteWrite::default()
    };
    store.write_remote_workers(write).await.unwrap();
    assert_eq!(store.remote_activities().await.unwrap(), [activity("charge", 8)]);
}
