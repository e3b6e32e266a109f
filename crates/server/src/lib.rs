//! Resurgam over HTTP: an API for people and programs.
//!
//! Nobody needs a server: the library and the command line are complete without it. It adds one
//! place to look at and to operate from, for whoever has no access to the database.
//!
//! [`router`] makes an [`axum::Router`] of a [`Client`](resurgam::Client). It can be mounted under
//! a path of your own application, beside your own routes and behind your own authentication;
//! `resurgam server` is the same router with a listener of its own ([`serve`]).
//!
//! ```
//! use resurgam::prelude::*;
//! use resurgam_server::{Options, router};
//!
//! #[workflow]
//! async fn welcome(_ctx: WorkflowContext, name: String) -> Result<String, Failure> {
//!     Ok(format!("hello, {name}"))
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), resurgam::Error> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let file = folder.path().join("app.db");
//! let app = App::builder().workflow(welcome).sqlite(&file).await?;
//! let yours: axum::Router = axum::Router::new();
//! // Behind your own authentication: without `open` it asks for tokens of its own.
//! let all = yours.nest("/resurgam", router(&app, Options::default().open()));
//! # let _ = all;
//! # app.stop().await
//! # }
//! ```
//!
//! Everything is below `/api/v1`, and described by `/openapi.json`. The API reads rows and stores
//! requests as every client does, so it can stand beside processes whose workflows it does not
//! know. What this crate deliberately has not: any decision about a run or a call. Those are the
//! engine's.

mod access;
mod api;
mod audit;
mod caller;
mod compress;
mod extract;
mod links;
mod names;
mod openapi;
mod pages;
mod problem;
mod remote;
mod routes;
mod serve;
mod switch;
mod ui;
mod wire;

pub use access::{NewToken, Role, Token, TokenSettings};
pub use api::{Api, Options, router};
pub use remote::Remote;
pub use serve::{Limits, Network, Refused, Tls, serve};
pub use switch::Switch;
