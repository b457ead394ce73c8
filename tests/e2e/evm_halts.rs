//! Halts: loud, durable, of one chain only, and ended by an operator.

use anyhow::{Result, ensure};
use e2e::{Anvil, AnvilOptions, ChainSection, Config, Customer, Needs, SOON, Service, Switch, node_trial};
use libtest_mimic::Trial;
use serde_json::Value;

use crate::evm_world::{ALICE, BOB, CHAIN, NAME, World, bare_chain, chain, ledger, pay, stage};

/// A second chain beside the halted one.
const OTHER: &str = "other";
const OTHER_ID: u64 = 31_338;

pub(crate) fn trials() -> Vec<Trial> {
    let needs = &[Needs::Anvil];
    vec![
        node_trial("evm_halts::a_reorg_below_the_floor_halts_until_it_is_accepted_and_lists_the_settled", needs, accepted),
        node_trial("evm_halts::settled_deposits_are_taken_back_only_when_that_is_asked_for", needs, settled),
        node_trial("evm_halts::a_node_that_returns_to_the_recorded_chain_is_resumed_without_accepting_anything", needs, returned),
        node_trial("evm_halts::a_node_of_another_network_is_named_by_check_and_halts_its_chain", needs, wrong_network),
        node_trial("evm_halts::an_endpoint_that_turns_to_another_network_halts_before_anything_is_read", needs, turned),
    ]
}

async fn other_chain() -> Result<Anvil> {
    let other = Anvil::start_with(AnvilOptions { chain_id: OTHER_ID, ..AnvilOptions::default() }).await?;
    other.mine(2).await?;
    Ok(other)
}

fn other_section(anvil: &Anvil) -> ChainSection {
    ChainSection::evm(OTHER, OTHER_ID, &anvil.url()).confirmations("default = 2").reorg_depth(8).watch(ALICE, "alice")
}

/// Pays on the other chain and sees it confirmed: whatever happens beside it changes nothing for it.
async fn other_goes_on(other: &Anvil, customer: &Customer, service: &Service) -> Result<()> {
    let tx = other.pay(ALICE, 3).await?;
    other.mine(2).await?;
    service.until_tip(OTHER, &other.tip().await?).await?;
    customer.until_at(&format!("eip155:{OTHER_ID}"), &tx, 0, (1, true), SOON).await
}

/// Deposits at every stage of their lives, all in blocks that a reorg then replaces.
struct Deposits {
    settled_kept: String,
    settled_gone: String,
    reported: String,
    pending: String,
}

/// A world of depth 4 that has halted on a reorg of depth 7.
async fn halted() -> Result<(World, Anvil, Deposits)> {
    let (anvil, token, customer) = stage().await?;
    anvil.mine(4).await?;
    let other = other_chain().await?;
    let section = chain(&anvil, &token, "default = 2", 4);
    let config = Config::new().chain(section).chain(other_section(&other)).sink(ledger(&customer));
    let world = World::of(anvil, token, customer, &config).await?;
    let settled_kept = pay(&world.anvil, 1, ALICE, 10).await?;
    let settled_gone = pay(&world.anvil, 2, BOB, 200).await?;
    world.mine(4).await?;
    let reported = pay(&world.anvil, 3, ALICE, 3_000).await?;
    world.mine(2).await?;
    let pending = pay(&world.anvil, 4, BOB, 40_000).await?;
    world.mine(1).await?;
    let before = world.service.chain(NAME).await?;
    ensure!(before["pending"] == 1 && before["reported"] == 1, "{before}");
    ensure!(world.customer.receiver().requests().len() == 3);

    world.anvil.reorg(7, &[(&settled_kept, 2)]).await?;
    let halted = world.service.until_chain(NAME, "halted", |chain| chain["phase"] == "halted").await?;
    let detail = halted["detail"].as_str().unwrap_or_default().to_owned();
    ensure!(detail.contains("below the floor") && detail.contains("--accept-reorg"), "{detail}");
    ensure!(halted["tip"] == before["tip"], "the trail moved: {halted}");
    Ok((world, other, Deposits { settled_kept, settled_gone, reported, pending }))
}

async fn ensure_not_ready(service: &Service) -> Result<()> {
    let (status, body) = service.get("/readyz").await?;
    let reasons =
        body["reasons"].as_array().map(|reasons| reasons.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("; "));
    ensure!(status == 503 && reasons.is_some_and(|reasons| reasons.contains(NAME)), "{status} {body}");
    Ok(())
}

async fn accepted() -> Result<()> {
    let (mut world, other, deposits) = halted().await?;
    ensure_not_ready(&world.service).await?;
    other_goes_on(&other, &world.customer, &world.service).await?;
    let text = world.service.command(&["status"]).await?;
    ensure!(text.contains("halted") && text.contains("below the floor"), "{text}");

    // The halt is on disk.
    world.service.kill_and_run().await?;
    world.service.until_chain(NAME, "halted again", |chain| chain["phase"] == "halted").await?;
    ensure_not_ready(&world.service).await?;
    world.anvil.mine(3).await?;
    other_goes_on(&other, &world.customer, &world.service).await?;

    let (code, _, stderr) = world.service.attempt(&["chain", "resume", NAME]).await?;
    ensure!(code == Some(1) && stderr.contains("below the floor") && stderr.contains("--accept-reorg"), "{code:?}: {stderr}");
    let (code, _, stderr) = world.service.attempt(&["chain", "resume", NAME, "--accept-reorg"]).await?;
    ensure!(code == Some(1) && stderr.contains("--yes"), "{code:?}: {stderr}");
    let still = world.service.chain(NAME).await?;
    ensure!(still["phase"] == "halted" && world.history(&deposits.reported, 0) == [1], "{still}");

    let report = &world.service.json_lines(&["chain", "resume", NAME, "--accept-reorg", "--yes", "--json"]).await?[0];
    ensure!(keys(&report["reverted"]) == [deposits.reported.as_str()], "{report}");
    ensure!(keys(&report["dropped"]) == [deposits.pending.as_str()], "{report}");
    let settled = report["settled"].as_array().cloned().unwrap_or_default();
    ensure!(settled.iter().all(|one| one["reverted"] == false), "{report}");
    let mut listed: Vec<_> = settled.iter().filter_map(|one| one["key"]["tx_id"].as_str()).collect();
    let mut expected = [deposits.settled_kept.as_str(), deposits.settled_gone.as_str()];
    listed.sort_unstable();
    expected.sort_unstable();
    ensure!(listed == expected, "{report}");

    let new = pay(&world.anvil, 5, BOB, 7).await?;
    world.mine(2).await?;
    ensure!(world.history(&deposits.reported, 0) == [1, 2] && world.history(&new, 0) == [1], "{}", world.customer.describe());
    for tx in [&deposits.settled_kept, &deposits.settled_gone] {
        ensure!(world.history(tx, 0) == [1] && world.at(tx, 0) == Some((1, true)), "{}", world.customer.describe());
    }
    ensure!(world.at(&deposits.pending, 0).is_none());
    let (ready, body) = world.service.get("/readyz").await?;
    ensure!(ready == 200, "{body}");
    world.customer.ensure_once()
}

fn keys(list: &Value) -> Vec<&str> {
    list.as_array().map(|list| list.iter().filter_map(|key| key["tx_id"].as_str()).collect()).unwrap_or_default()
}

async fn settled() -> Result<()> {
    let (world, other, deposits) = halted().await?;
    world.service.command(&["chain", "resume", NAME, "--accept-reorg", "--revert-settled", "--yes"]).await?;
    world.mine(3).await?;
    ensure!(world.history(&deposits.settled_kept, 0) == [1, 2, 3], "{}", world.customer.describe());
    for tx in [&deposits.settled_gone, &deposits.reported] {
        ensure!(world.history(tx, 0) == [1, 2], "{}", world.customer.describe());
    }
    other_goes_on(&other, &world.customer, &world.service).await?;
    // The other chain's deposits are another node's.
    world.customer.ensure_once()?;
    let ledger = world.customer.ledger();
    let standing: Vec<_> = ledger.rows().iter().filter(|(key, row)| key.chain == CHAIN && row.stands).collect();
    ensure!(standing.len() == 1 && standing[0].0.tx_id == deposits.settled_kept, "{standing:?}");
    let place = world.anvil.position(&deposits.settled_kept).await?;
    ensure!(place.is_some_and(|place| place.block.height == standing[0].1.height));
    Ok(())
}

async fn returned() -> Result<()> {
    let mut world = World::start("default = 1", 3).await?;
    let paid = pay(&world.anvil, 1, ALICE, 10).await?;
    let branch_a = world.mine(6).await?;
    let saved = world.anvil.rpc().call("anvil_dumpState", serde_json::json!([true])).await?;
    world.anvil.reorg(6, &[]).await?;
    world.service.until_chain(NAME, "halted", |chain| chain["phase"] == "halted").await?;
    world.anvil.rpc().call("anvil_loadState", serde_json::json!([saved])).await?;
    ensure!(world.anvil.tip().await? == branch_a);
    // It was the node's fault. The halt stays until an operator says so, but there is nothing to accept.
    world.service.kill_and_run().await?;
    world.service.until_chain(NAME, "halted", |chain| chain["phase"] == "halted").await?;
    world.service.command(&["chain", "resume", NAME]).await?;
    world.mine(2).await?;
    ensure!(world.history(&paid, 0) == [1], "{}", world.customer.describe());
    world.ensure_books_match().await
}

async fn wrong_network() -> Result<()> {
    let (anvil, token, customer) = stage().await?;
    let other = other_chain().await?;
    // The first chain's endpoint is a node of the other network.
    let section = chain(&other, &token, "default = 1", 8);
    let config = Config::new().chain(section).chain(other_section(&other)).sink(ledger(&customer));
    let mut service = Service::new(&config)?;
    let (code, stdout, _) = service.attempt(&["check"]).await?;
    let line = stdout.lines().find(|line| line.starts_with("FAIL") && line.contains(NAME)).unwrap_or_default();
    ensure!(code == Some(1) && line.contains(CHAIN) && line.contains("eip155:31338"), "{code:?}\n{stdout}");

    other.pay(ALICE, 5).await?;
    service.run().await?;
    let halted = service.until_chain(NAME, "halted", |chain| chain["phase"] == "halted").await?;
    let detail = halted["detail"].as_str().unwrap_or_default();
    ensure!(detail.contains("eip155:31338") && detail.contains(CHAIN), "{halted}");
    ensure_not_ready(&service).await?;
    other_goes_on(&other, &customer, &service).await?;
    ensure!(customer.ledger().rows().keys().all(|key| key.chain != CHAIN), "{}", customer.describe());

    // With the right node, resuming is enough.
    service.terminate().await?;
    let section = chain(&anvil, &token, "default = 1", 8);
    service.configure(&Config::new().chain(section).chain(other_section(&other)).sink(ledger(&customer)))?;
    service.run().await?;
    service.command(&["chain", "resume", NAME]).await?;
    service.until_chain(NAME, "following", |chain| chain["phase"] == "following").await?;
    let paid = anvil.pay(ALICE, 5).await?;
    anvil.mine(1).await?;
    customer.until_at(CHAIN, &paid, 0, (1, true), SOON).await?;
    customer.ensure_once()
}

async fn turned() -> Result<()> {
    let (anvil, token, customer) = stage().await?;
    let other = other_chain().await?;
    let switch = Switch::to(&anvil.url()).await?;
    let section = bare_chain(&anvil, "default = 1", 8).line(&format!("rpc = [{{ url = \"{}\" }}]", switch.url()));
    let section = section.line(&format!("assets = [{{ symbol = \"MINI\", contract = \"{}\", decimals = 6 }}]", token.address));
    let config = Config::new().chain(section).chain(other_section(&other)).sink(ledger(&customer));
    let world = World::of(anvil, token, customer, &config).await?;
    let before = pay(&world.anvil, 1, ALICE, 5).await?;
    world.mine(1).await?;

    // The other network is far longer, and pays the same address.
    other.pay(ALICE, 77).await?;
    other.mine(50).await?;
    switch.turn_to(&other.url());
    let halted = world.service.until_chain(NAME, "halted", |chain| chain["phase"] == "halted").await?;
    ensure!(halted["detail"].as_str().is_some_and(|detail| detail.contains("eip155:31338")), "{halted}");
    ensure!(world.history(&before, 0) == [1], "{}", world.customer.describe());
    other_goes_on(&other, &world.customer, &world.service).await?;

    let missed = pay(&world.anvil, 2, BOB, 9).await?;
    world.anvil.mine(3).await?;
    switch.turn_to(&world.anvil.url());
    let (code, _, stderr) = world.service.attempt(&["chain", "resume", NAME, "--accept-reorg", "--yes"]).await?;
    ensure!(code == Some(1) && stderr.contains("did not halt on a reorg"), "{code:?}: {stderr}");
    world.service.command(&["chain", "resume", NAME]).await?;
    world.told().await?;
    ensure!(world.history(&missed, 0) == [1] && world.history(&before, 0) == [1], "{}", world.customer.describe());
    let of_chain = world.customer.ledger().rows().keys().filter(|key| key.chain == CHAIN).count();
    ensure!(of_chain == 2, "{}", world.customer.describe());
    world.customer.ensure_once()
}
