//! Commands of operators that ask a server: they print what they print of the database itself.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use resurgam_watchdog::test;
use serde_json::json;

use crate::processes::until;
use crate::work::support::{Ended, Place, Process};

/// Tests that stand elsewhere, with a server between the commands and the database.
macro_rules! through_a_server {
    ($($module:ident: $($test:ident)*;)*) => {$(
        mod $module {
            use resurgam_watchdog::test;

            use crate::work::support::asking_a_server;
            use crate::work::$module as elsewhere;

            $(#[test(minutes = 15)]
            fn $test() {
                asking_a_server(elsewhere::$test);
            })*
        }
    )*};
}

through_a_server! {
    acting:
        a_call_is_retried_when_the_other_side_is_back
        a_call_is_paused_shown_and_completed_by_hand
        where_nobody_works_an_action_is_stored_for_who_does_next
        what_names_no_call_or_no_policy_is_refused_with_what_to_do
        a_paused_call_that_must_not_run_twice_is_shown_with_what_ends_it
        a_policy_is_set_for_all_calls_of_an_activity_listed_and_removed;
    acting_on_runs:
        an_instance_is_paused_shown_and_resumed
        an_instance_that_failed_is_reset_when_the_other_side_is_back
        a_reset_says_where_to;
    deleting:
        one_closed_instance_is_deleted_by_its_id_and_an_open_one_is_refused
        many_are_deleted_by_what_they_are_and_counted_before;
    each:
        every_line_starts_an_instance_and_the_same_file_again_starts_nothing
        a_line_that_is_wrong_is_named_and_the_others_are_started
        many_lines_are_started_and_none_twice
        a_graph_has_its_store_for_each_line_or_for_all;
    gates:
        a_call_that_a_gate_holds_back_says_so_and_goes_on_when_it_opens
        a_call_that_waits_for_its_turn_says_what_bounds_it
        an_activity_that_is_paused_begins_nothing_until_it_is_resumed;
    lists:
        a_long_list_says_how_to_read_on_and_new_instances_are_on_no_later_page
        programs_read_on_behind_the_cursor_of_the_last_row
        a_list_can_begin_at_a_time
        times_are_printed_in_utc_where_somebody_asks
        what_waits_says_in_utc_until_when;
    looking:
        the_documented_forms_are_what_is_printed
        lists_are_filtered
        what_waits_for_its_next_attempt_is_shown_with_the_reason_and_can_be_cancelled
        a_run_that_sleeps_says_how_long_it_still_does
        an_instance_that_is_terminated_ends_without_its_code_and_says_why
        a_signal_to_a_program_or_a_graph_is_refused_because_nobody_could_read_it
        an_instance_that_nobody_has_taken_up_waits_for_its_first_turn
        a_watch_that_is_interrupted_says_how_to_watch_again
        results_and_inputs_are_laid_out_for_people_and_stay_one_line_for_programs
        an_id_or_a_name_that_no_store_can_keep_is_bad_input;
    many:
        calls_are_looked_at_tried_and_retried_together
        a_job_is_stored_without_a_worker_stopped_and_never_begun
        instances_are_paused_and_resumed_together
        what_chooses_nothing_or_too_much_is_refused_with_what_to_do;
    schedules:
        a_schedule_is_created_shown_paused_resumed_and_deleted
        a_schedule_that_says_something_else_is_refused_or_replaced
        everything_that_a_schedule_can_say_is_an_option
        what_makes_no_sense_is_refused_and_nothing_is_stored
        a_schedule_runs_now_and_for_a_past_range_once_for_each_firing;
    unresolved:
        dead_letters_are_grouped_shown_redriven_and_discarded
        paused_calls_are_grouped_and_resumed_together
        one_call_that_is_named_is_decided_about_as_it_would_be_in_a_group;
    what_if:
        recorded_calls_follow_another_policy;
}

/// A place with one of everything that is looked at, and nobody who works: nothing changes.
fn everything() -> Place {
    let place = Place::new();
    let fails = "echo '{\"type\": \"BankDown\", \"message\": \"no answer\"}' >&2; exit 1";
    place.action("charge", fails);
    place.action("ship", "echo '{\"parcel\": 7.0}'");
    place.action("bill", fails);
    let program = |name: &str, body: &str| {
        place.write(&format!("{name}.rap"), &format!("fn main(input: [n], output: [r]):\n{body}"));
    };
    program("done", "    r = @ship(n=n)\n    return r\n");
    program("retries", "    return @charge(n=n) [retry: 9, backoff: 1h]\n");
    program("given-up", "    return @bill(n=n) [retry: 1, on_exhausted: dead_letter]\n");
    program("paused", "    return @charge(n=n) [retry: 1, on_exhausted: pause]\n");
    program("sleeps", "    sleep 3600\n    return n\n");
    place.write(
        "graph.json",
        r#"{"secrets": {}, "nodes": [{"node_name": "ship", "namespace": "d", "identifier": "a",
            "inputs": {}}]}"#,
    );
    let ok = |args: &[&str]| {
        let ended = place.run(args);
        assert_eq!(ended.code, Some(0), "{args:?} {ended:?}");
    };
    for name in ["done", "retries", "given-up", "paused", "sleeps"] {
        let (file, input) = (format!("{name}.rap"), "{\"n\": 1234567890123456789}");
        ok(&["start", &file, "--id", &format!("order/{name}"), "--input", input]);
    }
    ok(&["start", "graph.json", "--id", "graph"]);
    let worker = place.begin(&["worker"]);
    let stands = |id: &str, is: &dyn Fn(&serde_json::Value) -> bool| {
        until(id, || is(&place.json(&["show", id])));
    };
    stands("order/done", &|shown| shown["status"] == "completed");
    stands("graph", &|shown| shown["status"] == "completed");
    stands("order/given-up", &|shown| shown["status"] == "failed");
    stands("order/retries", &|shown| shown["pending"][0]["failures"] == 1);
    stands("order/paused", &|shown| shown["pending"][0]["waits_for"] == "operator");
    stands("order/sleeps", &|shown| shown["timers_due_ms"] != json!([]));
    ok(&["call", "set-policy", "order/retries", "charge#2", "--policy", "default", "--by", "ana"]);
    ok(&["pause", "order/sleeps", "--by", "ana", "--reason", "the warehouse moves"]);
    ok(&["gate", "shut", "bank", "--by", "ana", "--reason", "it asked us to"]);
    place.write("gate.json", "{\"rate\": {\"per_second\": 5}}");
    ok(&["gate", "set", "host:*", "gate.json", "--by", "ana"]);
    ok(&["activity", "pause", "bill", "--by", "ana"]);
    ok(&["policy", "set", "ship", "default", "--by", "ana", "--reason", "calm"]);
    ok(&["call", "retry", "--activity", "nothing", "--by", "ana", "--reason", "again"]);
    ok(&["dead", "discard", "--activity", "nothing", "--request-id", "job-1", "--by", "ana"]);
    ok(&["pause", "--workflow", "nothing", "--status", "blocked"]);
    let input = ["--input", "{\"n\": 1}"];
    let create = ["schedule", "create", "nightly", "done.rap", "--cron", "0 3 * * *", "--zone"];
    ok(&[&create[..], &["Europe/Berlin", "--jitter", "30s"], &input].concat());
    ok(&[
        "schedule", "create", "poll", "done.rap", "--every", "5m", "--paused", input[0], input[1],
    ]);
    worker.kill();
    place
}

/// What was printed, without what goes on by itself: how long ago something was.
fn without_times(text: &str) -> String {
    let is_time = |word: &str| {
        let word = word.trim_matches(|c: char| "(),;+".contains(c));
        let number = word.trim_end_matches(|c: char| c.is_ascii_lowercase());
        let unit = &word[number.len()..];
        ["ms", "s", "m", "h", "d"].contains(&unit) && number.parse::<f64>().is_ok()
    };
    let mut out: Vec<String> = Vec::new();
    for line in text.lines() {
        let mut words: Vec<&str> = Vec::new();
        for word in line.split(' ').filter(|word| !word.is_empty()) {
            match is_time(word) {
                true if words.last() == Some(&"TIME") => {}
                true => words.push("TIME"),
                false => words.push(word),
            }
        }
        out.push(words.join(" "));
    }
    out.join("\n")
}

/// What a command prints when it asks the database, and when it asks a server before it.
fn both(place: &Place, args: &[&str]) -> (Ended, Ended) {
    let asked = place.run(args);
    let through = place.run(&[args, &["--server", place.server()]].concat());
    (asked, through)
}

#[test(minutes = 15)]
fn the_same_is_printed_of_a_database_and_of_a_server() {
    let place = everything();
    let letter = place.json(&["dead", "list", "--each"])[0]["call"].as_str().unwrap().to_string();
    let paused = place.json(&["paused", "list"])[0]["fingerprint"].as_str().unwrap().to_string();
    let mut ids = vec!["graph"];
    ids.extend(["order/done", "order/retries", "order/given-up", "order/paused", "order/sleeps"]);
    let mut asked: Vec<Vec<&str>> = Vec::new();
    for id in &ids {
        for command in [&["show"][..], &["history"], &["attempts"], &["export"]] {
            asked.push([command, &[id]].concat());
        }
        asked.push(vec!["history", id, "--attempts"]);
        asked.push(vec!["history", id, "--run", "7"]);
    }
    asked.extend([
        vec!["list"],
        vec!["list", "--status", "failed", "--status", "running"],
        vec!["list", "--limit", "2"],
        vec!["list", "--retrying", "--workflow", "retries"],
        vec!["list", "--failure-type", "BankDown", "--since", "1h"],
        vec!["list", "--activity", "charge", "--queue", "default", "--failed-since", "1h"],
        vec!["list", "--failure-code", "none"],
        vec!["list", "--tag", "a=b"],
        vec!["show", "nobody"],
        vec!["history", "nobody"],
        vec!["export", "nobody"],
        vec!["watch", "nobody"],
        vec!["watch", "order/done"],
        vec!["watch", "graph"],
        vec!["signal", "graph", "paid"],
        vec!["watch", "order/given-up"],
        vec!["dead", "list"],
        vec!["dead", "list", "--each", "--id", "order/given-up", "--workflow", "given-up"],
        vec!["dead", "list", "--state", "redriven"],
        vec!["dead", "list", "--failure-type", "None"],
        vec!["dead", "show", &letter],
        vec!["dead", "show", "order/given-up", "bill#2"],
        vec!["dead", "show", "order/given-up", "bill#9"],
        vec!["paused", "list"],
        vec!["paused", "list", "--each"],
        vec!["paused", "show", &paused],
        vec!["paused", "show", "1:abc"],
        vec!["bulk", "list"],
        vec!["bulk", "list", "--limit", "1"],
        vec!["bulk", "show", "job-1"],
        vec!["bulk", "show", "none"],
        vec!["gate", "list"],
        vec!["gate", "show", "bank"],
        vec!["gate", "show", "nothing"],
        vec!["policy", "list"],
        vec!["policy", "what-if", "default", "--activity", "charge"],
        vec!["schedule", "list"],
        vec!["schedule", "show", "nightly"],
        vec!["schedule", "show", "poll"],
        vec!["schedule", "show", "none"],
        // What acts and is refused, or only says what it would do.
        vec!["start", "done.rap", "--id", "order/done", "--input", "{\"n\": 1}"],
        vec!["signal", "order/done", "paid"],
        vec!["signal", "nobody", "paid"],
        vec!["cancel", "order/done"],
        vec!["cancel", "nobody"],
        vec!["terminate", "order/given-up"],
        vec!["pause", "order/done"],
        vec!["resume", "nobody"],
        vec!["delete", "order/retries"],
        vec!["delete", "nobody"],
        vec!["delete", "--all", "--dry-run"],
        vec!["delete", "order/done", "--dry-run"],
        vec!["call", "retry", "order/done", "ship"],
        vec!["call", "retry", "order/done", "ship#2"],
        vec!["call", "retry", "order/retries", "bill#2"],
        vec!["call", "retry", "nobody", "ship"],
        vec!["call", "retry", &letter],
        vec!["call", "retry", "order/retries", "charge", "--request-id", ""],
        vec!["call", "retry", "--all", "--dry-run"],
        vec!["call", "resume", "--all", "--expect", "7"],
        vec!["reset", "--workflow", "given-up", "--last-failure", "--dry-run"],
        vec!["dead", "discard", "--all", "--dry-run"],
        vec!["dead", "redrive", "--activity", "bill", "--expect", "9"],
        vec!["paused", "fail", "--all", "--message", "enough", "--dry-run"],
        vec!["schedule", "pause", "none"],
        vec!["schedule", "create", "poll", "done.rap", "--every", "6m", "--input", "{\"n\": 1}"],
    ]);
    for args in &asked {
        let (database, server) = both(&place, args);
        assert_eq!(database.code, server.code, "{args:?} {database:?} {server:?}");
        let masked = |ended: &Ended| [without_times(&ended.stdout), without_times(&ended.stderr)];
        assert_eq!(masked(&database), masked(&server), "{args:?}");
        if args[0] == "export" {
            assert_eq!(database.stdout, server.stdout, "{args:?}");
            continue;
        }
        let (database, server) = both(&place, &[&args[..], &["--json"]].concat());
        assert_eq!(database.code, server.code, "{args:?} {database:?} {server:?}");
        // Of a gate, JSON says how long ago as well, and one of which nothing is stored has flowed
        // since somebody looked.
        let exact = |text: &str| match args[0] {
            "gate" => without_times(text).replace(|c: char| c.is_ascii_digit(), ""),
            _ => text.to_string(),
        };
        assert_eq!(exact(&database.stdout), exact(&server.stdout), "{args:?}");
    }
    // With times that do not go on, every byte.
    for id in ids {
        for command in ["show", "history", "attempts"] {
            let (database, server) = both(&place, &[command, id, "--utc"]);
            assert_eq!(database.stdout, server.stdout, "{command} {id}");
        }
    }
}

/// A token of this role, and the file it is in.
fn token(place: &Place, role: &str) -> (String, String) {
    let made = place.json(&["token", "create", "--role", role, "--name", role]);
    let secret = made["secret"].as_str().unwrap().to_string();
    place.write(role, &format!("{secret}\n"));
    (secret, role.to_string())
}

#[test(minutes = 15)]
fn who_has_no_token_or_too_small_a_role_is_told_so_and_the_token_is_never_printed() {
    let mut place = Place::new();
    place.write("sleeps.rap", "fn main(input: [], output: [r]):\n    sleep 3600\n    return 1\n");
    assert_eq!(place.run(&["start", "sleeps.rap", "--id", "s"]).code, Some(0));
    let (read, read_file) = token(&place, "read");
    let (operate, operate_file) = token(&place, "operate");
    let (server, address) = place.serve(&["--require-token"]);
    let asks = |args: &[&str]| {
        let ended = place.run(&[args, &["--server", &address]].concat());
        for secret in [&read, &operate] {
            let said = format!("{}{}", ended.stdout, ended.stderr);
            assert!(!said.contains(secret.as_str()), "{said}");
        }
        ended
    };
    let none = asks(&["list"]);
    let said = format!(
        "error: E9 ask {address}: {address} asks for a token; set RESURGAM_TOKEN, or give \
         --token-file\n"
    );
    assert_eq!((none.code, none.stderr), (Some(2), said));
    place.write("wrong", "rsg_0000000000000000_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n");
    let wrong = asks(&["list", "--token-file", "wrong"]);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    assert!(wrong.stderr.contains("does not know the token, or it was revoked"), "{wrong:?}");
    assert!(!wrong.stderr.contains("AAAA"), "{wrong:?}");
    let absent = asks(&["list", "--token-file", "absent"]);
    assert_eq!(absent.code, Some(2), "{absent:?}");
    place.write("two-lines", "a\nb\n");
    let lines = asks(&["list", "--token-file", "two-lines"]);
    assert!(lines.stderr.contains("--token-file two-lines: there is no token in it"), "{lines:?}");

    // It may look, and not act.
    let listed = asks(&["list", "--token-file", &read_file]);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    assert!(listed.stdout.contains("sleeps"), "{listed:?}");
    let acted = asks(&["pause", "s", "--token-file", &read_file]);
    assert_eq!(acted.code, Some(2), "{acted:?}");
    let why = format!(
        "error: E9 pause s: {address} refuses it: token read has the role read, and this needs \
         operate\n"
    );
    assert_eq!(acted.stderr, why);
    assert_eq!(place.json(&["show", "s"])["status"], "running");
    let many = asks(&["cancel", "s", "--token-file", &read_file, "--json"]);
    assert_eq!(many.json_with(2)["errors"][0]["code"], "E9");

    // What is done with a token is recorded under its name, beside who did it.
    let paused = asks(&["pause", "s", "--by", "ana", "--token-file", &operate_file]);
    assert_eq!(paused.stdout, "stored; no worker is running yet\n", "{paused:?}");
    let worker = place.begin(&["worker"]);
    until("the run to be paused", || place.json(&["show", "s"])["status"] == "paused");
    assert_eq!(place.json(&["show", "s"])["paused"]["by"], "ana (token operate)");
    worker.kill();

    // The environment says the same as the options.
    place.set("RESURGAM_TOKEN", &read);
    let listed = place.run(&["list", "--server", &address]);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    server.kill();
    let gone = place.run(&["list", "--server", &address]);
    assert_eq!(gone.code, Some(1), "{gone:?}");
    assert!(gone.stderr.starts_with(&format!("error: D1 ask {address}: ")), "{gone:?}");
}

#[test(minutes = 15)]
fn one_place_is_asked_and_what_needs_the_database_says_so() {
    let mut place = Place::new();
    place.write("one.rap", "fn main(input: [], output: [r]):\n    return 1\n");
    let address = "http://127.0.0.1:1".to_string();
    let refused = |place: &Place, args: &[&str], said: &str| {
        let ended = place.run(args);
        assert_eq!(ended.code, Some(2), "{args:?} {ended:?}");
        assert!(ended.stderr.contains(said), "{args:?} {ended:?}");
    };
    for (args, said) in [
        (&["list", "--db", "a.db"][..], "cannot be used with"),
        (&["run", "one.rap"], "`resurgam run` needs the database itself; give --db, or `start"),
        (&["worker"], "`resurgam worker` needs the database itself; give --db, or have a worker"),
        (&["server"], "`resurgam server` needs the database itself; give --db, or run it where"),
        (&["token", "list"], "`resurgam token` needs the database itself; give --db, or ask the"),
        (&["demo"], "`resurgam demo` makes a database of its own"),
    ] {
        refused(&place, &[args, &["--server", &address]].concat(), said);
    }
    refused(&place, &["list", "--server", "ops.example"], "neither http:// nor https:// before it");
    refused(&place, &["list", "--token-file", "x"], "there is no server to send it to");
    place.set("RESURGAM_SERVER", &address);
    refused(&place, &["list"], "RESURGAM_SERVER and RESURGAM_DB are both set");
    // An option says which of them is meant.
    assert_eq!(place.run(&["list", "--server", &address]).code, Some(1));
    assert_eq!(place.run(&["run", "one.rap", "--db", "test.db"]).code, Some(0));
    assert_eq!(place.run(&["list", "--db", "test.db"]).code, Some(0));
    place.set("RESURGAM_DB", "");
    let asked = place.run(&["list"]);
    assert_eq!(asked.code, Some(1), "{asked:?}");
    assert!(asked.stderr.contains(&format!("the server at {address}")), "{asked:?}");
}

/// Answers everybody who connects, with what they sent up to the end of its head.
fn answering(answer: impl Fn(TcpStream, String) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, answer) = (stream.unwrap(), answer.clone());
            thread::spawn(move || {
                let (mut head, mut byte) = (Vec::new(), [0]);
                while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) > 0 {
                    head.push(byte[0]);
                }
                answer(stream, String::from_utf8(head).unwrap());
            });
        }
    });
    format!("http://{address}")
}

#[test(minutes = 15)]
fn a_proxy_may_have_the_server_below_a_path_of_its_own() {
    let place = everything();
    let upstream = place.server().strip_prefix("http://").unwrap().to_string();
    // Takes the base away, and closes after each answer.
    let address = answering(move |mut stream, head| {
        let Some(head) =
            head.split_once(" /ops/").map(|(method, rest)| format!("{method} /{rest}"))
        else {
            let not_found = "HTTP/1.1 404 Not Found\r\nContent-Length: 6\r\n\r\n<html>";
            let _closed_early = stream.write_all(not_found.as_bytes());
            return;
        };
        let head = head.replacen("\r\n", "\r\nConnection: close\r\n", 1);
        let head =
            head.replace(&format!("Host: {}", stream.local_addr().unwrap()), "Host: localhost");
        let mut server = TcpStream::connect(&upstream).unwrap();
        server.write_all(head.as_bytes()).unwrap();
        let (mut from, mut to) = (stream.try_clone().unwrap(), server.try_clone().unwrap());
        thread::spawn(move || std::io::copy(&mut from, &mut to));
        let _closed_early = std::io::copy(&mut server, &mut stream);
        let _closed_before = stream.shutdown(std::net::Shutdown::Both);
    });
    let asks = |base: &str, args: &[&str]| {
        place.run(&[args, &["--server", &format!("{address}{base}")]].concat())
    };
    for args in [&["list", "--json"][..], &["show", "order/retries", "--json"]] {
        let (direct, through) = (place.run(args), asks("/ops/", args));
        assert_eq!((direct.code, &direct.stdout), (through.code, &through.stdout), "{through:?}");
    }
    let paused = asks("/ops", &["call", "pause", "order/retries", "charge", "--by", "ana"]);
    assert_eq!(paused.stdout, "stored; no worker is running yet\n", "{paused:?}");
    let without = asks("", &["list"]);
    assert_eq!(without.code, Some(2), "{without:?}");
    assert!(without.stderr.contains("is the path in the address right?"), "{without:?}");
}

#[test(minutes = 15)]
fn a_redirect_is_not_followed_and_an_older_server_is_named() {
    let mut place = Place::new();
    place.set("RESURGAM_TOKEN", "rsg_1_secret");
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let elsewhere = answering(move |_, head| {
        assert!(!head.contains("secret"), "{head}");
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let location = elsewhere.clone();
    let leads = answering(move |mut stream, _| {
        let head = format!(
            "HTTP/1.1 307 Temporary Redirect\r\nLocation: {location}/x?secret=1\r\n\
             Content-Length: 0\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
    });
    let led = place.run(&["list", "--server", &leads]);
    assert_eq!(led.code, Some(2), "{led:?}");
    assert!(
        led.stderr.contains(&format!("leads to {elsewhere}/x, and the token is for")),
        "{led:?}"
    );
    assert!(!led.stderr.contains("secret"), "{led:?}");
    assert_eq!(asked.load(Ordering::Relaxed), 0, "nobody was asked there");

    let older = answering(|mut stream, _| {
        let body = json!({
            "type": "/api/v1/errors/E2", "title": "there is nothing of this id", "status": 404,
            "code": "E2", "detail": "there is nothing at /api/v1/server",
        });
        let body = body.to_string();
        let kind = "application/problem+json";
        let head = format!(
            "HTTP/1.1 404 Not Found\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
    });
    let named = place.run(&["list", "--server", &older]);
    assert_eq!(named.code, Some(2), "{named:?}");
    assert!(named.stderr.contains("is older than this command; bring it up to date"), "{named:?}");
}

#[test(minutes = 15)]
fn a_certificate_is_trusted_when_the_system_says_so() {
    let mut place = Place::new();
    place.write("one.rap", "fn main(input: [], output: [r]):\n    return 1\n");
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_string()]).unwrap();
    place.write("cert.pem", &made.cert.pem());
    place.write("key.pem", &made.signing_key.serialize_pem());
    let (_server, address) = place.serve(&["--tls-cert", "cert.pem", "--tls-key", "key.pem"]);
    let port = address.rsplit(':').next().unwrap().to_string();
    let (named, start) = (format!("https://localhost:{port}"), ["start", "one.rap", "--id", "a"]);
    let unknown = place.run(&[&start[..], &["--server", &named]].concat());
    assert_eq!(unknown.code, Some(1), "{unknown:?}");
    assert!(
        unknown.stderr.contains("its certificate is not trusted (UnknownIssuer)"),
        "{unknown:?}"
    );
    let plain = place.run(&["list", "--server", &format!("http://localhost:{port}")]);
    assert_eq!(plain.code, Some(1), "{plain:?}");
    let file = place.path("cert.pem").display().to_string();
    place.set("SSL_CERT_FILE", &file);
    let started = place.run(&[&start[..], &["--server", &named]].concat());
    assert_eq!((started.code, started.stdout.as_str()), (Some(0), "a\n"), "{started:?}");
}

#[test(minutes = 15)]
fn a_server_that_is_killed_while_many_are_acted_on_is_waited_for() {
    let place = Place::new();
    place.write(
        "order.rap",
        "fn main(input: [], output: [r]):\n    return @charge() [retry: 9, backoff: 1h]\n",
    );
    place.action("charge", "echo 'no answer' >&2; exit 1");
    for number in 1..=2 {
        let id = format!("order-{number}");
        assert_eq!(place.run(&["start", "order.rap", "--id", &id]).code, Some(0));
    }
    let _worker = place.begin(&["worker"]);
    until("the first attempts to fail", || {
        let list = place.json(&["list", "--retrying"]);
        list.as_array().is_some_and(|list| list.len() == 2)
    });
    let (server, address) = place.serve(&[]);
    let port = address.rsplit(':').next().unwrap().to_string();
    // The first of two is retried at once, and the other one in half an hour.
    let retry = ["call", "retry", "--workflow", "order", "--spread", "1h", "--request-id", "t-1"];
    let acts = place.begin(&[&retry[..], &["--server", &address]].concat());
    until("the job to be there", || place.run(&["bulk", "show", "t-1"]).code == Some(0));
    let watches = place.begin(&["bulk", "show", "t-1", "--wait", "--server", &address]);
    let tells = |process: &Process, what: &str| until(what, || process.said().contains(what));
    tells(&watches, "t-1: ");
    server.kill();
    for process in [&acts, &watches] {
        tells(process, "the server does not answer; waiting for it: ");
    }
    // Somebody else ends it meanwhile, and the server comes back where it was.
    assert_eq!(place.run(&["bulk", "stop", "t-1", "--by", "ana"]).code, Some(0));
    let back = place.begin(&["server", "--listen", &port]);
    for process in [acts, watches] {
        let ended = process.end();
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(ended.stdout.contains("; stopped by ana"), "{ended:?}");
        let told = ended.stderr.matches("does not answer").count();
        assert_eq!(told, 1, "once, and not each time it is asked: {ended:?}");
    }
    back.kill();
}

#[test(minutes = 15)]
fn a_server_tells_the_names_of_secrets_and_takes_them_as_they_are() {
    let mut place = Place::new();
    let key = place.run(&["secrets", "new-key"]).stdout;
    place.set("RESURGAM_SECRETS_KEY", key.trim());
    let node = json!({"node_name": "one", "namespace": "d", "identifier": "a", "inputs": {}});
    let graph = json!({"secrets": {"token": "hunter2"}, "nodes": [node]});
    place.write("graph.json", &graph.to_string());
    let through = |args: &[&str]| place.run(&[args, &["--server", place.server()]].concat());
    place.write("lines.jsonl", "{\"id\": \"g-1\"}\n");
    let each = ["start", "graph.json", "--each", "lines.jsonl"];
    assert_eq!(through(&each).stdout, "1 started, 0 there already, 0 refused\n");
    assert_eq!(through(&each).stdout, "0 started, 1 there already, 0 refused\n");
    assert_eq!(place.run(&each).stdout, "0 started, 1 there already, 0 refused\n");
    let worker = place.begin(&["worker"]);
    until("its first turn", || place.json(&["history", "g-1"]) != json!([]));
    worker.kill();
    let exported = through(&["export", "g-1"]).stdout;
    assert!(exported.contains("<secret token>"), "{exported}");
    let stored = place.run(&["export", "g-1"]).stdout;
    assert!(!stored.contains("<secret token>") && !stored.contains("hunter2"), "{stored}");

    let create = ["schedule", "create", "g", "graph.json", "--every", "1h"];
    assert_eq!(place.run(&create).code, Some(0));
    let refused = through(&create);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("--replace takes its place"), "{refused:?}");
    let replaced = through(&[&create[..], &["--replace"]].concat());
    assert_eq!(replaced.code, Some(0), "{replaced:?}");
    // What is stored can be decrypted, and is the same secret.
    assert_eq!(place.run(&create).code, Some(0));
}
