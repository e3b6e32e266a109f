//! Executables as activities: `@charge(order=1)` is the file `charge` in a folder.
//!
//! The arguments go in as one JSON object on standard input, the result is what comes out, and the
//! contract in full is in `docs/command-line.md`. The way of an attempt: [`folder`] finds the file,
//! [`manifest`] reads what it says about itself, [`attempt`] runs it, [`process`] is the process
//! group that it runs in, [`heartbeat`] hears its signs of life, [`output`] keeps what it prints
//! within bounds, and [`answer`] says what became of it, which is all that can be decided without a
//! process. [`lack`] tells what the node lacks from what is wrong with an action, [`mod@line`] is
//! where attempts wait for that, [`mask`] keeps secrets out of what an action says, and [`launch`]
//! sees to it that no action outlives us.

mod answer;
mod attempt;
mod folder;
mod heartbeat;
mod lack;
pub(crate) mod launch;
mod line;
mod manifest;
mod mask;
mod output;
mod process;
#[cfg(test)]
mod test_host;

pub(crate) use attempt::{Drain, GRACE, Runner};
pub(crate) use folder::Folder;
