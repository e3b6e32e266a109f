//! What was done is kept once, and read across instances, the newest first.

use resurgam_core::Uid;

use super::fixtures::*;

use crate::rows::ActionRow;
use crate::{AuditRange, AuditRow, Step, Store};

fn done(id: &str, time: i64) -> AuditRow {
    AuditRow {
        id: id.to_string(),
        at: at(time),
        by: "ana (token \"ü\")".to_string(),
        token: (time > 5).then(|| "0a".to_string()),
        reason: (time > 6).then(|| "it 'hangs'".to_string()),
        kind: "start".to_string(),
        subject: "order/42".to_string(),
        told: "started order/42".to_string(),
    }
}

fn first<K>(limit: usize) -> AuditRange<K> {
    AuditRange { since: None, before: None, limit }
}

pub async fn what_was_done_comes_back_the_newest_first_and_page_by_page(store: &dyn Store) {
    assert_eq!(store.audit(first(10)).await.unwrap(), []);
    let (a, b, c, d) = (done("a", 5), done("b", 6), done("c", 6), done("d", 7));
    store.add_audit([b.clone(), a.clone()].into(), at(0)).await.unwrap();
    let again = AuditRow { told: "other".to_string(), ..b.clone() };
    store.add_audit([d.clone(), again, c.clone()].into(), at(0)).await.unwrap();
    let all = [d.clone(), c.clone(), b.clone(), a.clone()];
    assert_eq!(store.audit(first(10)).await.unwrap(), all);
    assert_eq!(store.audit(first(2)).await.unwrap(), all[..2]);
    let behind = |time: i64, id: Option<&str>| AuditRange {
        before: Some((at(time), id.map(str::to_string))),
        ..first(10)
    };
    assert_eq!(store.audit(behind(6, Some("c"))).await.unwrap(), all[2..]);
    assert_eq!(store.audit(behind(6, None)).await.unwrap(), all[3..]);
    let since = AuditRange { since: Some(at(6)), ..behind(7, None) };
    assert_eq!(store.audit(since).await.unwrap(), all[1..3]);
}

pub async fn what_was_done_long_ago_goes(store: &dyn Store) {
    store.add_audit([done("a", 5), done("b", 6)].into(), at(0)).await.unwrap();
    store.add_audit([done("c", 7)].into(), at(6)).await.unwrap();
    assert_eq!(store.audit(first(10)).await.unwrap(), [done("c", 7), done("b", 6)]);
}

pub async fn actions_of_all_instances_come_back_the_newest_first_and_page_by_page(
    store: &dyn Store,
) {
    let (early, late) = (action(2, 2, "x", 4), action(1, 2, "x", 9));
    let (other, last) = (action(1, 3, "y", 9), action(2, 3, "y", 9));
    let actions = vec![early.clone(), late.clone(), other.clone(), last.clone()];
    write(store, [start(1, "order-1"), start(2, "order-2"), Step { actions, ..step() }]).await;
    let key = |row: &ActionRow| (row.call.run.uid, row.request.id.clone());
    let mut all = [late, other, last, early];
    all.sort_by_key(|row| std::cmp::Reverse((row.at, key(row))));
    assert_eq!(store.newest_actions(first(10)).await.unwrap(), all);
    for place in 0..all.len() {
        let before = Some((all[place].at, Some(key(&all[place]))));
        let found = store.newest_actions(AuditRange { before, ..first(10) }).await.unwrap();
        assert_eq!(found, all[place + 1..]);
    }
    let range: AuditRange<(Uid, String)> =
        AuditRange { since: Some(at(4)), before: Some((at(9), None)), ..first(10) };
    assert_eq!(store.newest_actions(range).await.unwrap(), all[3..]);
    assert_eq!(store.newest_actions(first(1)).await.unwrap(), all[..1]);
}
