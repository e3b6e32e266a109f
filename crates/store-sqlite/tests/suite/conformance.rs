//! The promises of every store, on a file and in memory.

mod on_a_file {
    use std::ops::Deref;

    use resurgam_store_sqlite::{Options, SqliteStore};
    use resurgam_watchdog::test;
    use tempfile::TempDir;

    struct OnDisk {
        store: SqliteStore,
        _folder: TempDir,
    }

    impl Deref for OnDisk {
        type Target = SqliteStore;

        fn deref(&self) -> &SqliteStore {
            &self.store
        }
    }

    async fn fresh() -> OnDisk {
        let folder = TempDir::new().unwrap();
        let store = SqliteStore::open(folder.path().join("orders.db"), Options::default()).unwrap();
        OnDisk { store, _folder: folder }
    }

    resurgam_store::conformance_tests!(fresh);
}

mod in_memory {
    use resurgam_store_sqlite::SqliteStore;
    use resurgam_watchdog::test;

    async fn fresh() -> Box<SqliteStore> {
        Box::new(SqliteStore::in_memory().unwrap())
    }

    resurgam_store::conformance_tests!(fresh);
}
