//! Steps on their way to the disk: what they do once they are durable, how they are gathered into
//! batches, and what follows from the store's answers.

pub(crate) mod batch_writer;
pub(crate) mod effect;
pub(crate) mod outbox;
pub(crate) mod pending;
pub(crate) mod refusal;
pub(crate) mod split_step;
