//! `resurgam policy` as a user meets it: the real program, its text, its exit codes.

// Clippy allows it in tests, and does not count their helpers among them.

mod bad_input;
mod check;
mod convert;
mod eval;
mod explain;
mod pictures;
mod run;
mod simulate;
