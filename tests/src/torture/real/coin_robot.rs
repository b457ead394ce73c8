//! Pays, forks and takes away a node of the Bitcoin family, as a seed says.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::dice::Dice;
use super::journal::Journal;
use super::outage::Outage;
use super::truth::CoinWatch;
use super::{CONFIRMATIONS_MAX, Counts, FORK_DEPTH_MAX, Pace};
use crate::{BitcoinFamily, RpcError, Switch};

const WHO: &str = "coins";

/// A node for one round, with addresses of the round's own.
#[derive(Debug)]
pub(super) struct CoinRobot<'a> {
    /// The node; rounds share it.
    pub(super) node: &'a mut BitcoinFamily,
    /// What confirmd connects to.
    pub(super) way: Switch,
    /// What the audit looks for.
    pub(super) watch: CoinWatch,
    highest: u64,
    /// Payments of this round, mined or not.
    paid: Vec<String>,
}

impl<'a> CoinRobot<'a> {
    /// Takes a node over.
    pub(super) async fn set(node: &'a mut BitcoinFamily) -> Result<Self> {
        let way = Switch::to(&node.url()).await?;
        let genesis = node.block_hash(0).await?.context("no genesis block")?;
        let chain = format!("bip122:{}", genesis.get(..32).context("a short hash")?);
        let mut scripts = Vec::new();
        for kind in ["legacy", "p2sh-segwit", "bech32", "bech32"] {
            let address = node.new_address_of(kind).await?;
            let answer = node.rpc().call("validateaddress", json!([address])).await?;
            let spelling = answer.get("address").and_then(Value::as_str).context("validateaddress names no address")?;
            scripts.push((node.script_of(&address).await?, spelling.to_owned()));
        }
        // What an earlier round left waiting is mined before this one begins.
        node.mine(1).await?;
        let highest = node.tip().await?.height;
        let watch = CoinWatch { chain, scripts, from: highest, confirmations: 2 };
        Ok(Self { node, way, watch, highest, paid: Vec::new() })
    }

    /// So many acts; one that the node refuses is noted and passed over.
    pub(super) async fn run(
        &mut self,
        acts: u32,
        dice: &mut Dice,
        journal: &Journal,
        nobody: &str,
        pace: Pace,
    ) -> Result<Counts> {
        let mut counts = Counts::default();
        for _ in 0..acts {
            let act = self.act(dice, journal, nobody, &mut counts).await;
            match act {
                Err(error) if error.downcast_ref::<RpcError>().is_some() => {
                    journal.note(WHO, &format!("refused: {error:#}"));
                    counts.refused += 1;
                }
                other => other?,
            }
            self.highest = self.highest.max(self.node.tip().await?.height);
            pace.pause(dice).await;
        }
        Ok(counts)
    }

    async fn act(&mut self, dice: &mut Dice, journal: &Journal, nobody: &str, counts: &mut Counts) -> Result<()> {
        match dice.number(0, 99) {
            0..=44 => self.pay(dice, journal).await,
            45..=69 => {
                journal.note(WHO, "mine");
                self.node.mine(dice.number(1, 2)).await.map(drop)
            }
            70..=74 => {
                journal.note(WHO, "coinbase to a watched address");
                let (_, address) = dice.pick(&self.watch.scripts);
                self.node.mine_to(address, 1).await.map(drop)
            }
            75..=94 => {
                counts.reorgs += 1;
                self.fork(dice, journal).await
            }
            _ => {
                counts.outages += 1;
                self.go_away(dice, journal, nobody).await
            }
        }
    }

    async fn pay(&mut self, dice: &mut Dice, journal: &Journal) -> Result<()> {
        let addresses: Vec<&str> = self.watch.scripts.iter().map(|(_, address)| address.as_str()).collect();
        let (one, other) = (*dice.pick(&addresses), *dice.pick(&addresses));
        let amount = dice.number(10_000, 10_000_000);
        let id = match dice.number(0, 2) {
            0 => self.node.pay(one, amount).await?,
            1 => self.node.pay_replaceable(one, amount).await?,
            // Several outputs, two of them alike.
            _ => self.node.pay_many(&[(one, amount), (other, amount + 1), (one, amount)]).await?,
        };
        journal.note(WHO, &format!("pay {id}"));
        self.paid.push(id);
        if dice.chance(1, 2) {
            self.node.mine(1).await?;
        }
        Ok(())
    }

    /// Never below what confirmd may take for settled, nor below the start.
    async fn depth_max(&self) -> Result<u64> {
        let tip = self.node.tip().await?.height;
        let lowest = self.watch.from.max(self.highest.saturating_sub(FORK_DEPTH_MAX));
        Ok(tip.saturating_sub(lowest).min(FORK_DEPTH_MAX))
    }

    async fn fork(&mut self, dice: &mut Dice, journal: &Journal) -> Result<()> {
        let depth_max = self.depth_max().await?;
        if depth_max == 0 {
            return self.node.mine(1).await.map(drop);
        }
        let depth = dice.number(1, depth_max);
        let kind = dice.number(0, 5);
        journal.note(WHO, &format!("fork of {depth}, kind {kind}"));
        match kind {
            0 => self.node.reorg_empty(depth).await.map(drop),
            1 => self.there_and_back(depth, dice).await,
            2 => self.double_spend(depth, dice, journal).await,
            3 => self.outbid(depth, journal).await,
            _ => self.node.reorg(depth, dice.number(0, depth)).await.map(drop),
        }
    }

    /// Another branch, shorter, equal or longer, and then the first one is allowed again.
    async fn there_and_back(&self, depth: u64, dice: &mut Dice) -> Result<()> {
        let replaced = self.node.disconnect(depth).await?;
        for _ in 0..dice.number(1, depth + 1) {
            self.node.mine_block(&[]).await?;
        }
        dice.pause(0, 150).await;
        self.node.reconsider(&replaced).await
    }

    /// Somebody takes the coins of one of the payments back, on the longer branch; where the wallet can, since those
    /// coins may be gone with the branch.
    async fn double_spend(&self, depth: u64, dice: &mut Dice, journal: &Journal) -> Result<()> {
        let lowest = self.node.tip().await?.height + 1 - depth;
        let mut spent = None;
        for id in self.paid.iter().rev().take(8) {
            if self.node.position(id).await?.is_some_and(|place| place.block.height >= lowest) {
                spent = Some(id);
                break;
            }
        }
        self.node.disconnect(depth).await?;
        if let Some(id) = spent {
            let (_, address) = dice.pick(&self.watch.scripts);
            match self.node.conflicting(id, address).await {
                Ok(raw) => {
                    self.node.mine_block(&[&raw]).await?;
                    journal.note(WHO, &format!("the coins of {id} are spent by another transaction"));
                }
                Err(error) => journal.note(WHO, &format!("no other transaction for {id}: {error:#}")),
            }
        }
        self.node.mine(depth + 1).await.map(drop)
    }

    /// A payment of an orphaned block is replaced by one with a higher fee while it waits.
    async fn outbid(&self, depth: u64, journal: &Journal) -> Result<()> {
        self.node.disconnect(depth).await?;
        for id in self.paid.iter().rev().take(4) {
            if let Ok(new) = self.node.bump_fee(id).await {
                journal.note(WHO, &format!("{new} replaces {id}"));
                break;
            }
        }
        self.node.mine(depth + 1).await.map(drop)
    }

    async fn go_away(&mut self, dice: &mut Dice, journal: &Journal, nobody: &str) -> Result<()> {
        let outage = Outage::any(dice);
        journal.note(WHO, &format!("away: {outage:?}"));
        match outage {
            Outage::Cut => {
                self.way.turn_to(nobody);
                self.node.mine(1).await?;
                dice.pause(50, 400).await;
                self.way.turn_to(&self.node.url());
            }
            Outage::Silent => {
                self.node.process()?.signal("STOP")?;
                dice.pause(50, 400).await;
                self.node.process()?.signal("CONT")?;
            }
            Outage::Restart => {
                // What is open is cut first: the node's end would wait for it.
                self.way.turn_to(nobody);
                self.node.stop().await?;
                journal.note(WHO, "stopped");
                self.node.resume().await?;
                self.way.turn_to(&self.node.url());
            }
        }
        journal.note(WHO, "back");
        Ok(())
    }

    /// Blocks until everything mined so far is deep enough, on a chain longer than any before.
    pub(super) async fn settle(&self) -> Result<()> {
        let tip = self.node.tip().await?.height;
        self.node.mine(self.highest.saturating_sub(tip) + 1 + CONFIRMATIONS_MAX).await.map(drop)
    }
}
