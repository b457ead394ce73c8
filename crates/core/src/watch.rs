//! What a chain is watched for: addresses and listed assets.

mod record;
mod spelling;
mod table;

use crate::{Address, Amount, AskedHistory, AssetId, Height, ListedAsset, Payment};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
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
    /// From which height it was asked to be read again, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<AskedHistory>,
}

/// The addresses and assets of one chain. A source matches by an address' bytes: exact, and looked up for every output of every
/// block.
#[derive(Clone, Default)]
pub struct WatchSet {
    addresses: table::Table,
    leaving: BTreeSet<Box<[u8]>>,
    assets: BTreeMap<AssetId, ListedAsset>,
}

impl WatchSet {
    /// Whether an address has these bytes. Cheaper than [`WatchSet::get`] where nothing else is asked.
    pub fn contains(&self, bytes: &[u8]) -> bool {
        self.addresses.contains(bytes)
    }

    /// The entry whose address has these bytes, made anew: entries are held packed.
    pub fn get(&self, bytes: &[u8]) -> Option<WatchEntry> {
        self.addresses.get(bytes)
    }

    /// Every address, in no order.
    pub fn addresses(&self) -> impl Iterator<Item = WatchEntry> {
        self.addresses.iter()
    }

    /// Removed addresses that something is still held for.
    pub fn leaving(&self) -> impl Iterator<Item = WatchEntry> {
        self.leaving.iter().filter_map(|bytes| self.addresses.get(bytes))
    }

    /// How many addresses.
    pub fn len(&self) -> usize {
        self.addresses.len()
    }

    /// Whether no address is watched.
    pub fn is_empty(&self) -> bool {
        self.addresses.len() == 0
    }

    /// The listed asset, delisted ones included while something is held for them.
    pub fn asset(&self, id: &AssetId) -> Option<&ListedAsset> {
        self.assets.get(id)
    }

    /// The minimum of its asset that a payment does not reach; `None` if it may be confirmed.
    pub fn minimum_above(&self, payment: &Payment) -> Option<Amount> {
        self.asset(&payment.asset)?.minimum_above(payment.amount)
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
        self.addresses.put(&entry);
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

impl PartialEq for WatchSet {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len()
            && self.assets == other.assets
            && self.addresses().all(|entry| other.get(entry.address.bytes()).as_ref() == Some(&entry))
    }
}
impl Eq for WatchSet {}

impl fmt::Debug for WatchSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchSet").field("addresses", &self.len()).field("assets", &self.assets).finish_non_exhaustive()
    }
}
