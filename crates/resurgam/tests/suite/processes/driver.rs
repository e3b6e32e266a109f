//! Keeps instances of the workload going, from the process that works or from another.

use std::collections::HashSet;
use std::time::Duration;

use resurgam::{Client, InstanceFilter, Status};

use super::journal::{self, Journal, What};
use super::workload::{self, Errand, Worker};

/// Keeps instances going, and sends each the signal it waits for.
pub(crate) async fn keep_going(client: &Client, worker: &Worker) {
    let journal = Journal::open(&worker.journal, worker.process);
    let mut random = fastrand::Rng::with_seed(worker.seed ^ u64::from(worker.process));
    for id in starts_in_doubt(worker) {
        start(client, worker, &journal, &id).await;
    }
    let running = InstanceFilter { status: vec![Status::Running], ..InstanceFilter::default() };
    let (mut number, mut signalled) = (0, HashSet::new());
    loop {
        let open = client.list(running.clone()).await.unwrap();
        if open.is_empty() && worker.open == 0 {
            return;
        }
        // Some signals come before anybody waits for them, others later.
        for row in &open {
            if !signalled.contains(&row.id) && random.bool() {
                send_signal(client, &row.id).await;
                signalled.insert(row.id.clone());
            }
        }
        for _ in open.len()..worker.open {
            start(client, worker, &journal, &format!("{}-{number}", worker.process)).await;
            number += 1;
        }
        // What runs in another process tells nobody here when it has ended.
        tokio::time::sleep(Duration::from_millis(4)).await;
    }
}

/// Starts of earlier processes that nobody heard the answer of. They may or may not have happened.
fn starts_in_doubt(worker: &Worker) -> Vec<String> {
    let (mut begun, mut known) = (Vec::new(), HashSet::new());
    for entry in journal::read(&worker.journal) {
        match entry.what {
            What::Starting { id } => begun.push(id),
            What::Started { id } => drop(known.insert(id)),
            _ => {}
        }
    }
    begun.retain(|id| !known.contains(id));
    begun
}

async fn start(client: &Client, worker: &Worker, journal: &Journal, id: &str) {
    journal.write(What::Starting { id: id.to_string() });
    let start = match worker.errand {
        Errand::Journey => client.start(id, workload::journey(worker.width)),
        Errand::Trip => client.start(id, workload::trip(true)),
        Errand::Vigil => client.start(id, workload::vigil()),
    };
    start.request_id(id).await.unwrap();
    journal.write(What::Started { id: id.to_string() });
}

/// However often it is sent, it is one.
async fn send_signal(client: &Client, id: &str) {
    match client.signal_once(id, "go", &id, format!("go-{id}")).await {
        Ok(()) => {}
        Err(error) => assert!(error.is_closed(), "{error}"),
    }
}
