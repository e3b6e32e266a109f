//! Gates: what stands before a dependency that activities talk to, and holds calls back while it is
//! down.
//!
//! A call names its gate by a key, such as the name of a payment provider. While calls behind a key
//! fail, its gate shuts: nothing begins, and nobody's attempts are used up. From time to time a few
//! calls probe the dependency; when they succeed, the others come back at a growing rate. Beside
//! that a gate bounds how much begins at all.
//!
//! | file | what it has |
//! |---|---|
//! | `settings.rs`, `form.rs`, `schema.rs` | what a gate is told, and how that is written |
//! | `names.rs`, `keys.rs` | keys, patterns of keys, templates that make keys |
//! | `outcome.rs` | what counts, and how much of it there was lately |
//! | `machine.rs` | the states, and what follows what |
//! | `grants.rs` | how much may begin now |
//! | `fleet.rs`, `lease.rs` | how many nodes share that |
//! | `why.rs` | all of that in words |
//!
//! Everything is decided from arguments: the time, a random number, what was counted.

mod fleet;
mod form;
mod grants;
mod keys;
mod lease;
mod machine;
mod names;
mod outcome;
mod schema;
mod settings;
mod why;

pub use fleet::{Decided, Fleet, NodeShare, Report, Shares};
pub use grants::{Grants, Left, Meter, Share};
pub use keys::KeyTemplate;
pub use machine::{ByHand, GateState, Phase, Seen, Standing};
pub use names::{KeyPattern, LONGEST_KEY, check_key, prefix_of};
pub use outcome::{Outcome, Tally, Window, most_probed};
pub use schema::json_schema;
pub use settings::{Breaker, Budget, Gate, Rate};
pub use why::{Changed, Why};
