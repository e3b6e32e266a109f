//! Code of the user that only a store can run.

use std::any::Any;
use std::sync::Arc;

/// Code of the user that only a store can run, because it speaks that store's SQL. Everybody
/// between the activity and the store hands it on unopened; a store looks whether it is of its own
/// kind.
pub type UserWork = Arc<dyn Any + Send + Sync>;
