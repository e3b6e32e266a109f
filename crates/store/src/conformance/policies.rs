//! A policy is stored once, however often it is named.

use super::fixtures::*;
use crate::Store;
use crate::rows::PolicyRow;

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
