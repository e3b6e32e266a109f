//! API tokens are kept, and stay when they are revoked; logins go when they end.

use super::fixtures::*;

use crate::{LoginRow, LoginWrite, Store, TokenRow, TokenWrite};

fn token(id: &str) -> TokenRow {
    TokenRow {
        id: id.to_string(),
        name: format!("the \"{id}\" of ü"),
        role: "read".to_string(),
        hash: "00ff".to_string(),
        settings: "{}".to_string(),
        by: "ana".to_string(),
        created_at: at(7),
        revoked_at: None,
    }
}

pub async fn a_token_comes_back_as_it_was(store: &dyn Store) {
    assert_eq!(store.tokens().await.unwrap(), []);
    for id in ["b", "a"] {
        assert!(store.write_token(TokenWrite::Insert(token(id))).await.unwrap());
    }
    assert_eq!(store.tokens().await.unwrap(), [token("a"), token("b")]);
    let other = TokenRow { name: "other".to_string(), ..token("a") };
    assert!(!store.write_token(TokenWrite::Insert(other)).await.unwrap());
    assert_eq!(store.tokens().await.unwrap()[0], token("a"));
}

pub async fn a_token_is_revoked_once_and_stays(store: &dyn Store) {
    let revoke = |id: &str, ms| TokenWrite::Revoke { id: id.to_string(), at: at(ms) };
    assert!(!store.write_token(revoke("a", 8)).await.unwrap());
    store.write_token(TokenWrite::Insert(token("a"))).await.unwrap();
    assert!(store.write_token(revoke("a", 8)).await.unwrap());
    assert!(!store.write_token(revoke("a", 9)).await.unwrap());
    let expected = TokenRow { revoked_at: Some(at(8)), ..token("a") };
    assert_eq!(store.tokens().await.unwrap(), [expected]);
}

fn login(hash: &str, ends: i64) -> LoginRow {
    LoginRow {
        hash: hash.to_string(),
        token: "a".to_string(),
        bound: "ff\"ü".to_string(),
        created_at: at(7),
        ends_at: at(ends),
    }
}

pub async fn a_login_is_kept_until_it_ends_or_is_ended(store: &dyn Store) {
    let insert = |row: LoginRow, before| LoginWrite::Insert { row, ended_before: at(before) };
    let delete = |hash: &str| LoginWrite::Delete { hash: hash.to_string() };
    assert_eq!(store.login("00").await.unwrap(), None);
    assert!(store.write_login(insert(login("00", 50), 0)).await.unwrap());
    assert!(store.write_login(insert(login("11", 90), 50)).await.unwrap());
    assert_eq!(store.login("00").await.unwrap(), Some(login("00", 50)));
    assert!(!store.write_login(insert(login("11", 99), 0)).await.unwrap(), "it is taken");
    assert_eq!(store.login("11").await.unwrap(), Some(login("11", 90)));
    assert!(store.write_login(insert(login("22", 99), 51)).await.unwrap());
    assert_eq!(store.login("00").await.unwrap(), None, "it has ended");
    assert!(store.write_login(delete("11")).await.unwrap());
    assert!(!store.write_login(delete("11")).await.unwrap());
    assert_eq!(store.login("11").await.unwrap(), None);
    assert_eq!(store.login("22").await.unwrap(), Some(login("22", 99)));
}
