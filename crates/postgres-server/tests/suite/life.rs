//! A server answers, gives each test a database of its own, and leaves nothing behind.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use resurgam_postgres_server::Server;
use resurgam_watchdog::test;

#[test]
async fn each_test_has_a_database_of_its_own() {
    let server = Server::shared();
    let prepare = async |url: String| {
        assert!(url.starts_with("postgres://"), "{url}");
    };
    let (first, second) = (server.copy(prepare).await, server.copy(prepare).await);
    first.run("CREATE TABLE a (n int); INSERT INTO a VALUES (7)").await;
    assert_eq!(first.ask("SELECT n FROM a").await, "7");
    assert_eq!(second.ask("SELECT count(*) FROM pg_tables WHERE tablename = 'a'").await, "0");
}

/// Run as another process by the test below, which kills it.
#[test(minutes = 15)]
#[ignore = "runs until it is killed"]
fn a_server_that_nobody_stops() {
    let server = Server::start();
    println!("at {}", server.url("postgres"));
    // Until it is killed. It does not wait for ever in case nobody does that.
    std::thread::sleep(Duration::from_secs(600));
}

/// How long a process may take for anything, on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(300);

/// Starts a process, which starts a server.
#[test(minutes = 15)]
fn a_server_ends_with_its_process_even_when_that_is_killed() {
    Server::require();
    let mut child = Command::new(std::env::current_exe().expect("this program has a path"))
        .args(["--ignored", "--exact", "--nocapture", "life::a_server_that_nobody_stops"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program starts once more");
    let output = BufReader::new(child.stdout.take().expect("its output is a pipe"));
    let (told, line) = mpsc::channel();
    std::thread::spawn(move || {
        let mut lines = output.lines().map_while(Result::ok);
        lines.find(|line| line.contains("at postgres://")).map(|line| told.send(line))
    });
    let url = line.recv_timeout(PATIENCE).expect("it says where its server is");
    let folder = url.split_once('@').and_then(|(_, rest)| rest.split_once(':')).expect("a folder");
    let folder = folder.0.replace("%2F", "/");
    assert!(Path::new(&folder).join("data/postmaster.pid").exists());
    child.kill().expect("it can be killed");
    child.wait().expect("it ends");
    let killed = Instant::now();
    while Path::new(&folder).exists() {
        assert!(killed.elapsed() < PATIENCE, "{folder} is still there after {PATIENCE:?}");
        // A pause between two looks: nobody tells when a folder is gone.
        std::thread::sleep(Duration::from_millis(20));
    }
    println!("all of it was gone after {:?}", killed.elapsed());
}
