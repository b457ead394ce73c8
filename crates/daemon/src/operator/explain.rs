//! Why a transaction produced what it did, or nothing.

use super::{ChainSlot, LocalOperator, reasons};
use confirmd_api::OperatorError;
use confirmd_api::view::{DepositView, ExplainQuery, Explanation, PaymentReason};
use confirmd_core::{
    Address, ChainName, ChainState, DepositFilter, DepositRecord, DepositState, Height, ShownTransaction, Transfer, WatchEntry,
    WatchOrigin, WatchSet, WatchState, confirmations, with_causes,
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
        let mut told = Explanation { tx_id: tx_id.to_owned(), ..Explanation::default() };
        told.findings.extend(records.iter().map(|record| of_record(record, &state)));
        if let Some(address) = &address {
            of_address(address, query.height, &state, &mut told);
        }
        let question = Question { slot: &slot, state: &state, tx_id, height: query.height, address, records: &records };
        question.ask_node(&mut told).await;
        told.deposits = records.into_iter().map(|record| DepositView::new(record, Some(chain.clone()))).collect();
        Ok(told)
    }
}

/// What a node is asked about a transaction.
struct Question<'a> {
    slot: &'a ChainSlot,
    state: &'a ChainState,
    tx_id: &'a str,
    /// As the asker says.
    height: Option<Height>,
    address: Option<Address>,
    records: &'a [DepositRecord],
}

impl Question<'_> {
    /// What the node shows of the transaction, and of its block.
    async fn ask_node(&self, told: &mut Explanation) {
        let asked = tokio::time::timeout(NODE_LIMIT, self.slot.source.transaction(self.tx_id, self.height)).await;
        let shown = match asked {
            Ok(Ok(shown)) => shown,
            Ok(Err(error)) => return told.unknown.push(format!("the node could not be asked: {}", with_causes(&error))),
            Err(_) => return told.unknown.push(format!("the node gave no answer within {NODE_LIMIT:?}")),
        };
        if let Some(shown) = &shown {
            self.of_shown(shown, told);
        }
        let block = shown.as_ref().and_then(|shown| shown.block.as_ref()).map(|block| block.height);
        match block.or(self.height) {
            Some(height) => self.read_block(height, shown.as_ref(), told).await,
            None if shown.is_none() && self.records.is_empty() => told.unknown.push(
                "the node does not know this transaction, or finds it by its block only (a node of the Bitcoin family without `txindex=1` \
                 does): give `height`, or ask whoever sent it whether it was replaced"
                    .to_owned(),
            ),
            None => {}
        }
    }

    fn of_shown(&self, shown: &ShownTransaction, told: &mut Explanation) {
        told.findings.push(match (&shown.block, shown.failed) {
            (None, _) => "the node shows it in no block yet".to_owned(),
            (Some(block), true) => format!("the node shows it in block {block} as a failed transaction: nothing was paid"),
            (Some(block), false) => format!("the node shows it in block {block}"),
        });
        let wanted = self.address.as_ref().map(Address::bytes);
        told.payments = reasons::explained(shown, wanted, self.records, self.state);
        let unrecorded = told.payments.iter().filter(|payment| payment.reason != PaymentReason::Recorded);
        told.findings.extend(unrecorded.map(reasons::line));
    }

    /// What the chain's adapter reads from that block now: what decides.
    async fn read_block(&self, height: Height, shown: Option<&ShownTransaction>, told: &mut Explanation) {
        let state = self.state;
        let Some(tip) = state.trail.tip() else {
            told.findings.push(format!("{} has read no block yet", self.slot.name));
            return;
        };
        if height > tip.height {
            told.findings.push(format!("block {height} is not read yet: our tip is {}", tip.height));
        }
        let asked = async {
            let Some(header) = self.slot.source.header_at(height).await? else { return Ok(None) };
            self.slot.source.transfers(height, &header.block, &self.watched()).await.map(Some)
        };
        let found = match tokio::time::timeout(NODE_LIMIT, asked).await {
            Ok(Ok(Some(transfers))) => transfers,
            Ok(Ok(None)) => return told.findings.push(format!("the node has no block at height {height} now")),
            Ok(Err(error)) => return told.unknown.push(format!("the node could not be asked: {}", with_causes(&error))),
            Err(_) => return told.unknown.push(format!("the node gave no answer within {NODE_LIMIT:?}")),
        };
        let of_it: Vec<&Transfer> = found.iter().filter(|one| one.key.tx_id.as_str() == self.tx_id).collect();
        let explained = |transfer: &Transfer| told.payments.iter().any(|one| one.output_index == transfer.key.output_index);
        let known = |transfer: &Transfer| self.records.iter().any(|record| record.key == transfer.key);
        let new: Vec<String> =
            of_it.iter().filter(|one| !known(one) && !explained(one)).map(|one| unrecorded(one, state)).collect();
        told.findings.extend(new);
        if of_it.is_empty() {
            let whom =
                self.address.as_ref().map_or_else(|| "a watched address".to_owned(), |address| address.as_str().to_owned());
            let listed: Vec<String> = state.watch.assets().map(|asset| asset.asset.symbol.clone()).collect();
            told.findings.push(format!(
                "in the node's block {height} it pays nothing to {whom} in a listed asset ({})",
                listed.join(", ")
            ));
            match shown {
                None => told.unknown.push("whether it is in that block at all: the node does not show it".to_owned()),
                Some(ShownTransaction { left_out: Some(left_out), failed: false, .. }) if !is_explained(told) => {
                    told.unknown
                        .push(format!("{left_out}, beyond what the chain's adapter can read from this node (`confirmd check`)"));
                }
                Some(_) => {}
            }
        }
    }

    /// The address in question, as if it had always been watched; else every one that is.
    fn watched(&self) -> WatchSet {
        let Some(address) = &self.address else { return self.state.watch.clone() };
        let mut watch = WatchSet::default();
        self.state.watch.assets().for_each(|asset| watch.put_asset(asset.clone()));
        watch.put_address(WatchEntry {
            address: address.clone(),
            reference: None,
            from: Height::default(),
            origin: WatchOrigin::Command,
            state: WatchState::Watching,
            history: None,
        });
        watch
    }
}

/// Whether the node showed a payment to whom it is about, with its reason.
fn is_explained(told: &Explanation) -> bool {
    told.payments.iter().any(|payment| payment.reason != PaymentReason::NotWatched)
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
        _ if state.watch.minimum_above(payment).is_some() => {
            format!("{what}; that is below `minimum`: it would be written down only, and is forgotten after `state.history`")
        }
        _ => format!("{what}; it should be in our records unless it is older than `state.history`"),
    }
}
