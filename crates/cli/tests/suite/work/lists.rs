//! Lists page by page and by time, and times in UTC.

use resurgam_watchdog::test;
use serde_json::Value;

use crate::work::support::Place;

/// A place with instances `n-1` to `n-5` that nobody works on.
fn five() -> Place {
    let place = Place::new();
    place.write("nap.rap", "fn main(input: [], output: [r]):\n    sleep 1\n    return 1\n");
    for number in 1..=5 {
        start(&place, &format!("n-{number}"));
    }
    place
}

fn start(place: &Place, id: &str) {
    assert_eq!(place.run(&["start", "nap.rap", "--id", id]).code, Some(0));
}

fn ids(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect()
}

#[test(minutes = 15)]
pub(super) fn a_long_list_says_how_to_read_on_and_new_instances_are_on_no_later_page() {
    let place = five();
    let mut args = vec!["list".to_string(), "--limit".to_string(), "2".to_string()];
    let mut pages: Vec<Vec<String>> = Vec::new();
    loop {
        let page = place.run(&args.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(page.code, Some(0), "{page:?}");
        let rows = page.stdout.lines().skip(1);
        pages.push(rows.map(|row| row.split_whitespace().next().unwrap().to_string()).collect());
        if page.stderr.is_empty() {
            break;
        }
        let rest = page.stderr.strip_prefix("there are more: the same with --after ").unwrap();
        let cursor = rest.strip_suffix(" lists the next ones\n").unwrap();
        args.truncate(3);
        args.extend(["--after".to_string(), cursor.to_string()]);
        start(&place, &format!("late-{}", pages.len()));
    }
    assert_eq!(pages, [vec!["n-5", "n-4"], vec!["n-3", "n-2"], vec!["n-1"]]);
}

#[test(minutes = 15)]
pub(super) fn programs_read_on_behind_the_cursor_of_the_last_row() {
    let place = five();
    let first = place.json(&["list", "--limit", "3"]);
    assert_eq!(ids(&first), ["n-5", "n-4", "n-3"]);
    let cursor = first[2]["cursor"].as_str().unwrap();
    let rest = place.run(&["list", "--limit", "3", "--after", cursor, "--json"]);
    assert_eq!((ids(&rest.json()), rest.stderr.as_str()), (vec!["n-2", "n-1"], ""));
    let exact = place.run(&["list", "--limit", "2", "--after", cursor]);
    assert_eq!(exact.stderr, "", "there is nothing behind the last page");
    let wrong = place.run(&["list", "--after", "n-3"]);
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("this is no place in a list; take the one"), "{wrong:?}");
}

#[test(minutes = 15)]
pub(super) fn a_list_can_begin_at_a_time() {
    let place = five();
    let all = place.json(&["list"]);
    assert_eq!(ids(&place.json(&["list", "--since", "1h"])).len(), 5);
    assert_eq!(ids(&place.json(&["list", "--since", "2026-01-01"])).len(), 5);
    assert_eq!(ids(&place.json(&["list", "--since", "2999-01-01T00:00:00+01:00"])).len(), 0);
    let text = place.run(&["list", "--utc"]).stdout;
    let third = text.lines().nth(3).unwrap();
    let time = third.split_whitespace().nth(3).unwrap();
    let since = place.json(&["list", "--since", time]);
    // Those that were started within one millisecond are listed with it.
    let at = all[2]["created_at_ms"].as_i64().unwrap();
    let young = |row: &&Value| row["created_at_ms"].as_i64().unwrap() >= at;
    let expected = all.as_array().unwrap().iter().filter(young).count();
    assert_eq!((ids(&since)[0], ids(&since).len()), ("n-5", expected));
    let wrong = place.run(&["list", "--since", "yesterday"]);
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("write how long ago, such as 2h, or when"), "{wrong:?}");
}

/// The time of a text that has one.
fn utc(text: &str) -> &str {
    let is_time = |word: &&str| word.starts_with("20") && word.contains('T') && word.ends_with('Z');
    text.split([' ', '\n', ',']).find(is_time).unwrap_or_else(|| panic!("no time: {text}"))
}

#[test(minutes = 15)]
pub(super) fn times_are_printed_in_utc_where_somebody_asks() {
    let place = Place::new();
    place.write("flaky.rap", "fn main(input: [], output: [r]):\n    return @flaky() [retry: 1]\n");
    place.action("flaky", "[ $RESURGAM_ATTEMPT = 1 ] && exit 5; echo 7");
    assert_eq!(place.run(&["run", "flaky.rap", "--id", "a"]).code, Some(0));
    let history = place.run(&["history", "a", "--utc"]).stdout;
    let lines: Vec<&str> = history.lines().collect();
    let started = utc(lines[0]);
    assert_eq!(lines[0], format!("1 {started} RunStarted flaky {{}}"));
    assert!(lines.iter().all(|line| utc(line) >= started), "{history}");
    let attempts = place.run(&["attempts", "a", "--utc"]).stdout;
    assert!(attempts.starts_with(&format!("{} flaky#2 attempt 1 failed", utc(&attempts))));
    let show = place.run(&["show", "a", "--utc"]).stdout;
    let line = |name: &str| show.lines().find(|line| line.starts_with(name)).unwrap();
    assert_eq!(line("started"), format!("started    {}", utc(line("started"))));
    assert!(line("closed").contains("Z, after "), "{show}");
    assert!(!show.contains(" ago"), "{show}");
    let list = place.run(&["list", "--utc"]).stdout;
    assert!(list.starts_with(" ID  WORKFLOW  STATUS     STARTED"), "{list}");
    assert_eq!(utc(list.lines().nth(1).unwrap()), utc(line("started")));
    // Programs have milliseconds in any case.
    assert_eq!(place.json(&["show", "a"]), place.json(&["show", "a", "--utc"]));
}

#[test(minutes = 15)]
pub(super) fn what_waits_says_in_utc_until_when() {
    let place = Place::new();
    place.write(
        "slow.rap",
        "fn main(input: [], output: [r]):\n    return @f() [retry: 9, backoff: 1h]\n",
    );
    place.action("f", "echo too early >&2; exit 1");
    let _run = place.begin(&["run", "slow.rap", "--id", "s", "--json"]);
    crate::work::support::until("it waits", || {
        let list = place.run(&["list", "--retrying", "--json"]);
        list.code == Some(0) && list.json()[0]["id"] == "s"
    });
    let text = place.run(&["show", "s", "--utc"]).stdout;
    assert!(text.contains("f #2: attempt 2 of 10 is due at 20"), "{text}");
    assert!(text.contains("attempt 1, 20") && text.contains("Z: ExitCode"), "{text}");
}
