//! The examples: their own tests, in virtual time, and the programs from outside.
//!
//! The programs are modules here, so that all their tests are one binary. Their tests are written
//! as those of any app are.

#![allow(clippy::unwrap_used, dead_code)]

#[path = "../../approval/main.rs"]
mod approval;
#[path = "../../children/main.rs"]
mod children;
#[path = "../../heartbeat/main.rs"]
mod heartbeat;
#[path = "../../letters/main.rs"]
mod letters;
#[path = "../../order/main.rs"]
mod order;
mod programs;
#[path = "../../saga/main.rs"]
mod saga;
#[path = "../../transfer/main.rs"]
mod transfer;
