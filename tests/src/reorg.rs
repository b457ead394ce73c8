//! Reorganisations of a Bitcoin-family chain.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::bitcoin_family::BitcoinFamily;

impl BitcoinFamily {
    /// Declares a block invalid: it and all above leave the best chain, their transactions wait again.
    pub async fn invalidate(&self, hash: &str) -> Result<()> {
        self.rpc().call("invalidateblock", json!([hash])).await?;
        Ok(())
    }

    /// Takes an [`BitcoinFamily::invalidate`] back; the node then follows the branch with the most work, and of
    /// equal ones the one it saw first.
    pub async fn reconsider(&self, hash: &str) -> Result<()> {
        self.rpc().call("reconsiderblock", json!([hash])).await?;
        Ok(())
    }

    /// Prefers a branch among branches of equal work.
    pub async fn prefer(&self, hash: &str) -> Result<()> {
        self.rpc().call("preciousblock", json!([hash])).await?;
        Ok(())
    }

    /// Takes the last `depth` blocks off the best chain; the hash of the lowest, to reconsider it.
    pub async fn disconnect(&self, depth: u64) -> Result<String> {
        let tip = self.tip().await?.height;
        let lowest = (tip + 1).checked_sub(depth).context("the chain is not that long")?;
        let hash = self.block_hash(lowest).await?.context("no block at the fork")?;
        self.invalidate(&hash).await?;
        Ok(hash)
    }

    /// Replaces the last `depth` blocks by `depth + 1` others: `empty` empty ones first (at most `depth`), then
    /// ones with all transactions that wait. So a transaction of the lowest replaced block is mined again
    /// `empty` blocks higher, and a coinbase is gone. Returns the hash of the lowest replaced block.
    pub async fn reorg(&self, depth: u64, empty: u64) -> Result<String> {
        let more = (depth + 1).checked_sub(empty).filter(|more| *more > 0);
        let more = more.with_context(|| format!("of {} new blocks {empty} can't be empty", depth + 1))?;
        let replaced = self.disconnect(depth).await?;
        for _ in 0..empty {
            self.mine_block(&[]).await?;
        }
        self.mine(more).await?;
        Ok(replaced)
    }

    /// Replaces the last `depth` blocks by `depth + 1` empty ones: every transaction waits, none is mined.
    pub async fn reorg_empty(&self, depth: u64) -> Result<String> {
        let replaced = self.disconnect(depth).await?;
        for _ in 0..=depth {
            self.mine_block(&[]).await?;
        }
        Ok(replaced)
    }

    /// Replaces the last `depth` blocks by `depth + 1` others, the lowest of which spends the coins of the mined
    /// transaction `txid` to `address`: it can never come back. Returns the new transaction's id.
    pub async fn reorg_double_spend(&self, depth: u64, txid: &str, address: &str) -> Result<String> {
        self.disconnect(depth).await?;
        // Only now, since the wallet can't sign for coins that the best chain has spent.
        let raw = self.conflicting(txid, address).await?;
        let decoded = self.rpc().call("decoderawtransaction", json!([raw])).await?;
        let id = decoded.get("txid").and_then(Value::as_str).context("no txid in decoderawtransaction")?;
        self.mine_block(&[&raw]).await?;
        self.mine(depth).await?;
        Ok(id.to_owned())
    }
}
