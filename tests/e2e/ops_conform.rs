//! `confirmd conform`: nodes and receivers graded by the rules they must keep, the good ones and those with one mistake.

#[path = "ops_conform/desk.rs"]
mod desk;

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use confirmd_testkit::alloy::primitives::{Address, U256};
use confirmd_testkit::bitcoin::ScriptBuf;
use confirmd_testkit::fake_evm::Finality;
use confirmd_testkit::{BitcoinOptions, EvmOptions, FakeBitcoin, FakeEvm};
use desk::{Desk, Flaw};
use e2e::{ChainSection, Config, FaultProxy, Service, SinkSection, node_trial, with_result};
use libtest_mimic::Trial;
use serde_json::{Value, json};

/// P2WPKH of a well-known key hash on a regtest.
const COIN_SCRIPT: &str = "0014751e76e8199196d454941c45d1b3a323f1433bd6";
const COIN_ADDRESS: &str = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080";
const PAID: [&str; 2] = ["0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359"];
const TOKEN: &str = "0x00000000000000000000000000000000c0ffee03";
const URL_ENV: &str = "CONFIRMD_E2E_URL";
const KEY: &str = "key-of-the-endpoint";

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        node_trial("ops_conform::a_good_bitcoin_node_keeps_every_rule_that_looking_can_judge", &[], good_bitcoin),
        node_trial("ops_conform::a_good_evm_node_keeps_every_rule_that_looking_can_judge", &[], good_evm),
        node_trial("ops_conform::a_lying_node_is_caught_by_the_rule_it_breaks", &[], lying_nodes),
        node_trial("ops_conform::a_node_that_does_not_answer_keeps_no_rule", &[], silent_node),
        node_trial("ops_conform::a_receiver_by_the_documented_rule_keeps_every_rule", &[], good_receiver),
        node_trial("ops_conform::each_mistake_of_a_receiver_is_caught_by_its_rule", &[], flawed_receivers),
        node_trial("ops_conform::nothing_is_sent_without_a_yes_and_everything_sent_is_flagged", &[], flagged),
        node_trial("ops_conform::a_receiver_that_refuses_test_events_gets_one_and_no_more", &[], refuses_tests),
        node_trial("ops_conform::what_a_kind_of_sink_can_not_show_is_not_observed", &[], file),
    ]
}

/// One run with `--json`: the exit code, and verdict and text by rule.
type Graded = (Option<i32>, BTreeMap<String, (String, String)>);

async fn grade(service: &Service, args: &[&str]) -> Result<Graded> {
    let args: Vec<&str> = ["conform"].into_iter().chain(args.iter().copied()).chain(["--json"]).collect();
    let (code, stdout, stderr) = service.attempt(&args).await?;
    let mut rules = BTreeMap::new();
    for line in stdout.lines() {
        let line: Value = serde_json::from_str(line).with_context(|| format!("{args:?} prints {line}"))?;
        let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
        rules.insert(text("rule"), (text("verdict"), text("text")));
    }
    ensure!(!rules.is_empty(), "{args:?} ends with {code:?} and no rule: {stderr}");
    Ok((code, rules))
}

fn with_verdict<'a>(graded: &'a Graded, verdict: &str) -> Vec<&'a str> {
    let mut rules: Vec<_> = graded.1.iter().filter(|(_, found)| found.0 == verdict).map(|(rule, _)| rule.as_str()).collect();
    rules.sort_by_key(|rule| rule[1..].parse::<u32>().unwrap_or_default());
    rules
}

/// A chain with payments to its one address, several in a block.
async fn bitcoin(watched: bool) -> Result<(FakeBitcoin, Service)> {
    let node = FakeBitcoin::start(BitcoinOptions::default()).await?;
    let script = ScriptBuf::from_hex(COIN_SCRIPT)?;
    node.mine(3);
    node.pay(&script, 50_000);
    node.pay_many(vec![(script.clone(), 1), (script.clone(), 2)]);
    node.mine(2);
    node.pay(&script, 7);
    node.mine(4);
    let chain = ChainSection::bitcoin("coins", "regtest", &format!("{{ url = \"{}\" }}", node.url()));
    let chain = chain.confirmations("default = 2").reorg_depth(6);
    let chain = if watched { chain.watch(COIN_ADDRESS, "customer-1") } else { chain };
    Ok((node, Service::new(&Config::new().chain(chain))?))
}

async fn good_bitcoin() -> Result<()> {
    let (_node, service) = bitcoin(true).await?;
    let graded = grade(&service, &["coins"]).await?;
    let holds = ["S1", "S2", "S3", "S4", "S5", "S6", "S7", "S9", "S13", "S15", "S20"];
    ensure!(with_verdict(&graded, "holds") == holds && graded.0 == Some(0), "{graded:#?}");
    let unseen = ["S8", "S10", "S11", "S12", "S14", "S16", "S17", "S18", "S19"];
    ensure!(with_verdict(&graded, "not_observed") == unseen, "{graded:#?}");
    ensure!(graded.1["S5"].1.starts_with("4 payments"), "{graded:#?}");
    let report = service.command(&["conform", "coins"]).await?;
    ensure!(report.trim_end().ends_with("11 of 11 rules hold; 9 not observed"), "{report}");
    ensure!(!service.instance_dir().join("state").exists(), "looking made a state");

    // Without payments less can be said, and it says so.
    let (_node, service) = bitcoin(false).await?;
    let report = service.command(&["conform", "coins"]).await?;
    ensure!(report.trim_end().ends_with("7 of 7 rules hold; 13 not observed") && report.contains("--address"), "{report}");
    let named = grade(&service, &["coins", "--address", COIN_ADDRESS, "--blocks", "3"]).await?;
    ensure!(named.1["S4"].1.starts_with("3 headers") && named.1["S5"].0 == "not_observed", "{named:#?}");
    ensure!(grade(&service, &["coins", "--address", COIN_ADDRESS]).await?.1["S5"].0 == "holds");
    let (code, _, stderr) = service.attempt(&["conform", "coinz"]).await?;
    ensure!(code == Some(1) && stderr.contains("known: coins"), "{stderr}");
    Ok(())
}

/// A node with payments in coin and token, and a proxy in front of it.
async fn evm() -> Result<(FakeEvm, FaultProxy, Service)> {
    let node = FakeEvm::start(EvmOptions::default()).await?;
    let [one, other] = PAID.map(|text| text.parse::<Address>().unwrap_or_default());
    let token: Address = TOKEN.parse()?;
    node.deploy_token(token, "MINI", 6);
    node.mine(3);
    node.transfer_native(other, one, U256::from(5));
    node.erc20_transfer(token, one, other, U256::from(6));
    node.erc20_transfer(token, other, one, U256::from(7));
    node.mine(1);
    node.erc20_transfer(token, other, one, U256::from(8));
    node.mine(20);
    node.set_finalized(Finality::Distance(4));
    let proxy = FaultProxy::start(&node.url(), None).await?;
    let chain = ChainSection::evm("ether", 31_337, "").line(&format!("rpc = [{{ url = {{ env = \"{URL_ENV}\" }} }}]"));
    let chain = chain.line(&format!("assets = [{{ symbol = \"MINI\", contract = \"{TOKEN}\", decimals = 6 }}]"));
    let chain = chain.confirmations("default = 2").reorg_depth(6).watch(PAID[0], "customer-1").watch(PAID[1], "customer-2");
    let mut service = Service::new(&Config::new().chain(chain))?;
    service.instance().env(URL_ENV, format!("{}/v2/{KEY}", proxy.url()));
    Ok((node, proxy, service))
}

async fn good_evm() -> Result<()> {
    let (_node, _proxy, service) = evm().await?;
    let graded = grade(&service, &["ether"]).await?;
    let holds = ["S1", "S2", "S3", "S4", "S5", "S6", "S7", "S9", "S13", "S15", "S17", "S18", "S20"];
    ensure!(with_verdict(&graded, "holds") == holds && graded.0 == Some(0), "{graded:#?}");
    ensure!(!format!("{graded:?}").contains(KEY), "a secret is shown");
    Ok(())
}

fn of_method(call: &Value, method: &str) -> bool {
    call["method"] == method
}

async fn lying_nodes() -> Result<()> {
    let (node, proxy, service) = evm().await?;
    let check = async |rule: &str| -> Result<()> {
        let graded = grade(&service, &["ether"]).await?;
        proxy.repair();
        ensure!(graded.0 == Some(1) && graded.1[rule].0 == "broken", "{rule} is not caught: {graded:#?}");
        Ok(())
    };
    // Another network answers.
    proxy.after(|call, reply| {
        if of_method(call, "eth_chainId") {
            with_result(reply, json!("0x1"));
        }
    });
    check("S1").await?;

    // What is above the tip is the tip.
    let tip = json!(format!("{:#x}", node.tip().0));
    let above = tip.clone();
    proxy.before(move |call| {
        let far = call["params"][0].as_str().and_then(|text| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok());
        if of_method(call, "eth_getBlockByNumber") && far.is_some_and(|height| height > 100) {
            call["params"][0] = above.clone();
        }
    });
    check("S3").await?;

    // The payments of some blocks come and go.
    let (calls, of_logs) = (std::sync::atomic::AtomicUsize::new(0), ["eth_getLogs", "eth_getBlockReceipts"]);
    proxy.after(move |call, reply| {
        let read = of_logs.iter().any(|method| of_method(call, method));
        if read && calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % 2 == 1 {
            with_result(reply, json!([]));
        }
    });
    let graded = grade(&service, &["ether"]).await?;
    proxy.repair();
    ensure!(graded.0 == Some(1) && graded.1["S5"].0 != "holds", "{graded:#?}");

    // What is final is on no branch.
    proxy.after(|call, reply| {
        if of_method(call, "eth_getBlockByNumber") && call["params"][0] == "finalized" {
            reply["result"]["hash"] = json!(format!("0x{}", "ab".repeat(32)));
        }
    });
    check("S18").await?;
    let graded = grade(&service, &["ether"]).await?;
    ensure!(graded.0 == Some(0), "well again: {graded:#?}");
    Ok(())
}

async fn silent_node() -> Result<()> {
    let (node, service) = bitcoin(true).await?;
    node.stop().await?;
    let service_config = ChainSection::bitcoin("coins", "regtest", &format!("{{ url = \"{}\" }}", node.url()))
        .confirmations("default = 2")
        .reorg_depth(6)
        .line("limits = { attempts = 1, deadline = \"1s\" }");
    service.configure(&Config::new().chain(service_config))?;
    let graded = grade(&service, &["coins"]).await?;
    ensure!(graded.0 == Some(1) && with_verdict(&graded, "broken").is_empty(), "{graded:#?}");
    ensure!(with_verdict(&graded, "holds") == ["S15"], "what needs no node holds, nothing else: {graded:#?}");
    ensure!(with_verdict(&graded, "no_answer").contains(&"S1"), "{graded:#?}");
    Ok(())
}

fn service_for(desk: &Desk) -> Result<Service> {
    Service::new(&Config::new().sink(SinkSection::webhook("ledger", &desk.hooks())))
}

async fn graded_desk(flaw: Option<Flaw>) -> Result<Graded> {
    let desk = Desk::start(flaw).await?;
    grade(&service_for(&desk)?, &["--sink", "ledger", "--yes", "--ledger", &desk.ledger()]).await
}

async fn good_receiver() -> Result<()> {
    let graded = graded_desk(None).await?;
    ensure!(graded.0 == Some(0) && with_verdict(&graded, "holds").len() == 17, "{graded:#?}");
    let desk = Desk::start(None).await?;
    let service = service_for(&desk)?;
    let report = service.command(&["conform", "--sink", "ledger", "--yes"]).await?;
    ensure!(report.trim_end().ends_with("10 of 10 rules hold; 7 not observed"), "{report}");
    ensure!(report.contains("not observed  R12") && report.contains("--ledger"), "{report}");
    Ok(())
}

async fn flawed_receivers() -> Result<()> {
    let cases: [(Flaw, &[&str]); 10] = [
        (Flaw::AcceptsAnySignature, &["R2", "R3", "R4", "R5"]),
        (Flaw::IgnoresTime, &["R5"]),
        (Flaw::IgnoresVersions, &["R6"]),
        (Flaw::RefusesRepetitions, &["R8", "R9", "R10"]),
        (Flaw::RemembersRefusals, &["R7"]),
        (Flaw::AnswersFirst, &["R11"]),
        (Flaw::CreditsTwice, &["R12"]),
        (Flaw::LastOneWins, &["R13"]),
        (Flaw::ForgetsTheOutput, &["R16"]),
        (Flaw::CountsInFloats, &["R17"]),
    ];
    for (flaw, rules) in cases {
        let graded = graded_desk(Some(flaw)).await?;
        let broken = with_verdict(&graded, "broken");
        let caught = rules.iter().all(|rule| broken.contains(rule));
        ensure!(caught && graded.0 == Some(1), "{flaw:?} breaks {rules:?}, found are {broken:?}: {graded:#?}");
    }
    // Crediting what was refused, and crediting per event and not per deposit.
    for (flaw, rule) in [(Flaw::AcceptsAnySignature, "R14"), (Flaw::ForgetsTheEpoch, "R15")] {
        let graded = graded_desk(Some(flaw)).await?;
        ensure!(with_verdict(&graded, "broken").contains(&rule), "{flaw:?}: {graded:#?}");
    }
    Ok(())
}

async fn flagged() -> Result<()> {
    let desk = Desk::start(None).await?;
    let service = service_for(&desk)?;
    let (code, _, stderr) = service.attempt(&["conform", "--sink", "ledger"]).await?;
    ensure!(code == Some(1) && stderr.contains("--yes") && stderr.contains("test.confirmed"), "{stderr}");
    ensure!(desk.seen().is_empty(), "something was sent without a yes");
    service.command(&["conform", "--sink", "ledger", "--yes"]).await?;
    let seen = desk.seen();
    ensure!((30..60).contains(&seen.len()), "{} events were sent", seen.len());
    for event in &seen {
        let flagged = event["type"].as_str().is_some_and(|kind| kind.starts_with("test."))
            && event["chain"].as_str().is_some_and(|chain| chain.starts_with("test:conform-"));
        ensure!(flagged && event["address"] == "confirmd-conform", "{event}");
    }
    // Another run is of another chain.
    service.command(&["conform", "--sink", "ledger", "--yes"]).await?;
    ensure!(desk.seen().last().map(|event| event["chain"].clone()) != seen.last().map(|event| event["chain"].clone()));
    ensure!(!service.instance_dir().join("state").exists(), "grading made a state");
    Ok(())
}

async fn refuses_tests() -> Result<()> {
    let desk = Desk::start(Some(Flaw::RefusesTests)).await?;
    let graded = grade(&service_for(&desk)?, &["--sink", "ledger", "--yes"]).await?;
    ensure!(graded.0 == Some(1) && with_verdict(&graded, "broken") == ["R1"], "{graded:#?}");
    ensure!(with_verdict(&graded, "not_observed").len() == 16 && desk.seen().len() == 1, "{graded:#?}");
    Ok(())
}

async fn file() -> Result<()> {
    let service = Service::new(&Config::new().sink(SinkSection::of_kind("lines", "file").line("path = \"./events.jsonl\"")))?;
    let graded = grade(&service, &["--sink", "lines", "--yes"]).await?;
    // A file takes every line: whoever reads it has to refuse the version.
    ensure!(with_verdict(&graded, "broken") == ["R6"], "{graded:#?}");
    ensure!(["R2", "R3", "R4", "R5"].iter().all(|rule| graded.1[*rule].0 == "not_observed"), "{graded:#?}");
    ensure!(graded.1["R2"].1.contains("\"file\""), "{graded:#?}");
    Ok(())
}
