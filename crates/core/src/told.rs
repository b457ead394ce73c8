//! What a consumer was told: an event read back from its frozen body.

use crate::{Amount, Asset, BlockHash, BlockRef, ChainId, DepositKey, Epoch, EventId, Height, Sequence, Timestamp};
use serde::Deserialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The wire format that is read here.
const VERSION: u64 = 1;

/// An event as its body says it. The address is text: only its chain's source can read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The event.
    pub id: EventId,
    /// Which chain.
    pub chain: ChainId,
    /// Which deposit.
    pub key: DepositKey,
    /// The epoch it was decided in.
    pub epoch: Epoch,
    /// Odd stands, even does not.
    pub sequence: Sequence,
    /// Who was paid.
    pub address: String,
    /// The operator's label then.
    pub reference: Option<String>,
    /// The destination tag or memo.
    pub memo: Option<String>,
    /// In what.
    pub asset: Asset,
    /// How much, in base units.
    pub amount: Amount,
    /// The payer, where the chain shows it.
    pub from: Option<String>,
    /// The block that carried it.
    pub block: BlockRef,
    /// That block's time.
    pub block_time: Option<Timestamp>,
    /// At decision time.
    pub confirmations: u64,
    /// When it was decided.
    pub decided_at: Timestamp,
}

#[derive(Deserialize)]
struct Body {
    id: EventId,
    version: u64,
    epoch: Epoch,
    sequence: Sequence,
    chain: ChainId,
    key: DepositKey,
    address: String,
    reference: Option<String>,
    memo: Option<String>,
    asset: Asset,
    amount: Amount,
    from: Option<String>,
    block: Block,
    confirmations: u64,
    decided_at: String,
}

#[derive(Deserialize)]
struct Block {
    height: Height,
    hash: BlockHash,
    time: Option<String>,
}

impl Told {
    /// Reads a body. The error says what is wrong with it.
    pub fn read(body: &[u8]) -> Result<Self, String> {
        let body: Body = serde_json::from_slice(body).map_err(|error| format!("not an event: {error}"))?;
        if body.version != VERSION {
            return Err(format!("event {} has format {}, known is {VERSION}", body.id, body.version));
        }
        Ok(Self {
            id: body.id,
            chain: body.chain,
            key: body.key,
            epoch: body.epoch,
            sequence: body.sequence,
            address: body.address,
            reference: body.reference,
            memo: body.memo,
            asset: body.asset,
            amount: body.amount,
            from: body.from,
            block: BlockRef { height: body.block.height, hash: body.block.hash },
            block_time: body.block.time.as_deref().map(moment).transpose()?,
            confirmations: body.confirmations,
            decided_at: moment(&body.decided_at)?,
        })
    }
}

fn moment(text: &str) -> Result<Timestamp, String> {
    let at = OffsetDateTime::parse(text, &Rfc3339).map_err(|error| format!("{text:?} is not a time: {error}"))?;
    Ok(Timestamp::from_seconds(u64::try_from(at.unix_timestamp()).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_pinned_body_is_read_back_as_it_was_meant() {
        let told = Told::read(include_bytes!("event.golden.json")).unwrap();
        assert_eq!((told.epoch, told.sequence, told.amount), (Epoch(1_790_000_000), Sequence(1), Amount::MAX));
        assert_eq!((told.address.as_str(), told.reference.as_deref()), ("0xBB", Some("customer-42")));
        assert_eq!(told.block_time, Some(Timestamp::from_seconds(1_767_225_600)));
        let newer = include_str!("event.golden.json").replace("\"version\":1", "\"version\":2");
        assert!(Told::read(newer.as_bytes()).unwrap_err().contains("format 2"));
    }
}
