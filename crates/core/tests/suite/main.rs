//! The tests of the core, one module for each topic.

#![allow(clippy::unwrap_used)]

mod contradictions;
mod decisions;
mod dialects;
mod fingerprints;
mod forecasts;
mod gates;
mod lints;
mod properties;
mod schedules;
mod schema;
mod strategies;
mod validation;
mod vectors;
