//! Payments below their asset's minimum: written down, explained, and confirmed only when they are large enough by then.

use anyhow::{Context, Result, ensure};
use e2e::{
    Anvil, COINS, Call, Config, Customer, FamilyOptions, Needs, SOON, Service, UtxoPlan, UtxoStage, node_trial, utxo_node,
};
use libtest_mimic::Trial;
use serde_json::Value;

use crate::evm_world::{ALICE, BOB, NAME, World, bare_chain, ledger, pay, reorg_raw, stage};

pub(crate) fn trials() -> Vec<Trial> {
    let evm = &[Needs::Anvil];
    let mut trials = vec![
        node_trial("minimum::a_coin_and_a_token_are_confirmed_from_their_minimum_on", evm, coin_and_token),
        node_trial("minimum::a_payment_executed_anew_crosses_the_minimum_in_both_directions", evm, crossing),
    ];
    for (group, node) in [("minimum_litecoind", Needs::Litecoind), ("minimum_knots", Needs::Knots)] {
        let name = format!("{group}::a_small_output_moves_with_a_reorg_and_is_confirmed_by_a_rescan_below_another_minimum");
        trials.push(node_trial(&name, &[node], move || outputs(node)));
    }
    trials
}

/// What is told of one deposit.
async fn deposit(service: &Service, chain: &str, tx_id: &str, output: u64) -> Result<Value> {
    let found = service.json_lines(&["deposits", "--chain", chain, "--tx", tx_id, "--json"]).await?;
    let one = found.iter().find(|one| one["output_index"] == output);
    one.cloned().with_context(|| format!("no deposit {tx_id}:{output} in {found:?}"))
}

async fn ensure_state(service: &Service, chain: &str, (tx_id, output): (&str, u64), state: &str) -> Result<()> {
    let found = deposit(service, chain, tx_id, output).await?;
    ensure!(found["state"] == state, "{tx_id}:{output} should be {state}: {found}");
    Ok(())
}

/// Reads everything again and waits for it.
async fn read_again(service: &Service, chain: &str) -> Result<()> {
    let begun = service.json_lines(&["rescan", "start", chain, "--from-height", "1", "--json"]).await?;
    let id = begun.first().context("no rescan was begun")?["id"].clone();
    let end = tokio::time::Instant::now() + SOON;
    loop {
        let all = service.json_lines(&["rescan", "list", chain, "--json"]).await?;
        if all.iter().any(|one| one["id"] == id && one["state"] == "done") {
            return Ok(());
        }
        ensure!(tokio::time::Instant::now() < end, "the rescan does not end: {all:?}\n{}", service.log());
    }
}

fn config(anvil: &Anvil, customer: &Customer, tokens: &[(&str, &str)], minimum: &str) -> Config {
    let tokens: Vec<_> = tokens
        .iter()
        .map(|(symbol, contract)| format!("{{ symbol = \"{symbol}\", contract = \"{contract}\", decimals = 6 }}"))
        .collect();
    let chain = bare_chain(anvil, "default = 2", 16).line(&format!("assets = [{}]", tokens.join(", ")));
    Config::new().chain(chain.line(&format!("minimum = {{ {minimum} }}"))).sink(ledger(customer))
}

async fn coin_and_token() -> Result<()> {
    let (anvil, token, customer) = stage().await?;
    let mini = token.address.clone();
    let tokens = [("MINI", mini.as_str())];
    let first = config(&anvil, &customer, &tokens, "ETH = 1000, MINI = \"50\"");
    let mut world = World::of(anvil, token, customer, &first).await?;
    let below = pay(&world.anvil, 1, ALICE, 999).await?;
    let equal = pay(&world.anvil, 2, ALICE, 1_000).await?;
    let less = world.anvil.transfer(&world.token, BOB, 49).await?;
    let same = world.anvil.transfer(&world.token, BOB, 50).await?;
    world.mine(1).await?;
    let seen = world.anvil.position(&below).await?.context("not mined")?.block;
    ensure_state(&world.service, NAME, (&below, 0), "below_minimum").await?;
    ensure!(world.service.chain(NAME).await?["pending"] == 2, "what is small waits for nothing");
    world.mine(30).await?;
    ensure!(world.history(&equal, 0) == [1] && world.history(&same, 1) == [1], "{}", world.customer.describe());
    ensure!(world.history(&below, 0).is_empty() && world.history(&less, 1).is_empty(), "{}", world.customer.describe());

    // It is found by its state, told with its rule, and explained; also after a kill.
    world.service.kill_and_run().await?;
    let small = world.service.json_lines(&["deposits", "--state", "below_minimum", "--json"]).await?;
    ensure!(small.len() == 2 && small.iter().all(|one| one["sequence"] == 0), "{small:?}");
    let life = world.service.json_lines(&["deposit", NAME, &below, "0", "--json"]).await?;
    let step = life.first().context("no life")?["life"][0].clone();
    ensure!(
        step["what"] == "below_minimum" && step["minimum"] == "1000" && step["block"]["hash"] == seen.hash.as_str(),
        "{step}"
    );
    let told = world.service.command(&["explain", NAME, &below]).await?;
    ensure!(told.contains("999") && told.contains("minimum.ETH = 1000"), "{told}");

    // A lower minimum tells nothing by itself; read again, what reaches it is told. A higher one takes nothing back.
    let lower = config(&world.anvil, &world.customer, &tokens, "ETH = \"999\", MINI = 500");
    world.service.configure(&lower)?;
    world.service.command(&["reload"]).await?;
    world.mine(3).await?;
    ensure!(world.history(&below, 0).is_empty() && world.history(&same, 1) == [1], "{}", world.customer.describe());
    let told = world.service.command(&["explain", NAME, &below]).await?;
    ensure!(told.contains("rescan"), "{told}");
    read_again(&world.service, NAME).await?;
    world.told().await?;
    ensure!(world.history(&below, 0) == [1], "{}", world.customer.describe());
    ensure!(world.history(&less, 1).is_empty() && world.history(&same, 1) == [1], "{}", world.customer.describe());
    ensure_state(&world.service, NAME, (&less, 1), "below_minimum").await?;
    world.customer.ensure_once()?;
    world.service.terminate().await
}

/// Creates a token that says to have paid Alice so much as was last asked for: called with a number it remembers it, called with nothing
/// it pays. A payment executed anew behind another number pays another amount under the same key.
async fn moody_token(anvil: &Anvil) -> Result<String> {
    let transfer = "ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef";
    let alice = ALICE.trim_start_matches("0x");
    // calldatasize, jumpi to the last line; log3(sload(0), to Alice, from the caller); sstore(0, calldataload(0)).
    let runtime = format!(
        "36604757600054600052\
        73{alice}337f{transfer}60206000a300\
        5b60003560005500"
    );
    let length = runtime.len() / 2;
    let create = format!("0x60{length:02x}600c60003960{length:02x}6000f3{runtime}");
    let hash = anvil.send(Call { data: &create, gas: 1_000_000, ..Call::default() }).await?;
    anvil.mine(1).await?;
    let receipt = anvil.receipt(&hash).await?.context("the token was not created")?;
    Ok(receipt["contractAddress"].as_str().with_context(|| format!("no contract in {receipt}"))?.to_owned())
}

async fn crossing() -> Result<()> {
    let (anvil, token, customer) = stage().await?;
    let moody = moody_token(&anvil).await?;
    let config = config(&anvil, &customer, &[("MOODY", &moody)], "MOODY = 500");
    let mut world = World::of(anvil, token, customer, &config).await?;
    let asks = |from: usize, amount: u64| {
        let (anvil, to, data) = (&world.anvil, moody.as_str(), format!("0x{amount:064x}"));
        async move { anvil.send(Call { from, to: Some(to), data: &data, gas: 200_000, ..Call::default() }).await }
    };
    asks(1, 100).await?;
    world.mine(1).await?;
    // 900 is asked for, and paid; without the asking it is 100.
    let asked = asks(2, 900).await?;
    world.mine(1).await?;
    let paid = world.anvil.send(Call { from: 3, to: Some(&moody), gas: 200_000, ..Call::default() }).await?;
    world.mine(2).await?;
    ensure!(world.history(&paid, 1) == [1], "{}\n{}", world.customer.describe(), world.service.log());
    let (raw_asked, raw_paid) = (world.anvil.raw_transaction(&asked).await?, world.anvil.raw_transaction(&paid).await?);

    reorg_raw(&world.anvil, 3, &[(&raw_paid, 0)]).await?;
    world.mine(1).await?;
    world.until(&paid, 1, 2).await?;
    let now = deposit(&world.service, NAME, &paid, 1).await?;
    ensure!(now["state"] == "below_minimum" && now["amount"] == "100" && now["sequence"] == 2, "{now}");
    world.service.kill_and_run().await?;
    world.mine(3).await?;
    ensure!(world.history(&paid, 1) == [1, 2], "{}", world.customer.describe());

    // And large again, in the place where it was small.
    reorg_raw(&world.anvil, 7, &[(&raw_asked, 0), (&raw_paid, 1)]).await?;
    world.mine(1).await?;
    world.until(&paid, 1, 3).await?;
    ensure!(deposit(&world.service, NAME, &paid, 1).await?["amount"] == "900");
    // Small first, then large; another small one leaves with its block, and no other block has it.
    asks(1, 100).await?;
    world.mine(1).await?;
    let call = || Call { from: 4, to: Some(&moody), gas: 200_000, ..Call::default() };
    let (grows, gone) = (world.anvil.send(call()).await?, world.anvil.send(call()).await?);
    world.mine(3).await?;
    for tx in [&grows, &gone] {
        ensure_state(&world.service, NAME, (tx, 1), "below_minimum").await?;
    }
    let raw = world.anvil.raw_transaction(&grows).await?;
    reorg_raw(&world.anvil, 4, &[(&raw, 0)]).await?;
    world.mine(2).await?;
    world.until(&grows, 1, 1).await?;
    ensure_state(&world.service, NAME, (&gone, 1), "orphaned").await?;
    ensure!(world.history(&grows, 1) == [1] && world.history(&gone, 1).is_empty(), "{}", world.customer.describe());
    world.customer.ensure_once()?;
    world.service.terminate().await
}

async fn outputs(kind: Needs) -> Result<()> {
    let node = utxo_node(kind, FamilyOptions::default()).await?;
    let customers = [node.new_address().await?, node.new_address_of("legacy").await?];
    let plan = UtxoPlan { watch: customers.to_vec(), minimum: Some(1_000_000), confirmations: 2, ..UtxoPlan::default() };
    let mut stage = UtxoStage::set(node, plan).await?;
    let (small, output) = stage.pay(&customers[0], 999_999).await?;
    let (equal, of_equal) = stage.pay(&customers[1], 1_000_000).await?;
    stage.node.mine(2).await?;
    stage.told().await?;
    ensure_state(&stage.service, COINS, (&small, output), "below_minimum").await?;
    stage.ensure_history(&equal, of_equal, &[1])?;
    ensure!(stage.audit().await? == 1);

    // Both come again one block higher; the small one is known by its new block.
    stage.node.disconnect(2).await?;
    stage.node.mine_block(&[]).await?;
    stage.node.mine(3).await?;
    stage.told().await?;
    let place = stage.node.position(&small).await?.context("not mined again")?;
    let now = deposit(&stage.service, COINS, &small, output).await?;
    ensure!(now["state"] == "below_minimum" && now["block"]["hash"] == place.block.hash.as_str(), "{now}, mined in {place:?}");
    stage.ensure_history(&equal, of_equal, &[1, 2, 3])?;
    stage.ensure_history(&small, output, &[])?;
    stage.audit().await?;

    // Without the minimum, read again.
    stage.set_minimum(Some(999_999));
    stage.service.configure(&stage.config())?;
    stage.service.kill_and_run().await?;
    read_again(&stage.service, COINS).await?;
    stage.told().await?;
    stage.ensure_history(&small, output, &[1])?;
    ensure!(stage.audit().await? == 2);
    stage.customer.ensure_once()
}
