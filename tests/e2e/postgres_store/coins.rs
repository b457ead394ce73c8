//! The same on litecoind, with a second node that has the blocks later, or others: what one instance sees wrongly changes nothing.

use super::fleet::{self, LEASE, PASSWORD_ENV, state};
use anyhow::{Context, Result, ensure};
use e2e::{
    BitcoinFamily, COINS, Config, FamilyOptions, NODE_PASSWORD_ENV, Needs, Postgres, SOON, Service, UtxoPlan, UtxoStage,
    utxo_node,
};
use serde_json::json;
use std::time::Duration;

/// Blocks handed over to another node, from its tip or ours down: more than any trial forks.
const HANDED: u64 = 30;

/// Two instances on one node, the third on another one.
struct Coins {
    stage: UtxoStage,
    others: Vec<Service>,
    far: BitcoinFamily,
    cluster: Postgres,
    address: String,
}

/// Gives `to` the blocks that `from` has, as a peer would.
async fn hand_over(from: &BitcoinFamily, to: &BitcoinFamily) -> Result<()> {
    let (last, have) = (from.tip().await?.height, to.tip().await?.height);
    for height in have.saturating_sub(HANDED).max(1)..=last {
        let hash = from.block_hash(height).await?.context("no such block")?;
        to.rpc().call("submitblock", json!([from.block(&hash, 0).await?])).await?;
    }
    Ok(())
}

impl Coins {
    async fn start() -> Result<Self> {
        let node = utxo_node(Needs::Litecoind, FamilyOptions::default()).await?;
        let far = utxo_node(Needs::Litecoind, FamilyOptions { empty: true, ..FamilyOptions::default() }).await?;
        hand_over(&node, &far).await?;
        let address = node.new_address().await?;
        let cluster = Postgres::start_with(&["max_connections=120"]).await?;
        let plan = UtxoPlan { confirmations: 2, watch: vec![address.clone()], ..UtxoPlan::default() };
        let stage = UtxoStage::prepared(node, plan).await?;
        let mut coins = Self { stage, others: Vec::new(), far, cluster, address };
        let on = |config: Config, cluster: &Postgres| config.state(&state(&cluster.url(Postgres::SUPERUSER.0, "postgres")));
        coins.stage.service.configure(&on(coins.stage.config(), &coins.cluster))?;
        for config in [coins.stage.config(), coins.stage.config_on(&coins.far)] {
            coins.others.push(Service::new(&on(config, &coins.cluster))?);
        }
        let password = coins.stage.node.credentials().1;
        for number in 0..3 {
            let service = coins.service(number)?;
            service.instance().env(PASSWORD_ENV, Postgres::SUPERUSER.1).env(NODE_PASSWORD_ENV, password);
            service.run().await?;
        }
        coins.stage.told().await?;
        Ok(coins)
    }

    /// 0 and 1 on the node, 2 on the far one.
    fn service(&mut self, number: usize) -> Result<&mut Service> {
        match number {
            0 => Ok(&mut self.stage.service),
            _ => self.others.get_mut(number - 1).context("no such instance"),
        }
    }

    fn busy(&self) -> usize {
        let all = std::iter::once(&self.stage.service).chain(&self.others);
        all.into_iter().position(fleet::reads).unwrap_or_default()
    }

    async fn pay(&self) -> Result<(String, u64)> {
        let paid = self.stage.pay(&self.address, 1_000_000).await?;
        self.stage.node.mine(2).await?;
        Ok(paid)
    }

    /// The far one is alone.
    async fn alone(&mut self) -> Result<()> {
        self.service(0)?.instance().kill()?;
        self.service(1)?.instance().kill()?;
        Ok(())
    }

    async fn together(&mut self) -> Result<()> {
        self.service(0)?.run().await?;
        self.service(1)?.run().await
    }

    /// The sequences that came of a deposit; one may come again from an instance that takes over.
    fn told(&self, paid: &(String, u64)) -> Vec<u64> {
        let mut told = self.stage.history(&paid.0, paid.1);
        told.dedup();
        told
    }

    async fn until_phase(&self, phase: &str) -> Result<()> {
        let far = self.others.last().context("no instance on the far node")?;
        far.until_chain(COINS, phase, |chain| chain["phase"] == phase).await.map(drop)
    }

    async fn ensure_right(&self, deposits: usize) -> Result<()> {
        ensure!(self.stage.audit().await? == deposits, "{}", self.stage.customer.describe());
        fleet::ensure_events(&self.cluster.admin("postgres").await?).await
    }
}

pub(super) async fn storm() -> Result<()> {
    let mut coins = Coins::start().await?;
    let mut paid = Vec::new();
    for round in 0..10_usize {
        paid.push(coins.pay().await?);
        tokio::time::sleep(Duration::from_millis(17 * u64::try_from(round)?)).await;
        match round % 5 {
            0 => {
                let busy = coins.busy();
                coins.service(busy)?.kill_and_run().await?;
            }
            1 => coins.service(round % 3)?.kill_and_run().await?,
            2 => {
                let busy = coins.busy();
                coins.service(busy)?.instance().signal("STOP")?;
                paid.push(coins.pay().await?);
                tokio::time::sleep(LEASE + Duration::from_secs(2)).await;
                coins.service(busy)?.instance().signal("CONT")?;
            }
            3 => coins.cluster.restart().await?,
            _ => {
                coins.cluster.kill()?;
                coins.cluster.start_again().await?;
            }
        }
        if round == 6 {
            // The last payment's block is replaced; it comes back in another one.
            coins.stage.node.reorg(2, 1).await?;
            coins.stage.node.mine(2).await?;
        }
        if round % 2 == 1 {
            // The far node has all that only now.
            hand_over(&coins.stage.node, &coins.far).await?;
        }
    }
    hand_over(&coins.stage.node, &coins.far).await?;
    coins.stage.node.mine(2).await?;
    coins.ensure_right(paid.len()).await
}

pub(super) async fn late() -> Result<()> {
    let mut coins = Coins::start().await?;
    let first = coins.pay().await?;
    coins.stage.until_at(&first.0, first.1, (1, true)).await?;
    coins.alone().await?;
    coins.until_phase("behind").await?;
    // What its node has not got is neither taken back nor guessed.
    let second = coins.pay().await?;
    coins.until_phase("behind").await?;
    ensure!(coins.told(&first) == [1] && coins.told(&second).is_empty(), "{}", coins.stage.customer.describe());
    hand_over(&coins.stage.node, &coins.far).await?;
    coins.stage.until_at(&second.0, second.1, (1, true)).await?;
    coins.together().await?;
    // Late again, and this time the others go on meanwhile.
    for _ in 0..3 {
        let paid = coins.pay().await?;
        coins.stage.until_at(&paid.0, paid.1, (1, true)).await?;
    }
    hand_over(&coins.stage.node, &coins.far).await?;
    coins.ensure_right(5).await?;
    coins.stage.customer.ensure_sound()
}

pub(super) async fn forked() -> Result<()> {
    let mut coins = Coins::start().await?;
    // A shorter branch, which nobody else has.
    let paid = coins.pay().await?;
    coins.stage.node.mine(1).await?;
    coins.stage.until_at(&paid.0, paid.1, (1, true)).await?;
    coins.stage.told().await?;
    coins.far.mine(2).await?;
    coins.alone().await?;
    coins.until_phase("waiting_for_fork").await?;
    ensure!(coins.told(&paid) == [1], "{}", coins.stage.customer.describe());
    coins.together().await?;
    coins.stage.node.mine(1).await?;
    hand_over(&coins.stage.node, &coins.far).await?;
    ensure!(coins.far.tip().await? == coins.stage.node.tip().await?, "the far node stayed on its branch");
    // The other way round: the far one's branch is the longer one, and the others' node learns of it last.
    let other = coins.stage.pay(&coins.address, 1_000_000).await?;
    let raw = coins.stage.node.raw_transaction(&other.0).await?;
    coins.stage.node.mine(2).await?;
    coins.stage.until_at(&other.0, other.1, (1, true)).await?;
    coins.far.mine(4).await?;
    coins.alone().await?;
    coins.stage.customer.until_at(coins.stage.chain(), &other.0, other.1, (2, false), SOON).await?;
    coins.together().await?;
    hand_over(&coins.far, &coins.stage.node).await?;
    coins.stage.resend(&other.0, &raw).await?;
    coins.stage.node.mine(2).await?;
    coins.stage.until_at(&other.0, other.1, (3, true)).await?;
    hand_over(&coins.stage.node, &coins.far).await?;
    ensure!(coins.told(&other) == [1, 2, 3], "{}", coins.stage.customer.describe());
    coins.ensure_right(2).await
}
