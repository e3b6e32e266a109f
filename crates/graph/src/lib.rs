//! JSON graphs of nodes, run as workflows.
//!
//! A template says which nodes there are, what they get and what follows them; nodes are
//! activities that are called by name. [`Template::parse`] reads one and refuses what makes no
//! sense, with every mistake at once; [`Template::start`] makes a run of it; [`definition`] is the
//! workflow that runs it; [`listing`] tells what became of every state.
//!
//! The form is Exosphere's, so that templates can be brought along unchanged; what we do better is
//! in `docs/graph.md`. The way of a run through the code: `read.rs` and `check.rs` (JSON to a
//! graph that makes sense), `template.rs` (with inputs, a store and encrypted secrets to the
//! argument of a workflow), `plan.rs` (ready to run), `book/` (what follows what: pure), `run.rs`
//! (the workflow around it), `listing.rs`.
//!
//! ```
//! use resurgam_graph::{Start, Template, definition};
//!
//! let template = Template::parse(r#"{
//!     "secrets": {},
//!     "nodes": [
//!         {"node_name": "Fetch", "namespace": "demo", "identifier": "fetch",
//!          "inputs": {"url": "https://example.com"}, "next_nodes": ["parse"]},
//!         {"node_name": "Parse", "namespace": "demo", "identifier": "parse",
//!          "inputs": {"page": "${{ fetch.outputs.body }}"}, "next_nodes": []}
//!     ],
//!     "retry_policy": {"max_retries": 5, "strategy": "EXPONENTIAL_FULL_JITTER"}
//! }"#)?;
//! let started = template.start(&Start::default())?;
//! let workflow = definition("graph"); // to be registered; started.run is its argument
//! assert_eq!(workflow.name, "graph");
//! # Ok::<(), resurgam_core::config::Problems>(())
//! ```

mod book;
mod check;
mod lax;
mod listing;
pub mod model;
mod node_call;
mod notes;
mod plan;
mod read;
mod reference;
mod run;
mod schema;
mod secrets;
mod summary;
mod template;
mod topology;

pub use book::{RunStatus, Status};
pub use listing::{Attempt, Ended, Listing, StateRow, listing};
pub use model::Graph;
pub use node_call::{NodeCall, node_activity, outputs_of, secret_variable, without_secrets};
pub use run::{GraphRun, definition};
pub use schema::json_schema;
pub use secrets::{KEY_VARIABLE, SecretsError, SecretsKey};
pub use template::{Start, Started, Template};

/// The most nodes of a graph.
pub const MAX_NODES: usize = 20_000;
