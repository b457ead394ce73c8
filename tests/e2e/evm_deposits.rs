//! Which payments are deposits, under which keys, and when they are confirmed.

use anyhow::{Context, Result, ensure};
use confirmd_testkit::alloy::primitives::U256;
use e2e::{Anvil, Arg, Call, Config, Customer, Needs, Service, node_trial};
use libtest_mimic::Trial;

use crate::evm_world::{
    ALICE, BOB, CHAIN, ETH, INTERNAL, NAME, STRANGER, World, bare_chain, credited, erc20, ledger, pay, spam, spam_output,
};

pub(crate) fn trials() -> Vec<Trial> {
    let needs = &[Needs::Anvil];
    vec![
        node_trial("evm_deposits::each_asset_is_confirmed_at_its_own_depth_and_not_a_block_earlier", needs, depths),
        node_trial("evm_deposits::keys_are_places_in_the_receipt_and_internal_payments_count_in_call_order", needs, keys),
        node_trial("evm_deposits::payments_that_only_look_like_deposits_are_ignored", needs, lookalikes),
        node_trial("evm_deposits::an_address_added_while_running_is_watched_from_the_height_told", needs, added),
    ]
}

async fn depths() -> Result<()> {
    let world = World::start("default = 2, MINI = 4", 8).await?;
    let eth = world.anvil.pay(ALICE, 1_000_000_000_000_000_000).await?;
    let mini = world.anvil.transfer(&world.token, BOB, 25_000).await?;
    let expected = [(None, None), (Some((1, true)), None), (Some((1, true)), None), (Some((1, true)), Some((1, true)))];
    for (mined, expected) in (1..).zip(expected) {
        world.mine(1).await?;
        let found = (world.at(&eth, 0), world.at(&mini, 1));
        ensure!(found == expected, "after {mined} blocks: {found:?}\n{}", world.customer.describe());
    }
    // Deeper than reorgs reach, they are settled and never told again.
    world.mine(12).await?;
    ensure!(world.customer.receiver().requests().len() == 2, "{}", world.customer.describe());
    for request in world.customer.receiver().requests() {
        let event = request.event.map_err(|why| anyhow::anyhow!(why))?;
        let (depth, reference) = if event.asset.symbol == "MINI" { (4, "bob") } else { (2, "alice") };
        ensure!((event.confirmations, event.sequence) == (depth, 1) && event.reference.as_deref() == Some(reference));
        let place = world.anvil.position(&event.key.tx_id).await?.context("not mined")?;
        ensure!((event.block.height, &event.block.hash) == (place.block.height, &place.block.hash), "{event:?}");
        ensure!(event.from.is_some_and(|from| from.eq_ignore_ascii_case(world.anvil.account(0).unwrap())));
    }
    let listed = world.service.json_lines(&["deposits", "--state", "settled", "--json"]).await?;
    ensure!(listed.len() == 2, "{listed:?}");
    world.ensure_books_match().await
}

async fn keys() -> Result<()> {
    let world = World::start("default = 1", 8).await?;
    let anvil = &world.anvil;
    let spammer = anvil.deploy("Spammer").await?;
    let splitter = anvil.deploy("Splitter").await?;
    anvil.mint(&world.token, &spammer.address, 1_000).await?;
    world.mine(1).await?;
    // One block: a payment of another transaction's logs comes first, so that the node's own log index is another one.
    let first = anvil.transfer(&world.token, BOB, 7).await?;
    let spammed = spam(anvil, &spammer, &world.token, 3, &[ALICE, BOB, ALICE, STRANGER], 40).await?;
    let to = [ALICE, STRANGER, BOB];
    let args = [Arg::Addresses(&to), Arg::Uint(5)];
    let split = anvil.invoke(&splitter, "split(address[],uint256)", &args, 15).await?;
    let reverts = anvil.invoke(&splitter, "splitWithReverts(address[],uint256)", &args, 15).await?;
    let every = [Arg::Address(ALICE), Arg::Uint(11)];
    let every = anvil.invoke(&splitter, "splitEveryWay(address,uint256)", &every, 33).await?;
    world.mine(1).await?;

    let expected = [
        (&first, vec![1]),
        (&spammed, vec![spam_output(3, 0), spam_output(3, 1), spam_output(3, 2)]),
        (&split, vec![INTERNAL, INTERNAL + 2]),
        (&reverts, vec![INTERNAL, INTERNAL + 2]),
        (&every, vec![INTERNAL, INTERNAL + 2, INTERNAL + 3]),
    ];
    let ledger = world.customer.ledger();
    for (tx, outputs) in expected {
        let found: Vec<u64> = ledger.rows().keys().filter(|key| key.tx_id == *tx).map(|key| key.output_index).collect();
        ensure!(found == outputs, "{tx} has {found:?}, not {outputs:?}\n{}", world.customer.describe());
    }
    ensure!(spammed_outputs(anvil, &spammed).await? == [spam_output(3, 0), spam_output(3, 1), spam_output(3, 2)]);
    world.ensure_books_match().await
}

/// Of the transaction's receipt alone: 1 + n for every n-th log that pays a watched address.
async fn spammed_outputs(anvil: &Anvil, tx: &str) -> Result<Vec<u64>> {
    let receipt = anvil.receipt(tx).await?.context("not mined")?;
    let logs = receipt["logs"].as_array().context("no logs")?;
    let pays = |log: &serde_json::Value| {
        let to = log["topics"][2].as_str().unwrap_or_default();
        [ALICE, BOB].iter().any(|address| to.ends_with(&address[2..]))
    };
    Ok((1..).zip(logs).filter(|(_, log)| pays(log)).map(|(output, _)| output).collect())
}

async fn lookalikes() -> Result<()> {
    let anvil = Anvil::start().await?;
    let lookalike = anvil.deploy("Lookalike").await?;
    let listed = anvil.deploy("MiniToken").await?;
    let unlisted = anvil.deploy("MiniToken").await?;
    anvil.mine(1).await?;
    let customer = Customer::start().await?;
    let assets = format!(
        "assets = [{{ symbol = \"LOOK\", contract = \"{}\", decimals = 0 }}, {{ symbol = \"MINI\", contract = \"{}\", decimals = 6 }}]",
        lookalike.address, listed.address
    );
    // The token's own account is watched, too: it takes no coins, so a payment to it fails.
    let chain = bare_chain(&anvil, "default = 1", 8).line(&assets).watch(&listed.address, "a contract");
    let service = Service::start(&Config::new().chain(chain).sink(ledger(&customer))).await?;
    service.until_told(NAME, &anvil.tip().await?).await?;

    let failed = anvil.send(Call { to: Some(&listed.address), value: 9, gas: 100_000, ..Call::default() }).await?;
    // Account 5 holds no tokens.
    let data = listed.contract.data("transfer(address,uint256)", &[Arg::Address(ALICE), Arg::Uint(5)])?;
    let broke = anvil.send(Call { from: 5, to: Some(&listed.address), data: &data, ..Call::default() }).await?;
    anvil.pay(ALICE, 0).await?;
    anvil.mint(&listed, ALICE, 0).await?;
    anvil.mint(&unlisted, ALICE, 1_000).await?;
    anvil.pay(STRANGER, 5).await?;
    for shape in ["fourTopics", "oneTopic", "longData", "shortData", "noData"] {
        let args = [Arg::Address(BOB), Arg::Address(ALICE), Arg::Uint(5)];
        anvil.invoke(&lookalike, &format!("{shape}(address,address,uint256)"), &args, 0).await?;
    }
    anvil.mine(1).await?;
    for tx in [&failed, &broke] {
        ensure!(anvil.receipt(tx).await?.context("not mined")?["status"] == "0x0", "{tx} did not fail");
    }
    service.until_told(NAME, &anvil.tip().await?).await?;
    ensure!(customer.receiver().requests().is_empty(), "{}", customer.describe());

    // As a control, with the largest amount there is.
    let args = [Arg::Address(BOB), Arg::Address(ALICE), Arg::UintMax];
    let genuine = anvil.invoke(&lookalike, "genuine(address,address,uint256)", &args, 0).await?;
    anvil.mine(1).await?;
    service.until_told(NAME, &anvil.tip().await?).await?;
    ensure!(customer.history(CHAIN, &genuine, 1) == [1], "{}", customer.describe());
    ensure!(credited(&customer, ALICE, &erc20(&lookalike)) == U256::MAX);
    ensure!(customer.ledger().rows().len() == 1 && credited(&customer, ALICE, ETH) == U256::ZERO);
    customer.ensure_once()
}

async fn added() -> Result<()> {
    let world = World::start("default = 2", 8).await?;
    pay(&world.anvil, 0, STRANGER, 3).await?;
    world.mine(1).await?;
    let told = world.service.json_lines(&["watch", "add", NAME, STRANGER, "--reference", "late", "--json"]).await?;
    let from = world.anvil.tip().await?.height + 1;
    ensure!(told[0]["from_height"] == from && told[0]["count"] == 1, "{told:?}, not from {from}");
    let seen = pay(&world.anvil, 0, STRANGER, 4).await?;
    world.mine(2).await?;
    ensure!(world.history(&seen, 0) == [1]);
    ensure!(credited(&world.customer, STRANGER, ETH) == U256::from(4), "{}", world.customer.describe());

    // No new deposits after a removal; what was held for the address still ends.
    let held = pay(&world.anvil, 0, STRANGER, 5).await?;
    world.mine(1).await?;
    world.service.command(&["watch", "remove", NAME, STRANGER]).await?;
    let unseen = pay(&world.anvil, 0, STRANGER, 6).await?;
    world.mine(3).await?;
    ensure!(world.history(&held, 0) == [1] && world.at(&unseen, 0).is_none(), "{}", world.customer.describe());
    world.ensure_books_match().await
}
