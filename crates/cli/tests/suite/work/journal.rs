//! What tests that kill processes at any instant have in common: moments from a seed, and a journal
//! that attempts write themselves, a line for each that begins: the instance, the idempotency key
//! and the number.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::support::{Place, events};

/// The seed is printed. `RESURGAM_SEED` repeats the moments of the kills, as far as moments can be
/// repeated.
pub(crate) fn random() -> fastrand::Rng {
    let seed = std::env::var("RESURGAM_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("RESURGAM_SEED={seed}");
    fastrand::Rng::with_seed(seed)
}

/// The result of so many squares, in turn and side by side, without any trouble.
pub(crate) fn expected(n: u64) -> Value {
    let rows: Vec<u64> = (0..n).map(|i| i * i).collect();
    json!({"total": rows.iter().sum::<u64>(), "rows": rows})
}

/// Compares the journal with what was recorded about an instance. Answers with how many attempts
/// were lost.
pub(crate) fn audit(place: &Place, id: &str) -> usize {
    let history = place.json(&["history", id]);
    let attempts = place.json(&["attempts", id]);
    // The attempts that began, by the place of their call: the end of the idempotency key.
    let mut begun: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for line in place.text("journal").lines() {
        let words: Vec<&str> = line.split(' ').collect();
        if words[0] == id {
            let seq = words[1].rsplit('/').next().unwrap().parse().unwrap();
            begun.entry(seq).or_default().push(words[2].parse().unwrap());
        }
    }
    let completed = events(&history, "ActivityCompleted");
    assert_eq!(completed.len(), events(&history, "ActivityScheduled").len());
    for done in &completed {
        let (seq, last) = (done["activity"].as_u64().unwrap(), done["attempt"].as_u64().unwrap());
        let begun = &begun[&seq];
        assert!(begun.windows(2).all(|two| two[0] < two[1]), "#{seq} began as {begun:?}");
        assert_eq!(begun.last(), Some(&last), "#{seq} began again after it was recorded");
        let rows = attempts.as_array().unwrap().iter().filter(|row| row["seq"] == seq);
        let rows: Vec<&Value> = rows.collect();
        for attempt in &begun[..begun.len() - 1] {
            let is_there = rows.iter().any(|row| row["attempt"] == *attempt);
            assert!(is_there, "attempt {attempt} of #{seq} began and left no row");
        }
        let failures = rows.iter().filter(|row| row["outcome"] == "failed").count();
        assert!(failures <= 5, "#{seq} failed {failures} times, and 5 retries were allowed");
    }
    attempts.as_array().unwrap().iter().filter(|row| row["outcome"] == "lost").count()
}
