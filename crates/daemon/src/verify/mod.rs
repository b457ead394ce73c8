//! Reads a whole state and says where it contradicts itself or, if asked, the nodes. Changes nothing. What the store itself checks (damage,
//! records that are missing or old) was checked when it was opened.

mod chronicle;

use crate::operator::Stores;
use chronicle::Chronicle;
use confirmd_core::{
    ChainId, ChainSource, ChainState, ConsumerName, DeliveryFilter, DeliveryState, DepositKey, Position, Sequence, StoreError,
    Timestamp, Transfer, with_causes,
};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Records read at once.
const PAGE: usize = 1_000;

/// What was read, and what is wrong.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Report {
    pub(crate) chains: u64,
    /// Pending, reported and orphaned deposits.
    pub(crate) held: u64,
    pub(crate) events: u64,
    /// Undelivered and skipped.
    pub(crate) deliveries: u64,
    /// Blocks of trails that nodes were asked for.
    pub(crate) blocks_compared: u64,
    /// What is wrong, in words.
    pub(crate) findings: Vec<String>,
}

/// Reads everything. `kept_since`: nothing decided since then was forgotten.
pub(crate) async fn verify(stores: &Stores, kept_since: Timestamp) -> Result<Report, StoreError> {
    let mut report = Report::default();
    let mut states = BTreeMap::new();
    for id in stores.state.chains().await? {
        if let Some(state) = stores.state.load(&id).await? {
            of_state(&id, &state, &mut report);
            states.insert(id, state);
        }
    }
    let chronicle = events(stores, kept_since, &mut report).await?;
    last_sequences(stores, &states, &chronicle, &mut report).await?;
    deliveries(stores, &mut report).await?;
    Ok(report)
}

fn of_state(id: &ChainId, state: &ChainState, report: &mut Report) {
    report.chains = report.chains.saturating_add(1);
    let findings = &mut report.findings;
    let mut seen: BTreeSet<DepositKey> = BTreeSet::new();
    let parts = state
        .pending
        .iter()
        .map(|held| ("pending", &held.transfer, held.last_sequence, false))
        .chain(state.reported.iter().map(|held| ("reported", &held.transfer, held.sequence, true)))
        .chain(state.orphaned.iter().map(|held| ("orphaned", &held.transfer, held.last_sequence, false)));
    for (what, transfer, sequence, stands) in parts {
        report.held = report.held.saturating_add(1);
        let name = format!("{id}: {what} deposit {}", transfer.key);
        if sequence.stands() != stands {
            findings.push(format!("{name} has sequence {}", sequence.0));
        }
        if !seen.insert(transfer.key.clone()) {
            findings.push(format!("{name} is held twice"));
        }
        if what != "orphaned" {
            on_trail(&name, state, transfer, findings);
        }
        if state.watch.asset(&transfer.payment.asset).is_none() {
            findings.push(format!("{name}: its asset {} is not listed", transfer.payment.asset));
        }
        if state.watch.get(transfer.payment.address.bytes()).is_none() {
            findings.push(format!("{name}: its address {} is not watched", transfer.payment.address));
        }
    }
}

/// What stands lies in a block of the trail, as far as the trail is dense.
fn on_trail(name: &str, state: &ChainState, transfer: &Transfer, findings: &mut Vec<String>) {
    let block = &transfer.block;
    if let Some(recorded) = state.trail.hash_at(block.height)
        && *recorded != block.hash
    {
        findings.push(format!("{name} lies in block {block}, but the trail has {recorded} there"));
    }
}

async fn events(stores: &Stores, kept_since: Timestamp, report: &mut Report) -> Result<Chronicle, StoreError> {
    let (mut chronicle, mut after) = (Chronicle::new(kept_since), Position(0));
    loop {
        let page = stores.history.events(after, PAGE).await?;
        for record in &page {
            report.findings.extend(chronicle.take(record));
        }
        let Some(last) = page.last() else { break };
        after = last.position;
    }
    report.events = chronicle.count;
    Ok(chronicle)
}

/// The last event of every key is what the state says of it.
async fn last_sequences(
    stores: &Stores,
    states: &BTreeMap<ChainId, ChainState>,
    chronicle: &Chronicle,
    report: &mut Report,
) -> Result<(), StoreError> {
    let mut by_chain: BTreeMap<&ChainId, Vec<(&DepositKey, Sequence)>> = BTreeMap::new();
    for ((chain, key), (_, sequence)) in &chronicle.keys {
        by_chain.entry(chain).or_default().push((key, *sequence));
    }
    for (chain, keys) in by_chain {
        let Some(state) = states.get(chain) else {
            report.findings.push(format!("{chain}: there are events of it, but no state"));
            continue;
        };
        for part in keys.chunks(PAGE) {
            let asked: Vec<DepositKey> = part.iter().map(|(key, _)| (*key).clone()).collect();
            let archived = stores.state.settled_among(chain, &asked).await?;
            for (key, told) in part {
                let held = [
                    state.reported.get(key).map(|held| held.sequence),
                    state.pending.get(key).map(|held| held.last_sequence),
                    state.orphaned.get(key).map(|held| held.last_sequence),
                    archived.get(*key).map(|archived| archived.sequence),
                ];
                let known = held.into_iter().flatten().max().unwrap_or(Sequence::NONE);
                if known != *told {
                    let text = format!("{chain}: the last event of {key} has sequence {}, the state says {}", told.0, known.0);
                    report.findings.push(text);
                }
            }
        }
    }
    Ok(())
}

/// Every event that somebody still waits for is there.
async fn deliveries(stores: &Stores, report: &mut Report) -> Result<(), StoreError> {
    let mut after: Option<(ConsumerName, Position)> = None;
    let filter = DeliveryFilter { consumer: None, state: None, event: None };
    loop {
        let page = stores.outbox.list(&filter, after.take(), PAGE).await?;
        for one in &page {
            report.deliveries = report.deliveries.saturating_add(1);
            let name = format!("consumer {}: event {} at place {}", one.consumer, one.event, one.position.0);
            match stores.history.event(&one.event).await? {
                Some(record) if record.position == one.position && record.event.sequence == one.sequence => {}
                Some(record) => report.findings.push(format!("{name} stands at place {} in the outbox", record.position.0)),
                None if one.state == DeliveryState::Skipped => {}
                None => report.findings.push(format!("{name} is undelivered and gone")),
            }
        }
        let Some(last) = page.last() else { return Ok(()) };
        after = Some((last.consumer.clone(), last.position));
    }
}

/// Compares a chain's trail with its node, block by block.
pub(crate) async fn against_node(source: &dyn ChainSource, state: &ChainState, report: &mut Report) {
    let name = &source.profile().name;
    match source.identify().await {
        Ok(found) if found == source.profile().chain => {}
        Ok(found) => return report.findings.push(format!("{name}: the node serves {found}")),
        Err(error) => return report.findings.push(format!("{name}: the node can't be asked: {}", with_causes(&error))),
    }
    for block in state.trail.newest_first() {
        match source.header_at(block.height).await {
            Ok(Some(header)) if header.block == block => {}
            Ok(Some(header)) => {
                report.findings.push(format!("{name}: the trail has {block}, the node has {}", header.block));
            }
            Ok(None) => report.findings.push(format!("{name}: the trail has {block}, the node has no block there")),
            Err(error) => {
                return report.findings.push(format!("{name}: the node can't be asked for {block}: {}", with_causes(&error)));
            }
        }
        report.blocks_compared = report.blocks_compared.saturating_add(1);
    }
}
