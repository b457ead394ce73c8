//! An anvil with a token, a running confirmd and its customer: what the trials on an EVM chain begin with.

use anyhow::{Context, Result, ensure};
use confirmd_testkit::alloy::primitives::U256;
use e2e::{Anvil, Arg, Block, Call, ChainSection, Config, Customer, Deployed, SOON, Service, SinkSection};
use serde_json::{Value, json};

/// The operator's name of the chain.
pub(crate) const NAME: &str = "devnet";
/// Its CAIP-2 id.
pub(crate) const CHAIN: &str = "eip155:31337";
/// Its coin.
pub(crate) const ETH: &str = "eip155:31337/slip44:60";
/// Watched; never sends anything.
pub(crate) const ALICE: &str = "0x00000000000000000000000000000000c0ffee01";
/// Watched; never sends anything.
pub(crate) const BOB: &str = "0x00000000000000000000000000000000c0ffee02";
/// Not watched.
pub(crate) const STRANGER: &str = "0x00000000000000000000000000000000c0ffee03";
/// The output index of the n-th internal transfer is this and n.
pub(crate) const INTERNAL: u64 = 1_000_000_000;

/// Node, token, customer and service of one trial.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) anvil: Anvil,
    pub(crate) token: Deployed,
    pub(crate) customer: Customer,
    pub(crate) service: Service,
}

/// A node with the token `MINI` whose whole supply the first account holds, and a few blocks.
pub(crate) async fn stage() -> Result<(Anvil, Deployed, Customer)> {
    let anvil = Anvil::start().await?;
    let token = anvil.deploy("MiniToken").await?;
    let holder = anvil.account(0)?.to_owned();
    anvil.mint(&token, &holder, 1_000_000).await?;
    anvil.mine(2).await?;
    Ok((anvil, token, Customer::start().await?))
}

/// `[chains.devnet]` with ETH and MINI, which watches Alice and Bob.
pub(crate) fn chain(anvil: &Anvil, token: &Deployed, policy: &str, reorg_depth: u64) -> ChainSection {
    let assets = format!("assets = [{{ symbol = \"MINI\", contract = \"{}\", decimals = 6 }}]", token.address);
    bare_chain(anvil, policy, reorg_depth).line(&assets)
}

/// As [`chain`], without tokens.
pub(crate) fn bare_chain(anvil: &Anvil, policy: &str, reorg_depth: u64) -> ChainSection {
    ChainSection::evm(NAME, 31_337, &anvil.url())
        .confirmations(policy)
        .reorg_depth(reorg_depth)
        .watch(ALICE, "alice")
        .watch(BOB, "bob")
}

/// `[sinks.ledger]` with waits that suit trials.
pub(crate) fn ledger(customer: &Customer) -> SinkSection {
    SinkSection::webhook("ledger", &customer.url()).retry(&["100ms"; 60])
}

impl World {
    /// Starts everything; confirmd stands at the tip.
    pub(crate) async fn start(policy: &str, reorg_depth: u64) -> Result<Self> {
        let (anvil, token, customer) = stage().await?;
        let config = Config::new().chain(chain(&anvil, &token, policy, reorg_depth)).sink(ledger(&customer));
        Self::of(anvil, token, customer, &config).await
    }

    /// Starts confirmd with a configuration of the trial's own.
    pub(crate) async fn of(anvil: Anvil, token: Deployed, customer: Customer, config: &Config) -> Result<Self> {
        let service = Service::start(config).await?;
        let world = Self { anvil, token, customer, service };
        world.told().await?;
        Ok(world)
    }

    /// CAIP-19 id of MINI.
    pub(crate) fn mini(&self) -> String {
        erc20(&self.token)
    }

    /// Mines blocks and waits until everything in them is decided and delivered.
    pub(crate) async fn mine(&self, count: u64) -> Result<Block> {
        self.anvil.mine(count).await?;
        self.told().await
    }

    /// Waits until confirmd stands at the node's tip and the customer has everything.
    pub(crate) async fn told(&self) -> Result<Block> {
        let tip = self.anvil.tip().await?;
        self.service.until_told(NAME, &tip).await?;
        Ok(tip)
    }

    /// `(sequence, stands)` of a key in the ledger.
    pub(crate) fn at(&self, tx: &str, output: u64) -> Option<(u64, bool)> {
        at(&self.customer, tx, output)
    }

    /// Waits until a key is at a sequence; odd ones stand.
    pub(crate) async fn until(&self, tx: &str, output: u64, sequence: u64) -> Result<()> {
        self.customer.until_at(CHAIN, tx, output, (sequence, sequence % 2 == 1), SOON).await
    }

    /// The sequences that were delivered for a key, in order.
    pub(crate) fn history(&self, tx: &str, output: u64) -> Vec<u64> {
        self.customer.history(CHAIN, tx, output)
    }

    /// The ledger's balances of both watched addresses are the chain's, in every asset; nothing was wrong or repeated.
    pub(crate) async fn ensure_books_match(&self) -> Result<()> {
        self.customer.ensure_once()?;
        self.ensure_balances_match().await
    }

    /// A deposit stands in the ledger if, and only if, its transaction is on the best chain, and at the height told.
    pub(crate) async fn ensure_rows_match(&self) -> Result<()> {
        for (key, row) in self.customer.ledger().rows() {
            let place = self.anvil.position(&key.tx_id).await?;
            let best = match &place {
                Some(place) => self.anvil.block_ref(place.block.height).await?.filter(|block| *block == place.block),
                None => None,
            };
            ensure!(row.stands == best.is_some(), "{key:?} is {row:?}, the node has {place:?}\n{}", self.customer.describe());
            ensure!(best.is_none_or(|best| best.height == row.height), "{key:?} is {row:?}, the node has {place:?}");
        }
        Ok(())
    }

    /// As [`World::ensure_books_match`], where an answer was lost, so that an event may have been accepted again.
    pub(crate) async fn ensure_balances_match(&self) -> Result<()> {
        self.customer.ensure_sound()?;
        self.ensure_rows_match().await?;
        for address in [ALICE, BOB] {
            let eth = balance(&self.anvil, address).await?;
            let mini = token_balance(&self.anvil, &self.token, address).await?;
            for (asset, on_chain) in [(ETH.to_owned(), eth), (self.mini(), mini)] {
                let booked = credited(&self.customer, address, &asset);
                let shown = self.customer.describe();
                ensure!(booked == on_chain, "{address} has {on_chain} {asset}, the customer booked {booked}\n{shown}");
            }
        }
        Ok(())
    }
}

/// `(sequence, stands)` of a key in a customer's ledger.
pub(crate) fn at(customer: &Customer, tx: &str, output: u64) -> Option<(u64, bool)> {
    customer.ledger().row(CHAIN, tx, output).map(|row| (row.sequence, row.stands))
}

/// CAIP-19 id of a token.
pub(crate) fn erc20(token: &Deployed) -> String {
    format!("{CHAIN}/erc20:{}", token.address)
}

/// What a customer has credited to an address in an asset.
pub(crate) fn credited(customer: &Customer, address: &str, asset: &str) -> U256 {
    let ledger = customer.ledger();
    let of = ledger.balances().iter().find(|((to, id), _)| to.eq_ignore_ascii_case(address) && id.eq_ignore_ascii_case(asset));
    of.map(|(_, balance)| *balance).unwrap_or_default()
}

/// Wei that an address holds at the tip.
pub(crate) async fn balance(anvil: &Anvil, address: &str) -> Result<U256> {
    let text = anvil.rpc().text("eth_getBalance", json!([address, "latest"])).await?;
    number(&text)
}

/// Base units of a token that an address holds at the tip.
pub(crate) async fn token_balance(anvil: &Anvil, token: &Deployed, address: &str) -> Result<U256> {
    let owner = address.trim_start_matches("0x");
    // The selector of `balanceOf(address)`.
    let call = json!({"to": token.address, "data": format!("0x70a08231{owner:0>64}")});
    let text = anvil.rpc().text("eth_call", json!([call, "latest"])).await?;
    number(&text)
}

fn number(hex: &str) -> Result<U256> {
    U256::from_str_radix(hex.trim_start_matches("0x"), 16).with_context(|| format!("{hex} is no number"))
}

/// Sends wei from one of the accounts; the hash of the waiting transaction.
pub(crate) async fn pay(anvil: &Anvil, from: usize, to: &str, wei: u128) -> Result<String> {
    anvil.send(Call { from, to: Some(to), value: wei, ..Call::default() }).await
}

/// The output index of the n-th payment of `spam`, whose foreign logs come first.
pub(crate) fn spam_output(noise: u64, payment: u64) -> u64 {
    1 + noise + 2 * payment
}

/// Pays every recipient in a token from a funded spammer, behind `noise` foreign logs.
pub(crate) async fn spam(anvil: &Anvil, on: &Deployed, token: &Deployed, noise: u128, to: &[&str], each: u128) -> Result<String> {
    let args = [Arg::Address(&token.address), Arg::Uint(noise), Arg::Addresses(to), Arg::Uint(each)];
    anvil.invoke(on, "spam(address,uint256,address[],uint256)", &args, 0).await
}

/// Replaces the last `depth` blocks by as many; `keep` names raw transactions and the new block of each, from 0.
pub(crate) async fn reorg_raw(anvil: &Anvil, depth: u64, keep: &[(&str, u64)]) -> Result<()> {
    let keep: Vec<Value> = keep.iter().map(|(raw, index)| json!([raw, index])).collect();
    anvil.rpc().call("anvil_reorg", json!([depth, keep])).await?;
    Ok(())
}
