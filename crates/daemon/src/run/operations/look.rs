//! Looks for what an operator should hear of.

use super::book::Book;
use super::fact::{Fact, Kind, Subject};
use crate::operator::{ChainSlot, LocalOperator};
use crate::run::metrics::Metrics;
use confirmd_core::{ConsumerName, DeliveryFilter, DeliveryRecord, DeliveryState, StoreError, Timestamp};
use confirmd_engine::{ChainStatus, Phase};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// Reorgs of a chain that are looked at, newest first.
const REORGS_MAX: usize = 100;
/// Dead letters in one read, and reads in one look.
const DEAD_PAGE: usize = 500;
const DEAD_PAGES_MAX: usize = 20;
/// Dead letters that are named.
const DEAD_NAMED: usize = 10;

/// What is looked at, and by which measures.
#[derive(Debug)]
pub(super) struct Lookout {
    pub(super) operator: Arc<LocalOperator>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) reorg_blocks: u64,
    pub(super) failing_after: Duration,
}

impl Lookout {
    /// Everything of the chains and consumers that holds now, and whether every chain could be looked at.
    pub(super) async fn facts(&self, since: Timestamp) -> Result<(Vec<Fact>, bool), StoreError> {
        let (mut facts, mut whole, now) = (Vec::new(), true, self.operator.clock.now());
        for slot in self.operator.chains.iter() {
            match slot.handle() {
                Some(handle) => facts.extend(self.of_chain(&slot, &handle.status(), now)),
                None => whole = false,
            }
            facts.extend(self.reorgs(&slot, since).await?);
        }
        facts.extend(self.operator.kinds.get().keys().filter_map(|consumer| self.failing(consumer, now)));
        Ok((facts, whole))
    }

    fn of_chain(&self, slot: &ChainSlot, status: &ChainStatus, now: Timestamp) -> Option<Fact> {
        let (alarm, name) = (slot.source.profile().behind_alarm, slot.name.as_str());
        let fact = |kind, at, text, remedy: String, details| {
            let subject = Subject::Chain(slot.name.clone(), slot.id().clone());
            Some(Fact { kind, subject, at, mark: 0, text, remedy, details })
        };
        match &status.phase {
            Phase::Halted { halt } => {
                let remedy = halt.reason.remedy().replace("CHAIN", name);
                fact(
                    Kind::ChainHalted,
                    halt.at,
                    format!("{name} is halted: {}", halt.reason),
                    remedy,
                    json!({ "reason": halt.reason }),
                )
            }
            Phase::Behind { since, alarm: true } => fact(
                Kind::ChainBehind,
                *since,
                format!("the node of {name} has ended below our trail since {since}; nothing is rolled back"),
                format!(
                    "look at the node: still syncing, out of disk, without peers? `confirmd check` asks it; {name} goes on by itself"
                ),
                json!({ "trail": status.trail_tip, "node": status.source_tip }),
            ),
            Phase::Unreachable { since, error } if now.since(*since) >= alarm => fact(
                Kind::ChainUnreachable,
                *since,
                format!("no node of {name} has answered since {since}: {error}"),
                "`confirmd check` says what is wrong with which endpoint; the chain goes on by itself".to_owned(),
                json!({ "error": error }),
            ),
            _ => None,
        }
    }

    async fn reorgs(&self, slot: &ChainSlot, since: Timestamp) -> Result<Vec<Fact>, StoreError> {
        let reorgs = self.operator.stores.history.reorgs(slot.id(), REORGS_MAX).await?;
        let deep = reorgs.into_iter().rev().filter(|reorg| reorg.at >= since && reorg.depth >= self.reorg_blocks);
        let fact = |reorg: confirmd_core::ReorgRecord| Fact {
            kind: Kind::Reorg,
            subject: Subject::Chain(slot.name.clone(), slot.id().clone()),
            at: reorg.at,
            mark: reorg.ancestor.height.0,
            text: format!(
                "{} blocks of {} left the best chain above {}; {} reported deposits were taken back",
                reorg.depth, slot.name, reorg.ancestor.height, reorg.reverted
            ),
            remedy: format!(
                "nothing needs to be done if consumers follow reverted events; if this is deeper than {} usually goes, look at its nodes and raise `confirmations`",
                slot.name
            ),
            details: json!({ "ancestor": reorg.ancestor, "depth": reorg.depth, "reverted": reorg.reverted,
                "dropped": reorg.dropped, "accepted": reorg.accepted }),
        };
        Ok(deep.map(fact).collect())
    }

    fn failing(&self, consumer: &ConsumerName, now: Timestamp) -> Option<Fact> {
        let failing = self.metrics.failing(consumer)?;
        if !failing.fatal && now.since(failing.since) < self.failing_after {
            return None;
        }
        let remedy = match failing.fatal {
            true => format!("mend the cause, then `confirmd consumer resume {consumer}`; events wait on disk"),
            false => "mend the receiver; events wait on disk and are tried again by themselves".to_owned(),
        };
        Some(Fact {
            kind: Kind::ConsumerFailing,
            subject: Subject::Consumer(consumer.clone()),
            at: failing.since,
            mark: u64::from(failing.fatal),
            text: format!("no delivery to {consumer} has succeeded since {}: {}", failing.since, failing.error),
            remedy,
            details: json!({ "error": failing.error, "paused": failing.fatal }),
        })
    }

    /// Takes up dead letters that are new. Returns whether there were any.
    pub(super) async fn dead_letters(&self, book: &mut Book) -> Result<bool, StoreError> {
        let (stores, now, mut changed) = (&self.operator.stores, self.operator.clock.now(), false);
        for status in stores.outbox.consumers().await? {
            let since = if status.dead > 0 && book.has_room() { book.dead_since(&status.name, now) } else { None };
            let Some(since) = since else { continue };
            let mut new: Vec<DeliveryRecord> = Vec::new();
            let mut after = None;
            for _ in 0..DEAD_PAGES_MAX {
                let filter =
                    DeliveryFilter { consumer: Some(status.name.clone()), state: Some(DeliveryState::Dead), event: None };
                let page = stores.outbox.list(&filter, after.take(), DEAD_PAGE).await?;
                after = page.last().map(|last| (last.consumer.clone(), last.position));
                new.extend(page.into_iter().filter(|record| died_at(record) > since));
                if after.is_none() {
                    break;
                }
            }
            let Some(newest) = new.iter().max_by_key(|record| died_at(record)) else { continue };
            let (at, fact) = (died_at(newest), dead(&status.name, status.dead, &new, newest));
            book.take_up(&[fact], false, stores.state.epoch());
            book.told_dead(&status.name, at, now);
            changed = true;
        }
        Ok(changed)
    }
}

fn died_at(record: &DeliveryRecord) -> Timestamp {
    record.last_attempt.as_ref().map(|attempt| attempt.at).unwrap_or_default()
}

fn dead(consumer: &ConsumerName, all: u64, new: &[DeliveryRecord], newest: &DeliveryRecord) -> Fact {
    let error = newest.last_attempt.as_ref().map_or("", |attempt| attempt.error.as_str());
    let named: Vec<&str> = new.iter().rev().take(DEAD_NAMED).map(|record| record.event.as_str()).collect();
    Fact {
        kind: Kind::DeadLetters,
        subject: Subject::Consumer(consumer.clone()),
        at: died_at(newest),
        mark: newest.position.0,
        text: format!("{} deliveries to {consumer} are dead since the last word, {all} in all; the newest: {error}", new.len()),
        remedy: format!("mend the receiver, then `confirmd deliveries requeue {consumer} --all-dead`"),
        details: json!({ "new": new.len(), "dead": all, "events": named, "error": error }),
    }
}
