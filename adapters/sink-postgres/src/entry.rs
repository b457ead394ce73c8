//! One event as the database takes it, read from its frozen body.

use crate::numeric::Numeric;
use confirmd_core::{Amount, Delivery, EventKind};
use serde::Deserialize;
use std::time::SystemTime;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The wire format this sink reads.
const VERSION: u64 = 1;

/// What was paid, and where it sits.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Paid {
    pub(crate) address: String,
    pub(crate) reference: Option<String>,
    pub(crate) memo: Option<String>,
    pub(crate) asset: String,
    pub(crate) symbol: String,
    pub(crate) decimals: i16,
    pub(crate) amount: Numeric,
    pub(crate) from_address: Option<String>,
    pub(crate) height: i64,
    pub(crate) block_hash: String,
    pub(crate) block_time: Option<SystemTime>,
}

impl Paid {
    /// Whether the same is owed to the same: where it sits does not count.
    pub(crate) fn owes_the_same(&self, other: &Self) -> bool {
        let part = |paid: &Self| (paid.address.clone(), paid.reference.clone(), paid.memo.clone(), paid.asset.clone());
        part(self) == part(other) && self.amount == other.amount
    }
}

/// One event.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) id: String,
    pub(crate) chain: String,
    pub(crate) chain_name: String,
    pub(crate) tx_id: String,
    pub(crate) output_index: i64,
    pub(crate) epoch: i64,
    pub(crate) sequence: i64,
    pub(crate) kind: EventKind,
    pub(crate) position: i64,
    pub(crate) confirmations: i64,
    pub(crate) decided_at: SystemTime,
    pub(crate) paid: Paid,
    pub(crate) body: String,
}

#[derive(Deserialize)]
struct Body {
    id: String,
    version: u64,
    epoch: i64,
    sequence: i64,
    chain: String,
    chain_name: String,
    key: Key,
    address: String,
    reference: Option<String>,
    memo: Option<String>,
    asset: Asset,
    amount: Amount,
    from: Option<String>,
    block: Block,
    confirmations: i64,
    decided_at: String,
}

#[derive(Deserialize)]
struct Key {
    tx_id: String,
    output_index: u32,
}

#[derive(Deserialize)]
struct Asset {
    id: String,
    symbol: String,
    decimals: u8,
}

#[derive(Deserialize)]
struct Block {
    height: i64,
    hash: String,
    time: Option<String>,
}

impl Entry {
    /// Reads a delivery's body. An error says what about it this sink can't carry.
    pub(crate) fn read(delivery: &Delivery) -> Result<Self, String> {
        let text = std::str::from_utf8(&delivery.body).map_err(|_| "its body is not UTF-8".to_owned())?;
        let body: Body = serde_json::from_str(text).map_err(|error| format!("its body is not an event: {error}"))?;
        if body.version != VERSION {
            return Err(format!("its format has version {}, this sink reads {VERSION}", body.version));
        }
        if text.contains("\\u0000") {
            return Err("it holds a zero character, which PostgreSQL's text can't".to_owned());
        }
        let output_index = i64::from(body.key.output_index);
        let named = (
            body.id == delivery.event.as_str(),
            body.chain == delivery.chain.as_str(),
            body.key.tx_id == delivery.key.tx_id.as_str(),
        );
        if named != (true, true, true) || output_index != i64::from(delivery.key.output_index) {
            return Err("its body speaks of another event or deposit".to_owned());
        }
        let position = i64::try_from(delivery.position.0).map_err(|_| "its position is out of range".to_owned())?;
        Ok(Self {
            id: body.id,
            chain: body.chain,
            chain_name: body.chain_name,
            tx_id: body.key.tx_id,
            output_index,
            epoch: body.epoch,
            sequence: body.sequence,
            kind: delivery.kind,
            position,
            confirmations: body.confirmations,
            decided_at: moment(&body.decided_at)?,
            paid: Paid {
                address: body.address,
                reference: body.reference,
                memo: body.memo,
                asset: body.asset.id,
                symbol: body.asset.symbol,
                decimals: i16::from(body.asset.decimals),
                amount: Numeric(body.amount),
                from_address: body.from,
                height: body.block.height,
                block_hash: body.block.hash,
                block_time: body.block.time.as_deref().map(moment).transpose()?,
            },
            body: text.to_owned(),
        })
    }

    /// The deposit's key.
    pub(crate) fn key(&self) -> (&str, &str, i64) {
        (&self.chain, &self.tx_id, self.output_index)
    }

    /// `confirmed` or `reverted`; `detected` or `settled` of an informative event, which is written down alone.
    pub(crate) fn state(&self) -> &'static str {
        self.kind.word()
    }
}

fn moment(text: &str) -> Result<SystemTime, String> {
    OffsetDateTime::parse(text, &Rfc3339).map(SystemTime::from).map_err(|error| format!("{text:?} is not a time: {error}"))
}
