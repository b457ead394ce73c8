//! Watched addresses: listed, added, removed.

use super::{ChainSlot, LocalOperator};
use confirmd_api::view::{Counted, WatchAdded, WatchQuery, WatchRequest, Watched};
use confirmd_api::{Cursor, OperatorError, Page, page_size};
use confirmd_core::{Address, ChainName, Height, WatchOrigin};
use confirmd_engine::{NewWatch, offline};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Addresses in one commit.
const COMMIT_MAX: usize = 5_000;

/// Where a page of addresses ended: the chain, and the last address' bytes in it.
type Place = (ChainName, Vec<u8>);

impl LocalOperator {
    pub(super) async fn list_watched(&self, query: &WatchQuery) -> Result<Page<Watched>, OperatorError> {
        let limit = page_size(query.limit);
        let place: Option<Place> = query.after.as_ref().map(Cursor::place).transpose()?;
        if let Some(chain) = &query.chain {
            self.chains.get(chain)?;
        }
        let mut items = Vec::new();
        let mut last: Option<Place> = None;
        for slot in self.chains.iter() {
            let wanted = query.chain.as_ref().is_none_or(|chain| *chain == slot.name);
            let passed = place.as_ref().is_some_and(|(chain, _)| slot.name < *chain);
            if !wanted || passed {
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

    pub(super) async fn add_watched(&self, entries: Vec<WatchRequest>) -> Result<Vec<WatchAdded>, OperatorError> {
        let mut by_chain: BTreeMap<ChainName, (Arc<ChainSlot>, Vec<NewWatch>)> = BTreeMap::new();
        for entry in entries {
            let place = entry.line.map_or_else(String::new, |line| format!("line {line}: "));
            let refused = |mut error: OperatorError| {
                error.text = format!("{place}{}", error.text);
                error
            };
            let slot = self.chains.get(&entry.chain).map_err(refused)?;
            let address = parse(slot, &entry.address).map_err(refused)?;
            let (_, list) = by_chain.entry(entry.chain).or_insert_with(|| (slot.clone(), Vec::new()));
            list.push(NewWatch { address, reference: entry.reference, origin: WatchOrigin::Command });
        }
        for (slot, _) in by_chain.values() {
            self.has_first_block(slot).await?;
        }
        let mut added = Vec::with_capacity(by_chain.len());
        for (chain, (slot, list)) in by_chain {
            let count = u64::try_from(list.len()).unwrap_or(u64::MAX);
            let mut from_height = Height::default();
            for part in list.chunks(COMMIT_MAX) {
                let from = match slot.running(self.running())? {
                    Some(handle) => handle.add(part.to_vec()).await,
                    None => offline::add(self.stores.state.as_ref(), slot.id(), part).await,
                };
                from_height = from_height.max(self.watch(from)?);
            }
            tracing::info!(chain = %chain, count, height = from_height.0, "addresses added");
            added.push(WatchAdded { chain, count, from_height });
        }
        Ok(added)
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
        let parsed: Vec<Address> = addresses.iter().map(|text| parse(slot, text)).collect::<Result<_, _>>()?;
        if let Some(configured) = parsed.iter().find(|address| slot.is_configured(address)) {
            return Err(OperatorError::conflict(format!(
                "{configured} stands in `chains.{chain}.watch` of the configuration; take it out there and start again, or the next start would add it again"
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
