//! The server with real clients: workers in other languages, and requests over TCP.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use resurgam_watchdog::test;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::work::support::{Place, Process, is_there, until};

/// Calls an action that only remote workers have.
const DOUBLE: &str =
    "fn main(input: [n], output: [r]):\n    r = @double(n=n) [retry: 3]\n    return r\n";

/// The server, and where it listens.
fn server(place: &Place, args: &[&str]) -> (Process, String) {
    let server = place.begin(&[&["server", "--listen", "0"], args].concat());
    until("it serves", || server.said().contains("serving at http://"));
    let said = server.said();
    let address = said.split("serving at http://").nth(1).unwrap();
    let address = address.split([';', ',', ' ', '\n']).next().unwrap().to_string();
    (server, address)
}

/// What a path answers, headers and all.
fn get(address: &str, path: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let head =
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn client(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients").join(path).canonicalize().unwrap()
}

/// A worker of ours in another language. It ends with the test.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        let _it_has_ended = self.0.kill();
        let _whatever_it_said = self.0.wait();
    }
}

/// Has a worker double numbers, and wants that a program that asks for it completes. The first
/// attempt of 2 fails; 4 takes longer than two leases, and the worker keeps it all the same.
fn doubles(worker: impl FnOnce(&Place, &str) -> Command) {
    let place = Place::new();
    place.write("double.rap", DOUBLE);
    let (server, address) = server(&place, &["--work", "--worker-lease", "4s"]);
    let mut worker = worker(&place, &format!("http://{address}"));
    worker.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _worker = Worker(worker.spawn().unwrap());
    for n in 1..=4 {
        let (id, input) = (format!("d-{n}"), json!({"n": n}).to_string());
        place.json(&["start", "double.rap", "--id", &id, "--input", &input]);
    }
    for n in 1..=4 {
        let ended = place.run(&["watch", &format!("d-{n}"), "--json"]).json_with(0);
        assert_eq!(ended["result"], json!(2 * n));
    }
    let attempts = place.json(&["attempts", "d-2"]);
    assert_eq!(attempts[0]["outcome"], "failed");
    assert_eq!(place.json(&["attempts", "d-4"]), json!([]), "nothing was lost");
    server.signal(Signal::TERM);
    assert_eq!(server.end().code, Some(0));
}

#[test(minutes = 15)]
fn the_python_worker_runs_activities() {
    if !is_there("python3") {
        return;
    }
    doubles(|place, url| {
        let folder = client("python");
        let text = format!(
            "import sys, time\nsys.path.insert(0, {folder:?})\n\
             from resurgam_worker import Failure, Worker\n\
             worker = Worker({url:?})\n\
             @worker.activity()\n\
             def double(task):\n\
             \x20   if task.input['n'] == 2 and task.attempt == 1:\n\
             \x20       raise Failure('try again', type='Busy', retry_after='10ms')\n\
             \x20   task.heartbeat({{'so': 'far'}})\n\
             \x20   time.sleep(9 if task.input['n'] == 4 else 0)\n\
             \x20   return 2 * task.input['n']\n\
             worker.run()\n",
            folder = folder.display().to_string()
        );
        place.write("worker.py", &text);
        let mut command = Command::new("python3");
        command.arg(place.path("worker.py"));
        command
    });
}

#[test(minutes = 15)]
fn the_javascript_worker_runs_activities() {
    if !is_there("node") {
        return;
    }
    doubles(|place, url| {
        let text = format!(
            "import {{ Failure, Worker }} from {module:?};\n\
             const worker = new Worker({url:?});\n\
             worker.activity('double', async (task) => {{\n\
               if (task.input.n === 2 && task.attempt === 1)\n\
                 throw new Failure('try again', {{ type: 'Busy', retry_after: '10ms' }});\n\
               task.heartbeat({{ so: 'far' }});\n\
               if (task.input.n === 4) await new Promise((done) => setTimeout(done, 9000));\n\
               return 2 * task.input.n;\n\
             }});\n\
             await worker.run();\n",
            module = client("javascript/worker.mjs").display().to_string()
        );
        place.write("worker.mjs", &text);
        let mut command = Command::new("node");
        command.arg(place.path("worker.mjs"));
        command
    });
}

#[test(minutes = 15)]
fn the_shell_worker_runs_activities() {
    if !is_there("jq") || !is_there("curl") {
        return;
    }
    doubles(|place, url| {
        // Not `actions`: the server would run what is in there itself.
        std::fs::create_dir(place.path("remote")).unwrap();
        place.write(
            "remote/double",
            "#!/bin/sh\nn=$(jq .n)\n[ \"$n\" != 2 ] || [ -e tried ] || { touch tried; exit 7; }\n\
             [ \"$n\" != 4 ] || sleep 9\necho $((2 * n))\n",
        );
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(place.path("remote/double"), executable).unwrap();
        let mut command = Command::new("sh");
        command.arg(client("shell/worker.sh")).args([url, "./remote"]);
        command.current_dir(place.path("."));
        command
    });
}

#[test(minutes = 15)]
fn a_server_asks_for_tokens_and_a_container_begins_with_one_of_a_file() {
    let mut place = Place::new();
    place.write("admin", "a token from a file, of 32 bytes or more\n");
    let file = place.path("admin").display().to_string();
    let refused = place.run(&["server", "--listen", "0.0.0.0:0"]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("there are no tokens"), "{}", refused.stderr);
    let made = place.json(&["token", "create", "--role", "read", "--name", "ana"]);
    place.set("RESURGAM_ADMIN_TOKEN_FILE", &file);
    let (server, address) = server(&place, &["--require-token"]);
    let status = |token: Option<&str>| {
        let header = token.map(|token| format!("Authorization: Bearer {token}\r\n"));
        let answer = get(&address, "/api/v1/tokens", &header.unwrap_or_default());
        answer.split(' ').nth(1).unwrap().to_string()
    };
    assert_eq!(status(None), "401");
    assert_eq!(status(made["secret"].as_str()), "403");
    assert_eq!(status(Some("a token from a file, of 32 bytes or more")), "200");
    let listed = place.json(&["token", "list"]);
    assert_eq!((&listed[0]["name"], &listed[0]["secret"]), (&json!("ana"), &Value::Null));
    place.json(&["token", "revoke", made["id"].as_str().unwrap()]);
    assert!(get(&address, "/healthz", "").ends_with("ok\n"));
    server.signal(Signal::TERM);
    assert_eq!(server.end().code, Some(0));
}
