//! A browser that is told what to do, over WebDriver.
//!
//! WebDriver is JSON over HTTP to a program on this machine. What these tests ask of it are ten
//! requests, each on a connection of its own; a crate for it would bring forty others.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::programs::Programs;

/// How long a condition in a page is waited for, in milliseconds.
const PATIENCE: u64 = 90_000;

/// Ends the browser, and then its driver, when whoever started them is gone, however it went: the
/// other end of the pipe is held by the test process alone. The driver would leave its browser
/// behind, so the script is told which process that is.
const UNTIL_GONE: &str = r#"
    "$0" --port=0 </dev/null & driver=$!
    read browser
    cat >/dev/null
    if [ -n "$browser" ] && kill $browser; then
        for turn in $(seq 100); do
            read -r id name state rest </proc/$browser/stat || break
            [ "$state" = Z ] && break
            sleep 0.1
        done 2>/dev/null
    fi
    kill $driver
    wait $driver"#;

const FLAGS: [&str; 9] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
];

/// A browser with one window.
pub(crate) struct Browser {
    port: u16,
    session: String,
    driver: Child,
    _profile: TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Browser {
    /// Opens a window of this width. Skips the test where there is no browser.
    pub(crate) fn open(width: u32) -> Self {
        let programs = Programs::found();
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let mut driver = Command::new("sh")
            .args(["-c", UNTIL_GONE])
            .arg(&programs.driver)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let said = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = said.map_while(Result::ok).find_map(|line| {
            let (_, port) = line.split_once("started successfully on port ")?;
            port.trim_end_matches('.').parse().ok()
        });
        let profile = tempfile::tempdir().unwrap();
        let mut args: Vec<String> = FLAGS.iter().map(ToString::to_string).collect();
        args.push(format!("--user-data-dir={}", profile.path().display()));
        args.push(format!("--window-size={width},900"));
        let mut options = json!({"binary": programs.browser, "args": args});
        if width < 500 {
            let metrics = json!({"width": width, "height": 844, "pixelRatio": 1, "touch": true});
            options["mobileEmulation"] = json!({"deviceMetrics": metrics});
        }
        let port = port.expect("the driver says where it listens");
        let mut browser =
            Browser { port, session: String::new(), driver, _profile: profile, _turn: turn };
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"},
            "timeouts": {"script": PATIENCE + 30_000, "pageLoad": PATIENCE}
        }}});
        let made = browser.ask("POST", "/session", &wanted);
        browser.session = format!("/session/{}", made["sessionId"].as_str().unwrap());
        let process = &made["capabilities"]["goog:processID"];
        assert!(process.is_u64(), "which process the browser is: {made}");
        writeln!(browser.driver.stdin.as_ref().unwrap(), "{process}").unwrap();
        browser
    }

    /// Loads a page.
    pub(crate) fn load(&self, url: &str) {
        self.tell("/url", &json!({"url": url}));
    }

    /// Runs a script in the page.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.tell("/execute/sync", &json!({"script": script, "args": []}))
    }

    /// Runs a script that calls its last argument when it is done.
    pub(crate) fn run_async(&self, script: &str) -> Value {
        self.tell("/execute/async", &json!({"script": script, "args": []}))
    }

    /// Waits until an expression is true in the page, and answers with what it was.
    pub(crate) fn until(&self, expression: &str) -> Value {
        let script = format!(
            "const done = arguments[0], end = Date.now() + {PATIENCE};
            (function look() {{
                let found = null;
                try {{ found = {expression}; }} catch (error) {{ found = null; }}
                if (found) done(found); else if (Date.now() > end) done(null);
                else setTimeout(look, 30);
            }})();"
        );
        let found = self.run_async(&script);
        if found.is_null() {
            let text = self.run("return location.href + '\\n' + document.body.innerText");
            panic!("waited for {expression}\nthe page: {}", text.as_str().unwrap_or_default());
        }
        found
    }

    /// Waits until the main part of the page says this.
    pub(crate) fn says(&self, text: &str) {
        self.until(&format!("document.querySelector('main').innerText.includes({})", json!(text)));
    }

    /// Waits until the page has asked what it has to ask.
    pub(crate) fn settled(&self) {
        self.until("document.querySelector('main h1') && !document.querySelector('[aria-busy]')");
    }

    /// The text of the main part of the page.
    pub(crate) fn text(&self) -> String {
        self.run("return document.querySelector('main').innerText").as_str().unwrap().to_string()
    }

    /// Presses keys, one after the other.
    pub(crate) fn press(&self, keys: &str) {
        let press = |key: char| [("keyDown", key), ("keyUp", key)];
        let actions: Vec<Value> = keys
            .chars()
            .flat_map(press)
            .map(|(kind, key)| json!({"type": kind, "value": key}))
            .collect();
        self.tell(
            "/actions",
            &json!({"actions": [{"type": "key", "id": "k", "actions": actions}]}),
        );
    }

    /// Presses the mouse on the first element that matches, as soon as there is one.
    pub(crate) fn click(&self, selector: &str) {
        let element = self.element(selector);
        self.tell(&format!("/element/{element}/click"), &json!({}));
    }

    /// Puts the mouse on the first element that matches, and leaves it there.
    pub(crate) fn point_at(&self, selector: &str) {
        let element = self.element(selector);
        let origin = json!({"element-6066-11e4-a52e-4f735466cecf": element});
        let there = json!({"type": "pointerMove", "duration": 0, "x": 0, "y": 0, "origin": origin});
        let mouse = json!({"type": "pointer", "id": "m", "actions": [there]});
        self.tell("/actions", &json!({"actions": [mouse]}));
    }

    /// Opens another window, which is the one that is told what to do from here on, and answers
    /// with the names of the one before and of this one.
    pub(crate) fn another_window(&self) -> (String, String) {
        let before = self.ask("GET", &format!("{}/window", self.session), &json!({}));
        let made = self.tell("/window/new", &json!({"type": "window"}));
        let name = |told: &Value| told.as_str().unwrap().to_string();
        let windows = (name(&before), name(&made["handle"]));
        self.turn_to(&windows.1);
        windows
    }

    /// Goes on in another window.
    pub(crate) fn turn_to(&self, window: &str) {
        self.tell("/window", &json!({"handle": window}));
    }

    /// Types into the first element that matches.
    pub(crate) fn fill(&self, selector: &str, text: &str) {
        let element = self.element(selector);
        self.tell(&format!("/element/{element}/value"), &json!({"text": text}));
    }

    /// What the browser complained about. An answer that says no is one of its complaints, and is
    /// left out.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let told = self.tell("/se/log", &json!({"type": "browser"}));
        let message = |entry: &Value| entry["message"].as_str().unwrap().to_string();
        let told = told.as_array().unwrap().iter().map(message);
        told.filter(|message| !message.contains("Failed to load resource")).collect()
    }

    fn element(&self, selector: &str) -> String {
        self.until(&format!("document.querySelector({}) !== null", json!(selector)));
        let found = json!({"using": "css selector", "value": selector});
        let found = self.tell("/element", &found);
        let (_, id) = found.as_object().unwrap().iter().next().unwrap();
        id.as_str().unwrap().to_string()
    }

    fn tell(&self, path: &str, body: &Value) -> Value {
        self.ask("POST", &format!("{}{path}", self.session), body)
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = body.to_string();
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        let told: Value = serde_json::from_slice(&body_of(stream)).unwrap();
        let value = told["value"].clone();
        assert!(value.get("error").is_none(), "{method} {path}: {value}");
        value
    }
}

/// The body of an answer. The driver keeps connections open, so its length says where it ends.
fn body_of(stream: TcpStream) -> Vec<u8> {
    let mut stream = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        if line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    body
}

/// One browser at a time: beside each other they take all the memory of a small machine.
static TURN: Mutex<()> = Mutex::new(());

impl Drop for Browser {
    fn drop(&mut self) {
        // The script ends the driver when its standard input does.
        drop(self.driver.stdin.take());
        let _ended = self.driver.wait();
    }
}
