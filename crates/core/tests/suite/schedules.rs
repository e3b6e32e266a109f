//! When schedules fire, what is refused, and what is decided.
//!
//! Tables in, text out. Times are printed as the wall clock of the zone shows them, with the offset
//! where it matters: that is what people compare with their calendar.

use std::time::Duration;

use croner::Cron;
use croner::parser::CronParser;
use expect_test::{Expect, expect};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use resurgam_core::Timestamp;
use resurgam_core::schedule::{
    BATCH, CheckedSchedule, Overlap, Rule, Schedule, State, decide, decide_at_most, time_text,
};
use resurgam_watchdog::test;
use serde_json::{Value, json};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A time as people write it.
fn at(text: &str) -> Timestamp {
    let time: jiff::Timestamp = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    Timestamp::from_millis(time.as_millisecond())
}

/// A time as the wall clock of a zone shows it: `Sun 2026-03-29 03:00:00+02`.
fn wall(time: Timestamp, zone: &str) -> String {
    let time = jiff::Timestamp::from_millisecond(time.as_millis()).unwrap();
    let zone = jiff::tz::TimeZoneDatabase::bundled().get(zone).unwrap();
    time.to_zoned(zone).strftime("%a %Y-%m-%d %H:%M:%S %:z").to_string()
}

/// The next firings of an expression in a zone after a time.
fn check(expression: &'static str, zone: &'static str, after: &str, n: usize, expected: Expect) {
    let rule = Rule::cron(expression).in_zone(zone).check().unwrap();
    let end = Timestamp::from_millis(i64::MAX);
    let firings: Vec<String> =
        rule.firings(at(after), end).take(n).map(|time| wall(time, zone)).collect();
    expected.assert_eq(&firings.join("\n"));
}

#[test]
fn expressions_name_what_crontab_says() {
    let rows = [
        "0 9 * * MON-FRI",
        "*/20 8-9 * * *",
        "0 0 1,15 * *",
        "0 0 13 * FRI",
        "0 0 */10 * FRI",
        "0 0 L * ?",
        "0 0 LW * *",
        "0 0 1W,15W * *",
        "0 0 ? * MON#2",
        "0 0 * * friL",
        "0 0 * * 5-7",
        "0 0 * * SAT-SUN",
        "15 30 4 * * *",
        "*/25 59 23 31 12 *",
        "0 0 29 2 *",
        "0 0 29 2 */3",
        "@hourly",
        "@Weekly",
        "@yearly",
    ];
    let after = at("2026-10-29T12:00:00Z");
    let end = Timestamp::from_millis(i64::MAX);
    let mut text = String::new();
    for row in rows {
        let rule = Rule::cron(row).check().unwrap();
        let firings = rule.firings(after, end).take(4).map(|time| {
            let zone = jiff::Timestamp::from_millisecond(time.as_millis()).unwrap();
            let zoned = zone.to_zoned(jiff::tz::TimeZone::UTC);
            zoned.strftime("%a %y-%m-%d %H:%M:%S").to_string()
        });
        text += &format!("{row:20} {}\n", firings.collect::<Vec<_>>().join(", "));
    }
    expect![[r#"
        0 9 * * MON-FRI      Fri 26-10-30 09:00:00, Mon 26-11-02 09:00:00, Tue 26-11-03 09:00:00, Wed 26-11-04 09:00:00
        */20 8-9 * * *       Fri 26-10-30 08:00:00, Fri 26-10-30 08:20:00, Fri 26-10-30 08:40:00, Fri 26-10-30 09:00:00
        0 0 1,15 * *         Sun 26-11-01 00:00:00, Sun 26-11-15 00:00:00, Tue 26-12-01 00:00:00, Tue 26-12-15 00:00:00
        0 0 13 * FRI         Fri 26-10-30 00:00:00, Fri 26-11-06 00:00:00, Fri 26-11-13 00:00:00, Fri 26-11-20 00:00:00
        0 0 */10 * FRI       Fri 26-12-11 00:00:00, Fri 27-01-01 00:00:00, Fri 27-05-21 00:00:00, Fri 27-06-11 00:00:00
        0 0 L * ?            Sat 26-10-31 00:00:00, Mon 26-11-30 00:00:00, Thu 26-12-31 00:00:00, Sun 27-01-31 00:00:00
        0 0 LW * *           Fri 26-10-30 00:00:00, Mon 26-11-30 00:00:00, Thu 26-12-31 00:00:00, Fri 27-01-29 00:00:00
        0 0 1W,15W * *       Mon 26-11-02 00:00:00, Mon 26-11-16 00:00:00, Tue 26-12-01 00:00:00, Tue 26-12-15 00:00:00
        0 0 ? * MON#2        Mon 26-11-09 00:00:00, Mon 26-12-14 00:00:00, Mon 27-01-11 00:00:00, Mon 27-02-08 00:00:00
        0 0 * * friL         Fri 26-10-30 00:00:00, Fri 26-11-27 00:00:00, Fri 26-12-25 00:00:00, Fri 27-01-29 00:00:00
        0 0 * * 5-7          Fri 26-10-30 00:00:00, Sat 26-10-31 00:00:00, Sun 26-11-01 00:00:00, Fri 26-11-06 00:00:00
        0 0 * * SAT-SUN      Sat 26-10-31 00:00:00, Sun 26-11-01 00:00:00, Sat 26-11-07 00:00:00, Sun 26-11-08 00:00:00
        15 30 4 * * *        Fri 26-10-30 04:30:15, Sat 26-10-31 04:30:15, Sun 26-11-01 04:30:15, Mon 26-11-02 04:30:15
        */25 59 23 31 12 *   Thu 26-12-31 23:59:00, Thu 26-12-31 23:59:25, Thu 26-12-31 23:59:50, Fri 27-12-31 23:59:00
        0 0 29 2 *           Tue 28-02-29 00:00:00, Sun 32-02-29 00:00:00, Fri 36-02-29 00:00:00, Wed 40-02-29 00:00:00
        0 0 29 2 */3         Sun 32-02-29 00:00:00, Wed 40-02-29 00:00:00, Sat 48-02-29 00:00:00, Sun 60-02-29 00:00:00
        @hourly              Thu 26-10-29 13:00:00, Thu 26-10-29 14:00:00, Thu 26-10-29 15:00:00, Thu 26-10-29 16:00:00
        @Weekly              Sun 26-11-01 00:00:00, Sun 26-11-08 00:00:00, Sun 26-11-15 00:00:00, Sun 26-11-22 00:00:00
        @yearly              Fri 27-01-01 00:00:00, Sat 28-01-01 00:00:00, Mon 29-01-01 00:00:00, Tue 30-01-01 00:00:00
    "#]].assert_eq(&text);
}

#[test]
fn a_time_that_does_not_exist_fires_at_the_next_that_does() {
    check(
        "30 2 * * *",
        "Europe/Berlin",
        "2026-03-27T12:00:00Z",
        3,
        expect![[r#"
        Sat 2026-03-28 02:30:00 +01:00
        Sun 2026-03-29 03:00:00 +02:00
        Mon 2026-03-30 02:30:00 +02:00"#]],
    );
    check(
        "0,30 2,3 * * *",
        "Europe/Berlin",
        "2026-03-28T12:00:00Z",
        5,
        expect![[r#"
        Sun 2026-03-29 03:00:00 +02:00
        Sun 2026-03-29 03:30:00 +02:00
        Mon 2026-03-30 02:00:00 +02:00
        Mon 2026-03-30 02:30:00 +02:00
        Mon 2026-03-30 03:00:00 +02:00"#]],
    );
    check(
        "30 2 8 3 *",
        "America/New_York",
        "2026-01-01T00:00:00Z",
        2,
        expect![[r#"
        Sun 2026-03-08 03:00:00 -04:00
        Mon 2027-03-08 02:30:00 -05:00"#]],
    );
    // The clock goes forward by half an hour, from 02:00 to 02:30.
    check(
        "15 2 * * *",
        "Australia/Lord_Howe",
        "2026-10-02T12:00:00Z",
        3,
        expect![[r#"
        Sat 2026-10-03 02:15:00 +10:30
        Sun 2026-10-04 02:30:00 +11:00
        Mon 2026-10-05 02:15:00 +11:00"#]],
    );
    // Samoa had no 30 December 2011: the day fires at the midnight that follows it, and once.
    check(
        "0 12 * * *",
        "Pacific/Apia",
        "2011-12-29T00:00:00Z",
        4,
        expect![[r#"
        Thu 2011-12-29 12:00:00 -10:00
        Sat 2011-12-31 00:00:00 +14:00
        Sat 2011-12-31 12:00:00 +14:00
        Sun 2012-01-01 12:00:00 +14:00"#]],
    );
    check(
        "0 */6 30 12 *",
        "Pacific/Apia",
        "2011-12-29T00:00:00Z",
        2,
        expect![[r#"
        Sat 2011-12-31 00:00:00 +14:00
        Sun 2012-12-30 00:00:00 +14:00"#]],
    );
    // Midnight itself is left out.
    check(
        "0 0 * * *",
        "Africa/Cairo",
        "2026-04-22T12:00:00Z",
        3,
        expect![[r#"
        Thu 2026-04-23 00:00:00 +02:00
        Fri 2026-04-24 01:00:00 +03:00
        Sat 2026-04-25 00:00:00 +03:00"#]],
    );
}

#[test]
fn a_time_that_comes_twice_fires_once() {
    check(
        "30 2 * * *",
        "Europe/Berlin",
        "2026-10-23T12:00:00Z",
        3,
        expect![[r#"
        Sat 2026-10-24 02:30:00 +02:00
        Sun 2026-10-25 02:30:00 +02:00
        Mon 2026-10-26 02:30:00 +01:00"#]],
    );
    check(
        "0,30 2 * * *",
        "Europe/Berlin",
        "2026-10-24T12:00:00Z",
        4,
        expect![[r#"
        Sun 2026-10-25 02:00:00 +02:00
        Sun 2026-10-25 02:30:00 +02:00
        Mon 2026-10-26 02:00:00 +01:00
        Mon 2026-10-26 02:30:00 +01:00"#]],
    );
    check(
        "30 1 * * *",
        "America/New_York",
        "2026-10-31T12:00:00Z",
        2,
        expect![[r#"
        Sun 2026-11-01 01:30:00 -04:00
        Mon 2026-11-02 01:30:00 -05:00"#]],
    );
    // The clock goes back by half an hour, from 02:00 to 01:30.
    check(
        "15,45 1 * * *",
        "Australia/Lord_Howe",
        "2026-04-04T00:00:00Z",
        4,
        expect![[r#"
        Sun 2026-04-05 01:15:00 +11:00
        Sun 2026-04-05 01:45:00 +11:00
        Mon 2026-04-06 01:15:00 +10:30
        Mon 2026-04-06 01:45:00 +10:30"#]],
    );
    // Asked in the middle of the second time.
    check(
        "*/15 * * * *",
        "Europe/Berlin",
        "2026-10-25T01:10:00Z",
        2,
        expect![[r#"
        Sun 2026-10-25 03:00:00 +01:00
        Sun 2026-10-25 03:15:00 +01:00"#]],
    );
}

#[test]
fn a_rhythm_of_minutes_pauses_while_the_clock_repeats_and_an_interval_does_not() {
    check(
        "*/20 * * * *",
        "Europe/Berlin",
        "2026-10-24T23:50:00Z",
        8,
        expect![[r#"
        Sun 2026-10-25 02:00:00 +02:00
        Sun 2026-10-25 02:20:00 +02:00
        Sun 2026-10-25 02:40:00 +02:00
        Sun 2026-10-25 03:00:00 +01:00
        Sun 2026-10-25 03:20:00 +01:00
        Sun 2026-10-25 03:40:00 +01:00
        Sun 2026-10-25 04:00:00 +01:00
        Sun 2026-10-25 04:20:00 +01:00"#]],
    );
    check(
        "*/20 * * * *",
        "Europe/Berlin",
        "2026-03-29T00:30:00Z",
        4,
        expect![[r#"
        Sun 2026-03-29 01:40:00 +01:00
        Sun 2026-03-29 03:00:00 +02:00
        Sun 2026-03-29 03:20:00 +02:00
        Sun 2026-03-29 03:40:00 +02:00"#]],
    );
    let rule = Rule::every(seconds(1200)).check().unwrap();
    let firings = rule.firings(at("2026-10-24T23:50:00Z"), at("2026-10-25T02:00:00Z"));
    let firings: Vec<String> = firings.map(|time| wall(time, "Europe/Berlin")).collect();
    expect![[r#"
        Sun 2026-10-25 02:00:00 +02:00
        Sun 2026-10-25 02:20:00 +02:00
        Sun 2026-10-25 02:40:00 +02:00
        Sun 2026-10-25 02:00:00 +01:00
        Sun 2026-10-25 02:20:00 +01:00
        Sun 2026-10-25 02:40:00 +01:00
        Sun 2026-10-25 03:00:00 +01:00"#]]
    .assert_eq(&firings.join("\n"));
}

#[test]
fn a_rule_follows_its_zone_through_the_years() {
    // Moscow changed its offset in 2011 and in 2014, and has no summer time since.
    check(
        "0 9 1 7 *",
        "Europe/Moscow",
        "2009-12-31T00:00:00Z",
        6,
        expect![[r#"
        Thu 2010-07-01 09:00:00 +04:00
        Fri 2011-07-01 09:00:00 +04:00
        Sun 2012-07-01 09:00:00 +04:00
        Mon 2013-07-01 09:00:00 +04:00
        Tue 2014-07-01 09:00:00 +04:00
        Wed 2015-07-01 09:00:00 +03:00"#]],
    );
    check(
        "0 0 29 2 *",
        "Europe/Berlin",
        "2026-01-01T00:00:00Z",
        3,
        expect![[r#"
        Tue 2028-02-29 00:00:00 +01:00
        Sun 2032-02-29 00:00:00 +01:00
        Fri 2036-02-29 00:00:00 +01:00"#]],
    );
    check(
        "0 0 1 1 *",
        "America/New_York",
        "2026-06-01T00:00:00Z",
        2,
        expect![[r#"
        Fri 2027-01-01 00:00:00 -05:00
        Sat 2028-01-01 00:00:00 -05:00"#]],
    );
    check(
        "0 0 29 2 *",
        "UTC",
        "1896-03-01T00:00:00Z",
        1,
        expect!["Mon 1904-02-29 00:00:00 +00:00"],
    );
}

#[test]
fn an_interval_counts_from_its_anchor() {
    let rows = [
        (Rule::every(seconds(3600)), "2026-10-29T12:30:00Z"),
        (Rule::every(seconds(7 * 86_400)), "2026-10-29T12:30:00Z"),
        (
            Rule::every(seconds(7 * 86_400)).anchored_at(at("2026-11-02T06:00:00Z")),
            "2026-10-29T12:30:00Z",
        ),
        (Rule::every(Duration::from_millis(1500)), "1969-12-31T23:59:58Z"),
    ];
    let mut text = String::new();
    for (rule, after) in rows {
        let form = serde_json::to_string(&rule).unwrap();
        let rule = rule.check().unwrap();
        let firings: Vec<String> = rule
            .firings(at(after), Timestamp::from_millis(i64::MAX))
            .take(3)
            .map(time_text)
            .collect();
        text += &format!("{form}\n  {}\n", firings.join(", "));
    }
    expect![[r#"
        {"every":"1h"}
          2026-10-29T13:00:00Z, 2026-10-29T14:00:00Z, 2026-10-29T15:00:00Z
        {"every":"7d"}
          2026-11-05T00:00:00Z, 2026-11-12T00:00:00Z, 2026-11-19T00:00:00Z
        {"every":"7d","anchor":"2026-11-02T06:00:00Z"}
          2026-11-02T06:00:00Z, 2026-11-09T06:00:00Z, 2026-11-16T06:00:00Z
        {"every":"1500ms"}
          1969-12-31T23:59:58.500Z, 1970-01-01T00:00:00Z, 1970-01-01T00:00:01.500Z
    "#]]
    .assert_eq(&text);
}

/// The problems of each form.
fn refused(forms: &[Value], read: impl Fn(&Value) -> Option<String>, expected: Expect) {
    let mut text = String::new();
    for form in forms {
        let problems = read(form).unwrap_or_else(|| panic!("accepted: {form}"));
        text += &format!("{form}\n  {problems}\n");
    }
    expected.assert_eq(&text);
}

#[test]
fn a_bad_expression_is_answered_with_what_to_write() {
    let expressions = [
        "",
        "* * * *",
        "0 0 * * * * 2027",
        "60 24 0 13 8",
        "x * * * *",
        "MON 0 * * *",
        "0 0 1 JANFEB *",
        "0 0 * * MONDAY",
        "1,,2 * * * *",
        ", * * * *",
        "*/0 * * * *",
        "*/90 * * * *",
        "*/x * * * *",
        "0/5 * * * *",
        "0 22-2 * * *",
        "0 0 * * FRI-MON",
        "-5 * * * *",
        "+5 * * * *",
        "1-2-3 * * * *",
        "? * * * *",
        "0 0 15W9 * *",
        "0 0 32W * *",
        "0 0 W * *",
        "0 0 * * MON#6",
        "0 0 * * MON#+1",
        "0 0 * * #2",
        "0 0 * * L",
        "0 0 30 2 *",
        "0 0 31 4,6,9,11 *",
        "@reboot",
        "CRON_TZ=Europe/Berlin 0 9 * * *",
        "٣ * * * *",
    ];
    let forms: Vec<Value> = expressions.iter().map(|text| json!(text)).collect();
    let read = |form: &Value| Rule::from_value(form).err().map(|problems| problems.to_string());
    refused(
        &forms,
        read,
        expect![[r##"
        ""
          cron: "" is empty; write five fields, such as "0 9 * * MON-FRI" (minute, hour, day of the month, month, day of the week)
        "* * * *"
          cron: "* * * *" has 4 fields; write five, such as "0 9 * * MON-FRI" (minute, hour, day of the month, month, day of the week), or six with seconds in front
        "0 0 * * * * 2027"
          cron: "0 0 * * * * 2027" has 7 fields; write 5, or 6 with seconds in front. Years are bounded with not_before and not_after
        "60 24 0 13 8"
          cron: "60 24 0 13 8" has "60" in field 1 (minute), which is out of range; write 0 to 59; cron: "60 24 0 13 8" has "24" in field 2 (hour), which is out of range; write 0 to 23; cron: "60 24 0 13 8" has "0" in field 3 (day of the month), which is out of range; write 1 to 31; cron: "60 24 0 13 8" has "13" in field 4 (month), which is out of range; write 1 to 12 or JAN to DEC; cron: "60 24 0 13 8" has "8" in field 5 (day of the week), which is out of range; write 0 to 7 or SUN to SAT
        "x * * * *"
          cron: "x * * * *" has "x" in field 1 (minute), which is not a minute; write 0 to 59, or *
        "MON 0 * * *"
          cron: "MON 0 * * *" has "MON" in field 1 (minute), which is not a minute; write 0 to 59, or *
        "0 0 1 JANFEB *"
          cron: "0 0 1 JANFEB *" has "JANFEB" in field 4 (month), which is not a month; write 1 to 12 or JAN to DEC, or *
        "0 0 * * MONDAY"
          cron: "0 0 * * MONDAY" has "MONDAY" in field 5 (day of the week), which is not a day of the week; write 0 to 7 or SUN to SAT, or *
        "1,,2 * * * *"
          cron: "1,,2 * * * *" has "1,,2" in field 1 (minute), which has an empty entry; take out the extra comma
        ", * * * *"
          cron: ", * * * *" has "," in field 1 (minute), which has an empty entry; take out the extra comma
        "*/0 * * * *"
          cron: "*/0 * * * *" has "*/0" in field 1 (minute), which has a step of 0; write 1 or more
        "*/90 * * * *"
          cron: "*/90 * * * *" has "*/90" in field 1 (minute), which has a step that no minute can take; write at most 59, or use an interval, such as every 90m
        "*/x * * * *"
          cron: "*/x * * * *" has "*/x" in field 1 (minute), which has no number as its step; write a step such as */5
        "0/5 * * * *"
          cron: "0/5 * * * *" has "0/5" in field 1 (minute), which steps from one value; write 0-59/5
        "0 22-2 * * *"
          cron: "0 22-2 * * *" has "22-2" in field 2 (hour), which runs backwards; write 22-23,0-2
        "0 0 * * FRI-MON"
          cron: "0 0 * * FRI-MON" has "FRI-MON" in field 5 (day of the week), which runs backwards; write 5-6,0-1
        "-5 * * * *"
          cron: "-5 * * * *" has "-5" in field 1 (minute), which is not a minute; write 0 to 59, or *
        "+5 * * * *"
          cron: "+5 * * * *" has "+5" in field 1 (minute), which is not a minute; write 0 to 59, or *
        "1-2-3 * * * *"
          cron: "1-2-3 * * * *" has "1-2-3" in field 1 (minute), which is not a minute; write 0 to 59, or *
        "? * * * *"
          cron: "? * * * *" has "?" in field 1 (minute), which is not a minute; write 0 to 59, or *
        "0 0 15W9 * *"
          cron: "0 0 15W9 * *" has "15W9" in field 3 (day of the month), which is not a day of the month; write 1 to 31, or *
        "0 0 32W * *"
          cron: "0 0 32W * *" has "32W" in field 3 (day of the month), which is out of range; write 1 to 31
        "0 0 W * *"
          cron: "0 0 W * *" has "W" in field 3 (day of the month), which is not a day of the month; write 1 to 31, or *
        "0 0 * * MON#6"
          cron: "0 0 * * MON#6" has "MON#6" in field 5 (day of the week), which counts no week of a month; write #1 to #5, or MONL
        "0 0 * * MON#+1"
          cron: "0 0 * * MON#+1" has "MON#+1" in field 5 (day of the week), which counts no week of a month; write #1 to #5, or MONL
        "0 0 * * #2"
          cron: "0 0 * * #2" has "#2" in field 5 (day of the week), which is not a day of the week; write 0 to 7 or SUN to SAT, or *
        "0 0 * * L"
          cron: "0 0 * * L" has "L" in field 5 (day of the week), which is not a day of the week; write 0 to 7 or SUN to SAT, or *
        "0 0 30 2 *"
          cron: "0 0 30 2 *" never comes: no month it names has such a day; write a day that exists, or L for the last day of the month
        "0 0 31 4,6,9,11 *"
          cron: "0 0 31 4,6,9,11 *" never comes: no month it names has such a day; write a day that exists, or L for the last day of the month
        "@reboot"
          cron: "@reboot" is unknown; use one of @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly
        "CRON_TZ=Europe/Berlin 0 9 * * *"
          cron: "CRON_TZ=Europe/Berlin 0 9 * * *" names its time zone; leave that out and give the zone apart
        "٣ * * * *"
          cron: "٣ * * * *" has "٣" in field 1 (minute), which is not a minute; write 0 to 59, or *
    "##]],
    );
}

#[test]
fn a_bad_schedule_is_answered_with_every_problem() {
    let forms = [
        json!("0 9 * * *"),
        json!({"id": "a"}),
        json!({"cron": "@daily", "every": "5m", "overlap": "skp", "jiter": "1s"}),
        json!({"id": "", "cron": "61 * * * *", "zone": "Berlin", "catch_up": "0s"}),
        json!({"id": "a", "cron": "@daily", "zone": "Europe/Berlni"}),
        json!({"id": "a", "cron": "@daily", "zone": "Mars"}),
        json!({"id": "a", "cron": "@daily", "zone": "Etc/Unknown"}),
        json!({"id": "a", "cron": "@daily", "zone": "+02:00"}),
        json!({"id": "a", "cron": "@daily", "anchor": "2026-01-01T00:00:00Z"}),
        json!({"id": "a", "every": 5}),
        json!({"id": "a", "every": "0s", "zone": "UTC"}),
        json!({"id": "a", "every": "900ms"}),
        json!({"id": "a", "every": "1.0005s"}),
        json!({"id": "a", "every": "1h", "anchor": "2026-01-01"}),
        json!({"id": "a", "every": "1h", "anchor": "9999-06-01T00:00:00Z"}),
        json!({"id": "a", "every": "1h", "not_before": "2026-01-01T00:00:00.0001Z"}),
        json!({
            "id": "a", "every": "1h",
            "not_before": "2026-02-01T00:00:00Z", "not_after": "2026-01-01T00:00:00Z"
        }),
        json!({
            "id": "a", "cron": "0 0 29 2 *",
            "not_before": "2026-01-01T00:00:00Z", "not_after": "2027-01-01T00:00:00Z"
        }),
        json!({"id": "line\nbreak", "cron": "@daily"}),
        json!({"id": "a", "cron": "@daily", "paused": "yes", "overlap": "queue"}),
    ];
    let read = |form: &Value| Schedule::from_value(form).err().map(|problems| problems.to_string());
    refused(
        &forms,
        read,
        expect![[r#"
            "0 9 * * *"
              "0 9 * * *" is not a schedule: {"id": ..., "cron": ...}
            {"id":"a"}
              cron: missing; write "cron": "0 9 * * *" or "every": "5m"
            {"cron":"@daily","every":"5m","jiter":"1s","overlap":"skp"}
              id: missing, and required; every: stands beside cron; a schedule has one of them; overlap: "skp" is unknown; did you mean "skip"?; unknown field "jiter"; did you mean "jitter"?
            {"catch_up":"0s","cron":"61 * * * *","id":"","zone":"Berlin"}
              id: "" is empty; give the schedule a name; cron: "61 * * * *" has "61" in field 1 (minute), which is out of range; write 0 to 59; zone: "Berlin" is no time zone; did you mean "Europe/Berlin"?; catch_up: 0s would miss firings that are only a moment late; write "1s" or more
            {"cron":"@daily","id":"a","zone":"Europe/Berlni"}
              zone: "Europe/Berlni" is no time zone; did you mean "Europe/Berlin"?
            {"cron":"@daily","id":"a","zone":"Mars"}
              zone: "Mars" is no time zone; write a name such as "Europe/Berlin" or "UTC"
            {"cron":"@daily","id":"a","zone":"Etc/Unknown"}
              zone: "Etc/Unknown" is no time zone; write a name such as "Europe/Berlin" or "UTC"
            {"cron":"@daily","id":"a","zone":"+02:00"}
              zone: "+02:00" is no time zone; write a name such as "Europe/Berlin" or "UTC"
            {"anchor":"2026-01-01T00:00:00Z","cron":"@daily","id":"a"}
              anchor: belongs to an interval; a cron expression says itself when
            {"every":5,"id":"a"}
              every: 5 has no unit; write "5s" or "5ms"
            {"every":"0s","id":"a","zone":"UTC"}
              every: 0s is shorter than a second; write "1s" or more; zone: belongs to a cron expression; an interval is the same everywhere
            {"every":"900ms","id":"a"}
              every: 900ms is shorter than a second; write "1s" or more
            {"every":"1.0005s","id":"a"}
              every: 1000.5ms is finer than a millisecond; round it
            {"anchor":"2026-01-01","every":"1h","id":"a"}
              anchor: "2026-01-01" is not a time; write the date, the time and the offset, such as "2026-11-15T09:00:00Z" or "2026-11-15T10:00:00+01:00"
            {"anchor":"9999-06-01T00:00:00Z","every":"1h","id":"a"}
              anchor: 9999-06-01T00:00:00Z is outside the years 1 to 9998
            {"every":"1h","id":"a","not_before":"2026-01-01T00:00:00.0001Z"}
              not_before: "2026-01-01T00:00:00.0001Z" is finer than a millisecond; round it
            {"every":"1h","id":"a","not_after":"2026-01-01T00:00:00Z","not_before":"2026-02-01T00:00:00Z"}
              not_after: 2026-01-01T00:00:00Z is before not_before, 2026-02-01T00:00:00Z
            {"cron":"0 0 29 2 *","id":"a","not_after":"2027-01-01T00:00:00Z","not_before":"2026-01-01T00:00:00Z"}
              not_after: 2027-01-01T00:00:00Z leaves no firing since not_before, 2026-01-01T00:00:00Z
            {"cron":"@daily","id":"line\nbreak"}
              id: "line\nbreak" holds a control character
            {"cron":"@daily","id":"a","overlap":"queue","paused":"yes"}
              overlap: "queue" is unknown; use one of "skip", "buffer_one", "allow"; paused: "yes" is not true or false
        "#]],
    );
}

#[test]
fn both_written_forms_say_everything() {
    let schedule = Schedule::new("report", Rule::cron("0 9 * * *").in_zone("Europe/Berlin"))
        .overlap(Overlap::BufferOne)
        .catch_up(seconds(3600))
        .jitter(seconds(30))
        .paused(true)
        .not_before(at("2026-01-01T00:00:00Z"))
        .not_after(at("2027-01-01T00:00:00.5Z"));
    let every =
        Schedule::new("poll", Rule::every(seconds(90)).anchored_at(at("2026-01-01T00:00:00Z")));
    let mut text = String::new();
    for schedule in [schedule, every] {
        let form = serde_json::to_value(&schedule).unwrap();
        assert_eq!(Schedule::from_value(&form).unwrap(), schedule);
        assert_eq!(Schedule::from_stored(&schedule.to_stored()).unwrap(), schedule);
        text += &format!("{form}\n{}\n", schedule.to_stored());
    }
    expect![[r#"
        {"catch_up":"1h","cron":"0 9 * * *","id":"report","jitter":"30s","not_after":"2027-01-01T00:00:00.500Z","not_before":"2026-01-01T00:00:00Z","overlap":"buffer_one","paused":true,"zone":"Europe/Berlin"}
        {"v":1,"schedule":{"id":"report","cron":"0 9 * * *","zone":"Europe/Berlin","overlap":"buffer_one","catch_up":"1h","jitter":"30s","paused":true,"not_before":"2026-01-01T00:00:00Z","not_after":"2027-01-01T00:00:00.500Z"}}
        {"anchor":"2026-01-01T00:00:00Z","every":"90s","id":"poll"}
        {"v":1,"schedule":{"id":"poll","every":"90s","anchor":"2026-01-01T00:00:00Z"}}
    "#]].assert_eq(&text);
}

#[test]
fn a_decision_in_pieces_comes_to_the_same() {
    let now = at("2026-01-01T01:00:30Z");
    for overlap in [Overlap::Skip, Overlap::BufferOne, Overlap::Allow] {
        let schedule = minutely().overlap(overlap).catch_up(Duration::from_secs(600));
        let schedule = schedule.check().unwrap();
        let mut state = State::new(at("2026-01-01T00:00:30Z"));
        state.buffered = Some(state.decided).filter(|_| overlap == Overlap::BufferOne);
        let whole = decide(&schedule, &state, now, false);
        let (mut started, mut open) = (Vec::new(), false);
        let wake_at = loop {
            let piece = decide_at_most(&schedule, &state, now, open, 1);
            assert!(piece.start.len() <= 1);
            started.extend(&piece.start);
            (state, open) = (piece.state, true);
            if piece.wake_at != Some(now) {
                break piece.wake_at;
            }
        };
        assert_eq!((started, state, wake_at), (whole.start, whole.state, whole.wake_at));
    }
}

#[test]
fn the_stored_forms_of_a_newer_version_are_read() {
    let stored = r#"{"v": 2, "schedule": {"id": "a", "cron": "@daily", "colour": "red"}}"#;
    let read = Schedule::from_stored(stored).unwrap();
    assert_eq!(read, Schedule::new("a", Rule::cron("@daily")));
    let stored = r#"{"v": 2, "decided": 5, "missed": 1, "colour": "red"}"#;
    let state = State { missed: 1, ..State::new(Timestamp::from_millis(5)) };
    assert_eq!(State::from_stored(stored).unwrap(), state);
    for broken in ["", "{}", "[]", r#"{"v":1}"#, r#"{"v":1,"schedule":{"id":"a"}}"#] {
        assert!(Schedule::from_stored(broken).is_err(), "{broken}");
        assert!(State::from_stored(broken).is_err(), "{broken}");
    }
}

/// Decides at each time and tells what happened, one line per decision.
fn story(schedule: &CheckedSchedule, created: &str, wakes: &[(&str, bool)]) -> String {
    let mut state = State::new(at(created));
    let mut text = String::new();
    for (now, open) in wakes {
        let decision = decide(schedule, &state, at(now), *open);
        let starts: Vec<String> =
            decision.start.iter().map(|nominal| schedule.instance_id(*nominal)).collect();
        let open = if *open { "open" } else { "closed" };
        let mut line = format!("{} {open:6}: start [{}]", &now[11..], starts.join(", "));
        if decision.missed > 0 {
            line += &format!(", missed {}", decision.missed);
        }
        if decision.skipped > 0 {
            line += &format!(", skipped {}", decision.skipped);
        }
        if let Some(buffered) = decision.state.buffered {
            line += &format!(", buffered {}", time_text(buffered));
        }
        let wake = decision.wake_at.map_or("never".to_string(), time_text);
        text += &format!("{line}; wake {wake}\n");
        state = State::from_stored(&decision.state.to_stored()).unwrap();
    }
    text
}

fn minutely() -> Schedule {
    Schedule::new("m", Rule::cron("* * * * *"))
}

#[test]
fn overlap_is_judged_on_the_last_instance() {
    let wakes = [
        ("2026-01-01T00:01:00Z", false),
        ("2026-01-01T00:02:00Z", true),
        ("2026-01-01T00:03:00Z", true),
        ("2026-01-01T00:03:20Z", false),
        ("2026-01-01T00:04:00Z", false),
    ];
    let mut text = String::new();
    for overlap in [Overlap::Skip, Overlap::BufferOne, Overlap::Allow] {
        let schedule = minutely().overlap(overlap).check().unwrap();
        text += &format!("{overlap:?}\n{}", story(&schedule, "2026-01-01T00:00:30Z", &wakes));
    }
    expect![[r#"
        Skip
        00:01:00Z closed: start [m/2026-01-01T00:01:00Z]; wake 2026-01-01T00:02:00Z
        00:02:00Z open  : start [], skipped 1; wake 2026-01-01T00:03:00Z
        00:03:00Z open  : start [], skipped 1; wake 2026-01-01T00:04:00Z
        00:03:20Z closed: start []; wake 2026-01-01T00:04:00Z
        00:04:00Z closed: start [m/2026-01-01T00:04:00Z]; wake 2026-01-01T00:05:00Z
        BufferOne
        00:01:00Z closed: start [m/2026-01-01T00:01:00Z]; wake 2026-01-01T00:02:00Z
        00:02:00Z open  : start [], buffered 2026-01-01T00:02:00Z; wake 2026-01-01T00:03:00Z
        00:03:00Z open  : start [], skipped 1, buffered 2026-01-01T00:02:00Z; wake 2026-01-01T00:04:00Z
        00:03:20Z closed: start [m/2026-01-01T00:02:00Z]; wake 2026-01-01T00:04:00Z
        00:04:00Z closed: start [m/2026-01-01T00:04:00Z]; wake 2026-01-01T00:05:00Z
        Allow
        00:01:00Z closed: start [m/2026-01-01T00:01:00Z]; wake 2026-01-01T00:02:00Z
        00:02:00Z open  : start [m/2026-01-01T00:02:00Z]; wake 2026-01-01T00:03:00Z
        00:03:00Z open  : start [m/2026-01-01T00:03:00Z]; wake 2026-01-01T00:04:00Z
        00:03:20Z closed: start []; wake 2026-01-01T00:04:00Z
        00:04:00Z closed: start [m/2026-01-01T00:04:00Z]; wake 2026-01-01T00:05:00Z
    "#]].assert_eq(&text);
}

#[test]
fn firings_older_than_the_window_are_missed_and_counted() {
    let created = "2026-01-01T00:00:00Z";
    let mut text = String::new();
    // Exactly as late as the window is still in time.
    let default = minutely().check().unwrap();
    let wakes = [("2026-01-01T00:03:00Z", false), ("2026-01-01T00:05:00.001Z", false)];
    text += &story(&default, created, &wakes);
    let wide = minutely().catch_up(seconds(240)).overlap(Overlap::Allow).check().unwrap();
    text += &story(&wide, created, &[("2026-01-01T01:00:30Z", false)]);
    let buffer = minutely().catch_up(seconds(240)).overlap(Overlap::BufferOne).check().unwrap();
    let wakes = [("2026-01-01T01:00:30Z", false), ("2026-01-01T01:00:40Z", false)];
    text += &story(&buffer, created, &wakes);
    expect![[r#"
        00:03:00Z closed: start [m/2026-01-01T00:02:00Z], missed 1, skipped 1; wake 2026-01-01T00:04:00Z
        00:05:00.001Z closed: start [m/2026-01-01T00:05:00Z], missed 1; wake 2026-01-01T00:06:00Z
        01:00:30Z closed: start [m/2026-01-01T00:57:00Z, m/2026-01-01T00:58:00Z, m/2026-01-01T00:59:00Z, m/2026-01-01T01:00:00Z], missed 56; wake 2026-01-01T01:01:00Z
        01:00:30Z closed: start [m/2026-01-01T00:57:00Z], missed 56, skipped 2, buffered 2026-01-01T00:58:00Z; wake 2026-01-01T01:01:00Z
        01:00:40Z closed: start [m/2026-01-01T00:58:00Z]; wake 2026-01-01T01:01:00Z
    "#]].assert_eq(&text);
}

#[test]
fn a_paused_schedule_does_nothing_and_forgets() {
    let running = minutely().overlap(Overlap::Allow).check().unwrap();
    let paused = minutely().paused(true).check().unwrap();
    let state = State::new(at("2026-01-01T00:00:00Z"));
    let decision = decide(&paused, &state, at("2026-01-01T00:10:00Z"), false);
    assert_eq!((decision.start.len(), &decision.state, decision.wake_at), (0, &state, None));
    let resumed = at("2026-01-01T00:10:10Z");
    let decision = decide(&running, &state.forget_until(resumed), resumed, false);
    assert_eq!((decision.start.len(), decision.missed), (0, 0));
    assert_eq!(decision.wake_at, Some(at("2026-01-01T00:11:00Z")));
}

#[test]
fn bounds_hold_at_both_ends_and_then_it_is_over() {
    let schedule = minutely()
        .overlap(Overlap::Allow)
        .catch_up(seconds(3600))
        .not_before(at("2026-01-01T00:05:00Z"))
        .not_after(at("2026-01-01T00:07:00Z"))
        .check()
        .unwrap();
    let wakes = [("2026-01-01T00:01:00Z", false), ("2026-01-01T00:30:00Z", false)];
    expect![[r#"
        00:01:00Z closed: start []; wake 2026-01-01T00:05:00Z
        00:30:00Z closed: start [m/2026-01-01T00:05:00Z, m/2026-01-01T00:06:00Z, m/2026-01-01T00:07:00Z]; wake never
    "#]].assert_eq(&story(&schedule, "2026-01-01T00:00:00Z", &wakes));
}

#[test]
fn jitter_delays_the_start_and_not_the_name() {
    let schedule = Schedule::new("j", Rule::every(seconds(60)))
        .jitter(seconds(600))
        .overlap(Overlap::Allow)
        .check()
        .unwrap();
    let wakes = [
        ("2026-01-01T00:01:00Z", false),
        ("2026-01-01T00:01:59.999Z", false),
        ("2026-01-01T00:04:00Z", false),
    ];
    expect![[r#"
        00:01:00Z closed: start []; wake 2026-01-01T00:01:51.179Z
        00:01:59.999Z closed: start [j/2026-01-01T00:01:00Z]; wake 2026-01-01T00:02:11.589Z
        00:04:00Z closed: start [j/2026-01-01T00:03:00Z], missed 1; wake 2026-01-01T00:04:59.308Z
    "#]]
    .assert_eq(&story(&schedule, "2026-01-01T00:00:30Z", &wakes));
    // Another id draws other delays.
    let other = Schedule { id: "k".into(), ..schedule.clone().into_inner() }.check().unwrap();
    let nominal = at("2026-01-01T00:01:00Z");
    assert_ne!(schedule.due_at(nominal), other.due_at(nominal));
}

#[test]
fn delays_spread_evenly_over_the_jitter() {
    let schedule =
        Schedule::new("spread", Rule::every(seconds(60))).jitter(seconds(10)).check().unwrap();
    let mut tenths = [0; 10];
    for n in 0..10_000 {
        let nominal = Timestamp::from_millis(n * 60_000);
        let delay = schedule.due_at(nominal).since(nominal);
        tenths[usize::try_from(delay.as_millis() / 1000).unwrap()] += 1;
    }
    assert!(tenths.iter().all(|count| (850..1150).contains(count)), "{tenths:?}");
}

#[test]
fn ten_years_of_downtime_are_decided_at_once() {
    let second = |overlap| {
        Schedule::new("s", Rule::cron("* * * * * *").in_zone("Europe/Berlin"))
            .overlap(overlap)
            .catch_up(seconds(365 * 86_400))
            .jitter(seconds(86_400))
            .check()
            .unwrap()
    };
    let state = State::new(at("2026-01-01T00:00:00Z"));
    let now = at("2036-01-01T00:00:00Z");
    let year = 365 * 86_400;
    // Ten hours that came twice fired once; the other firings are one per second.
    let decision = decide(&second(Overlap::Skip), &state, now, false);
    assert_eq!(decision.start.len(), 1);
    let all = decision.missed + decision.skipped + 1;
    let waiting = u64::from(decision.wake_at.unwrap() > now && decision.state.decided < now);
    assert_eq!(all + waiting, 10 * year + 2 * 86_400 - 10 * 3600);
    let decision = decide(&second(Overlap::Allow), &state, now, true);
    assert_eq!((decision.start.len(), decision.wake_at), (BATCH, Some(now)));
}

#[test]
fn a_backfill_lists_a_range_and_refuses_a_flood() {
    let schedule = minutely().not_before(at("2030-01-01T00:00:00Z")).check().unwrap();
    let (from, to) = (at("2026-01-01T00:00:00Z"), at("2026-01-01T00:02:00Z"));
    let times: Vec<String> =
        schedule.backfill(from, to).unwrap().into_iter().map(time_text).collect();
    assert_eq!(times, ["2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z"]);
    assert_eq!(schedule.backfill(from, at("2026-01-07T22:39:00Z")).unwrap().len(), 10_000);
    let errors = [
        schedule.backfill(from, at("2026-01-07T22:40:00Z")),
        schedule.backfill(to, from),
        schedule.backfill(Timestamp::from_millis(i64::MIN), Timestamp::from_millis(i64::MAX)),
    ];
    let errors: Vec<String> = errors.map(|error| error.unwrap_err().to_string()).into();
    expect![[r#"
        the backfill from 2026-01-01T00:00:00Z to 2026-01-07T22:40:00Z has 10001 firings, and at most 10000 are started at once; take a shorter range
        the backfill ends at 2026-01-01T00:00:00Z, before it begins at 2026-01-01T00:02:00Z
        the backfill from -9223372036854775808ms to 9223372036854775807ms has 5258439360 firings, and at most 10000 are started at once; take a shorter range"#]].assert_eq(&errors.join("\n"));
}

#[test]
fn hostile_rules_are_refused_or_answered() {
    // That this comes to an end is the point: nothing goes through seconds or firings one by one.
    for text in ["9".repeat(1_000_000), "*,".repeat(1_000_000), "@".repeat(99), "é".repeat(400)] {
        assert!(Rule::cron(text.clone()).check().is_err());
        assert!(Rule::cron("@daily").in_zone(text.clone()).check().is_err());
        let schedule = Schedule::new(text, Rule::cron("@daily"));
        assert!(schedule.check().is_err() || schedule.id.len() == 99);
    }
    let rules = [
        Rule::cron("* * * * * *").in_zone("Europe/Berlin"),
        Rule::cron("0 0 29 2 */3").in_zone("Africa/Casablanca"),
        Rule::cron("0 0 * 2 1#5"),
        Rule::every(seconds(1)),
        Rule::every(resurgam_core::duration::LONGEST),
    ];
    let times = [i64::MIN, -62_135_596_800_000, -1, 253_370_764_799_999, i64::MAX];
    let times = times.map(Timestamp::from_millis);
    for rule in rules {
        let schedule = Schedule::new("h", rule).jitter(seconds(7)).check().unwrap();
        for after in times {
            let next = schedule.next(after);
            assert!(next.is_none_or(|next| next > after && schedule.due_at(next) >= next));
            assert_eq!(schedule.count(after, after), 0);
        }
        let [first, .., last] = times;
        for (after, until) in [(first, last), (last, first)] {
            assert_eq!(schedule.count(after, until) == 0, until < after);
            assert_eq!(schedule.last(after, until).is_none(), until < after);
            let decision = decide(&schedule, &State::new(after), until, false);
            assert_eq!(decision.missed == 0, until < after);
            let _ = schedule.backfill(after, until);
        }
    }
    for bad in [Duration::ZERO, Duration::MAX, Duration::from_nanos(1)] {
        assert!(Rule::every(bad).check().is_err());
        let schedule = Schedule::new("a", Rule::every(seconds(1)));
        assert!(schedule.clone().catch_up(bad).check().is_err());
        let _ = schedule.jitter(bad).check();
    }
}

/// Runs with a fixed seed and writes nothing to disk.
fn config(cases: u32) -> ProptestConfig {
    let mut config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = cases;
    }
    if let RngSeed::Random = config.rng_seed {
        config.rng_seed = RngSeed::Fixed(1);
    }
    config
}

fn field(min: u8, max: u8) -> impl Strategy<Value = String> {
    let value = move || min..=max;
    let range = (value(), value()).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b)));
    prop_oneof![
        3 => Just("*".to_string()),
        3 => value().prop_map(|value| value.to_string()),
        1 => (1..=max).prop_map(|step| format!("*/{step}")),
        1 => (range.clone(), 1..=max).prop_map(|(range, step)| format!("{range}/{step}")),
        1 => range,
        1 => (value(), value(), value()).prop_map(|(a, b, c)| format!("{a},{b},{c}")),
    ]
}

/// A field for days as both we and croner read it: we follow crontab(5) where one begins with a
/// star and has a step, croner does not.
fn days(extra: &'static [&'static str], min: u8, max: u8) -> impl Strategy<Value = String> {
    let plain = field(min, max).prop_filter("a star with a step", |text| !text.starts_with("*/"));
    prop_oneof![4 => plain, 1 => proptest::sample::select(extra).prop_map(str::to_string)]
}

fn expression() -> impl Strategy<Value = String> {
    let day = days(&["L", "LW", "1W", "15W", "31W", "?", "L,5", "30W,2"], 1, 31);
    let weekday = days(&["MON-FRI", "1#1", "5#5", "0L", "SUN", "6#2,MON", "7", "5-7"], 0, 6);
    (field(0, 59), field(0, 59), field(0, 23), day, field(1, 12), weekday).prop_map(
        |(second, minute, hour, day, month, weekday)| {
            format!("{second} {minute} {hour} {day} {month} {weekday}")
        },
    )
}

fn zone() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(vec![
        "UTC",
        "Europe/Berlin",
        "America/New_York",
        "Australia/Lord_Howe",
        "Africa/Casablanca",
        "Pacific/Apia",
        "Asia/Kathmandu",
        "America/St_Johns",
    ])
}

/// Often close to a change of the clock.
fn time() -> impl Strategy<Value = Timestamp> {
    let changes = [
        "2026-03-29T01:00:00Z",
        "2026-10-25T01:00:00Z",
        "2026-11-01T06:00:00Z",
        "2026-04-04T15:00:00Z",
        "2026-10-03T15:30:00Z",
        "2011-12-30T10:00:00Z",
        "2026-03-08T05:30:00Z",
    ];
    let near = (proptest::sample::select(changes.to_vec()), -20_000_000..20_000_000_i64)
        .prop_map(|(change, offset)| Timestamp::from_millis(at(change).as_millis() + offset));
    prop_oneof![2 => near, 1 => (-2_000_000_000_000..6_000_000_000_000_i64).prop_map(Timestamp::from_millis)]
}

fn rule() -> impl Strategy<Value = Rule> {
    prop_oneof![
        4 => (expression(), zone()).prop_map(|(text, zone)| Rule::cron(text).in_zone(zone)),
        1 => (1_000..100_000_000_u64, time()).prop_map(|(millis, anchor)| {
            Rule::every(Duration::from_millis(millis)).anchored_at(anchor)
        }),
    ]
}

proptest! {
    #![proptest_config(config(512))]

    #[test]
    fn in_utc_we_agree_with_croner(text in expression(), after in time()) {
        let start = jiff::Timestamp::from_second(after.as_millis().div_euclid(1000)).unwrap();
        let start = start.to_zoned(jiff::tz::TimeZone::UTC);
        let cron: Cron = CronParser::new().parse(&text).unwrap();
        let Ok(rule) = Rule::cron(text).check() else {
            // We say at once what croner finds out at the end of its calendar.
            prop_assert!(cron.find_next_occurrence(&start, false).is_err());
            return Ok(());
        };
        let ours: Vec<i64> = rule
            .firings(after, Timestamp::from_millis(i64::MAX))
            .take(20)
            .map(Timestamp::as_millis)
            .collect();
        let theirs = cron.iter_after(start).take(20);
        let theirs: Vec<i64> = theirs.map(|time| time.timestamp().as_millisecond()).collect();
        prop_assert_eq!(ours, theirs);
    }

    #[test]
    fn firings_rise_and_the_clock_shows_what_the_rule_says(
        text in expression(), zone in zone(), after in time(),
    ) {
        let Ok(rule) = Rule::cron(text.clone()).in_zone(zone).check() else { return Ok(()) };
        let cron: Cron = CronParser::new().parse(&text).unwrap();
        let known = jiff::tz::TimeZoneDatabase::bundled().get(zone).unwrap();
        let mut last = after;
        for firing in rule.firings(after, Timestamp::from_millis(i64::MAX)).take(50) {
            prop_assert!(firing > last);
            last = firing;
            let moment = jiff::Timestamp::from_millisecond(firing.as_millis()).unwrap();
            let shown = moment.to_zoned(known.clone());
            let before = (moment - jiff::SignedDuration::from_secs(1)).to_zoned(known.clone());
            // It shows it, or it has just gone past it.
            let forward = shown.offset() > before.offset();
            prop_assert!(forward || cron.is_time_matching(&shown).unwrap(), "{text} at {shown}");
        }
    }

    #[test]
    fn a_range_in_two_parts_has_the_same_firings(
        rule in rule(), from in time(), first in 0..40_000_000_i64, second in 0..40_000_000_i64,
    ) {
        let Ok(rule) = rule.check() else { return Ok(()) };
        let middle = Timestamp::from_millis(from.as_millis() + first);
        let end = Timestamp::from_millis(middle.as_millis() + second);
        let whole: Vec<Timestamp> = rule.firings(from, end).collect();
        let parts: Vec<Timestamp> =
            rule.firings(from, middle).chain(rule.firings(middle, end)).collect();
        prop_assert_eq!(rule.count(from, end), whole.len() as u64);
        prop_assert_eq!(rule.count(from, middle) + rule.count(middle, end), whole.len() as u64);
        prop_assert_eq!(rule.last(from, end), whole.last().copied());
        prop_assert_eq!(whole, parts);
    }

    #[test]
    fn long_ranges_are_counted_as_they_are_listed(rule in rule(), from in time(), days in 1..900_i64) {
        let Ok(rule) = rule.check() else { return Ok(()) };
        let end = Timestamp::from_millis(from.as_millis() + days * 86_400_000);
        let count = rule.count(from, end);
        if count < 20_000 {
            prop_assert_eq!(rule.firings(from, end).count() as u64, count);
        }
    }

    #[test]
    fn however_it_is_woken_each_firing_is_decided_once(
        rule in rule(),
        overlap in proptest::sample::select(vec![Overlap::Skip, Overlap::BufferOne, Overlap::Allow]),
        window in 1..200_000_u64,
        jitter in prop_oneof![Just(0), 1..400_000_u64],
        created in time(),
        wakes in proptest::collection::vec((0..150_000_u64, any::<bool>()), 1..40),
    ) {
        let schedule = Schedule::new("p", rule)
            .overlap(overlap)
            .catch_up(Duration::from_millis(window.max(1000)))
            .jitter(Duration::from_millis(jitter));
        let Ok(schedule) = schedule.check() else { return Ok(()) };
        let mut state = State::new(created);
        let mut now = created;
        let (mut started, mut last_wake) = (Vec::new(), None);
        for (wait, open) in wakes {
            now = now.saturating_add(Duration::from_millis(wait));
            // Without a start there is no instance that could be open.
            let open = open && state.last.is_some();
            let decision = decide(&schedule, &state, now, open);
            prop_assert_eq!(&decision, &decide(&schedule, &state, now, open));
            for nominal in &decision.start {
                prop_assert!(schedule.due_at(*nominal) <= now);
                let buffered = state.buffered == Some(*nominal);
                let late = now.since(schedule.due_at(*nominal));
                prop_assert!(buffered || late <= schedule.catch_up);
            }
            if overlap != Overlap::Allow {
                prop_assert!(decision.start.len() <= usize::from(!open));
            }
            prop_assert!(decision.wake_at.is_none_or(|wake| wake > now || decision.start.len() == BATCH));
            started.extend(decision.start.iter().copied());
            last_wake = decision.wake_at;
            state = decision.state;
        }
        prop_assert!(started.is_sorted_by(|a, b| a < b), "{started:?}");
        // Everything due was started, missed, skipped or waits; nothing was lost or counted twice.
        let due = schedule.firings(created, now).filter(|nominal| schedule.due_at(*nominal) <= now);
        let known = started.len() as u64
            + state.missed
            + state.skipped
            + u64::from(state.buffered.is_some());
        if last_wake != Some(now) {
            prop_assert_eq!(due.count() as u64, known);
        }
    }

    #[test]
    fn any_text_is_refused_or_understood(text in "[-0-9*/,#LW?@A-Z ]{0,40}", after in any::<i64>()) {
        if let Ok(rule) = Rule::cron(text).check() {
            let after = Timestamp::from_millis(after);
            prop_assert!(rule.next(after).is_none_or(|next| next > after));
        }
    }
}

proptest! {
    #![proptest_config(config(64))]

    #[test]
    fn every_second_is_judged_as_the_sentence_says(
        text in expression(), zone in zone(), after in time(),
    ) {
        let Ok(rule) = Rule::cron(text.clone()).in_zone(zone).check() else { return Ok(()) };
        let cron: Cron = CronParser::new().parse(&text).unwrap();
        let known = jiff::tz::TimeZoneDatabase::bundled().get(zone).unwrap();
        let start = after.as_millis().div_euclid(1000);
        let wall = |second: i64| {
            let moment = jiff::Timestamp::from_second(second).unwrap();
            second + i64::from(known.to_offset(moment).seconds())
        };
        let matching = |wall: i64| {
            let shown = jiff::tz::Offset::UTC.to_datetime(jiff::Timestamp::from_second(wall).unwrap());
            cron.is_time_matching(&shown).unwrap()
        };
        // The furthest the clock had come; a day and a half before covers every change, and
        // clocks change on the minute.
        let before = (start - 130_000..=start).filter(|at| *at == start || at.rem_euclid(60) == 59);
        let mut seen = before.map(wall).max().unwrap();
        let mut expected = Vec::new();
        let length = 20_000;
        for second in start + 1..=start + length {
            let now = wall(second);
            if now > seen {
                if (seen + 1..=now).any(matching) {
                    expected.push(second * 1000);
                }
                seen = now;
            }
        }
        let until = Timestamp::from_millis((start + length) * 1000);
        let firings: Vec<i64> = rule.firings(after, until).map(Timestamp::as_millis).collect();
        prop_assert_eq!(firings, expected);
    }
}
