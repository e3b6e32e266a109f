//! What all connections of a store know of the primary.

use std::sync::{Mutex, MutexGuard, PoisonError};

use resurgam_store::fleet::{PrimaryMemory, Purpose, ServerRefused, ServerReport};
use tokio::sync::watch;

/// What is known of the primary.
#[derive(Debug)]
pub(super) struct Primary {
    memory: Mutex<PrimaryMemory>,
    /// How often it has become another one.
    moves: watch::Sender<u64>,
}

impl Default for Primary {
    fn default() -> Self {
        Primary { memory: Mutex::default(), moves: watch::Sender::new(0) }
    }
}

impl Primary {
    pub(super) fn memory(&self) -> MutexGuard<'_, PrimaryMemory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What tells a session that the primary has become another one.
    pub(super) fn session(&self) -> watch::Receiver<u64> {
        self.moves.subscribe()
    }

    /// Which of these servers to use.
    pub(super) fn choose(
        &self,
        purpose: Purpose,
        servers: &[ServerReport],
    ) -> Result<usize, Vec<ServerRefused>> {
        let mut memory = self.memory();
        if memory.heard(servers) {
            let timeline = memory.timeline();
            tracing::warn!(timeline, "a server was promoted: connections to others are given up");
            self.moves.send_replace(memory.moves());
        }
        memory.choose(purpose, servers)
    }

    /// Uses a server that was chosen, unless another one has turned out to be the primary
    /// meanwhile; how often the primary has become another one by then.
    pub(super) fn admit(
        &self,
        purpose: Purpose,
        server: &ServerReport,
    ) -> Result<u64, ServerRefused> {
        let mut memory = self.memory();
        if let Err(refused) = memory.choose(purpose, std::slice::from_ref(server)) {
            return Err(refused.into_iter().next().unwrap_or(ServerRefused::Standby));
        }
        if memory.admitted(server) {
            let timeline = memory.timeline();
            tracing::warn!(timeline, "another server is the primary: it was promoted");
            self.moves.send_replace(memory.moves());
        }
        Ok(memory.moves())
    }
}
