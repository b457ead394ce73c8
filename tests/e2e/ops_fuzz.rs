//! The API is asked whatever its own document allows, and much that it does not: nothing but documented answers come back.

use anyhow::{Context, Result, ensure};
use confirmd_testkit::alloy::primitives::{Address, U256};
use confirmd_testkit::receiver::Behaviour;
use confirmd_testkit::{EvmOptions, FakeEvm, Remine};
use e2e::{ChainSection, Config, Customer, Needs, SOON, Service, SinkSection, node_trial};
use libtest_mimic::Trial;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

pub(crate) const CHAIN: &str = "devnet";
/// A reorg below its floor: it stands still.
pub(crate) const HALTED: &str = "elsewhere";
pub(crate) const ALICE: &str = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
pub(crate) const BOB: &str = "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359";
/// Requests for an operation in each of the two random phases; the systematic one makes as many as the document asks for.
const EXAMPLES_MAX: u32 = 15;
/// The whole of it, on a busy machine.
const DEADLINE: Duration = Duration::from_secs(200);
/// The fuzzer knows JSON; this one is a line of anything.
const HOOKS: &str = r#"
import json

import schemathesis


@schemathesis.serializer("application/x-ndjson")
def lines(context, value):
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else json.dumps(value).encode()
"#;
/// A 503 is an answer of `/readyz`, whose chain `elsewhere` is halted. No schema says which of all texts are places, addresses, times or
/// which fields exclude each other: what is refused with 400 may well fit it.
const CHECKS: &str = r#"
[[operations]]
include-path = "/readyz"
checks = { not_a_server_error = { expected-statuses = ["2xx", "4xx", "503"] } }
[checks]
positive_data_acceptance = { enabled = false }
[warnings]
fail-on = ["missing_test_data", "validation_mismatch", "dictionary_mismatch", "unmatched_filter", "unsupported_regex"]
"#;

pub(crate) fn trials() -> Vec<Trial> {
    let name = "ops::the_api_answers_whatever_its_document_allows_or_not_as_the_document_says";
    vec![node_trial(name, &[Needs::Schemathesis], as_documented)]
}

/// An instance with something in every list.
pub(crate) struct World {
    pub(crate) service: Service,
    /// What can be asked for, by the name of the parameter or field.
    known: BTreeMap<&'static str, Vec<String>>,
    /// Rescans that are paused.
    pub(crate) rescans: [u64; 3],
    /// The height of the block that halted a chain.
    reorg: u64,
    // They end with the world.
    _nodes: [FakeEvm; 2],
    _customers: [Customer; 2],
}

impl World {
    pub(crate) async fn start() -> Result<Self> {
        let node = FakeEvm::start(EvmOptions { chain_id: 31_337, ..EvmOptions::default() }).await?;
        let other = FakeEvm::start(EvmOptions { chain_id: 6, ..EvmOptions::default() }).await?;
        node.mine(8);
        other.mine(8);
        let (good, bad) = (Customer::start().await?, Customer::start().await?);
        let chain = |name: &str, id: u64, url: &str| ChainSection::evm(name, id, url).confirmations("default = 2").reorg_depth(6);
        let config = Config::new()
            .api("requests_per_second = 100000")
            .chain(
                chain(CHAIN, 31_337, &node.url())
                    .line("fork_grace = \"10ms\"")
                    .watch(ALICE, "customer-42")
                    .watch(BOB, "customer-7"),
            )
            .chain(chain(HALTED, 6, &other.url()))
            .sink(SinkSection::webhook("good", &good.url()))
            .sink(SinkSection::webhook("bad", &bad.url()).retry(&["20ms"]));
        bad.receiver().always(Behaviour::Status(502));
        let mut service = Service::start(&config).await?;
        service.until_chain(CHAIN, "at the tip", |chain| chain["phase"] == "following").await?;
        let payer: Address = "0x00000000000000000000000000000000000000aa".parse()?;
        let mut paid = Vec::new();
        for amount in 1..=4_u64 {
            paid.push(node.transfer_native(payer, ALICE.parse()?, U256::from(amount)).to_string());
            node.mine(2);
        }
        paid.push(node.failed_native(payer, BOB.parse()?, U256::from(7)).to_string());
        service.until_consumer("bad", "dead letters", |consumer| consumer["dead"] == 4).await?;
        node.fork(3, Remine::Drop);
        node.mine(2);
        let reverted = |chain: &Value| chain["last_reorg"].is_object();
        service.until_chain(CHAIN, "a reorg", reverted).await?;
        paid.push(node.transfer_native(payer, BOB.parse()?, U256::from(9)).to_string());
        node.mine(1);
        service.until_chain(CHAIN, "one pending", |chain| chain["pending"] == 1).await?;
        service.until_chain(HALTED, "at the tip", |chain| chain["phase"] == "following").await?;
        other.mine(8);
        service.until_chain(HALTED, "at the tip", |chain| chain["tip"]["height"] == 16).await?;
        other.fork(8, Remine::Drop);
        other.mine(2);
        service.until_chain(HALTED, "halted", |chain| chain["phase"] == "halted").await?;
        // Rescans that stay open: asked for and paused while nothing reads.
        service.terminate().await?;
        let mut rescans = [0; 3];
        for id in &mut rescans {
            let asked = service.json_lines(&["rescan", "start", CHAIN, "--from-height", "1", "--json"]).await?;
            *id = asked.first().and_then(|one| one["id"].as_u64()).context("no number")?;
            service.command(&["rescan", "pause", CHAIN, &id.to_string()]).await?;
        }
        service.run().await?;
        service.until_chain(CHAIN, "at the tip", |chain| chain["phase"] == "following").await?;
        let halted = service.until_chain(HALTED, "halted", |chain| chain["phase"] == "halted").await?;
        service.command(&["cursor", "put", "reader"]).await?;
        let events = service.json_lines(&["events"]).await?;
        ensure!(events.len() >= 4, "{events:?}");
        let ids = events.iter().filter_map(|event| event["id"].as_str().map(str::to_owned)).collect();
        let places = service.get("/v1/events?limit=2").await?.1["places"].clone();
        let places =
            places.as_array().context("no places")?.iter().filter_map(|place| place.as_str().map(str::to_owned)).collect();
        let deposits = service.json_lines(&["deposits", "--chain", CHAIN, "--all", "--json"]).await?;
        let deposited = deposits.iter().filter_map(|one| one["tx_id"].as_str().map(str::to_owned)).collect();
        let text = |all: &[&str]| all.iter().map(|&one| one.to_owned()).collect::<Vec<_>>();
        let reorg = halted["halt"]["reorg"].clone();
        let mut known = BTreeMap::from([
            ("chain", text(&[CHAIN, HALTED])),
            ("following", text(&[CHAIN])),
            ("halted", text(&[HALTED])),
            ("consumer", text(&["good", "bad"])),
            ("cursor", text(&["reader", "another"])),
            ("tx_id", paid),
            ("deposited", deposited),
            ("event", ids),
            ("address", text(&[ALICE, BOB])),
            ("reference", text(&["customer-42", "customer-7"])),
            ("place", places),
            ("reorg", vec![reorg["hash"].as_str().context("the halt names no block")?.to_owned()]),
            ("time", text(&["2026-01-01T00:00:00Z", "2100-01-01T00:00:00+02:00"])),
        ]);
        for (name, list) in [("address_place", "addresses"), ("deposit_place", "deposits"), ("delivery_place", "deliveries")] {
            let page = service.get(&format!("/v1/{list}?limit=1")).await?.1;
            known.insert(name, vec![page["next"].as_str().with_context(|| format!("{list} has one page: {page}"))?.to_owned()]);
        }
        let height = reorg["height"].as_u64().context("the halt names no height")?;
        Ok(Self { service, known, rescans, reorg: height, _nodes: [node, other], _customers: [good, bad] })
    }

    /// One of what is known by a name.
    pub(crate) fn known(&self, name: &str) -> Result<String> {
        let all = self.known.get(name).with_context(|| format!("nothing is known of {name}"))?;
        all.first().cloned().with_context(|| format!("no {name}"))
    }

    /// The settings: mostly what is known here is asked for, so that more than refusals is seen.
    fn settings(&self) -> String {
        let mut text = String::from("hooks = \"hooks.py\"\nseed = 1\nworkers = 2\nrequest-timeout = 30\nmax-stream-events = 1\n");
        text.push_str("[generation]\ndeterministic = true\ndatabase = \"none\"\n");
        text.push_str("[headers]\nX-Confirmd-Request = \"1\"\n");
        for (name, values) in &self.known {
            text.push_str(&format!("[dictionaries.{name}]\nvalues = {values:?}\n"));
        }
        text.push_str(&format!("[dictionaries.rescan]\nvalues = {:?}\n", self.rescans));
        text.push_str("[dictionaries.zero]\nvalues = [0]\n");
        text.push_str(&format!("[dictionaries.reorg_height]\nvalues = [{}]\n", self.reorg));
        text.push_str("[parameters]\n");
        text.push_str(&bound(EVERYWHERE));
        for (method, path, fixed, bindings) in SOMEWHERE {
            text.push_str(&format!("[[operations]]\ninclude-path = {path:?}\ninclude-method = {method:?}\n"));
            text.push_str(if SELDOM.contains(path) {
                "warnings = false\n[operations.parameters]\n"
            } else {
                "[operations.parameters]\n"
            });
            fixed.iter().for_each(|(parameter, value)| text.push_str(&format!("{parameter:?} = {value}\n")));
            text.push_str(&bound(bindings));
        }
        text.push_str(CHECKS);
        text
    }
}

/// A parameter or field and where its values are from; mostly, so that others are tried, too.
type Bindings = &'static [(&'static str, &'static str)];

fn bound(bindings: Bindings) -> String {
    let line = |(parameter, dictionary): &(&str, &str)| {
        format!("{parameter:?} = {{ dictionary = {dictionary:?}, probability = 0.8 }}\n")
    };
    bindings.iter().map(line).collect()
}

const EVERYWHERE: Bindings = &[
    ("path.chain", "chain"),
    ("path.consumer", "consumer"),
    ("path.cursor", "cursor"),
    ("path.tx_id", "tx_id"),
    ("path.event", "event"),
    ("query.chain", "chain"),
    ("query.consumer", "consumer"),
    ("query.tx_id", "tx_id"),
    ("query.event", "event"),
    ("query.address", "address"),
    ("query.reference", "reference"),
    ("body.chain", "chain"),
    ("body.event", "event"),
    ("body.events[*]", "event"),
    ("body.addresses[*]", "address"),
    ("body.entries[*].chain", "chain"),
    ("body.entries[*].address", "address"),
    ("body.after", "place"),
];

/// What an operation needs together: method, path, what is always so, and what is mostly so.
type Somewhere = (&'static str, &'static str, &'static [(&'static str, &'static str)], Bindings);
/// Three values that fit together are seldom met by chance: that an operation was only refused is no failure here.
const SELDOM: [&str; 3] =
    ["/v1/chains/{chain}/deposits/{tx_id}/{output_index}", "/v1/chains/{chain}/resume/preview", "/v1/chains/{chain}/resume"];
const SOMEWHERE: &[Somewhere] = &[
    // A question that waits for an event is no slower for being asked a hundred times.
    ("GET", "/v1/events", &[("wait", "0")], &[("query.cursor", "cursor")]),
    ("GET", "/v1/events/stream", &[], &[("query.after", "place")]),
    ("GET", "/v1/addresses", &[], &[("query.after", "address_place")]),
    ("GET", "/v1/deliveries", &[], &[("query.after", "delivery_place")]),
    ("GET", "/v1/deposits", &[], &[("query.after", "deposit_place"), ("query.seen_from", "time"), ("query.seen_before", "time")]),
    (
        "GET",
        "/v1/chains/{chain}/deposits/{tx_id}/{output_index}",
        &[],
        &[("path.chain", "following"), ("path.output_index", "zero"), ("path.tx_id", "deposited")],
    ),
    ("POST", "/v1/chains/{chain}/rescans/{id}/pause", &[], &[("path.chain", "following"), ("path.id", "rescan")]),
    ("POST", "/v1/chains/{chain}/rescans/{id}/resume", &[], &[("path.chain", "following"), ("path.id", "rescan")]),
    ("POST", "/v1/chains/{chain}/rescans/{id}/cancel", &[], &[("path.chain", "following"), ("path.id", "rescan")]),
    ("POST", "/v1/chains/{chain}/resume/preview", &[], &[("path.chain", "halted")]),
    (
        "POST",
        "/v1/chains/{chain}/resume",
        &[],
        &[("path.chain", "halted"), ("body.reorg.hash", "reorg"), ("body.reorg.height", "reorg_height")],
    ),
    ("POST", "/v1/consumers/{consumer}/replay", &[], &[("body.decided_from", "time"), ("body.decided_before", "time")]),
];

async fn as_documented() -> Result<()> {
    let mut world = World::start().await?;
    let folder = world.service.instance_dir().to_owned();
    std::fs::write(folder.join("schemathesis.toml"), world.settings())?;
    std::fs::write(folder.join("hooks.py"), HOOKS)?;
    let address = std::fs::read_to_string(folder.join("state/api-address"))?;
    let address = address.lines().next().context("no address")?.to_owned();
    let report = fuzz(&folder, &format!("http://{address}")).await?;
    let log = world.service.log();
    ensure!(report.success, "the API answered otherwise than its document says:\n{}\nlog:\n{log}", report.text);
    ensure!(!log.contains("panicked"), "{log}");
    // It still does its work.
    world.service.until_chain(CHAIN, "at the tip", |chain| chain["phase"] == "following").await?;
    tokio::time::timeout(SOON, world.service.terminate()).await?
}

struct Report {
    success: bool,
    text: String,
}

async fn fuzz(folder: &Path, url: &str) -> Result<Report> {
    let program = Needs::Schemathesis.path().context("no schemathesis")?;
    let document = format!("{url}/openapi.json");
    let examples = EXAMPLES_MAX.to_string();
    let mut command = tokio::process::Command::new(&program);
    command
        .kill_on_drop(true)
        .current_dir(folder)
        .args(["--config-file", "schemathesis.toml", "run", &document, "--url", url, "--max-examples", &examples])
        .args(["--continue-on-failure", "--no-color"])
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let began = std::time::Instant::now();
    let child = command.spawn().context("run schemathesis")?;
    let output = tokio::time::timeout(DEADLINE, child.wait_with_output()).await.context("schemathesis does not end")??;
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    if let Some(file) = std::env::var_os("CONFIRMD_FUZZ_REPORT") {
        std::fs::write(file, format!("{text}\n{:?}\n", began.elapsed()))?;
    }
    Ok(Report { success: output.status.success(), text })
}
