//! Rescans: listed, started, told; and what was read for an address.

use super::{ChainSlot, LocalOperator};
use confirmd_api::OperatorError;
use confirmd_api::view::{self, Coverage, CoverageQuery, Covered, Gap, RescanRequest, RescanView};
use confirmd_core::{BlockRef, ChainName, ChainState, Height, HeightRange, Rescan, RescanId, RescanScope, WatchEntry};
use confirmd_engine::{NewRescan, RescanOrder, RescanStatus, offline};

/// Ended rescans that are listed, newest first.
const ENDED_LISTED: usize = 1_000;

impl LocalOperator {
    /// Open ones first, lowest number first; then those that have ended, newest first.
    pub(super) async fn list_rescans(&self, chain: &ChainName) -> Result<Vec<RescanView>, OperatorError> {
        let slot = self.chains.get(chain)?;
        let paced = slot.running(self.running())?.map(|handle| handle.status().rescans).unwrap_or_default();
        let rescans = self.store(self.stores.state.rescans(slot.id()).await)?;
        let (open, ended): (Vec<Rescan>, Vec<Rescan>) = rescans.into_iter().partition(|rescan| rescan.state.is_open());
        let all = open.into_iter().chain(ended.into_iter().rev().take(ENDED_LISTED));
        Ok(all.map(|rescan| shown(rescan, &paced)).collect())
    }

    pub(super) async fn start_rescan(&self, chain: &ChainName, request: RescanRequest) -> Result<RescanView, OperatorError> {
        let slot = self.chains.get(chain)?;
        let scope = match &request.asset {
            None => RescanScope::Everything,
            Some(text) => RescanScope::Asset(asset(&slot, text)?),
        };
        let new = NewRescan { scope, from: request.from_height, to: request.to_height };
        let started = match slot.running(self.running())? {
            Some(handle) => handle.rescan(new).await,
            None => offline::rescan(self.stores.state.as_ref(), slot.id(), &new, self.clock.now()).await,
        };
        let rescan = self.watch(started)?;
        tracing::info!(chain = %chain, rescan = rescan.id.0, from = rescan.from.0, to = rescan.to.0, "a rescan was asked for");
        Ok(RescanView::new(rescan))
    }

    pub(super) async fn tell_rescan(
        &self,
        chain: &ChainName,
        id: u64,
        order: view::RescanOrder,
    ) -> Result<RescanView, OperatorError> {
        let slot = self.chains.get(chain)?;
        let told = match order {
            view::RescanOrder::Pause => RescanOrder::Pause,
            view::RescanOrder::Resume => RescanOrder::Resume,
            view::RescanOrder::Cancel => RescanOrder::Cancel,
        };
        let done = match slot.running(self.running())? {
            Some(handle) => handle.order(RescanId(id), told).await,
            None => offline::order_rescan(self.stores.state.as_ref(), slot.id(), RescanId(id), told, self.clock.now()).await,
        };
        let rescan = self.watch(done)?;
        tracing::info!(chain = %chain, rescan = id, state = rescan.state.as_str(), "a rescan was told");
        Ok(RescanView::new(rescan))
    }

    /// Which heights were read for an address.
    pub(super) async fn coverage_of(&self, chain: &ChainName, query: &CoverageQuery) -> Result<Coverage, OperatorError> {
        let slot = self.chains.get(chain)?;
        let address = slot.source.parse_address(&query.address).map_err(|error| OperatorError::invalid(error.to_string()))?;
        let entry = self.entry_of(&slot, &address).await?;
        let tip = match slot.handle() {
            Some(handle) => handle.status().trail_tip,
            None => self.store(self.stores.state.load(slot.id()).await)?.and_then(|state| state.trail.tip()),
        };
        let rescans = self.store(self.stores.state.rescans(slot.id()).await)?;
        let mut told = entry.as_ref().map(|entry| coverage(entry, tip, &rescans)).unwrap_or_default();
        told.address = address.as_str().to_owned();
        told.covered =
            query.height.map(|height| told.read.iter().any(|part| part.from_height <= height && height <= part.to_height));
        Ok(told)
    }
}

/// A rescan with how it goes, if it is among those that are read.
pub(super) fn shown(rescan: Rescan, paced: &[RescanStatus]) -> RescanView {
    let status = paced.iter().find(|status| status.rescan.id == rescan.id);
    let view = RescanView::new(rescan);
    match status {
        Some(status) => view.at_pace(status.heights_per_second, status.seconds_left, status.trouble.clone()),
        None => view,
    }
}

fn asset(slot: &ChainSlot, text: &str) -> Result<confirmd_core::AssetId, OperatorError> {
    let listed = &slot.source.profile().assets;
    if let Some(found) = listed.iter().find(|listed| listed.asset.symbol == text || listed.asset.id.as_str() == text) {
        return Ok(found.asset.id.clone());
    }
    let known: Vec<&str> = listed.iter().map(|listed| listed.asset.symbol.as_str()).collect();
    Err(OperatorError::invalid(format!("{} lists no asset {text}; known: {}", slot.name, known.join(", "))))
}

/// What was read for a watched address: by the live watch from its height on, and by the rescans that were for it.
fn coverage(entry: &WatchEntry, tip: Option<BlockRef>, rescans: &[Rescan]) -> Coverage {
    let mut told = Coverage { watched: true, ..Coverage::default() };
    for rescan in rescans {
        let own = entry.history.filter(|history| history.rescan == rescan.id);
        let from = match &rescan.scope {
            RescanScope::Asked => own.map(|history| history.from),
            // What was added after it was asked for was not read for.
            RescanScope::Everything => (entry.from > rescan.from && entry.from <= rescan.to.next()).then_some(rescan.from),
            RescanScope::Asset(_) => None,
        };
        let Some(range) = from.and_then(|from| HeightRange::new(from, rescan.to)) else { continue };
        let mut next = range.from;
        for left in rescan.left.iter().filter(|left| left.meets(&range)) {
            read(&mut told, next, left.from.minus(1), rescan);
            let (from_height, to_height) = (left.from.max(range.from), left.to.min(range.to));
            if rescan.scope == RescanScope::Asked {
                told.gaps.push(Gap { from_height, to_height, rescan: rescan.id.0, state: rescan.state.as_str().to_owned() });
            }
            next = left.to.next();
        }
        read(&mut told, next, range.to, rescan);
    }
    if let Some(tip) = tip.filter(|tip| tip.height >= entry.from) {
        told.read.push(Covered { from_height: entry.from, to_height: tip.height, rescan: None, block: Some(tip) });
    }
    told.read.sort_by_key(|part| part.from_height);
    // What one rescan left out another one may have read.
    let within = |gap: &Gap, part: &Covered| part.from_height <= gap.from_height && gap.to_height <= part.to_height;
    told.gaps.retain(|gap| !told.read.iter().any(|part| within(gap, part)));
    told
}

fn read(told: &mut Coverage, from_height: Height, to_height: Height, rescan: &Rescan) {
    if from_height <= to_height {
        told.read.push(Covered { from_height, to_height, rescan: Some(rescan.id.0), block: rescan.read_to.clone() });
    }
}

/// Whether an address was covered at a height, in words.
pub(super) fn in_words(entry: &WatchEntry, height: Height, state: &ChainState) -> Option<String> {
    let rescans: Vec<Rescan> = state.rescans.values().cloned().collect();
    let told = coverage(entry, state.trail.tip(), &rescans);
    let by = told.read.iter().find(|part| part.from_height <= height && height <= part.to_height)?;
    let id = by.rescan?;
    let block = by.block.as_ref().map_or_else(String::new, |block| format!(", on the branch of block {block}"));
    Some(format!("height {height} was read for {} by rescan {id}{block}", entry.address))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use confirmd_core::{Address, AskedHistory, BlockHash, RescanState, Timestamp, WatchOrigin, WatchState};

    fn block(height: u64) -> BlockRef {
        BlockRef { height: Height(height), hash: BlockHash::new(format!("b{height}")).unwrap() }
    }

    fn rescan(id: u64, scope: RescanScope, from: u64, to: u64) -> Rescan {
        Rescan::new(RescanId(id), scope, HeightRange { from: Height(from), to: Height(to) }, Timestamp(0))
    }

    /// Watched from 100 on, asked from 20 on by rescan 1.
    fn entry() -> WatchEntry {
        WatchEntry {
            address: Address::new([1], "a"),
            reference: None,
            from: Height(100),
            origin: WatchOrigin::Command,
            state: WatchState::Watching,
            history: Some(AskedHistory { from: Height(20), rescan: RescanId(1) }),
        }
    }

    fn parts(told: &Coverage) -> Vec<(u64, u64, Option<u64>)> {
        told.read.iter().map(|part| (part.from_height.0, part.to_height.0, part.rescan)).collect()
    }

    #[test]
    fn what_a_rescan_has_read_is_told_from_the_height_the_address_asked_for_and_the_rest_is_a_gap() {
        let mut half = rescan(1, RescanScope::Asked, 10, 99);
        half.read(&HeightRange { from: Height(10), to: Height(49) });
        half.read(&HeightRange { from: Height(80), to: Height(99) });
        (half.read_to, half.state) = (Some(block(99)), RescanState::Paused);
        let told = coverage(&entry(), Some(block(120)), std::slice::from_ref(&half));
        assert_eq!(parts(&told), [(20, 49, Some(1)), (80, 99, Some(1)), (100, 120, None)]);
        assert_eq!((told.gaps[0].from_height, told.gaps[0].to_height, told.gaps.len()), (Height(50), Height(79), 1));
        assert_eq!(told.read[0].block, Some(block(99)));
        half.read(&HeightRange { from: Height(50), to: Height(79) });
        assert_eq!(parts(&coverage(&entry(), None, &[half])), [(20, 99, Some(1))]);
    }

    #[test]
    fn a_gap_that_another_rescan_has_read_is_none() {
        let mut cancelled = rescan(1, RescanScope::Asked, 20, 99);
        cancelled.state = RescanState::Cancelled;
        let told = coverage(&entry(), Some(block(120)), std::slice::from_ref(&cancelled));
        assert_eq!((parts(&told), told.gaps.len()), (vec![(100, 120, None)], 1));
        let mut all = rescan(2, RescanScope::Everything, 1, 110);
        all.read(&HeightRange { from: Height(1), to: Height(110) });
        let told = coverage(&entry(), Some(block(120)), &[cancelled, all]);
        assert_eq!((parts(&told), told.gaps.len()), (vec![(1, 110, Some(2)), (100, 120, None)], 0));
    }

    #[test]
    fn a_rescan_for_everything_from_before_the_address_was_added_or_for_one_asset_covers_nothing_of_it() {
        let mut before = rescan(1, RescanScope::Everything, 1, 50);
        before.read(&HeightRange { from: Height(1), to: Height(50) });
        let mut asset = rescan(2, RescanScope::Asset("eip155:1/slip44:1".parse().unwrap()), 1, 110);
        asset.read(&HeightRange { from: Height(1), to: Height(110) });
        let told = coverage(&WatchEntry { history: None, ..entry() }, Some(block(120)), &[before, asset]);
        assert_eq!(parts(&told), [(100, 120, None)]);
    }
}
