//! A process without the rights it needs is told which, and leaves everything as it was. Each test
//! starts one.

#![cfg(unix)]

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::support::process::{self, Process};
use crate::support::*;
use resurgam_store::{Commit, Inspect, Node, Own, Owning};
use resurgam_store_sqlite::SqliteStore;
use resurgam_watchdog::test;

#[test(minutes = 15)]
async fn a_file_that_may_only_be_read_is_refused() {
    let folder = made().await;
    rights(&folder.path, 0o444);
    let path = folder.path.display();
    refused(&folder, &[&format!("open {path}: it can only be read"), "let this process write"]);
}

#[test(minutes = 15)]
async fn a_file_that_may_not_even_be_read_is_refused() {
    let folder = made().await;
    rights(&folder.path, 0o000);
    refused(&folder, &["orders.db: ", "may read and write"]);
}

#[test(minutes = 15)]
async fn a_folder_that_may_only_be_read_is_refused() {
    let folder = made().await;
    rights(folder.path.parent().unwrap(), 0o555);
    refused(&folder, &["orders.db: ", "folder", "-wal and -shm"]);
}

#[test(minutes = 15)]
async fn a_file_that_may_not_be_made_is_refused() {
    let folder = Folder::new();
    rights(folder.path.parent().unwrap(), 0o555);
    refused(&folder, &["orders.db: ", "make files in its folder"]);
}

#[test(minutes = 15)]
async fn a_file_in_a_folder_that_may_not_be_entered_is_refused() {
    let folder = Folder::new();
    let closed = folder.file("closed");
    fs::create_dir(&closed).unwrap();
    rights(folder.path.parent().unwrap(), 0o777);
    rights(&closed, 0o000);
    let said = opened_by_somebody(&folder, &closed.join("orders.db"));
    assert!(
        said[0].starts_with("unusable: ") && said[0].contains("may read and write"),
        "{said:?}"
    );
}

#[test(minutes = 15)]
async fn who_may_not_write_the_lock_file_is_told_so_and_can_be_a_client() {
    let folder = made().await;
    drop(own(&folder.open(), "node-a").await);
    rights(&folder.file("orders.db-owner"), 0o444);
    let lock = folder.file("orders.db-owner").display().to_string();
    let said = opened_by_somebody(&folder, &folder.path);
    assert_eq!(said[..3], ["opened", "written", "no owner"]);
    let expected = format!("this process may not read and write {lock}; let it");
    assert!(said[3].starts_with("unusable: take the right to work in "), "{said:?}");
    assert!(said[3].contains(&expected), "{said:?}");

    rights(&folder.file("orders.db-owner"), 0o000);
    let said = opened_by_somebody(&folder, &folder.path);
    assert!(said[2].contains(&expected), "{said:?}");
}

/// Somebody with more rights has the files of the write-ahead log made already.
#[test(minutes = 15)]
async fn who_may_not_make_the_lock_file_is_told_so_and_can_be_a_client() {
    let folder = made().await;
    let store = folder.open();
    write(&store, [start(1)]).await;
    rights(folder.path.parent().unwrap(), 0o555);
    let said = opened_by_somebody(&folder, &folder.path);
    rights(folder.path.parent().unwrap(), 0o777);
    assert_eq!(said[..3], ["opened", "written", "no owner"]);
    assert!(said[3].starts_with("unusable: "), "{said:?}");
    let lock = folder.file("orders.db-owner");
    let expected = format!("may not make {}; let it write to that folder", lock.display());
    assert!(said[3].contains(&expected) && !lock.exists(), "{said:?}");
}

#[test(minutes = 15)]
async fn whoever_may_write_the_database_may_own_it_after_somebody_else() {
    let folder = made().await;
    drop(own(&folder.open(), "node-a").await);
    let said = opened_by_somebody(&folder, &folder.path);
    assert_eq!(said, ["opened", "written", "no owner", "owns"]);
    drop(own(&folder.open(), "node-b").await);
}

/// Nobody has it open: reading needs no files, and makes none.
#[test(minutes = 15)]
async fn who_may_only_read_can_look_at_a_database_that_nobody_has_open() {
    for (file, parent) in [(0o444, 0o555), (0o444, 0o777), (0o666, 0o555)] {
        let folder = written().await;
        looked_at(&folder, file, parent);
    }
}

/// As somebody leaves it who was killed before the log was removed.
#[test(minutes = 15)]
async fn who_may_only_read_can_look_at_a_database_whose_log_is_empty() {
    for (file, parent) in [(0o444, 0o555), (0o444, 0o777), (0o666, 0o555)] {
        let folder = written().await;
        fs::write(folder.file("orders.db-wal"), "").unwrap();
        rights(&folder.file("orders.db-wal"), file);
        looked_at(&folder, file, parent);
    }
}

/// A database with an instance, which nobody has open.
async fn written() -> Folder {
    let folder = made().await;
    let store = folder.open();
    write(&store, [start(1)]).await;
    store.close().await;
    folder
}

/// Shows that somebody finds the instance with these rights to the file and its folder, and leaves
/// everything as it was.
fn looked_at(folder: &Folder, file: u32, parent: u32) {
    rights(&folder.path, file);
    rights(folder.path.parent().unwrap(), parent);
    let before = files(folder);
    let said = said_by_somebody(folder, &folder.path, "rights::looker");
    rights(folder.path.parent().unwrap(), 0o777);
    assert!(found(&said), "{file:o} in {parent:o}: {said:?}");
    assert!(said[2].starts_with("unusable: ") && said[2].contains("can only be read"), "{said:?}");
    assert_eq!(files(folder), before, "{file:o} in {parent:o}");
}

#[test(minutes = 15)]
async fn who_may_only_read_can_look_at_a_database_while_others_write_it() {
    let folder = made().await;
    let store = folder.open();
    write(&store, [start(1)]).await;
    rights(&folder.path, 0o444);
    for name in ["orders.db-wal", "orders.db-shm"] {
        rights(&folder.file(name), 0o444);
    }
    rights(folder.path.parent().unwrap(), 0o555);
    let said = said_by_somebody(&folder, &folder.path, "rights::looker");
    rights(folder.path.parent().unwrap(), 0o777);
    assert!(found(&said), "{said:?}");
    assert!(said[2].starts_with("unusable: "), "{said:?}");
}

/// Whether a looker could open the database and found the instance.
fn found(said: &[String]) -> bool {
    said.iter().take(2).eq(["opened", "found"])
}

/// A folder with a database in it, both for everybody to write.
async fn made() -> Folder {
    let folder = Folder::new();
    rights(folder.path.parent().unwrap(), 0o777);
    folder.open().close().await;
    rights(&folder.path, 0o666);
    folder
}

fn rights(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Lets somebody without special rights open the database, who must be refused because of these
/// words, and must leave the folder as it was.
fn refused(folder: &Folder, words: &[&str]) {
    let before = files(folder);
    let said = opened_by_somebody(folder, &folder.path);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with("unusable: "), "{said:?}");
    for word in words {
        assert!(said[0].contains(word), "{word:?} is not in: {said:?}");
    }
    rights(folder.path.parent().unwrap(), 0o777);
    assert_eq!(files(folder), before);
}

/// Every file with its size and time.
fn files(folder: &Folder) -> BTreeMap<String, (u64, i64)> {
    let files = fs::read_dir(folder.path.parent().unwrap()).unwrap().map(Result::unwrap);
    let described = files.map(|file| {
        let about = file.metadata().unwrap();
        (file.file_name().into_string().unwrap(), (about.len(), about.mtime_nsec()))
    });
    described.collect()
}

/// What somebody without special rights says who opens a database and tries everything with it.
fn opened_by_somebody(folder: &Folder, database: &Path) -> Vec<String> {
    said_by_somebody(folder, database, "rights::somebody")
}

/// What somebody without special rights says who plays this part.
fn said_by_somebody(folder: &Folder, database: &Path, part: &str) -> Vec<String> {
    let elsewhere = tempfile::TempDir::new().unwrap();
    let mut program = Command::new(std::env::current_exe().unwrap());
    if fs::metadata(elsewhere.path()).unwrap().uid() == 0 {
        // Rights do not bind root. Who else may come to where this program lies is not known, so a
        // copy of it lies where everybody may. Another process makes it: what this one has open to
        // write, the children of other tests have open for a moment too, and nobody can run it.
        let copy = elsewhere.path().join("program");
        let made = Command::new("cp").arg(program.get_program()).arg(&copy).status().unwrap();
        assert!(made.success());
        rights(elsewhere.path(), 0o755);
        rights(&copy, 0o755);
        program = Command::new(copy);
        program.uid(NOBODY).gid(NOBODY).current_dir(elsewhere.path());
        if fs::metadata(folder.path.parent().unwrap()).unwrap().mode() & 0o077 == 0 {
            rights(folder.path.parent().unwrap(), 0o755);
        }
    }
    let mut somebody = Process::spawn(program, part, database);
    std::iter::from_fn(|| somebody.hear()).collect()
}

/// The id of the user and group that has no rights, nearly everywhere.
const NOBODY: u32 = 65_534;

#[test(minutes = 15)]
#[ignore = "other tests start it as a process of another user"]
async fn somebody() {
    let Some(path) = process::database() else { return };
    let store = match SqliteStore::open(path, patient()) {
        Ok(store) => store,
        Err(error) => return process::say(told(&error)),
    };
    process::say("opened");
    let number = u128::from(std::process::id());
    say(store.commit([start(number)].into()).await.map(|_| "written"));
    say(store.owner().await.map(|owner| if owner.is_some() { "an owner" } else { "no owner" }));
    say(store.try_own(Node::new("somebody")).await.map(|owning| match owning {
        Owning::Taken(_) => "owns",
        Owning::Held(_) => "held",
    }));
}

#[test(minutes = 15)]
#[ignore = "other tests start it as a process of another user"]
async fn looker() {
    let Some(path) = process::database() else { return };
    let store = match SqliteStore::open_existing(path, patient()) {
        Ok(store) => store,
        Err(error) => return process::say(told(&error)),
    };
    process::say("opened");
    say(store.find("order-1").await.map(|row| if row.is_some() { "found" } else { "not found" }));
    say(store.commit([start(9)].into()).await.map(|_| "written"));
    store.close().await;
}

fn say(answer: resurgam_store::Result<&str>) {
    match answer {
        Ok(answer) => process::say(answer),
        Err(error) => process::say(told(&error)),
    }
}

fn told(error: &resurgam_store::Error) -> String {
    let kind = if error.is_unusable() { "unusable" } else { "another kind" };
    format!("{kind}: {error}")
}
