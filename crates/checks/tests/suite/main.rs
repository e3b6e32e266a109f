//! Checks of the repository itself: its sources are tidy, its pages say what the code does, and
//! every promise names the test that holds it to account.
//!
//! Pages that show the command line are checked by the tests of `resurgam-cli`, which have the
//! binary.

#![allow(clippy::unwrap_used)]

mod alerts;
mod first_guide;
mod graph_guide;
mod guide;
mod levers;
mod mutants;
mod node_files;
mod pages;
mod public_examples;
mod retry_guide;
mod schedule_guide;
mod semantics;
mod tidy;
