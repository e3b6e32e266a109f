//! Servers and remote workers that are killed at any instant: attempts go on, nothing that was
//! done is done again, nothing is lost.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use resurgam_postgres_server::Server as Postgres;
use resurgam_watchdog::test;

use crate::work::journal::{audit, expected, random};
use crate::work::support::{Place, Process, is_there, until};

/// The most kills of a test.
const KILLS: usize = 20;

const PROGRAM: &str = "\
fn main(input: [n], output: [r]):
    total = 0
    for i in range(n):
        total = total + @far(i=i) [retry: 5]
    rows = spread range(n):i -> @far(i=i) [retry: 5]
    return {\"total\": total, \"rows\": rows}
";

/// Fails now and then. A line in the journal for each attempt that begins.
const WORKER: &str = r#"
import os, random, sys, time
sys.path.insert(0, CLIENTS)
from resurgam_worker import Failure, Worker

worker = Worker(sys.argv[1], slots=4)

@worker.activity()
def far(task):
    line = f"{task.instance} {task.idempotency_key} {task.attempt}\n".encode()
    journal = os.open("journal", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(journal, line)
    os.close(journal)
    time.sleep(random.random() / 10)
    i = task.input["i"]
    if (i + task.attempt) % 4 == 0:
        raise Failure("try again", type="Busy")
    return i * i

worker.run()
"#;

fn place() -> Place {
    let place = Place::new();
    place.write("far.rap", PROGRAM);
    let clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/python");
    let clients = clients.canonicalize().unwrap().display().to_string();
    place.write("worker.py", &WORKER.replace("CLIENTS", &format!("{clients:?}")));
    place
}

/// A worker, which ends with the test.
struct Worker(Child);

impl Worker {
    fn of(place: &Place, port: u16) -> Self {
        let mut command = Command::new("python3");
        command.arg("worker.py").arg(format!("http://127.0.0.1:{port}"));
        command.current_dir(place.path("")).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Worker(command.spawn().unwrap())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _it_has_ended = self.0.kill();
        let _whatever_it_said = self.0.wait();
    }
}

/// A port that is free now, and that servers which follow each other listen at.
fn port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

fn server(place: &Place, port: u16) -> Process {
    let listen = port.to_string();
    place.begin(&["server", "--work", "--listen", &listen, "--worker-lease", "3s"])
}

fn serves(server: &Process) {
    until("it serves", || server.said().contains("serving at http://"));
}

/// Kills servers, each of which is at its port, and workers, until everything is done. Each server
/// has a worker of its own.
fn survives(place: &Place, ports: &[u16]) {
    if !is_there("python3") {
        return;
    }
    let mut random = random();
    let mut servers: Vec<Process> = ports.iter().map(|port| server(place, *port)).collect();
    servers.iter().for_each(serves);
    let mut workers: Vec<Worker> = ports.iter().map(|port| Worker::of(place, *port)).collect();
    let ids = ["a", "b", "c"];
    for id in ids {
        place.json(&["start", "far.rap", "--id", id, "--input", "{\"n\": 9}"]);
    }
    let is_done = || {
        let list = place.json(&["list", "--status", "running"]);
        list.as_array().unwrap().is_empty()
    };
    for _ in 0..KILLS {
        // Lets them come to some point: one is killed wherever it happens to be then.
        std::thread::sleep(Duration::from_millis(random.u64(1..900)));
        if is_done() {
            break;
        }
        let at = random.usize(0..ports.len());
        if random.u8(0..4) == 0 {
            workers[at] = Worker::of(place, ports[at]);
        } else {
            // Its port is free when it has ended.
            servers.remove(at).kill();
            servers.insert(at, server(place, ports[at]));
        }
    }
    for id in ids {
        let ended = place.run(&["watch", id, "--json"]).json_with(0);
        assert_eq!(ended["result"], expected(9));
        let lost = audit(place, id);
        println!("{id}: {lost} attempts were lost");
    }
}

#[test(minutes = 15)]
fn a_server_and_a_worker_that_are_killed_again_and_again_lose_and_repeat_nothing() {
    survives(&place(), &[port()]);
}

#[test(minutes = 15)]
async fn so_it_is_with_one_server_on_postgres() {
    let database = Postgres::shared().database().await;
    survives(&place().on(&database.tcp_url()), &[port()]);
}

#[test(minutes = 15)]
async fn so_it_is_with_two_servers_on_postgres() {
    let database = Postgres::shared().database().await;
    survives(&place().on(&database.tcp_url()), &[port(), port()]);
}

#[test(minutes = 15)]
fn no_attempt_is_lost_with_a_server_whose_worker_goes_on() {
    if !is_there("python3") {
        return;
    }
    let (place, port) = (place(), port());
    let mut before = server(&place, port);
    serves(&before);
    let _worker = Worker::of(&place, port);
    place.json(&["start", "far.rap", "--id", "a", "--input", "{\"n\": 9}"]);
    for kills in 1..=4 {
        until("something goes on", || place.text("journal").lines().count() > 3 * kills);
        before.kill();
        before = server(&place, port);
    }
    let ended = place.run(&["watch", "a", "--json"]).json_with(0);
    assert_eq!(ended["result"]["total"], 204);
    audit(&place, "a");
}
