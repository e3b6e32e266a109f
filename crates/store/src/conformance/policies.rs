//! A policy is stored once, however often it is named. What operators set for an activity is stored
//! until they set something else.

use super::fixtures::*;
use resurgam_core::CallKey;

use crate::rows::{PolicyOverride, PolicyRow, TaskRow};
use crate::{Step, Store};

pub async fn a_policy_is_stored_once(store: &dyn Store) {
    let text = r#"{"max_attempts":8,"note":"ü"}"#;
    write(store, [step().policy("a", text).policy("b", "{}"), step().policy("a", text)]).await;
    write(store, [step().policy("a", text)]).await;
    let expected = PolicyRow { hash: "a".to_string(), text: text.to_string() };
    assert_eq!(store.policy("a").await.unwrap(), Some(expected));
    assert_eq!(store.policy("b").await.unwrap().unwrap().text, "{}");
}

pub async fn the_first_text_of_a_policy_counts(store: &dyn Store) {
    write(store, [step().policy("a", "first").policy("a", "second")]).await;
    write(store, [step().policy("a", "third")]).await;
    assert_eq!(store.policy("a").await.unwrap().unwrap().text, "first");
}

pub async fn an_unknown_policy_is_not_there(store: &dyn Store) {
    assert!(store.policy("a").await.unwrap().is_none());
}

fn set(activity: &str, policy: Option<&str>) -> PolicyOverride {
    PolicyOverride {
        activity: activity.to_string(),
        policy: policy.map(str::to_string),
        by: "ana".to_string(),
        reason: policy.map(|_| "a \"reason\"".to_string()),
        at: at(7),
        revision: 0,
    }
}

pub async fn what_is_set_for_an_activity_is_counted_and_kept(store: &dyn Store) {
    assert_eq!(store.policy_overrides().await.unwrap(), []);
    let sets = |row: PolicyOverride| Step { policy_overrides: vec![row], ..Step::default() };
    write(store, [sets(set("b", Some("{}"))), sets(set("a", Some("{\"v\":1}")))]).await;
    write(store, [sets(set("b", Some("{\"v\":2}")))]).await;
    write(store, [sets(set("a", None))]).await;
    let expected = [
        PolicyOverride { revision: 2, ..set("a", None) },
        PolicyOverride { revision: 2, ..set("b", Some("{\"v\":2}")) },
    ];
    assert_eq!(store.policy_overrides().await.unwrap(), expected);
}

pub async fn calls_of_an_activity_that_wait_are_found_page_by_page(store: &dyn Store) {
    let waits = |number, seq| TaskRow { attempt: 1, ..task(call(number, seq)) };
    for number in 1..=3 {
        let mut step = start(number, &format!("order-{number}"));
        for seq in 2..=4 {
            step = step.insert(waits(number, seq));
        }
        let other = TaskRow { name: "refund".to_string(), ..waits(number, 5) };
        let paused = TaskRow { wake_at: TaskRow::NEVER, ..waits(number, 6) };
        let running = TaskRow { claim: claim("node-a"), ..waits(number, 7) };
        let unbegun = TaskRow { attempt: 0, ..waits(number, 8) };
        write(store, [step.insert(other).insert(paused).insert(running).insert(unbegun)]).await;
    }
    let name = task(call(1, 2)).name;
    let (mut found, mut after): (Vec<CallKey>, _) = (Vec::new(), None);
    loop {
        let page = store.waiting_calls(&name, after, 4).await.unwrap();
        after = page.last().copied();
        found.extend(&page);
        if page.len() < 4 {
            break;
        }
    }
    let expected = (1..=3).flat_map(|number| (2..=4).map(move |seq| call(number, seq)));
    let mut expected: Vec<CallKey> = expected.collect();
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, expected);
    assert_eq!(store.waiting_calls("unheard of", None, 4).await.unwrap(), []);
}
