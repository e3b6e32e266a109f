//! What an app says at its start when the database is not one that it can use. Tests that need a
//! server have a quarter of an hour: it may have to be installed first.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use resurgam::App;
use resurgam_postgres_server::Server;
use resurgam_watchdog::test;

/// What an app says that begins on this URL, and whether asking again may help.
async fn refused(url: &str) -> (String, bool) {
    let error = App::builder().postgres(url).await.expect_err("it begins");
    (error.to_string(), error.is_transient())
}

fn says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word:?} is not in: {text}");
    }
}

#[test]
async fn a_url_that_is_none_is_answered_with_one() {
    let (text, may_pass) = refused("orders.example.com").await;
    says(&text, &["the URL cannot be read", "postgres://user:password@host:5432/database"]);
    assert!(!may_pass);
}

#[test]
async fn a_server_that_is_not_there_is_named_and_may_be_there_later() {
    let (text, may_pass) = refused("postgres://somebody@127.0.0.1:1/orders").await;
    says(&text, &["orders at 127.0.0.1:1", "check that the server runs, and the host and port"]);
    assert!(may_pass);
}

#[test(minutes = 15)]
async fn a_wrong_password_is_named_and_not_shown() {
    let database = Server::shared().database().await;
    let (text, may_pass) = refused(&database.tcp_url().replace("a%20test", "s3cret")).await;
    says(&text, &["the password is wrong", "check both in the URL"]);
    assert!(!may_pass && !text.contains("s3cret"), "{text}");
}

#[test(minutes = 15)]
async fn a_database_that_is_not_there_is_named() {
    let (text, may_pass) = refused(&Server::shared().url("nowhere")).await;
    says(&text, &["nowhere at", "there is no such database"]);
    assert!(!may_pass);
}

#[test(minutes = 15)]
async fn missing_rights_are_named_with_who_can_give_them() {
    let database = Server::shared().database().await;
    database.run("CREATE ROLE visitor LOGIN").await;
    let (text, may_pass) = refused(&database.url().replace("resurgam@", "visitor@")).await;
    says(&text, &["make schema resurgam", "GRANT CREATE ON DATABASE"]);
    assert!(!may_pass);
}

#[test(minutes = 15)]
async fn the_tables_of_another_program_are_left_alone() {
    let database = Server::shared().database().await;
    database.run("CREATE SCHEMA resurgam; CREATE TABLE resurgam.orders (id int)").await;
    let (text, may_pass) = refused(&database.url()).await;
    says(&text, &["tables of another program", "name another schema"]);
    assert!(!may_pass);
}

#[test]
async fn a_server_that_is_too_old_is_told_which_one_would_do() {
    let (text, may_pass) = refused(&server_of_version(120_017)).await;
    says(&text, &["it is PostgreSQL 12.17", "13 is the oldest", "upgrade it"]);
    assert!(!may_pass);
}

/// The URL of something that speaks as a server of this version does, as far as it is asked.
fn server_of_version(version: i32) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || listener.incoming().flatten().for_each(|client| serve(client, version)));
    format!("postgres://somebody@127.0.0.1:{port}/orders?sslmode=disable")
}

/// Lets a client in, and answers whatever it asks with one row: the version, and two zeros.
fn serve(mut client: TcpStream, version: i32) {
    let mut length = [0; 4];
    client.read_exact(&mut length).unwrap();
    client.read_exact(&mut vec![0; u32::from_be_bytes(length) as usize - 4]).unwrap();
    let ready = message(b'Z', b"I");
    client.write_all(&[message(b'R', &0_i32.to_be_bytes()), ready.clone()].concat()).unwrap();
    let column = |name: &str, type_id: i32, size: i16| {
        let mut column = [name.as_bytes(), &[0; 7]].concat();
        column.extend(type_id.to_be_bytes());
        column.extend(size.to_be_bytes());
        column.extend((-1_i32).to_be_bytes());
        column.extend(1_i16.to_be_bytes());
        column
    };
    let three = 3_i16.to_be_bytes().to_vec();
    let columns = [three.clone(), column("v", 23, 4), column("t", 20, 8), column("c", 20, 8)];
    let number = |bytes: &[u8]| [&(bytes.len() as i32).to_be_bytes(), bytes].concat();
    let zero = number(&0_i64.to_be_bytes());
    let row = [three, number(&version.to_be_bytes()), zero.clone(), zero];
    let parts = [
        message(b'1', b""),
        message(b'2', b""),
        message(b'T', &columns.concat()),
        message(b'D', &row.concat()),
        message(b'C', b"SELECT 1\0"),
        ready,
    ];
    let answer = parts.concat();
    let mut head = [0; 5];
    while client.read_exact(&mut head).is_ok() {
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        client.read_exact(&mut vec![0; length - 4]).unwrap();
        // The end of a question.
        if head[0] == b'S' {
            client.write_all(&answer).unwrap();
        }
    }
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as i32 + 4).to_be_bytes();
    [&[kind], length.as_slice(), body].concat()
}
