//! Litecoin's MWEB: coins that move into the extension block (peg-in) and back out to an ordinary address (peg-out).

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::bitcoin_family::BitcoinFamily;
use crate::payments::decimal;

/// MWEB activates with this block on regtest, which can't be mined without a peg-in.
const ACTIVATION_HEIGHT: u64 = 432;
/// Holds ordinary coins of exactly the amount of a peg-in: change would stay in the extension block, and the
/// payer would spend that first.
const FUNNEL: &str = "funnel";
/// Holds coins of the extension block and no others, so that each of its payments is a peg-out.
const HIDDEN: &str = "hidden";
const LITECOIN: u64 = 100_000_000;

impl BitcoinFamily {
    /// Mines up to and including the activation, with a peg-in of 10 coins in that block. For a node that was
    /// started with `mweb`. From then on every block ends with a HogEx transaction.
    pub async fn activate_mweb(&mut self) -> Result<()> {
        if !self.options.mweb {
            bail!("the node was started with MWEB off");
        }
        let height = self.tip().await?.height;
        let missing = (ACTIVATION_HEIGHT - 2).checked_sub(height).context("the activation height is passed")?;
        self.create_wallet(FUNNEL).await?;
        self.create_wallet(HIDDEN).await?;
        self.mine(missing).await?;
        // Mines block 431 itself, and leaves the peg-in waiting for 432.
        self.peg_in(10 * LITECOIN).await?;
        self.mine(1).await?;
        Ok(())
    }

    /// Moves coins into the extension block. Mines one block on the way; the peg-in then waits. Returns its id.
    pub async fn peg_in(&self, amount: u64) -> Result<String> {
        let (funnel, hidden) = (self.wallet(FUNNEL), self.wallet(HIDDEN));
        let address = funnel.text("getnewaddress", json!(["", "bech32"])).await?;
        self.pay(&address, amount).await?;
        self.mine(1).await?;
        let target = hidden.text("getnewaddress", json!(["", "mweb"])).await?;
        let fee_is_taken_from_it = true;
        funnel.text("sendtoaddress", json!([target, decimal(amount), "", "", fee_is_taken_from_it])).await
    }

    /// Pays an ordinary address out of the extension block. The payment appears as an output of the next block's
    /// HogEx transaction; the id returned here is that of the extension block's transaction and is in no block.
    /// Two in one block need two coins: earlier peg-ins or the change of mined peg-outs.
    pub async fn peg_out(&self, address: &str, amount: u64) -> Result<String> {
        self.wallet(HIDDEN).text("sendtoaddress", json!([address, decimal(amount)])).await
    }
}
