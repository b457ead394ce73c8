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

const CHAIN: &str = "devnet";
/// Its node is of another network: it stands still.
const HALTED: &str = "elsewhere";
const ALICE: &str = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
const BOB: &str = "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359";
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
"#;

pub(crate) fn trials() -> Vec<Trial> {
    let name = "ops::the_api_answers_whatever_its_document_allows_or_not_as_the_document_says";
    vec![node_trial(name, &[Needs::Schemathesis], as_documented)]
}

/// An instance with something in every list.
struct World {
    service: Service,
    /// What can be asked for, by the name of the parameter or field.
    known: BTreeMap<&'static str, Vec<String>>,
    // They end with the world.
    _nodes: [FakeEvm; 2],
    _customers: [Customer; 2],
}

impl World {
    async fn start() -> Result<Self> {
        let node = FakeEvm::start(EvmOptions { chain_id: 31_337, ..EvmOptions::default() }).await?;
        let other = FakeEvm::start(EvmOptions { chain_id: 5, ..EvmOptions::default() }).await?;
        node.mine(8);
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
        let service = Service::start(&config).await?;
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
        service.until_chain(HALTED, "halted", |chain| chain["phase"] == "halted").await?;
        service.command(&["cursor", "put", "reader"]).await?;
        let events = service.json_lines(&["events"]).await?;
        ensure!(events.len() >= 4, "{events:?}");
        let ids = events.iter().filter_map(|event| event["id"].as_str().map(str::to_owned)).collect();
        let places = service.get("/v1/events?limit=2").await?.1["places"].clone();
        let places =
            places.as_array().context("no places")?.iter().filter_map(|place| place.as_str().map(str::to_owned)).collect();
        let text = |all: &[&str]| all.iter().map(|&one| one.to_owned()).collect::<Vec<_>>();
        let known = BTreeMap::from([
            ("chain", text(&[CHAIN, HALTED])),
            ("consumer", text(&["good", "bad"])),
            ("cursor", text(&["reader", "another"])),
            ("tx_id", paid),
            ("event", ids),
            ("address", text(&[ALICE, BOB])),
            ("reference", text(&["customer-42", "customer-7"])),
            ("place", places),
        ]);
        Ok(Self { service, known, _nodes: [node, other], _customers: [good, bad] })
    }

    /// The settings: mostly what is known here is asked for, so that more than refusals is seen.
    fn settings(&self) -> String {
        let mut text = String::from("hooks = \"hooks.py\"\nseed = 1\nworkers = 2\nrequest-timeout = 30\nmax-stream-events = 1\n");
        text.push_str("[generation]\ndeterministic = true\ndatabase = \"none\"\n");
        text.push_str("[headers]\nX-Confirmd-Request = \"1\"\n");
        for (name, values) in &self.known {
            text.push_str(&format!("[dictionaries.{name}]\nvalues = {values:?}\n"));
        }
        text.push_str("[parameters]\n");
        for (parameter, dictionary) in [
            ("path.chain", "chain"),
            ("path.consumer", "consumer"),
            ("path.cursor", "cursor"),
            ("path.tx_id", "tx_id"),
            ("path.event", "event"),
            ("query.chain", "chain"),
            ("query.consumer", "consumer"),
            ("query.cursor", "cursor"),
            ("query.tx_id", "tx_id"),
            ("query.event", "event"),
            ("query.address", "address"),
            ("query.reference", "reference"),
            ("query.after", "place"),
            ("body.chain", "chain"),
            ("body.event", "event"),
            ("body.events[*]", "event"),
            ("body.addresses[*]", "address"),
            ("body.entries[*].chain", "chain"),
            ("body.entries[*].address", "address"),
            ("body.after", "place"),
        ] {
            text.push_str(&format!("{parameter:?} = {{ dictionary = {dictionary:?}, probability = 0.8 }}\n"));
        }
        // A question that waits for an event is no slower for being asked a hundred times.
        text.push_str("[[operations]]\ninclude-path = \"/v1/events\"\nparameters = { wait = 0 }\n");
        text.push_str(CHECKS);
        text
    }
}

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
