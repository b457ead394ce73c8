//! The command line, as operators and their scripts use it: with and without a running instance.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::{COINS, FamilyOptions, Instance, Needs, SOON, UtxoPlan, UtxoStage, node_trial, utxo_node, workspace_root};
use libtest_mimic::Trial;
use serde_json::Value;

pub(crate) fn trials() -> Vec<Trial> {
    let on = [Needs::Litecoind];
    vec![
        node_trial("ops::init_writes_a_configuration_that_check_reads", &[], init),
        node_trial("ops::every_kind_shows_an_example_that_can_be_used", &[], kinds),
        node_trial("ops::the_version_is_the_sources_revision", &[], version),
        node_trial("ops::the_demo_ends_with_equal_books", &[], demo),
        node_trial("ops::an_added_address_is_covered_from_the_height_the_answer_names", &on, added_while_running),
        node_trial(
            "ops::an_address_added_to_a_stopped_instance_is_covered_from_the_height_the_answer_names",
            &on,
            added_while_stopped,
        ),
        node_trial("ops::lists_are_imported_whole_or_not_at_all", &on, imported),
        node_trial("ops::a_removed_address_takes_no_new_deposits_and_finishes_the_old", &on, removed),
        node_trial("ops::what_is_listed_is_what_happened", &on, listed),
        node_trial("ops::a_paused_consumer_loses_nothing", &on, paused),
        node_trial("ops::sigterm_and_ctrl_c_end_the_instance_at_once", &on, ended),
    ]
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

async fn init() -> Result<()> {
    let instance = Instance::new(|_| String::new())?;
    std::fs::remove_file(instance.config())?;
    let missing = instance.command(&["check"]).await?;
    ensure!(missing.status.code() == Some(1) && text(&missing.stdout).contains("confirmd init"), "{missing:?}");
    ensure!(instance.command(&["init"]).await?.status.success());
    let again = instance.command(&["init"]).await?;
    ensure!(again.status.code() == Some(1) && text(&again.stderr).contains("--force"), "{again:?}");
    let check = text(&instance.command(&["check"]).await?.stdout);
    ensure!(check.contains("ok    configuration") && check.contains("confirmd kinds"), "{check}");

    // What it tells the reader to do: take the leading "# " off a chain and a sink.
    let written = std::fs::read_to_string(instance.config())?;
    let mut on = false;
    let lines = written.lines().map(|line| {
        on = (on && line.starts_with('#')) || ["# [chains.bitcoin]", "# [sinks.lines]"].contains(&line);
        if on { line.trim_start_matches('#').trim_start() } else { line }
    });
    let lines: Vec<_> = lines.collect();
    instance.configure(|_| lines.join("\n"))?;
    let check = instance.command(&["check"]).await?;
    let said = text(&check.stdout);
    ensure!(said.contains("ok    configuration: confirmd.toml: 1 chain, 1 sink"), "{said}\n{}", lines.join("\n"));
    ensure!(said.contains("FAIL  bitcoin network") && check.status.code() == Some(1), "{said}");
    Ok(())
}

async fn kinds() -> Result<()> {
    let mut instance = Instance::new(|_| String::new())?;
    let listed = text(&instance.command(&["kinds", "--json"]).await?.stdout);
    let mut config = "[state]\npath = \"./state\"\n".to_owned();
    for line in listed.lines() {
        let kind: Value = serde_json::from_str(line)?;
        let name = kind["kind"].as_str().context("no kind")?;
        ensure!(kind["summary"].as_str().is_some_and(|text| text.len() > 10), "{kind}");
        let example = text(&instance.command(&["kinds", name]).await?.stdout);
        ensure!(example.trim() == kind["example"].as_str().unwrap_or_default().trim(), "{example}");
        config.push_str(&example);
        for variable in example.split("env = \"").skip(1).filter_map(|rest| rest.split_once('"')) {
            let value = if variable.0.contains("SECRET") {
                "whsec_YW4gZXhhbXBsZSBzZWNyZXQgb2YgYSB0cmlhbA=="
            } else {
                "http://127.0.0.1:1"
            };
            instance.env(variable.0, value);
        }
    }
    instance.configure(|_| config.clone())?;
    let check = text(&instance.command(&["check"]).await?.stdout);
    ensure!(check.contains("ok    configuration"), "{check}\n{config}");
    let unknown = instance.command(&["kinds", "kafka"]).await?;
    ensure!(unknown.status.code() == Some(1) && text(&unknown.stderr).contains("known: bitcoin, evm"), "{unknown:?}");
    Ok(())
}

async fn version() -> Result<()> {
    let instance = Instance::new(|_| String::new())?;
    let shown = text(&instance.command(&["--version"]).await?.stdout);
    let revision = match std::env::var("CONFIRMD_REVISION") {
        Ok(revision) => revision,
        Err(_) => {
            let git =
                std::process::Command::new("git").current_dir(workspace_root()).args(["rev-parse", "--short", "HEAD"]).output();
            let git = git.ok().filter(|output| output.status.success());
            git.map_or_else(|| "unknown".to_owned(), |output| text(&output.stdout).trim().to_owned())
        }
    };
    let found = shown.split_once('(').and_then(|(_, rest)| rest.trim_end().strip_suffix(')')).context("no revision")?;
    ensure!(found.strip_suffix("-dirty").unwrap_or(found) == revision, "{shown} was not built from {revision}");
    Ok(())
}

async fn demo() -> Result<()> {
    let mut instance = Instance::new(|_| String::new())?;
    instance.start(&["demo", "--json"])?;
    let status = instance.wait(Duration::from_secs(120)).await?;
    let lines = instance.stdout()?.until_end(SOON).await?;
    let lines: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line)).collect::<Result<_, _>>()?;
    let last = lines.last().context("the demo says nothing")?;
    ensure!(status.success() && last["kind"] == "verdict" && last["equal"] == true, "{status}, {last}");
    ensure!(lines.iter().filter(|line| line["kind"] == "balance").all(|line| line["ledger"] == line["chain"]), "{lines:?}");
    Ok(())
}

async fn stage(confirmations: u64) -> Result<(UtxoStage, String)> {
    let node = utxo_node(Needs::Litecoind, FamilyOptions::default()).await?;
    let address = node.new_address().await?;
    let plan = UtxoPlan { confirmations, watch: vec![address.clone()], ..UtxoPlan::default() };
    Ok((UtxoStage::set(node, plan).await?, address))
}

fn height(answer: &[Value]) -> Result<u64> {
    answer.first().and_then(|answer| answer["from_height"].as_u64()).with_context(|| format!("no height in {answer:?}"))
}

async fn added_while_running() -> Result<()> {
    let (mut stage, _) = stage(1).await?;
    let late = stage.node.new_address().await?;
    let too_early = stage.pay(&late, 1_000_000).await?;
    stage.node.mine(1).await?;
    stage.told().await?;
    let add = ["watch", "add", COINS, &late.to_uppercase(), "--reference", "late, \"quoted\"", "--json"];
    let from = height(&stage.service.json_lines(&add).await?)?;
    ensure!(from == stage.node.tip().await?.height + 1, "covered from {from}");
    stage.expect_from(&late, from).await?;
    let covered = stage.pay(&late, 2_000_000).await?;
    stage.node.mine(1).await?;
    ensure!(stage.audit().await? == 1);
    stage.ensure_history(&too_early.0, too_early.1, &[])?;
    stage.ensure_history(&covered.0, covered.1, &[1])?;
    ensure!(stage.node.position(&covered.0).await?.context("not mined")?.block.height == from);
    let row = stage.service.json_lines(&["deposits", "--reference", "late, \"quoted\"", "--json"]).await?;
    ensure!(row.len() == 1 && row[0]["address"] == late, "{row:?}");
    for (chain, address, said) in [(COINS, "bcrt1qxyz", "bcrt1qxyz"), ("base", late.as_str(), "known: coins")] {
        let (code, _, stderr) = stage.service.attempt(&["watch", "add", chain, address]).await?;
        ensure!(code == Some(1) && stderr.contains(said), "{code:?} {stderr}");
    }
    stage.customer.ensure_once()
}

async fn added_while_stopped() -> Result<()> {
    let (mut stage, _) = stage(1).await?;
    stage.service.terminate().await?;
    let last_read = stage.node.tip().await?.height;
    let late = stage.node.new_address().await?;
    stage.pay(&late, 1_000_000).await?;
    stage.node.mine(3).await?;
    // The node has gone on; the answer counts from what was read, so the payment is covered.
    let from = height(&stage.service.json_lines(&["watch", "add", COINS, &late, "--json"]).await?)?;
    ensure!(from == last_read + 1, "covered from {from}");
    stage.expect_from(&late, from).await?;
    stage.service.run().await?;
    ensure!(stage.audit().await? == 1);
    stage.customer.ensure_once()
}

async fn imported() -> Result<()> {
    let (mut stage, _) = stage(1).await?;
    let mut addresses = Vec::new();
    for kind in ["bech32", "legacy", "p2sh-segwit", "bech32"] {
        addresses.push(stage.node.new_address_of(kind).await?);
    }
    let folder = stage.service.instance().dir().to_owned();
    let [one, two, three, four] = addresses.as_slice() else { unreachable!("four were made") };
    let write = |name: &str, text: String| std::fs::write(folder.join(name), text);
    write("bad.csv", format!("chain,address,reference,from_height\ncoins,{one},a,\ncoins,{two}x,b,\n"))?;
    write("height.csv", format!("coins,{one},a,low\n"))?;
    write("list.csv", format!("chain,address,reference,from_height\ncoins,{one},\"a, b\",\ncoins,{two},,\n"))?;
    write(
        "list.jsonl",
        format!(
            "{{\"chain\":\"coins\",\"address\":\"{three}\",\"reference\":\"c\"}}\n{{\"chain\":\"coins\",\"address\":\"{four}\"}}\n"
        ),
    )?;
    for (file, said) in [("bad.csv", "line 3"), ("height.csv", "from_height \"low\""), ("none.csv", "none.csv")] {
        let (code, _, stderr) = stage.service.attempt(&["watch", "import", file]).await?;
        ensure!(code == Some(1) && stderr.contains(said) && stderr.contains(file), "{stderr}");
    }
    ensure!(stage.service.json_lines(&["watch", "list", "--json"]).await?.len() == 1, "a refused list was imported in part");
    let from = height(&stage.service.json_lines(&["watch", "import", "list.csv", "--json"]).await?)?;
    for address in [one, two] {
        stage.expect_from(address, from).await?;
    }
    stage.service.terminate().await?;
    let from = height(&stage.service.json_lines(&["watch", "import", "list.jsonl", "--json"]).await?)?;
    for address in [three, four] {
        stage.expect_from(address, from).await?;
    }
    stage.service.run().await?;
    let outputs: Vec<_> = addresses.iter().map(|address| (address.as_str(), 1_000_000)).collect();
    stage.node.pay_many(&outputs).await?;
    stage.node.mine(1).await?;
    ensure!(stage.audit().await? == 4);
    let listed = stage.service.json_lines(&["watch", "list", "--all", "--json"]).await?;
    ensure!(listed.len() == 5, "{listed:?}");
    let reference = |address: &str| listed.iter().find(|row| row["address"] == address).map(|row| row["reference"].clone());
    ensure!(reference(one) == Some("a, b".into()) && reference(two) == Some(Value::Null), "{listed:?}");
    ensure!(stage.service.json_lines(&["watch", "list", "--limit", "2", "--json"]).await?.len() == 2);
    stage.customer.ensure_once()
}

async fn removed() -> Result<()> {
    let (stage, kept) = stage(2).await?;
    let leaving = stage.node.new_address().await?;
    stage.service.command(&["watch", "add", COINS, &leaving]).await?;
    let before = stage.pay(&leaving, 1_000_000).await?;
    stage.node.mine(1).await?;
    stage.told().await?;
    let said = stage.service.command(&["watch", "remove", COINS, &leaving]).await?;
    ensure!(said.contains("1 of 1"), "{said}");
    let after = stage.pay(&leaving, 2_000_000).await?;
    let other = stage.pay(&kept, 3_000_000).await?;
    stage.node.mine(3).await?;
    stage.told().await?;
    stage.ensure_history(&before.0, before.1, &[1])?;
    stage.ensure_history(&after.0, after.1, &[])?;
    stage.ensure_history(&other.0, other.1, &[1])?;
    // What was told before the removal is still taken back.
    let thief = stage.node.new_address().await?;
    stage.node.reorg_double_spend(4, &before.0, &thief).await?;
    stage.told().await?;
    stage.ensure_history(&before.0, before.1, &[1, 2])?;
    stage.customer.ensure_once()
}

async fn listed() -> Result<()> {
    let (mut stage, address) = stage(2).await?;
    let (confirmed, output) = stage.pay(&address, 150_000_000).await?;
    stage.node.mine(2).await?;
    stage.told().await?;
    let (pending, _) = stage.pay(&address, 1).await.or(stage.pay(&address, 100_000).await)?;
    stage.node.mine(1).await?;
    stage.told().await?;
    for running in [true, false] {
        let status = stage.service.json_lines(&["status", "--json"]).await?;
        let status = status.first().context("no status")?;
        ensure!(
            status["running"] == running && status["chains"][0]["tip"]["height"] == stage.node.tip().await?.height,
            "{status}"
        );
        ensure!(status["chains"][0]["pending"] == 1 && status["chains"][0]["reported"] == 1, "{status}");
        ensure!(status["consumers"][0]["waiting"] == 0, "{status}");
        let deposits = stage.service.json_lines(&["deposits", "--json"]).await?;
        let states: Vec<_> = deposits.iter().map(|row| (row["tx_id"].as_str(), row["state"].as_str())).collect();
        ensure!(
            states == [(Some(pending.as_str()), Some("pending")), (Some(confirmed.as_str()), Some("confirmed"))],
            "{deposits:?}"
        );
        let row = &deposits[1];
        ensure!(row["amount"] == "150000000" && row["output_index"] == output && row["reference"] == "customer-0", "{row}");
        ensure!(row["chain_name"] == COINS && row["asset"]["symbol"] == "LTC" && row["sequence"] == 1, "{row}");
        let by_tx = stage.service.json_lines(&["deposits", "--tx", &confirmed, "--state", "confirmed", "--json"]).await?;
        ensure!(by_tx.len() == 1, "{by_tx:?}");
        let table = stage.service.command(&["deposits"]).await?;
        ensure!(table.contains("1.5") && table.contains(&format!("{confirmed}:{output}")), "{table}");
        let event = stage.customer.receiver().requests().first().context("no request")?.id.clone();
        let deliveries = stage.service.json_lines(&["deliveries", "list", "--event", &event, "--json"]).await?;
        ensure!(deliveries.len() == 1 && deliveries[0]["state"] == "delivered", "{deliveries:?}");
        let shown = stage.service.json_lines(&["deliveries", "show", &event, "--json"]).await?;
        let body = stage.customer.receiver().requests().first().context("no request")?.body.clone();
        ensure!(shown[0]["body"] == serde_json::from_slice::<Value>(&body)?, "{shown:?}");
        if running {
            stage.service.terminate().await?;
        }
    }
    Ok(())
}

async fn paused() -> Result<()> {
    let (mut stage, address) = stage(1).await?;
    let said = stage.service.command(&["consumer", "pause", "ledger", "--why", "the ledger moves house"]).await?;
    ensure!(said.contains("confirmd consumer resume ledger"), "{said}");
    stage.pay(&address, 1_000_000).await?;
    stage.node.mine(1).await?;
    stage.service.until_consumer("ledger", "an event waits", |ledger| ledger["waiting"] == 1).await?;
    // It holds through a restart.
    stage.service.terminate().await?;
    stage.service.run().await?;
    stage.pay(&address, 2_000_000).await?;
    stage.node.mine(1).await?;
    let ledger = stage.service.until_consumer("ledger", "two events wait", |ledger| ledger["waiting"] == 2).await?;
    ensure!(ledger["paused"] == "the ledger moves house", "{ledger}");
    ensure!(stage.customer.receiver().requests().is_empty(), "a paused consumer was told");
    stage.service.command(&["consumer", "resume", "ledger"]).await?;
    ensure!(stage.audit().await? == 2);
    stage.customer.ensure_once()
}

async fn ended() -> Result<()> {
    let (mut stage, _) = stage(1).await?;
    for signal in ["TERM", "INT"] {
        let begun = Instant::now();
        stage.service.instance().signal(signal)?;
        let status = stage.service.instance().wait(SOON).await?;
        ensure!(status.success() && begun.elapsed() < Duration::from_secs(5), "{signal}: {status} after {:?}", begun.elapsed());
        let log = stage.service.log();
        ensure!(log.contains("stopped") && !log.contains("ERROR"), "{log}");
        ensure!(!stage.service.instance().dir().join("state/api-address").exists());
        stage.service.run().await?;
    }
    stage.audit().await?;
    Ok(())
}
