//! `StateStore`: what a chain's watcher holds.

use crate::keys;
use crate::reader::Reader;
use crate::record::Kind;
use crate::rows::{ArchiveRow, HeldRow};
use crate::store::SledStore;
use crate::writer::Core;
use async_trait::async_trait;
use confirmd_core::{
    Archived, ByHeight, ChainId, ChainState, ChangeSet, CommitReceipt, DepositKey, Epoch, Height, Held, KeyDigest, Rescan,
    SettledDeposit, StateStore, StateVersion, StoreError, StoreId, WatchEntry,
};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

#[async_trait]
impl StateStore for SledStore {
    fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn identity(&self) -> StoreId {
        StoreId::new(self.instance()).expect("invariant: 32 hex digits")
    }

    async fn chains(&self) -> Result<Vec<ChainId>, StoreError> {
        self.writer.run(|core| Ok(core.heads.ids())).await
    }

    async fn load(&self, chain: &ChainId) -> Result<Option<ChainState>, StoreError> {
        let chain = chain.clone();
        self.writer.run(move |core| core.load(&chain)).await
    }

    async fn settled_among(&self, chain: &ChainId, keys: &[DepositKey]) -> Result<BTreeMap<DepositKey, Archived>, StoreError> {
        let (chain, keys) = (chain.clone(), keys.to_vec());
        self.read(move |reader| archived_among(reader, &chain, keys)).await
    }

    async fn settled_above(&self, chain: &ChainId, height: Height) -> Result<Vec<SettledDeposit>, StoreError> {
        let chain = chain.clone();
        let number = self.writer.run(move |core| Ok(core.heads.get(&chain).map(|head| head.number))).await?;
        let Some(number) = number else { return Ok(Vec::new()) };
        self.read(move |reader| {
            let mut settled = Vec::new();
            for row in reader.scan::<ArchiveRow>(&keys::all(Kind::Archive)) {
                let (key, ArchiveRow { chain, archived, event }) = row?;
                if chain != number || archived.height <= height || !archived.sequence.stands() {
                    continue;
                }
                let event = match event {
                    Some(position) => reader.event(position)?.map(|row| row.record(position)),
                    None => None,
                };
                settled.extend(keys::digest_of(&key).map(|digest| SettledDeposit { digest, archived, event }));
            }
            Ok(settled)
        })
        .await
    }

    async fn watched(&self, chain: &ChainId, after: Option<&[u8]>, limit: usize) -> Result<Vec<WatchEntry>, StoreError> {
        let (chain, after) = (chain.clone(), after.map(<[u8]>::to_vec));
        self.writer.run(move |core| core.watched(&chain, after.as_deref(), limit)).await
    }

    async fn rescans(&self, chain: &ChainId) -> Result<Vec<Rescan>, StoreError> {
        let chain = chain.clone();
        let of = |core: &Core, chain: &ChainId| core.heads.get(chain).map(|head| head.small.rescans.values().cloned().collect());
        self.writer.run(move |core| Ok(of(core, &chain).unwrap_or_default())).await
    }

    async fn commit(&self, changes: ChangeSet) -> Result<CommitReceipt, StoreError> {
        self.writer.run(move |core| core.commit(&changes)).await
    }
}

/// One point lookup per key, whatever else is archived.
pub(crate) fn archived_among(
    reader: &Reader,
    chain: &ChainId,
    keys: Vec<DepositKey>,
) -> Result<BTreeMap<DepositKey, Archived>, StoreError> {
    let mut found = BTreeMap::new();
    for key in keys {
        let row: Option<ArchiveRow> = reader.get(&keys::archive(&KeyDigest::of(chain, &key)))?;
        found.extend(row.map(|row| (key, row.archived)));
    }
    Ok(found)
}

impl Core {
    fn load(&self, chain: &ChainId) -> Result<Option<ChainState>, StoreError> {
        let head = self.heads.get(chain).filter(|head| head.small.version > StateVersion(0));
        let Some(head) = head else { return Ok(None) };
        let reader = &self.disk.reader;
        let mut state = head.small.clone();
        state.pending = held(reader, Kind::Pending, head.number)?;
        state.reported = held(reader, Kind::Reported, head.number)?;
        state.orphaned = held(reader, Kind::Orphaned, head.number)?;
        self.disk.watched.load(head.number, &mut state.watch)?;
        Ok(Some(state))
    }

    fn watched(&self, chain: &ChainId, after: Option<&[u8]>, limit: usize) -> Result<Vec<WatchEntry>, StoreError> {
        let Some(head) = self.heads.get(chain) else { return Ok(Vec::new()) };
        self.disk.watched.page(head.number, after, limit)
    }
}

fn held<T: Held + DeserializeOwned>(reader: &Reader, kind: Kind, chain: keys::ChainNumber) -> Result<ByHeight<T>, StoreError> {
    let mut held = ByHeight::default();
    for row in reader.scan::<HeldRow<T>>(&keys::of_chain(kind, chain)) {
        held.put(row?.1.deposit);
    }
    Ok(held)
}
