//! Watched addresses: listed, added, removed.

use super::{ChainSlot, LocalOperator};
use confirmd_api::view::{Counted, Relabelled, WatchAdded, WatchQuery, WatchRequest, Watched};
use confirmd_api::{Cursor, OperatorError, Page, page_size};
use confirmd_core::{Address, ChainName, Height, WatchEntry, WatchOrigin, WatchState};
use confirmd_engine::{NewWatch, offline};
use futures::future::join_all;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Addresses in one commit.
const COMMIT_MAX: usize = 5_000;
/// Addresses read at a time while a label is looked for.
const SEARCH_STEP: usize = 1_000;
/// Addresses looked at for one page of a label's.
const SEARCH_MAX: usize = 100_000;
/// Entries right below an address that may be read to find it.
const NEAR: usize = 4;
/// Addresses of a request of which changed labels are said.
const RELABELLED_MAX: usize = 100;

/// Where a page of addresses ended: the chain, and the last address' bytes in it.
type Place = (ChainName, Vec<u8>);

impl LocalOperator {
    pub(super) async fn list_watched(&self, query: &WatchQuery) -> Result<Page<Watched>, OperatorError> {
        let limit = page_size(query.limit)?;
        let place: Option<Place> = query.after.as_ref().map(Cursor::place).transpose()?;
        if let Some(chain) = &query.chain {
            self.chains.get(chain)?;
        }
        if query.address.is_some() {
            return self.find_watched(query).await;
        }
        let mut looked_at = 0;
        let mut items = Vec::new();
        let mut last: Option<Place> = None;
        for slot in self.chains.iter() {
            let wanted = query.chain.as_ref().is_none_or(|chain| *chain == slot.name);
            let passed = place.as_ref().is_some_and(|(chain, _)| slot.name < *chain);
            if !wanted || passed {
                continue;
            }
            if let Some(reference) = query.reference.as_deref() {
                let from = place.as_ref().filter(|(chain, _)| *chain == slot.name).map(|(_, bytes)| bytes.clone());
                let more = self.labelled(&slot, reference, from, limit, &mut looked_at, &mut items).await?;
                if more.is_some() {
                    return Ok(Page { items, next: more.map(|bytes| Cursor::of(&(slot.name.clone(), bytes))) });
                }
                continue;
            }
            let after = place.as_ref().filter(|(chain, _)| *chain == slot.name).map(|(_, bytes)| bytes.as_slice());
            // One more than wanted tells whether there is a next page.
            let room = limit.saturating_add(1).saturating_sub(items.len());
            for entry in self.store(self.stores.state.watched(slot.id(), after, room).await)? {
                if items.len() == limit {
                    return Ok(Page { items, next: last.as_ref().map(Cursor::of) });
                }
                last = Some((slot.name.clone(), entry.address.bytes().to_vec()));
                items.push(Watched::new(slot.name.clone(), entry));
            }
        }
        Ok(Page { items, next: None })
    }

    /// Looks through a chain's addresses for a label; where it stopped, if it did before the end.
    async fn labelled(
        &self,
        slot: &ChainSlot,
        reference: &str,
        mut after: Option<Vec<u8>>,
        limit: usize,
        looked_at: &mut usize,
        items: &mut Vec<Watched>,
    ) -> Result<Option<Vec<u8>>, OperatorError> {
        loop {
            let part = self.store(self.stores.state.watched(slot.id(), after.as_deref(), SEARCH_STEP).await)?;
            let ended = part.len() < SEARCH_STEP;
            for entry in part {
                *looked_at = looked_at.saturating_add(1);
                after = Some(entry.address.bytes().to_vec());
                if entry.reference.as_deref() == Some(reference) {
                    items.push(Watched::new(slot.name.clone(), entry));
                }
                if items.len() >= limit {
                    return Ok(after);
                }
            }
            if ended {
                return Ok(None);
            }
            if *looked_at >= SEARCH_MAX {
                return Ok(after);
            }
        }
    }

    /// The entries of one address, on every chain that can read it.
    async fn find_watched(&self, query: &WatchQuery) -> Result<Page<Watched>, OperatorError> {
        let text = query.address.as_deref().unwrap_or_default();
        let mut items = Vec::new();
        for slot in self.chains.iter().filter(|slot| query.chain.as_ref().is_none_or(|chain| *chain == slot.name)) {
            match slot.source.parse_address(text) {
                Ok(address) => {
                    items.extend(self.entry_of(&slot, &address).await?.map(|entry| Watched::new(slot.name.clone(), entry)))
                }
                Err(error) if query.chain.is_some() => return Err(OperatorError::invalid(error.to_string())),
                Err(_) => {}
            }
        }
        let wanted = |item: &Watched| query.reference.is_none() || item.reference.as_deref() == query.reference.as_deref();
        items.retain(wanted);
        Ok(Page { items, next: None })
    }

    pub(super) async fn entry_of(&self, slot: &ChainSlot, address: &Address) -> Result<Option<WatchEntry>, OperatorError> {
        // Everything below it in the order of bytes, as near as bytes allow.
        let mut below = address.bytes().to_vec();
        if let Some(last) = below.pop()
            && last > 0
        {
            below.push(last.saturating_sub(1));
            below.extend_from_slice(&[0xff; 64]);
        }
        let near = self.store(self.stores.state.watched(slot.id(), Some(&below), NEAR).await)?;
        Ok(near.into_iter().find(|entry| entry.address == *address))
    }

    pub(super) async fn add_watched(&self, entries: Vec<WatchRequest>) -> Result<Vec<WatchAdded>, OperatorError> {
        let mut by_chain: BTreeMap<ChainName, (Arc<ChainSlot>, Vec<NewWatch>)> = BTreeMap::new();
        for entry in entries {
            let place = entry.line.map_or_else(String::new, |line| format!("line {line}: "));
            let refused = |mut error: OperatorError| {
                error.text = format!("{place}{}", error.text);
                error
            };
            let slot = self.chains.get(&entry.chain).map_err(refused)?;
            let address = parse(&slot, &entry.address).map_err(refused)?;
            let (_, list) = by_chain.entry(entry.chain).or_insert_with(|| (slot.clone(), Vec::new()));
            let (reference, from_height) = (entry.reference, entry.from_height);
            list.push(NewWatch { address, reference, origin: WatchOrigin::Command, from_height });
        }
        for (slot, _) in by_chain.values() {
            self.has_first_block(slot).await?;
        }
        let mut added = Vec::with_capacity(by_chain.len());
        for (chain, (slot, list)) in by_chain {
            let count = u64::try_from(list.len()).unwrap_or(u64::MAX);
            let relabelled = self.relabelled(&slot, &list).await?;
            let (mut from_height, mut rescan) = (Height::default(), None);
            let answers = match slot.running(self.running())? {
                // All of them wait for the watcher at once: it lets what it reads go one time for all.
                Some(handle) => join_all(list.chunks(COMMIT_MAX).map(|part| handle.add(part.to_vec()))).await,
                // Each of these loads the chain: better once.
                None => vec![offline::add(self.stores.state.as_ref(), slot.id(), &list, self.clock.now()).await],
            };
            for added in answers {
                let added = self.watch(added)?;
                from_height = from_height.max(added.from);
                rescan = added.rescan.map(|id| id.0).or(rescan);
            }
            tracing::info!(chain = %chain, count, height = from_height.0, "addresses added");
            added.push(WatchAdded { chain, count, from_height, rescan, relabelled });
        }
        Ok(added)
    }

    /// Which of a few addresses have another label now.
    async fn relabelled(&self, slot: &ChainSlot, list: &[NewWatch]) -> Result<Vec<Relabelled>, OperatorError> {
        let mut changed = Vec::new();
        if list.len() > RELABELLED_MAX {
            return Ok(changed);
        }
        for new in list {
            let old = self.entry_of(slot, &new.address).await?;
            if let Some(old) = old.filter(|old| old.state == WatchState::Watching && old.reference != new.reference) {
                let address = old.address.as_str().to_owned();
                changed.push(Relabelled { address, from: old.reference, to: new.reference.clone() });
            }
        }
        Ok(changed)
    }

    /// No height can be promised before a chain's first block is known; said before anything is added anywhere.
    async fn has_first_block(&self, slot: &ChainSlot) -> Result<(), OperatorError> {
        let known = match slot.running(self.running())? {
            Some(handle) => handle.status().trail_tip.is_some(),
            None => self.store(self.stores.state.load(slot.id()).await)?.is_some_and(|state| state.trail.tip().is_some()),
        };
        if known {
            return Ok(());
        }
        Err(OperatorError::conflict(format!(
            "{} has no first block yet, so no height can be promised; wait until its node has answered a running instance once, or write the address into `chains.{}.watch`",
            slot.name, slot.name
        )))
    }

    pub(super) async fn remove_watched(&self, chain: &ChainName, addresses: Vec<String>) -> Result<Counted, OperatorError> {
        let slot = self.chains.get(chain)?;
        let parsed: Vec<Address> = addresses.iter().map(|text| parse(&slot, text)).collect::<Result<_, _>>()?;
        if let Some(configured) = parsed.iter().find(|address| slot.is_configured(address)) {
            return Err(OperatorError::conflict(format!(
                "{configured} stands in `chains.{chain}.watch` of the configuration; take it out there and `confirmd reload`, or the next start would add it again"
            )));
        }
        let count = match slot.running(self.running())? {
            Some(handle) => handle.remove(parsed).await,
            None => offline::remove(self.stores.state.as_ref(), slot.id(), &parsed).await,
        };
        let count = self.watch(count)?;
        tracing::info!(chain = %chain, count, "addresses removed");
        Ok(Counted { count })
    }
}

fn parse(slot: &ChainSlot, text: &str) -> Result<Address, OperatorError> {
    slot.source.parse_address(text).map_err(|error| OperatorError::invalid(format!("chain {}: {error}", slot.name)))
}
