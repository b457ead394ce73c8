//! The books against the chains.

use std::collections::BTreeMap;

use confirmd_testkit::alloy::primitives::U256;
use confirmd_testkit::receiver::{Ledger, LedgerKey, Received};

use super::operator::Accepted;
use super::payment::Truth;
use crate::torture::Tally;

/// What is wrong with one consumer's books.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub(super) tally: Tally,
    pub(super) findings: Vec<String>,
}

/// Compares a ledger with what the chains pay. `accepted` keys are those an operator was told are not looked at again.
pub(super) fn books(name: &str, ledger: &Ledger, truth: &Truth, accepted: &Accepted) -> Verdict {
    let mut verdict = Verdict::default();
    let mut finding = |text: String| verdict.findings.push(format!("{name}: {text}"));
    for problem in ledger.problems() {
        if problem.contains("came after") {
            verdict.tally.out_of_order += 1;
        }
        finding(problem.clone());
    }
    let mut owed: BTreeMap<(String, String), U256> = BTreeMap::new();
    for (key, due) in truth.iter().filter(|(key, _)| !accepted.contains(key)) {
        *owed.entry((due.address.clone(), due.asset.clone())).or_default() += due.amount;
        let row = ledger.row(&key.chain, &key.tx_id, key.output_index);
        let right = row.is_some_and(|row| row.stands && row.amount == due.amount && row.address.to_lowercase() == due.address);
        if !right {
            verdict.tally.lost += 1;
            finding(format!("{} is owed and not there: {row:?}, due {due:?}", shown(key)));
        }
    }
    let mut held: BTreeMap<(String, String), U256> = BTreeMap::new();
    for ((address, asset), balance) in ledger.balances() {
        *held.entry((address.to_lowercase(), asset.clone())).or_default() += *balance;
    }
    for (key, row) in ledger.rows().iter().filter(|(_, row)| row.stands) {
        let account = (row.address.to_lowercase(), row.asset.clone());
        if accepted.contains(key) {
            *owed.entry(account).or_default() += row.amount;
        } else if !truth.contains_key(key) {
            verdict.tally.unreverted += 1;
            finding(format!("{} stands and is not paid: {row:?}", shown(key)));
            *owed.entry(account).or_default() += row.amount;
        }
    }
    for (account, balance) in &held {
        let due = owed.get(account).copied().unwrap_or_default();
        if *balance > due {
            verdict.tally.duplicated += 1;
            finding(format!("{account:?} holds {balance}, due is {due}"));
        }
    }
    verdict
}

/// One decision has one id and one body, and all are of one epoch.
pub(super) fn decisions(name: &str, requests: &[Received]) -> Vec<String> {
    let mut findings = Vec::new();
    let mut ids: BTreeMap<(String, String, u64, u64, u64), &str> = BTreeMap::new();
    let mut epochs: BTreeMap<u64, usize> = BTreeMap::new();
    for event in requests.iter().filter_map(|request| request.event.as_ref().ok()) {
        let decision = (event.chain.clone(), event.key.tx_id.clone(), event.key.output_index, event.epoch, event.sequence);
        let known = ids.entry(decision).or_insert(&event.id);
        if *known != event.id {
            findings.push(format!("{name}: one decision has two ids, {known} and {}", event.id));
        }
        *epochs.entry(event.epoch).or_default() += 1;
    }
    if epochs.len() > 1 {
        findings.push(format!("{name}: events of several epochs, though the state was never lost: {epochs:?}"));
    }
    findings
}

fn shown(key: &LedgerKey) -> String {
    format!("{} {}:{}", key.chain, key.tx_id, key.output_index)
}
