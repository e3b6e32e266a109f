//! What `sslmode` asks of the server's certificate.

use std::io::Write;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use resurgam_postgres_server::Server;
use resurgam_store_postgres::PostgresStore;
use resurgam_watchdog::test;
use tempfile::NamedTempFile;

use crate::support::*;

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    Authority::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn file(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

/// Starts a server of its own.
#[test(minutes = 15)]
async fn a_certificate_is_believed_as_far_as_sslmode_says() {
    let (trusted, stranger) = (authority(), authority());
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_string()]).unwrap();
    let certificate = params.signed_by(&key, &trusted).unwrap();
    let server = Server::start();
    server.use_certificate(&certificate.pem(), &key.serialize_pem()).await;
    let database = server.database().await;
    // The server reads its settings again when it gets to it.
    let offered = async || (database.ask("SHOW ssl").await == "on").then_some(());
    poll("encryption", offered).await;
    let (trusted, stranger) = (file(&trusted.pem()), file(&stranger.pem()));
    let roots = |file: &NamedTempFile| format!("sslrootcert={}", file.path().display());
    let (trusted, stranger) = (roots(&trusted), roots(&stranger));
    let table = [
        ("127.0.0.1", "sslmode=disable".to_string(), true),
        ("127.0.0.1", "sslmode=require".to_string(), true),
        ("127.0.0.1", format!("sslmode=verify-ca&{trusted}"), true),
        ("127.0.0.1", format!("sslmode=verify-full&{trusted}"), false),
        ("127.0.0.1", format!("sslmode=verify-ca&{stranger}"), false),
        ("localhost", format!("sslmode=verify-full&{trusted}"), true),
        ("localhost", format!("sslmode=verify-full&{stranger}"), false),
        ("localhost", "sslmode=verify-full".to_string(), false),
    ];
    for (host, mode, believed) in table {
        let url = format!("{}?{mode}", database.tcp_url().replace("127.0.0.1", host));
        let connected = PostgresStore::connect(&url, few()).await;
        match connected {
            Ok(store) => {
                assert!(believed, "{host} {mode}");
                let ssl = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
                           WHERE application_name = 'resurgam'";
                let expected = if mode == "sslmode=disable" { "f" } else { "t" };
                assert_eq!(database.ask(ssl).await, expected, "{host} {mode}");
                drop(store);
                gone(&database).await;
            }
            Err(error) => {
                assert!(!believed, "{host} {mode}: {error}");
                assert!(error.is_unusable(), "{error}");
                assert!(error.to_string().contains("check sslmode and sslrootcert"), "{error}");
            }
        }
    }
}

/// Waits until the connections of a store have ended.
async fn gone(database: &resurgam_postgres_server::Database<'_>) {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'resurgam'";
    poll("their end", async || (database.ask(sql).await == "0").then_some(())).await;
}
