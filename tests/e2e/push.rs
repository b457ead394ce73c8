//! Nodes that tell of new blocks: confirmd polls once an hour here, so whatever is told within a trial was pushed.

use anyhow::{Result, ensure};
use e2e::{Anvil, COINS, ChainSection, Config, Customer, FamilyOptions, NODE_PASSWORD_ENV, Needs, Service, Switch, UtxoStage};
use e2e::{SOON, node_trial, utxo_node};
use libtest_mimic::Trial;

use crate::evm_world::{ALICE, CHAIN, bare_chain, ledger};

const HOURLY: &str = "poll_interval = \"1h\"";

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = vec![node_trial(
        "push::an_evm_nodes_new_heads_are_looked_at_at_once_and_subscribed_to_again_after_a_lost_connection",
        &[Needs::Anvil],
        heads,
    )];
    for (name, node) in [("litecoind", Needs::Litecoind), ("knots", Needs::Knots)] {
        let name = format!("push::new_blocks_of_{name}_are_looked_at_at_once_by_long_polling");
        trials.push(node_trial(&name, &[node], move || blocks(node)));
    }
    trials
}

async fn heads() -> Result<()> {
    let (anvil, customer) = (Anvil::start().await?, Customer::start().await?);
    let socket = Switch::to(&anvil.url()).await?;
    let push = format!("push = \"{}\"", socket.url().replacen("http", "ws", 1));
    let chain = bare_chain(&anvil, "default = 1", 8).line(HOURLY).line(&push);
    let service = Service::start(&Config::new().chain(chain).sink(ledger(&customer))).await?;
    service.until_tip(crate::evm_world::NAME, &anvil.tip().await?).await?;

    let pay = async || -> Result<()> {
        let tx = anvil.pay(ALICE, 1_000).await?;
        anvil.mine(1).await?;
        customer.until_at(CHAIN, &tx, 0, (1, true), SOON).await
    };
    for _ in 0..3 {
        pay().await?;
    }
    // Nobody listens there any more, and the block comes meanwhile.
    socket.turn_to("http://127.0.0.1:9");
    let told = || service.log().contains("the node does not tell of new blocks");
    service.until("the loss of the connection", SOON, |_| told()).await?;
    let missed = anvil.pay(ALICE, 1_000).await?;
    anvil.mine(1).await?;
    socket.turn_to(&anvil.url());
    customer.until_at(CHAIN, &missed, 0, (1, true), SOON).await?;
    ensure!(service.log().contains("the node tells of new blocks again"), "{}", service.log());
    pay().await?;
    customer.ensure_once()
}

async fn blocks(kind: Needs) -> Result<()> {
    let node = utxo_node(kind, FamilyOptions::default()).await?;
    let customer = Customer::start().await?;
    let address = node.new_address_of("bech32").await?;
    let chain = ChainSection::bitcoin(COINS, UtxoStage::network(&node), &UtxoStage::endpoint(&node))
        .confirmations("default = 1")
        .reorg_depth(8)
        .watch(&address, "alice")
        .line(HOURLY)
        .line("push = \"long-poll\"");
    let mut service = Service::new(&Config::new().chain(chain).sink(ledger(&customer)))?;
    service.instance().env(NODE_PASSWORD_ENV, node.credentials().1);
    service.run().await?;
    service.until_tip(COINS, &node.tip().await?).await?;
    for paid in 1..=3 {
        node.pay(&address, 100_000).await?;
        node.mine(1).await?;
        customer.until("the payment", SOON, |ledger, _| ledger.rows().values().filter(|row| row.stands).count() == paid).await?;
    }
    customer.ensure_once()
}
