//! What is counted, through the binary: every metric that page, dashboard and rules name is there, and says what happened.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail, ensure};
use e2e::{Needs, confirmd, node_trial, scratch_dir, workspace_root};
use libtest_mimic::Trial;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::evm_world::{ALICE, BOB, NAME, World, pay};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        node_trial("ops::every_metric_of_page_dashboard_and_rules_is_shown_and_counts", &[Needs::Anvil], counted),
        node_trial("ops::promtool_takes_the_metrics_as_they_are", &[Needs::Anvil, Needs::Promtool], linted),
        node_trial("ops::the_alert_rules_pass_promtool_and_their_own_tests", &[Needs::Promtool], || async { rules() }),
        node_trial("ops::every_alert_has_a_runbook_section_whose_commands_exist", &[], || async { runbook() }),
        node_trial("ops::the_systemd_unit_is_verified", &[Needs::SystemdAnalyze], || async { unit() }),
    ]
}

fn read(path: &str) -> Result<String> {
    std::fs::read_to_string(workspace_root().join(path)).with_context(|| format!("read {path}"))
}

/// `/metrics` as a scraper gets it.
async fn scrape(world: &World) -> Result<String> {
    let file = std::fs::read_to_string(world.service.instance_dir().join("state/api-address"))?;
    let address = file.lines().next().context("no address")?;
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
    ensure!(head.starts_with("HTTP/1.1 200") && head.contains("text/plain; version=0.0.4"), "{head}");
    Ok(body.to_owned())
}

/// Has confirmed a deposit, taken it back with a reorg of two blocks, and confirmed another.
async fn busy() -> Result<World> {
    let world = World::start("default = 1", 8).await?;
    let gone = pay(&world.anvil, 1, ALICE, 5).await?;
    world.mine(2).await?;
    world.anvil.reorg(2, &[]).await?;
    pay(&world.anvil, 2, BOB, 7).await?;
    world.mine(2).await?;
    ensure!(world.history(&gone, 0) == [1, 2], "{}", world.customer.describe());
    Ok(world)
}

/// The value of a series as it is written, labels in the order of their names.
fn value(text: &str, series: &str) -> Result<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    let line = line.with_context(|| format!("no {series} in\n{text}"))?;
    line.split('.').next().unwrap_or_default().parse().with_context(|| format!("{series} is {line}"))
}

/// Names in a text, with what a histogram's series add taken off.
fn names(text: &str, histograms: &BTreeSet<&str>) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'));
    let metrics = words.filter(|word| ["confirmd_", "process_"].iter().any(|start| word.starts_with(start)));
    let base = |word: &str| {
        let ends = ["_bucket", "_count", "_sum"].iter().find_map(|end| word.strip_suffix(end));
        ends.filter(|base| histograms.contains(base)).unwrap_or(word).to_owned()
    };
    metrics.map(base).collect()
}

async fn counted() -> Result<()> {
    let world = busy().await?;
    let text = scrape(&world).await?;
    let types: BTreeMap<&str, &str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
    let page = read("docs/metrics.md")?;
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let shown: BTreeMap<&str, &str> = rows.map(|(name, rest)| (name, rest.split(' ').next().unwrap_or_default())).collect();
    ensure!(shown == types, "the page shows {shown:#?}\nthe instance {types:#?}");

    let histograms: BTreeSet<&str> = types.iter().filter(|(_, kind)| **kind == "histogram").map(|(name, _)| *name).collect();
    for file in
        ["deploy/grafana/confirmd.json", "deploy/prometheus/alerts.yml", "deploy/prometheus/alerts_test.yml", "docs/runbook.md"]
    {
        let mut used = names(&read(file)?, &histograms);
        // Not metrics: a secret's name, a module of the log.
        used.retain(|name| !["confirmd_read_token", "confirmd_rpc"].contains(&name.as_str()));
        let unknown: Vec<_> = used.iter().filter(|name| !types.contains_key(name.as_str())).collect();
        ensure!(!used.is_empty() && unknown.is_empty(), "{file} names {unknown:?}, which the instance does not show");
    }

    let tip = world.anvil.tip().await?.height;
    let chain = format!("chain=\"{NAME}\"");
    for (series, expected) in [
        (format!("confirmd_deposits_total{{{chain},event=\"confirmed\"}}"), 2),
        (format!("confirmd_deposits_total{{{chain},event=\"reverted\"}}"), 1),
        (format!("confirmd_reorgs_total{{{chain}}}"), 1),
        (format!("confirmd_reorg_depth_blocks_sum{{{chain}}}"), 2),
        (format!("confirmd_reorg_depth_blocks_bucket{{{chain},le=\"1\"}}"), 0),
        (format!("confirmd_chain_tip_height{{{chain}}}"), tip),
        (format!("confirmd_chain_trail_height{{{chain}}}"), tip),
        (format!("confirmd_chain_lag_blocks{{{chain}}}"), 0),
        (format!("confirmd_chain_lag_seconds{{{chain}}}"), 0),
        (format!("confirmd_chain_state{{{chain},state=\"following\"}}"), 1),
        (format!("confirmd_chain_state{{{chain},state=\"halted\"}}"), 0),
        (format!("confirmd_chain_watched_addresses{{{chain}}}"), 2),
        ("confirmd_delivery_attempts_total{consumer=\"ledger\",outcome=\"delivered\"}".to_owned(), 3),
        ("confirmd_delivery_seconds_count{consumer=\"ledger\"}".to_owned(), 3),
        ("confirmd_deliveries{consumer=\"ledger\",state=\"queued\"}".to_owned(), 0),
        ("confirmd_deliveries{consumer=\"ledger\",state=\"dead\"}".to_owned(), 0),
        ("confirmd_oldest_undelivered_seconds{consumer=\"ledger\"}".to_owned(), 0),
        ("confirmd_operations_waiting".to_owned(), 0),
    ] {
        let found = value(&text, &series)?;
        ensure!(found == expected, "{series} is {found}, expected {expected}\n{text}");
    }
    ensure!(value(&text, &format!("confirmd_rpc_requests_total{{{chain},outcome=\"answered\"}}"))? > 5, "{text}");
    ensure!(value(&text, "confirmd_commit_seconds_count")? > 2, "{text}");
    ensure!(value(&text, "process_resident_memory_bytes")? > 1_000_000, "{text}");
    // Labels never carry what grows: no address, transaction or block.
    ensure!(!text.contains("0x"), "{text}");
    Ok(())
}

/// Runs promtool with a text on its input.
fn promtool(folder: &Path, args: &[&str], input: &str) -> Result<Output> {
    use std::io::Write;
    let program = Needs::Promtool.path().context("no promtool")?;
    let mut command = Command::new(program);
    command.args(args).current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("run promtool")?;
    child.stdin.take().context("no input")?.write_all(input.as_bytes())?;
    Ok(child.wait_with_output()?)
}

fn must_pass(output: &Output) -> Result<()> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    ensure!(output.status.success(), "{}\n{}\n{}", output.status, text(&output.stdout), text(&output.stderr));
    Ok(())
}

async fn linted() -> Result<()> {
    let world = busy().await?;
    must_pass(&promtool(&workspace_root(), &["check", "metrics"], &scrape(&world).await?)?)
}

fn rules() -> Result<()> {
    let folder = workspace_root().join("deploy/prometheus");
    must_pass(&promtool(&folder, &["check", "rules", "alerts.yml"], "")?)?;
    must_pass(&promtool(&folder, &["test", "rules", "alerts_test.yml"], "")?)?;
    let (rules, tests) = (read("deploy/prometheus/alerts.yml")?, read("deploy/prometheus/alerts_test.yml")?);
    for alert in alerts(&rules) {
        ensure!(tests.contains(&format!("alertname: {alert}\n        exp_alerts:\n")), "no test sees {alert} fire");
    }
    Ok(())
}

fn alerts(rules: &str) -> Vec<&str> {
    rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect()
}

fn runbook() -> Result<()> {
    let (rules, book) = (read("deploy/prometheus/alerts.yml")?, read("docs/runbook.md")?);
    let sections: Vec<&str> = book.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let alerts = alerts(&rules);
    ensure!(sections == alerts, "the runbook has {sections:?}, the rules {alerts:?}");
    for alert in alerts {
        let anchor = format!("runbook: docs/runbook.md#{}\n", alert.to_lowercase());
        ensure!(rules.contains(&anchor), "the rule {alert} does not name its section");
    }
    let program = confirmd()?;
    let mut seen = BTreeSet::new();
    for quoted in book.split('`').skip(1).step_by(2) {
        let Some(rest) = quoted.strip_prefix("confirmd ") else { continue };
        let words: Vec<&str> = rest.split(' ').collect();
        let is_word = |word: &&&str| word.bytes().all(|b| b.is_ascii_lowercase() || b == b'-') && !word.starts_with('-');
        let path: Vec<&str> = words.iter().take_while(is_word).copied().collect();
        let flags: Vec<&str> = words.iter().filter(|word| word.starts_with("--")).copied().collect();
        if seen.insert((path.clone(), flags.clone())) {
            let output = Command::new(&program).args(&path).arg("--help").output()?;
            let help = String::from_utf8_lossy(&output.stdout).into_owned();
            ensure!(output.status.success(), "there is no `{quoted}`: {}", String::from_utf8_lossy(&output.stderr));
            for flag in flags {
                ensure!(help.contains(flag), "`{quoted}`: no {flag} in\n{help}");
            }
        }
    }
    ensure!(seen.len() >= 10, "only {seen:?} were found");
    Ok(())
}

fn unit() -> Result<()> {
    let text = read("deploy/systemd/confirmd.service")?;
    ensure!(text.contains("\nTimeoutStopSec=120\n"), "a stop needs its time");
    let program = confirmd()?;
    let program = program.to_str().context("the path is not UTF-8")?;
    let folder = scratch_dir()?;
    let file = folder.path().join("confirmd.service");
    std::fs::write(&file, text.replace("/usr/local/bin/confirmd", program))?;
    let tool = Needs::SystemdAnalyze.path().context("no systemd-analyze")?;
    let output = Command::new(tool).args(["verify", "--man=no"]).arg(&file).output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() || said.contains("confirmd.service") {
        bail!("{}: {said}", output.status);
    }
    Ok(())
}
