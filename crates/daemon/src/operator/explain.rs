//! Why a transaction produced what it did, or nothing.

use super::{ChainSlot, LocalOperator};
use confirmd_api::OperatorError;
use confirmd_api::view::{DepositView, ExplainQuery, Explanation};
use confirmd_core::{
    Address, ChainName, ChainState, DepositFilter, DepositRecord, DepositState, Height, Transfer, WatchEntry, WatchOrigin,
    WatchSet, WatchState, confirmations, with_causes,
};
use std::time::Duration;

/// Deposits of one transaction that are shown.
const SHOWN: usize = 100;
/// How long the node is asked for.
const NODE_LIMIT: Duration = Duration::from_secs(15);

impl LocalOperator {
    pub(super) async fn explain_transaction(
        &self,
        chain: &ChainName,
        tx_id: &str,
        query: &ExplainQuery,
    ) -> Result<Explanation, OperatorError> {
        let slot = self.chains.get(chain)?;
        let state = self.store(self.stores.state.load(slot.id()).await)?.unwrap_or_default();
        let parsed = query.address.as_deref().map(|text| slot.source.parse_address(text)).transpose();
        let address = parsed.map_err(|error| OperatorError::invalid(error.to_string()))?;
        let filter = DepositFilter { chain: Some(slot.id().clone()), tx_id: Some(tx_id.to_owned()), ..DepositFilter::default() };
        let records = self.store(self.stores.history.deposits(&filter, None, SHOWN).await)?;
        let mut told = Explanation { tx_id: tx_id.to_owned(), findings: vec![], unknown: vec![], deposits: vec![] };
        told.findings.extend(records.iter().map(|record| of_record(record, &state)));
        if let Some(address) = &address {
            of_address(address, query.height, &state, &mut told);
        }
        match query.height {
            Some(height) => self.ask_node(&slot, &state, tx_id, height, address.as_ref(), &records, &mut told).await,
            None if records.is_empty() => told.unknown.push(
                "nothing of this transaction is in our records; give `height`, its block's, so that the node can be asked for what it pays".to_owned(),
            ),
            None => {}
        }
        told.deposits = records.into_iter().map(|record| DepositView::new(record, Some(chain.clone()))).collect();
        Ok(told)
    }

    /// What the node shows of that block.
    #[allow(clippy::too_many_arguments)]
    async fn ask_node(
        &self,
        slot: &ChainSlot,
        state: &ChainState,
        tx_id: &str,
        height: Height,
        address: Option<&Address>,
        records: &[DepositRecord],
        told: &mut Explanation,
    ) {
        let Some(tip) = state.trail.tip() else {
            told.findings.push(format!("{} has read no block yet", slot.name));
            return;
        };
        if height > tip.height {
            told.findings.push(format!("block {height} is not read yet: our tip is {}", tip.height));
        }
        let mut watch = WatchSet::default();
        state.watch.assets().for_each(|asset| watch.put_asset(asset.clone()));
        match address {
            Some(address) => watch.put_address(WatchEntry {
                address: address.clone(),
                reference: None,
                from: Height::default(),
                origin: WatchOrigin::Command,
                state: WatchState::Watching,
                history: None,
            }),
            None => watch = state.watch.clone(),
        }
        let asked = async {
            let Some(header) = slot.source.header_at(height).await? else { return Ok(None) };
            slot.source.transfers(height, &header.block, &watch).await.map(Some)
        };
        let found = match tokio::time::timeout(NODE_LIMIT, asked).await {
            Ok(Ok(Some(transfers))) => transfers,
            Ok(Ok(None)) => return told.findings.push(format!("the node has no block at height {height} now")),
            Ok(Err(error)) => return told.unknown.push(format!("the node could not be asked: {}", with_causes(&error))),
            Err(_) => return told.unknown.push(format!("the node gave no answer within {NODE_LIMIT:?}")),
        };
        let of_it: Vec<&Transfer> = found.iter().filter(|one| one.key.tx_id.as_str() == tx_id).collect();
        for transfer in &of_it {
            if !records.iter().any(|record| record.key == transfer.key) {
                told.findings.push(unrecorded(transfer, state));
            }
        }
        if of_it.is_empty() {
            let whom = address.map_or_else(|| "a watched address".to_owned(), |address| address.as_str().to_owned());
            let listed: Vec<String> = state.watch.assets().map(|asset| asset.asset.symbol.clone()).collect();
            told.findings.push(format!(
                "in the node's block {height} it pays nothing to {whom} in a listed asset ({})",
                listed.join(", ")
            ));
            told.unknown.push(
                "whether it is not in that block, failed, paid zero, paid another token (a token is matched by its contract), or paid somebody else: ask a block explorer or the node for the transaction itself".to_owned(),
            );
        }
    }
}

fn of_record(record: &DepositRecord, state: &ChainState) -> String {
    let output = record.key.output_index;
    match record.state {
        DepositState::Pending => {
            let have = state.trail.tip().map_or(0, |tip| confirmations(tip.height, record.block.height));
            let listed = state.watch.asset(&record.asset.id);
            let held = state.pending.get(&record.key);
            let maturity = held.and_then(|held| held.transfer.maturity).map_or(0, std::num::NonZeroU32::get);
            let needed = listed.map_or(0, |listed| listed.requirement.at_least.get()).max(maturity);
            let tag = listed.and_then(|listed| listed.requirement.tag);
            let also = tag.map(|tag| {
                let at = state.marks.get(&tag).map_or_else(|| "unknown".to_owned(), |height| height.to_string());
                format!(", and the chain's {} block (now {at}) at or above {}", tag.as_str(), record.block.height)
            });
            format!("output {output} is pending with {have} of {needed} confirmations{}", also.unwrap_or_default())
        }
        DepositState::Confirmed => format!("output {output} is confirmed; it can still be taken back"),
        DepositState::Settled => format!("output {output} is confirmed and final"),
        DepositState::Orphaned => format!("output {output} was pending in block {}, which left the best chain", record.block),
        DepositState::Reverted => {
            format!("output {output} was confirmed, then taken back: block {} left the best chain", record.block)
        }
        DepositState::BelowMinimum => below_minimum(record, state),
    }
}

/// A payment that is written down alone, and what the minimum is by now.
fn below_minimum(record: &DepositRecord, state: &ChainState) -> String {
    let (output, amount, symbol) = (record.key.output_index, record.amount, &record.asset.symbol);
    let what = format!("output {output} pays {amount} base units of {symbol} in block {}", record.block);
    match state.watch.asset(&record.asset.id) {
        None => format!("{what}, below the minimum of then; {symbol} is no longer listed"),
        Some(listed) => match listed.minimum_above(amount) {
            Some(minimum) => format!("{what}, below minimum.{symbol} = {minimum}: it is written down and never confirmed"),
            None => format!(
                "{what}, below the minimum of then; it is not below the one of now, and a rescan of its block confirms it: `confirmd rescan start`"
            ),
        },
    }
}

/// Whether payments to the address are taken at all.
fn of_address(address: &Address, height: Option<Height>, state: &ChainState, told: &mut Explanation) {
    let entry = state.watch.get(address.bytes());
    told.findings.push(match entry {
        None => format!("{address} is not watched: payments to it are not taken"),
        Some(entry) if entry.state == WatchState::Removed => format!("{address} was removed: no new payment to it is taken"),
        Some(entry) if height.is_some_and(|height| height < entry.from) => {
            let read = height.and_then(|height| super::rescans::in_words(&entry, height, state));
            let missed = format!(
                "{address} is watched from height {} on: what was paid before was not read; `confirmd watch add` with --from-height reads it",
                entry.from
            );
            read.unwrap_or(missed)
        }
        Some(entry) => format!("{address} is watched from height {} on", entry.from),
    });
}

/// A payment that the node shows and we have no record of.
fn unrecorded(transfer: &Transfer, state: &ChainState) -> String {
    let (output, payment) = (transfer.key.output_index, &transfer.payment);
    let what =
        format!("the node shows output {output}: {} base units of {} to {}", payment.amount, payment.asset, payment.address);
    let read = state.trail.tip().is_some_and(|tip| transfer.block.height <= tip.height);
    match state.watch.get(payment.address.bytes()) {
        None => format!("{what}; that address is not watched"),
        Some(entry)
            if transfer.block.height < entry.from && super::rescans::in_words(&entry, transfer.block.height, state).is_none() =>
        {
            format!("{what}; that address is watched from height {} on", entry.from)
        }
        _ if !read => format!("{what}; that block is not read yet"),
        _ if state.watch.asset(&payment.asset).is_some_and(|listed| listed.minimum_above(payment.amount).is_some()) => {
            format!("{what}; that is below `minimum`: it would be written down only, and is forgotten after `state.history`")
        }
        _ => format!("{what}; it should be in our records unless it is older than `state.history`"),
    }
}
