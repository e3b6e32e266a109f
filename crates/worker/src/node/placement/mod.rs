//! Whether this node works, and which shards it holds.

pub(crate) mod held_shards;
pub(crate) mod role;
pub(crate) mod shards;
