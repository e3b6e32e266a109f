//! The alerts for Prometheus name numbers that there are, and lead to views that there are.

use std::collections::{BTreeMap, BTreeSet};

use resurgam_checks::read;
use resurgam_watchdog::test;

/// The numbers that the engine keeps, by the name and the kind that Prometheus knows them by.
fn numbers() -> BTreeMap<String, String> {
    let mut numbers = BTreeMap::new();
    for line in read("docs/operations.md").lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, name, kind, ..] = cells[..] else { continue };
        let Some(name) = name.strip_prefix("`resurgam.") else { continue };
        let name = format!("resurgam_{}", name.trim_end_matches('`'));
        match kind.split(',').next() {
            Some("counter") => numbers.insert(format!("{name}_total"), kind.to_string()),
            Some("gauge" | "histogram") => numbers.insert(name, kind.to_string()),
            _ => continue,
        };
    }
    assert!(numbers.len() > 20, "{numbers:?}");
    numbers
}

/// The words of a text that begin with this.
fn words(text: &str, start: &str) -> BTreeSet<String> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let found = text.split(|letter| !is_part(letter)).filter(|word| word.starts_with(start));
    found.map(str::to_string).collect()
}

/// What stands behind the key in each line that begins with it.
fn values<'a>(text: &'a str, key: &str) -> Vec<&'a str> {
    let lines = text.lines().map(|line| line.trim().trim_start_matches("- "));
    lines.filter_map(|line| line.strip_prefix(key)?.strip_prefix(": ")).collect()
}

#[test]
fn alerts_are_about_numbers_that_the_engine_keeps() {
    let (alerts, numbers) = (read("docs/alerts.yml"), numbers());
    let rules = values(&alerts, "expr");
    assert!(rules.len() > 8, "{rules:?}");
    for rule in &rules {
        let named = words(rule, "resurgam_");
        assert!(!named.is_empty() || rule.contains("up{job="), "{rule} names no number of ours");
        for name in named {
            let kind = numbers.get(&name).unwrap_or_else(|| panic!("{rule}: there is no {name}"));
            let has_quantile = rule.contains(&format!("{name}{{quantile=\"0.99\"}}"));
            assert_eq!(kind == "histogram", has_quantile, "{rule}: {name} is a {kind}");
            let has_gate = rule.contains("by (gate)");
            assert_eq!(kind.contains("by `gate`"), has_gate, "{rule}: {name} is a {kind}");
        }
    }
    // Those that the page about alarms names, too, where they are of use to Prometheus.
    let page = read("docs/operations.md");
    let alarms = page.split("\n## Alarms\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let named = words(&rules.join(" "), "resurgam_");
    let named: BTreeSet<&str> = named.iter().map(|name| name.trim_end_matches("_total")).collect();
    for name in alarms.split('`').filter_map(|text| text.strip_prefix("resurgam.")) {
        let is_in = named.contains(format!("resurgam_{name}").as_str());
        assert!(is_in || name == "inbox_refused", "no alert is about resurgam.{name}");
    }
}

#[test]
fn every_alert_leads_to_a_view_that_knows_its_filters() {
    let (alerts, main) = (read("docs/alerts.yml"), read("crates/server/ui/main.js"));
    let links = values(&alerts, "dashboard");
    assert_eq!(links.len(), values(&alerts, "alert").len(), "each has a link");
    for link in links {
        let place = link.split_once("/ui/#/").map(|(_, place)| place);
        let place = place.unwrap_or_else(|| panic!("{link} leads to no view"));
        let (view, query) = place.split_once('?').unwrap_or((place, ""));
        assert!(main.contains(&format!("\n  {view}: ")), "{link}: there is no view {view}");
        let page = read(&format!("crates/server/ui/{view}.js"));
        for filter in query.split('&').filter(|filter| !filter.is_empty()) {
            let name = filter.split('=').next().unwrap();
            let is_known = page.contains(&format!("get(\"{name}\")"));
            assert!(is_known, "{link}: the view {view} has no filter {name}");
        }
    }
}
