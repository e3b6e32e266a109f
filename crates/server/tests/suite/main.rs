//! The API, asked in process through its router.

mod description;
mod reading;
mod serving;
mod support;
