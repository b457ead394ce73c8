//! What was read of one block, and the payments in it. Pure: the same for a live node, a recorded block and a whole-block read.

use crate::block::{Transaction, Withdrawal};
use crate::erc20::TokenPayment;
use crate::native::NativePayment;
use crate::plan::Plan;
use crate::receipt::{Outcome, Receipt};
use crate::trace::Traced;
use alloy::primitives::{Address, B256};
use confirmd_core::{
    Amount, AssetId, BlockRef, DepositKey, Payment, SourceError, Timestamp, Transfer, TxId, WatchEntry, WatchSet,
};
use std::collections::HashMap;

/// Wei of a Gwei.
const GWEI: u64 = 1_000_000_000;
/// The first log of a receipt; 0 is the transaction's own value.
pub(crate) const FIRST_LOG_INDEX: u32 = 1;

/// What may carry payments in a block: receipts of the transactions that matter, no more is needed.
#[derive(Debug)]
pub(crate) struct Reading<'a> {
    pub(crate) block: BlockRef,
    pub(crate) time: Option<Timestamp>,
    pub(crate) receipts: HashMap<B256, Receipt>,
    pub(crate) natives: &'a [Transaction],
    pub(crate) traced: &'a [Traced],
    pub(crate) withdrawals: &'a [Withdrawal],
    /// Transactions in the block; withdrawals come after them.
    pub(crate) transactions: u32,
}

/// One payment before it knows its block.
struct Credit {
    key: DepositKey,
    position: u32,
    address: confirmd_core::Address,
    asset: AssetId,
    amount: Amount,
    from: Option<Address>,
}

impl Reading<'_> {
    /// Payments in the order of S6. `Fatal` where a receipt can't tell whether its transaction succeeded.
    pub(crate) fn transfers(&self, plan: &Plan, watch: &WatchSet) -> Result<Vec<Transfer>, SourceError> {
        let mut credits = Vec::new();
        for receipt in self.receipts.values() {
            token_credits(receipt, plan, watch, &mut credits)?;
        }
        if let Some(asset) = &plan.native {
            for tx in self.natives {
                credits.extend(self.native_credit(tx, asset, watch)?);
            }
            for traced in self.traced {
                self.internal_credits(traced, asset, watch, &mut credits)?;
            }
            self.withdrawal_credits(asset, watch, &mut credits)?;
        }
        credits.sort_by_key(|credit| (credit.position, credit.key.output_index));
        Ok(credits.into_iter().map(|credit| self.transfer(credit)).collect())
    }

    fn transfer(&self, credit: Credit) -> Transfer {
        Transfer {
            key: credit.key,
            payment: Payment { address: credit.address, asset: credit.asset, amount: credit.amount, memo: None },
            block: self.block.clone(),
            block_time: self.time,
            position: credit.position,
            from: credit.from.map(|from| from.to_checksum(None)),
            maturity: None,
        }
    }

    fn receipt(&self, tx: B256) -> Result<&Receipt, SourceError> {
        let gone = || SourceError::orphaned(format!("looked for the receipt of {tx} in block {}", self.block));
        self.receipts.get(&tx).ok_or_else(gone)
    }

    fn native_credit(&self, tx: &Transaction, asset: &AssetId, watch: &WatchSet) -> Result<Option<Credit>, SourceError> {
        let Some((payment, entry)) = NativePayment::read(tx).and_then(|p| Some((p, watched(watch, p.to)?))) else {
            return Ok(None);
        };
        let receipt = self.receipt(tx.hash)?;
        if tx.transaction_index.is_some_and(|index| index != receipt.transaction_index) {
            let text = format!("block {} and the receipt of {} differ on its position", self.block, tx.hash);
            return Err(SourceError::transient(text));
        }
        match receipt.outcome() {
            Outcome::Failed => return Ok(None),
            Outcome::Succeeded => {}
            Outcome::Unknown => {
                return Err(SourceError::fatal(format!(
                    "the receipt of {} in block {} has no status: it is from before the network's Byzantium upgrade, and a native payment \
                     there can't be told from a failed one; set start to a later block (4370000 on Ethereum mainnet) or leave native out",
                    tx.hash, self.block
                )));
            }
        }
        Ok(Some(Credit {
            key: DepositKey { tx_id: tx_id(tx.hash), output_index: 0 },
            position: position(receipt)?,
            address: entry.address,
            asset: asset.clone(),
            amount: payment.amount,
            from: payment.from,
        }))
    }

    fn internal_credits(
        &self,
        traced: &Traced,
        asset: &AssetId,
        watch: &WatchSet,
        credits: &mut Vec<Credit>,
    ) -> Result<(), SourceError> {
        for payment in &traced.payments {
            let to_other = payment.to.filter(|to| payment.from != Some(*to));
            let Some(entry) = to_other.and_then(|to| watched(watch, to)) else { continue };
            let receipt = self.receipt(traced.tx)?;
            if receipt.outcome() == Outcome::Failed || position(receipt)? != traced.position {
                let text = format!("the trace and the receipt of {} in block {} contradict each other", traced.tx, self.block);
                return Err(SourceError::transient(text));
            }
            credits.push(Credit {
                key: DepositKey { tx_id: tx_id(traced.tx), output_index: payment.index },
                position: traced.position,
                address: entry.address,
                asset: asset.clone(),
                amount: Amount::from(payment.wei),
                from: payment.from,
            });
        }
        Ok(())
    }

    fn withdrawal_credits(&self, asset: &AssetId, watch: &WatchSet, credits: &mut Vec<Credit>) -> Result<(), SourceError> {
        for (n, withdrawal) in (0u32..).zip(self.withdrawals) {
            let Some(entry) = watched(watch, withdrawal.address).filter(|_| withdrawal.amount.0 > 0) else { continue };
            let name = format!("withdrawal:{}", withdrawal.index.0);
            credits.push(Credit {
                key: DepositKey { tx_id: TxId::new(name).expect("invariant: a word and at most 20 digits"), output_index: 0 },
                position: self.transactions.saturating_add(n),
                address: entry.address,
                asset: asset.clone(),
                amount: Amount::from(withdrawal.amount.0).checked_mul(GWEI).expect("invariant: 94 bits at most"),
                from: None,
            });
        }
        Ok(())
    }
}

/// The log's place in its receipt names it: the same whatever else is watched, and wherever the transaction is mined.
fn token_credits(receipt: &Receipt, plan: &Plan, watch: &WatchSet, credits: &mut Vec<Credit>) -> Result<(), SourceError> {
    if receipt.outcome() == Outcome::Failed {
        return Ok(());
    }
    for (output_index, log) in (FIRST_LOG_INDEX..).zip(&receipt.logs) {
        let elsewhere = log.transaction_hash.is_some_and(|tx| tx != receipt.transaction_hash)
            || log.block_hash.is_some_and(|block| block != receipt.block_hash);
        if elsewhere {
            let text = format!("the receipt of {} holds a log that says it is another transaction's", receipt.transaction_hash);
            return Err(SourceError::transient(text));
        }
        let Some(asset) = plan.tokens.get(&log.address) else { continue };
        let Some(payment) = TokenPayment::read(log).filter(|payment| payment.from != payment.to) else { continue };
        let Some(entry) = watched(watch, payment.to) else { continue };
        credits.push(Credit {
            key: DepositKey { tx_id: tx_id(receipt.transaction_hash), output_index },
            position: position(receipt)?,
            address: entry.address,
            asset: asset.clone(),
            amount: payment.amount,
            from: Some(payment.from),
        });
    }
    Ok(())
}

pub(crate) fn watched(watch: &WatchSet, account: Address) -> Option<WatchEntry> {
    watch.get(account.as_slice())
}

fn tx_id(hash: B256) -> TxId {
    TxId::new(hash.to_string()).expect("invariant: 66 printable characters")
}

fn position(receipt: &Receipt) -> Result<u32, SourceError> {
    let index = receipt.transaction_index.0;
    u32::try_from(index)
        .map_err(|_| SourceError::transient(format!("{} is at position {index} of its block", receipt.transaction_hash)))
}
