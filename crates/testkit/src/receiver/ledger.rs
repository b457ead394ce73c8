//! The customer's table and balances.

use std::collections::BTreeMap;

use alloy::primitives::U256;

use super::event::{EventType, WireEvent};

/// A deposit key on its chain.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LedgerKey {
    /// CAIP-2 id.
    pub chain: String,
    /// The key's transaction.
    pub tx_id: String,
    /// The key's output.
    pub output_index: u64,
}

/// What is kept of a key, also after it was reverted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerRow {
    /// Of the last event that counted.
    pub epoch: u64,
    /// Of the last event that counted.
    pub sequence: u64,
    /// Whether the deposit is credited.
    pub stands: bool,
    /// Whom it pays.
    pub address: String,
    /// The operator's label.
    pub reference: Option<String>,
    /// CAIP-19 id.
    pub asset: String,
    /// Base units.
    pub amount: U256,
    /// Height of the block that it was last told with.
    pub height: u64,
}

/// Rows, balances, and what was wrong with what came in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    rows: BTreeMap<LedgerKey, LedgerRow>,
    balances: BTreeMap<(String, String), U256>,
    ids: BTreeMap<String, Vec<u8>>,
    acknowledged: BTreeMap<LedgerKey, (u64, u64)>,
    problems: Vec<String>,
    moves: u64,
}

impl Ledger {
    /// All rows, by key.
    pub fn rows(&self) -> &BTreeMap<LedgerKey, LedgerRow> {
        &self.rows
    }

    /// The row of one key.
    pub fn row(&self, chain: &str, tx_id: &str, output_index: u64) -> Option<&LedgerRow> {
        let (chain, tx_id) = (chain.to_owned(), tx_id.to_owned());
        self.rows.get(&LedgerKey { chain, tx_id, output_index })
    }

    /// Base units credited to an address, by CAIP-19 asset id.
    pub fn balance(&self, address: &str, asset: &str) -> U256 {
        let key = (address.to_owned(), asset.to_owned());
        self.balances.get(&key).copied().unwrap_or(U256::ZERO)
    }

    /// Base units by (address, asset id), zero balances included.
    pub fn balances(&self) -> &BTreeMap<(String, String), U256> {
        &self.balances
    }

    /// Broken promises: an id that came with another body, a sequence that came before the one
    /// before it was acknowledged, a type that does not alternate, an amount that is no number.
    /// For a consumer that starts in the middle of a history, its first sequences count as broken.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// How often money was moved.
    pub fn moves(&self) -> u64 {
        self.moves
    }

    /// Takes one body as a reader of the `file` sink's lines does: judged, applied by the rule and accepted at once.
    ///
    /// # Errors
    /// When it is not an event.
    pub fn read(&mut self, body: &[u8]) -> serde_json::Result<WireEvent> {
        let event: WireEvent = serde_json::from_slice(body)?;
        self.judge(&event, body);
        self.apply(&event);
        self.acknowledge(&event);
        Ok(event)
    }

    pub(super) fn problem(&mut self, what: String) {
        self.problems.push(what);
    }

    /// Judges a request by what was promised, before it is known how it will be answered.
    pub(super) fn judge(&mut self, event: &WireEvent, body: &[u8]) {
        let known = self.ids.entry(event.id.clone()).or_insert_with(|| body.to_vec());
        if known != body {
            self.problems.push(format!("{}: the same id came with another body", event.id));
        }
        let odd = event.sequence % 2 == 1;
        if odd != (event.kind == EventType::Confirmed) {
            let (id, sequence) = (&event.id, event.sequence);
            self.problems.push(format!("{id}: sequence {sequence} is {:?}", event.kind));
        }
        let before = self.acknowledged.get(&key(event)).copied();
        let in_order = match before {
            Some((epoch, sequence)) => event.epoch != epoch || event.sequence <= sequence + 1,
            None => event.sequence == 1,
        };
        if !in_order {
            let (id, sequence) = (&event.id, event.sequence);
            self.problems.push(format!("{id}: sequence {sequence} came after {before:?}"));
        }
    }

    pub(super) fn acknowledge(&mut self, event: &WireEvent) {
        let place = self.acknowledged.entry(key(event)).or_default();
        *place = (*place).max((event.epoch, event.sequence));
    }

    /// The documented rule, as one transaction.
    pub(super) fn apply(&mut self, event: &WireEvent) {
        let key = key(event);
        let stored = self.rows.get(&key).cloned();
        if let Some(row) = &stored
            && (event.epoch, event.sequence) <= (row.epoch, row.sequence)
        {
            return;
        }
        let Ok(amount) = U256::from_str_radix(&event.amount, 10) else {
            self.problems.push(format!("{}: amount {:?} is no number", event.id, event.amount));
            return;
        };
        let stood = stored.as_ref().filter(|row| row.stands);
        let stands = event.kind == EventType::Confirmed;
        match stood {
            None if stands => self.credit(&event.address, &event.asset.id, amount),
            Some(row) if !stands => self.debit(row),
            _ => {}
        }
        // A credited row keeps what was credited for it.
        let row = match stood.filter(|_| stands) {
            Some(row) => LedgerRow { epoch: event.epoch, sequence: event.sequence, ..row.clone() },
            None => row(event, stands, amount),
        };
        self.rows.insert(key, row);
    }

    fn credit(&mut self, address: &str, asset: &str, amount: U256) {
        let balance = self.balances.entry((address.to_owned(), asset.to_owned())).or_default();
        match balance.checked_add(amount) {
            Some(sum) => *balance = sum,
            None => self.problems.push(format!("the balance of {address} in {asset} overflows")),
        }
        self.moves += 1;
    }

    fn debit(&mut self, row: &LedgerRow) {
        let balance = self.balances.entry((row.address.clone(), row.asset.clone())).or_default();
        *balance = balance.checked_sub(row.amount).expect("invariant: a balance is the sum of its standing rows");
        self.moves += 1;
    }
}

fn key(event: &WireEvent) -> LedgerKey {
    LedgerKey { chain: event.chain.clone(), tx_id: event.key.tx_id.clone(), output_index: event.key.output_index }
}

fn row(event: &WireEvent, stands: bool, amount: U256) -> LedgerRow {
    LedgerRow {
        epoch: event.epoch,
        sequence: event.sequence,
        stands,
        address: event.address.clone(),
        reference: event.reference.clone(),
        asset: event.asset.id.clone(),
        amount,
        height: event.block.height,
    }
}
