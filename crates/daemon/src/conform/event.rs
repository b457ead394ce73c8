//! Events that are flagged as tests: types `test.*`, of a chain that does not exist.

use confirmd_core::{
    Address, Amount, Asset, AssetId, BlockHash, BlockRef, ChainId, ChainName, Delivery, DepositKey, Epoch, Event, EventId,
    Height, Payment, Position, Sequence, TextIdError, Timestamp, Transfer, TxId,
};
use std::sync::Arc;

/// What events of one run share.
#[derive(Debug, Clone)]
pub(super) struct TestChain {
    chain: ChainId,
    name: ChainName,
    asset: Asset,
    now: Timestamp,
}

/// One deposit of a test chain.
#[derive(Debug, Clone)]
pub(super) struct Deposit {
    chain: TestChain,
    key: DepositKey,
}

impl TestChain {
    /// `test:conform-` and a number of the run, so that no run meets what an earlier one left behind.
    pub(super) fn new(run: u64, now: Timestamp) -> Result<Self, TextIdError> {
        let chain = ChainId::new(format!("test:conform-{run:016x}"))?;
        let asset = Asset { id: AssetId::native(&chain, 1)?, symbol: "TEST".to_owned(), decimals: 0 };
        Ok(Self { chain, name: ChainName::new("conform-test")?, asset, now })
    }

    /// The first epoch of the run.
    pub(super) fn epoch(&self) -> u64 {
        self.now.seconds()
    }

    /// Of the transaction with this number; equal numbers are one transaction.
    pub(super) fn deposit(&self, transaction: u64, output_index: u32) -> Result<Deposit, TextIdError> {
        let key = DepositKey { tx_id: TxId::new(format!("{transaction:064x}"))?, output_index };
        Ok(Deposit { chain: self.clone(), key })
    }
}

impl Deposit {
    pub(super) fn key(&self) -> (&str, &str, u32) {
        (self.chain.chain.as_str(), self.key.tx_id.as_str(), self.key.output_index)
    }

    /// The delivery of one event: odd sequences confirm, even ones revert.
    pub(super) fn event(&self, epoch: u64, sequence: u64, amount: Amount) -> Result<Delivery, TextIdError> {
        self.with_version(epoch, sequence, amount, 1)
    }

    /// The same in a version of the wire format that does not exist.
    pub(super) fn with_version(&self, epoch: u64, sequence: u64, amount: Amount, version: u32) -> Result<Delivery, TextIdError> {
        let TestChain { chain, name, asset, now } = &self.chain;
        let (epoch, sequence) = (Epoch(epoch), Sequence(sequence));
        let event = Event {
            id: EventId::derive(chain, &self.key, epoch, sequence),
            chain: chain.clone(),
            chain_name: name.clone(),
            epoch,
            sequence,
            transfer: Transfer {
                key: self.key.clone(),
                payment: Payment {
                    address: Address::new(*b"confirmd-conform", "confirmd-conform"),
                    asset: asset.id.clone(),
                    amount,
                    memo: None,
                },
                block: BlockRef { height: Height(1), hash: BlockHash::new(format!("{:064x}", sequence.0))? },
                block_time: Some(*now),
                position: 0,
                from: None,
                maturity: None,
            },
            asset: asset.clone(),
            reference: Some("confirmd-conform".into()),
            confirmations: u64::from(sequence.stands()),
            decided_at: *now,
            notice: None,
        };
        let body = String::from_utf8_lossy(&event.to_body()).replacen("\"type\":\"deposit.", "\"type\":\"test.", 1);
        let body = body.replacen("\"version\":1", &format!("\"version\":{version}"), 1);
        Ok(Delivery::new(Position(sequence.0), event, Arc::from(body.into_bytes()), 1))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn every_event_is_flagged_as_a_test_of_a_chain_that_does_not_exist() {
        let chain = TestChain::new(7, Timestamp::from_seconds(1_790_000_000)).unwrap();
        let deposit = chain.deposit(1, 0).unwrap();
        for (sequence, kind) in [(1, "test.confirmed"), (2, "test.reverted")] {
            let delivery = deposit.event(chain.epoch(), sequence, Amount::MAX).unwrap();
            let body: serde_json::Value = serde_json::from_slice(&delivery.body).unwrap();
            assert_eq!((body["type"].as_str(), body["version"].as_u64()), (Some(kind), Some(1)));
            assert_eq!(body["chain"], "test:conform-0000000000000007");
            assert_eq!(body["id"], delivery.event.as_str());
        }
        let other = deposit.with_version(1, 1, Amount::from(1), 2).unwrap();
        assert!(String::from_utf8_lossy(&other.body).contains("\"version\":2,"));
    }
}
