//! A consumer's books against the nodes' own truth.

use std::collections::{BTreeMap, BTreeSet};

use confirmd_testkit::alloy::primitives::U256;
use confirmd_testkit::receiver::{EventType, LedgerKey, Received, WireEvent};

use crate::torture::Tally;

/// How a consumer keeps its ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rule {
    /// As documented for consumers.
    #[default]
    Documented,
    /// Wrong on purpose: whatever was credited once stays so.
    IgnoresReverts,
}

/// What the best chain pays a watched address, deep enough.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Due {
    /// In lower case where the chain's spelling is not unique.
    pub(super) address: String,
    /// CAIP-19 in lower case; `None` where the chain has one asset only.
    pub(super) asset: Option<String>,
    /// Base units.
    pub(super) amount: U256,
    /// Of its block.
    pub(super) height: u64,
}

/// All that is due on all chains.
pub(super) type Truth = BTreeMap<LedgerKey, Due>;

/// What one consumer believes of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    /// Epoch and sequence of the last event that counted.
    pub(super) order: (u64, u64),
    /// Whether it is credited.
    pub(super) stands: bool,
    address: String,
    asset: String,
    amount: String,
    height: u64,
}

/// Every broken promise, a line each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Findings {
    pub(super) lost: Vec<String>,
    pub(super) duplicated: Vec<String>,
    /// Also anything else that stands and should not.
    pub(super) unreverted: Vec<String>,
    pub(super) out_of_order: Vec<String>,
}

impl Findings {
    /// The counts.
    pub(super) fn add_to(&self, tally: &mut Tally) {
        let count = |list: &Vec<String>| u64::try_from(list.len()).unwrap_or(u64::MAX);
        tally.lost += count(&self.lost);
        tally.duplicated += count(&self.duplicated);
        tally.unreverted += count(&self.unreverted);
        tally.out_of_order += count(&self.out_of_order);
    }

    /// Every line with its kind.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> + '_ {
        let kinds = [
            ("lost", &self.lost),
            ("duplicated", &self.duplicated),
            ("unreverted", &self.unreverted),
            ("out of order", &self.out_of_order),
        ];
        kinds.into_iter().flat_map(|(kind, list)| list.iter().map(move |line| format!("{kind}: {line}")))
    }
}

/// The key of an event.
fn key_of(event: &WireEvent) -> LedgerKey {
    LedgerKey { chain: event.chain.clone(), tx_id: event.key.tx_id.clone(), output_index: event.key.output_index }
}

/// The ledger that follows from the requests which the receiver gave to its ledger. The highest order decides, so
/// the order of application does not matter.
pub(super) fn rows(requests: &[Received], rule: Rule) -> BTreeMap<LedgerKey, Row> {
    let mut rows: BTreeMap<LedgerKey, Row> = BTreeMap::new();
    for event in requests.iter().filter(|request| request.applied).filter_map(|request| request.event.as_ref().ok()) {
        let stands = event.kind == EventType::Confirmed;
        if !stands && rule == Rule::IgnoresReverts {
            continue;
        }
        let row = Row {
            order: (event.epoch, event.sequence),
            stands,
            address: event.address.clone(),
            asset: event.asset.id.clone(),
            amount: event.amount.clone(),
            height: event.block.height,
        };
        let place = rows.entry(key_of(event)).or_insert_with(|| row.clone());
        if row.order > place.order {
            *place = row;
        }
    }
    rows
}

/// Compares a consumer's books with the truth, and what it was sent with what was promised.
pub(super) fn judge(requests: &[Received], rule: Rule, truth: &Truth) -> Findings {
    let mut findings = Findings::default();
    let rows = rows(requests, rule);
    for (key, due) in truth {
        match rows.get(key).filter(|row| row.stands) {
            None => findings.lost.push(format!(
                "{} {}:{} is {due:?}, the books have {:?}",
                key.chain,
                key.tx_id,
                key.output_index,
                rows.get(key)
            )),
            Some(row) if !fits(row, due) => {
                findings
                    .unreverted
                    .push(format!("{} {}:{} is {due:?}, the books have {row:?}", key.chain, key.tx_id, key.output_index));
            }
            Some(_) => {}
        }
    }
    for (key, row) in rows.iter().filter(|(key, row)| row.stands && !truth.contains_key(*key)) {
        let line = format!("{} {}:{} is not due, the books have {row:?}", key.chain, key.tx_id, key.output_index);
        let mut others = truth.iter().filter(|(other, _)| other.chain == key.chain && other.tx_id == key.tx_id);
        // The payment is there, under another key.
        if others.any(|(_, due)| fits(row, due)) { findings.duplicated.push(line) } else { findings.unreverted.push(line) }
    }
    identities(requests, &mut findings);
    order(requests, &mut findings);
    findings
}

fn fits(row: &Row, due: &Due) -> bool {
    let address = if due.asset.is_some() { row.address.to_lowercase() } else { row.address.clone() };
    let asset = due.asset.as_ref().is_none_or(|asset| *asset == row.asset.to_lowercase());
    address == due.address && asset && row.amount == due.amount.to_string() && row.height == due.height
}

/// One event has one id and one body, and the state is never made anew in a round.
fn identities(requests: &[Received], findings: &mut Findings) {
    let mut bodies = BTreeMap::new();
    let mut ids = BTreeMap::new();
    let mut epochs: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
    for (request, event) in requests.iter().filter_map(|request| Some((request, request.event.as_ref().ok()?))) {
        if *bodies.entry(&request.id).or_insert(&request.body) != &request.body {
            findings.duplicated.push(format!("{} came with another body in request {}", request.id, request.number));
        }
        let first = ids.entry((key_of(event), event.epoch, event.sequence)).or_insert(&request.id);
        if *first != &request.id {
            findings.duplicated.push(format!("{first} came as {} in request {}", request.id, request.number));
        }
        epochs.entry(event.chain.clone()).or_default().insert(event.epoch);
    }
    for (chain, epochs) in epochs.iter().filter(|(_, epochs)| epochs.len() > 1) {
        findings.duplicated.push(format!("{chain} was told in the epochs {epochs:?}, though its state was never lost"));
    }
}

/// Sequences alternate, and each comes after the one before it was accepted.
fn order(requests: &[Received], findings: &mut Findings) {
    let mut accepted: BTreeSet<(LedgerKey, u64)> = BTreeSet::new();
    for (request, event) in requests.iter().filter_map(|request| Some((request, request.event.as_ref().ok()?))) {
        let (key, sequence) = (key_of(event), event.sequence);
        let after = sequence == 1 || sequence > 1 && accepted.contains(&(key.clone(), sequence - 1));
        let alternates = (sequence % 2 == 1) == (event.kind == EventType::Confirmed);
        if !after || !alternates {
            let what = if alternates { "came before the one below it was accepted" } else { "has the wrong type" };
            findings.out_of_order.push(format!("sequence {sequence} of {}:{} {what}", key.tx_id, key.output_index));
        }
        if request.answered.is_some_and(|status| (200..300).contains(&status)) {
            accepted.insert((key, sequence));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use axum::http::HeaderMap;
    use serde_json::json;

    use super::*;

    fn request(number: usize, sequence: u64, answered: Option<u16>) -> Received {
        let kind = if sequence % 2 == 1 { "deposit.confirmed" } else { "deposit.reverted" };
        let id = format!("evt_{sequence}");
        let body = json!({
            "id": id, "type": kind, "version": 1, "epoch": 7, "sequence": sequence, "chain": "eip155:1", "chain_name": "e",
            "key": {"tx_id": "0xaa", "output_index": 0}, "address": "0xBB", "asset": {"id": "eip155:1/slip44:60", "symbol": "E", "decimals": 18},
            "amount": "5", "block": {"height": 9, "hash": "0xcc"}, "confirmations": 1
        });
        let event = serde_json::from_value(body.clone()).map_err(|error| error.to_string());
        let body = body.to_string().into_bytes();
        Received { number, id, headers: HeaderMap::new(), body, event, answered, applied: answered.is_some() }
    }

    fn truth(output_index: u64) -> Truth {
        let key = LedgerKey { chain: "eip155:1".to_owned(), tx_id: "0xaa".to_owned(), output_index };
        let due =
            Due { address: "0xbb".to_owned(), asset: Some("eip155:1/slip44:60".to_owned()), amount: U256::from(5), height: 9 };
        Truth::from([(key, due)])
    }

    fn counts(requests: &[Received], rule: Rule, truth: &Truth) -> [u64; 4] {
        let mut tally = Tally::default();
        judge(requests, rule, truth).add_to(&mut tally);
        [tally.lost, tally.duplicated, tally.unreverted, tally.out_of_order]
    }

    #[test]
    fn books_that_hold_what_is_due_have_no_findings_also_after_repetitions() {
        let requests = [
            request(0, 1, Some(500)),
            request(1, 1, Some(204)),
            request(2, 2, Some(204)),
            request(3, 3, Some(204)),
            request(4, 1, Some(204)),
        ];
        assert_eq!(counts(&requests, Rule::Documented, &truth(0)), [0; 4]);
    }

    #[test]
    fn what_is_due_and_not_credited_is_lost() {
        assert_eq!(counts(&[], Rule::Documented, &truth(0)), [1, 0, 0, 0]);
        assert_eq!(counts(&[request(0, 1, Some(204)), request(1, 2, Some(204))], Rule::Documented, &truth(0)), [1, 0, 0, 0]);
    }

    #[test]
    fn what_is_credited_and_not_due_is_unreverted() {
        assert_eq!(counts(&[request(0, 1, Some(204))], Rule::Documented, &Truth::new()), [0, 0, 1, 0]);
        let reverted = [request(0, 1, Some(204)), request(1, 2, Some(204))];
        assert_eq!(counts(&reverted, Rule::Documented, &Truth::new()), [0; 4]);
        assert_eq!(counts(&reverted, Rule::IgnoresReverts, &Truth::new()), [0, 0, 1, 0]);
        let mut moved = truth(0);
        moved.values_mut().for_each(|due| due.height = 10);
        assert_eq!(counts(&[request(0, 1, Some(204))], Rule::Documented, &moved), [0, 0, 1, 0]);
    }

    #[test]
    fn a_payment_under_two_keys_or_an_event_under_two_ids_or_bodies_or_epochs_is_duplicated() {
        assert_eq!(counts(&[request(0, 1, Some(204))], Rule::Documented, &truth(3)), [1, 1, 0, 0]);
        let mut other = request(1, 1, Some(204));
        other.body.push(b' ');
        assert_eq!(counts(&[request(0, 1, Some(204)), other.clone()], Rule::Documented, &truth(0)), [0, 1, 0, 0]);
        other.id = "evt_other".to_owned();
        assert_eq!(counts(&[request(0, 1, Some(204)), other.clone()], Rule::Documented, &truth(0)), [0, 1, 0, 0]);
        other.event.as_mut().unwrap().epoch = 8;
        assert_eq!(counts(&[request(0, 1, Some(204)), other], Rule::Documented, &truth(0)), [0, 1, 0, 0]);
    }

    #[test]
    fn a_sequence_before_the_one_below_it_was_accepted_is_out_of_order() {
        let early = [request(0, 1, Some(500)), request(1, 2, Some(204)), request(2, 3, Some(204))];
        assert_eq!(counts(&early, Rule::Documented, &truth(0)), [0, 0, 0, 1]);
        let mut wrong = request(0, 1, Some(204));
        wrong.event.as_mut().unwrap().sequence = 2;
        assert_eq!(counts(&[wrong], Rule::Documented, &truth(0))[3], 1);
    }
}
