//! The guides, in the order in which to read them. They are the files of the folder `docs`; their
//! code is compiled, and most of it run, with the tests of this crate.
#![doc = ""]
#![doc = include_str!("links.md")]
#![doc = ""]
#![doc = include_str!("../docs/README.md")]

// A link from one guide to another has a label that is the file it leads to, such as
// `[retries][retries.md]`. The file defines the label at its end, for whoever reads the file.
// `links.md` defines it for these pages, and comes first because the first definition holds. So
// the line that a failing example is reported at counts from the top of `links.md`.

macro_rules! guides {
    ($($(#[$when:meta])* $name:ident $file:literal;)*) => {$(
        $(#[$when])*
        #[doc = include_str!("links.md")]
        #[doc = ""]
        #[doc = include_str!(concat!("../docs/", $file))]
        pub mod $name {}
    )*};
}

guides! {
    getting_started "getting-started.md";
    // With its pictures, which have no other place here.
    #[doc = include_str!("../docs/pictures/inline.md")]
    retries "retries.md";
    failures "failures.md";
    activities "activities.md";
    workflows "workflows.md";
    testing "testing.md";
    storage "storage.md";
    sharing "sharing.md";
    // Read by everybody, compiled only where it can be.
    #[cfg(any(feature = "postgres", not(doctest)))]
    postgres "postgres.md";
    production "production.md";
    scaling "scaling.md";
    transactions "transactions.md";
    schedules "schedules.md";
    inbox "inbox.md";
    operating "operating.md";
    // With its pictures, as that of retries.
    #[doc = include_str!("../docs/pictures/inline.md")]
    gates "gates.md";
    operations "operations.md";
    server "server.md";
    api "api.md";
    remote_workers "remote-workers.md";
    threat_model "threat-model.md";
    command_line "command-line.md";
    ir "ir.md";
    graph "graph.md";
    python "python.md";
    docker "docker.md";
    #[doc = include_str!("../docs/pictures/inline.md")]
    performance "performance.md";
    comparison "comparison.md";
}

/// Errors by their codes.
///
/// Every error that people see has a short code, such as `B1` or `D3`: it stands before the message
/// on the command line and in what `main` prints, and [`Error::code`](crate::Error::code) gives it
/// to a program. `resurgam explain` lists them all, and `resurgam explain B1` prints the
/// page of one: what happened, how it comes about, what to do.
pub mod errors {}

/// For people who come from another system: their code and ours, side by side.
pub mod coming_from {
    guides! {
        edda "coming-from/edda.md";
        duroxide "coming-from/duroxide.md";
        rappel "coming-from/rappel.md";
        cadence "coming-from/cadence.md";
        exosphere "coming-from/exosphere.md";
    }
}
