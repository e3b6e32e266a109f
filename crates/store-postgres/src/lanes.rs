//! Several lanes of one kind: whoever wants one takes the first that is free.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use resurgam_store::{Error, Result};
use tokio::sync::{Mutex, MutexGuard, Semaphore, SemaphorePermit};

use crate::commit::lane::{Lane, Shared};

/// Several lanes. They connect when they are first used.
pub(crate) struct Lanes {
    lanes: Vec<Mutex<Lane>>,
    /// Who waits for a lane waits here, in the order of arrival.
    free: Semaphore,
}

/// A lane that somebody uses, until this is dropped.
pub(crate) struct Taken<'l> {
    lane: MutexGuard<'l, Lane>,
    _permit: SemaphorePermit<'l>,
}

impl Lanes {
    /// As many lanes as `count`, numbered from `first`.
    pub(crate) fn new(shared: &Arc<Shared>, first: i16, count: u16) -> Self {
        let numbers = first..first.saturating_add_unsigned(count);
        let lane = |number| Mutex::new(Lane::new(shared.clone(), number));
        let lanes: Vec<Mutex<Lane>> = numbers.map(lane).collect();
        Lanes { free: Semaphore::new(lanes.len()), lanes }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.lanes.len()
    }

    /// Waits for a lane.
    pub(crate) async fn free(&self) -> Result<Taken<'_>> {
        let closed = |_| Error::unusable("the store is closed");
        let permit = self.free.acquire().await.map_err(closed)?;
        let lane = self.lanes.iter().find_map(|lane| lane.try_lock().ok());
        let lane = lane.ok_or_else(|| Error::transient("no lane is free"))?;
        Ok(Taken { lane, _permit: permit })
    }

    /// Later calls are errors.
    pub(crate) fn close(&self) {
        self.free.close();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.free.is_closed()
    }
}

impl Deref for Taken<'_> {
    type Target = Lane;

    fn deref(&self) -> &Lane {
        &self.lane
    }
}

impl DerefMut for Taken<'_> {
    fn deref_mut(&mut self) -> &mut Lane {
        &mut self.lane
    }
}
