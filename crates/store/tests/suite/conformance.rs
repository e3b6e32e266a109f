//! The promises of every store, of a model for one node and of one for many.

mod for_one_node {
    use resurgam_store::model::{ModelStore, Sharing};
    use resurgam_watchdog::test;

    async fn fresh() -> Box<ModelStore> {
        Box::new(ModelStore::new(Sharing::OneNode))
    }

    resurgam_store::conformance_tests!(fresh);
}

mod for_many_nodes {
    use resurgam_store::model::{ModelStore, Sharing};
    use resurgam_watchdog::test;

    async fn fresh() -> Box<ModelStore> {
        Box::new(ModelStore::new(Sharing::ManyNodes))
    }

    resurgam_store::conformance_tests!(fresh);
}
