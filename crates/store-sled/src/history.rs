//! `History`: the read model for people.

use crate::deposit_index::{index_for, matches};
use crate::keys;
use crate::prune::{Pruning, Stage};
use crate::reader::Reader;
use crate::rows::DepositRow;
use crate::store::SledStore;
use async_trait::async_trait;
use confirmd_core::{DepositFilter, DepositRecord, EventId, EventRecord, History, KeyDigest, StoreError, Timestamp};

/// Records in one page, whatever was asked for.
const PAGE_MAX: usize = 1_000;

#[async_trait]
impl History for SledStore {
    async fn deposits(
        &self,
        filter: &DepositFilter,
        after: Option<&DepositRecord>,
        limit: usize,
    ) -> Result<Vec<DepositRecord>, StoreError> {
        let (filter, after) = (filter.clone(), after.cloned());
        self.read(move |reader| deposits(reader, &filter, after.as_ref(), limit.min(PAGE_MAX))).await
    }

    async fn event(&self, id: &EventId) -> Result<Option<EventRecord>, StoreError> {
        let id = id.clone();
        self.read(move |reader| reader.event_by_id(&id)).await
    }

    async fn prune(&self, before: Timestamp) -> Result<u64, StoreError> {
        let mut pruning = Pruning::new(before);
        while pruning.stage != Stage::Done {
            pruning = self.writer.run(move |core| core.prune(pruning)).await?;
        }
        Ok(pruning.events)
    }
}

/// Newest first by the time a deposit was first seen.
fn deposits(
    reader: &Reader,
    filter: &DepositFilter,
    after: Option<&DepositRecord>,
    limit: usize,
) -> Result<Vec<DepositRecord>, StoreError> {
    let (kind, value) = index_for(filter);
    let to = match after {
        Some(last) => keys::index_entry(kind, &value, last.seen_at, &KeyDigest::of(&last.chain, &last.key)),
        None => keys::index_entry(kind, &value, Timestamp(u64::MAX), &KeyDigest([0xff; 16])),
    };
    let mut found = Vec::new();
    for entry in reader.range::<()>(&keys::index(kind, &value), &to).rev() {
        if found.len() >= limit {
            break;
        }
        let Some(digest) = keys::digest_of(&entry?.0) else { continue };
        // A commit may have moved it between the two reads.
        let Some(row) = reader.get::<DepositRow>(&keys::deposit(&digest))? else { continue };
        found.extend(Some(row).filter(|row| matches(filter, row)));
    }
    Ok(found)
}
