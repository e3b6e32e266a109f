//! Who works on a file: whoever has its lock, which ends with the process.

use resurgam_core::Shard;
use resurgam_store::fleet::Fence;
use resurgam_store::model::Writer;
use resurgam_store::rows::Owner;
use resurgam_store::{Node, Ownership, Owning, Result};

use crate::database::Database;
use crate::store::SimulatedStore;

/// Takes the lock of the file, unless somebody has it.
pub(crate) async fn own(store: &SimulatedStore, node: Node) -> Result<Owning> {
    let take = move |database: &mut Database| -> Result<std::result::Result<Fence, Owner>> {
        let name = node.name.clone();
        if let Some(owner) = database.join(node) {
            return Ok(Err(owner));
        }
        let taken = database.model.take(&name, Shard::all());
        Ok(Ok(Fence::new(name, taken)))
    };
    let fence = match store.change("take the lock", take).await? {
        Ok(fence) => fence,
        Err(owner) => return Ok(Owning::Held(owner)),
    };
    let shards: Vec<Shard> = fence.shards().collect();
    *store.writer() = Writer::Node(fence);
    // The world takes the lock back when the process ends.
    Ok(Owning::Taken(Ownership::new((), shards)))
}
