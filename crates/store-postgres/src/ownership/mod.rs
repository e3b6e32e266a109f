//! Who works on which shard, and how one that was overtaken is kept from writing.
//!
//! A node says that it is alive by raising a number in its own row, its beat. Others watch it: who
//! has seen a beat stand still for a whole lease, by a clock of their own and while the database
//! answered, knows that its node is dead and removes it, and its shards are free. Clocks are never
//! compared, and an outage of the database kills nobody. Taking a shard raises its epoch. Every
//! commit of an owner names its epochs and is refused when one of them is no longer the present
//! one, so a node that was only asleep can write nothing when it wakes.
//!
//! A store beats, watches and works out who should have what by itself, in real time. Moving a
//! shard is the engine's: what is to be given up must first be brought to rest there.
//!
//! What is decided from the rows is pure and elsewhere: [`resurgam_store::fleet`].
//!
//! - `rows`: the statements. `member`: the node of a store. `heartbeat`: its beat.

mod heartbeat;
mod member;
mod rows;

pub(crate) use member::Member;
