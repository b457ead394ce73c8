//! What a chain is watched for: addresses and listed assets.

use crate::{Address, AssetId, Height, ListedAsset};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Who asked for an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WatchOrigin {
    /// It stands in the configuration file, and goes when it no longer does.
    Config,
    /// It was added at run time, and goes by command only.
    Command,
}

/// Whether an address still takes new deposits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WatchState {
    /// Every payment is taken.
    Watching,
    /// No new key is taken; what is held for it still ends.
    Removed,
}

/// One watched address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchEntry {
    /// The address.
    pub address: Address,
    /// The operator's own label; stands in every event of the address.
    pub reference: Option<Arc<str>>,
    /// The first height from which coverage is guaranteed.
    pub from: Height,
    /// Who asked for it.
    pub origin: WatchOrigin,
    /// Whether it takes new deposits.
    pub state: WatchState,
}

/// The addresses and assets of one chain. A source matches by an address' bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WatchSet {
    /// Looked up for every output of every block. Seeded per set, since outsiders choose what is looked up; measured at half
    /// the time of the standard library's hasher on a full block.
    addresses: HashMap<Box<[u8]>, WatchEntry, foldhash::fast::RandomState>,
    leaving: BTreeSet<Box<[u8]>>,
    assets: BTreeMap<AssetId, ListedAsset>,
}

impl WatchSet {
    /// The entry whose address has these bytes.
    pub fn get(&self, bytes: &[u8]) -> Option<&WatchEntry> {
        self.addresses.get(bytes)
    }

    /// Every address, in no order.
    pub fn addresses(&self) -> impl Iterator<Item = &WatchEntry> {
        self.addresses.values()
    }

    /// Removed addresses that something is still held for.
    pub fn leaving(&self) -> impl Iterator<Item = &WatchEntry> {
        self.leaving.iter().filter_map(|bytes| self.addresses.get(bytes))
    }

    /// How many addresses.
    pub fn len(&self) -> usize {
        self.addresses.len()
    }

    /// Whether no address is watched.
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    /// The listed asset, delisted ones included while something is held for them.
    pub fn asset(&self, id: &AssetId) -> Option<&ListedAsset> {
        self.assets.get(id)
    }

    /// Every listed asset, by id.
    pub fn assets(&self) -> impl Iterator<Item = &ListedAsset> {
        self.assets.values()
    }

    /// Adds or replaces an address.
    pub fn put_address(&mut self, entry: WatchEntry) {
        match entry.state {
            WatchState::Watching => drop(self.leaving.remove(entry.address.bytes())),
            WatchState::Removed => drop(self.leaving.insert(entry.address.bytes().into())),
        }
        self.addresses.insert(entry.address.bytes().into(), entry);
    }

    /// Forgets an address.
    pub fn forget_address(&mut self, bytes: &[u8]) {
        self.addresses.remove(bytes);
        self.leaving.remove(bytes);
    }

    /// Adds or replaces an asset.
    pub fn put_asset(&mut self, asset: ListedAsset) {
        self.assets.insert(asset.asset.id.clone(), asset);
    }

    /// Forgets an asset.
    pub fn forget_asset(&mut self, id: &AssetId) {
        self.assets.remove(id);
    }
}
