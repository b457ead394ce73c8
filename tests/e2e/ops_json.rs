//! `--json`: every command that answers is run with it, and what it prints is JSON, an object a line.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use e2e::{Service, node_trial};
use libtest_mimic::Trial;
use serde_json::Value;

use crate::ops_fuzz::{ALICE, BOB, CHAIN, HALTED, World};

/// Commands that are not run here: the first needs a database as its sink and is run nowhere with `--json` yet, the second is a
/// world of its own (`ops::the_demo_ends_with_equal_books`).
const ELSEWHERE: [&str; 2] = ["consumer adopt", "demo"];
/// Help is asked for a page at a time; there are not more.
const PAGES_MAX: usize = 100;

pub(crate) fn trials() -> Vec<Trial> {
    vec![node_trial("ops::every_command_that_answers_prints_json_that_parses", &[], parses)]
}

/// The commands with `--json`, as their own help lists them.
async fn commands(service: &Service) -> Result<BTreeSet<String>> {
    let (mut open, mut found) = (vec![Vec::<String>::new()], BTreeSet::new());
    for _ in 0..PAGES_MAX {
        let Some(path) = open.pop() else { return Ok(found) };
        let args: Vec<&str> = path.iter().map(String::as_str).chain(["--help"]).collect();
        let help = service.command(&args).await?;
        let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
        let subs: Vec<&str> =
            listed.filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).filter(|word| !word.is_empty()).collect();
        if subs.is_empty() && help.contains("--json") {
            found.insert(path.join(" "));
        }
        open.extend(subs.into_iter().filter(|sub| *sub != "help").map(|sub| {
            let mut path = path.clone();
            path.push(sub.to_owned());
            path
        }));
    }
    anyhow::bail!("the help has no end: {open:?}")
}

/// Runs commands with `--json` and notes which.
struct Runs<'a> {
    service: &'a Service,
    seen: BTreeSet<String>,
    known: &'a BTreeSet<String>,
}

impl Runs<'_> {
    /// What it prints, an object a line; it may end with 1 only where it grades (`graded`).
    async fn run(&mut self, args: &[&str], graded: bool) -> Result<Vec<Value>> {
        let line = args.join(" ");
        let name = self
            .known
            .iter()
            .filter(|name| line == **name || line.starts_with(&format!("{name} ")))
            .max_by_key(|name| name.len());
        self.seen.insert(name.with_context(|| format!("{line} is no command with --json"))?.clone());
        let with: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        let (code, stdout, stderr) = self.service.attempt(&with).await?;
        ensure!(code == Some(0) || (graded && code == Some(1)), "{line} ends with {code:?}: {stderr}\n{stdout}");
        let values: Vec<Value> = if line == "openapi" {
            vec![serde_json::from_str(&stdout).with_context(|| format!("{line} prints {stdout}"))?]
        } else {
            let parsed = stdout.lines().map(|one| serde_json::from_str(one).with_context(|| format!("{line} prints {one}")));
            parsed.collect::<Result<_>>()?
        };
        ensure!(values.iter().all(Value::is_object), "{line} prints {stdout}");
        Ok(values)
    }

    /// As [`Runs::run`], of a command that must answer with something.
    async fn told(&mut self, args: &[&str]) -> Result<Value> {
        self.run(args, false).await?.into_iter().next().with_context(|| format!("{args:?} prints nothing"))
    }
}

async fn parses() -> Result<()> {
    let mut world = World::start().await?;
    let known = commands(&world.service).await?;
    ensure!(known.len() > 35, "{known:?}");
    let folder = world.service.instance_dir().to_owned();
    let file = |name: &str| folder.join(name).to_string_lossy().into_owned();
    std::fs::write(folder.join("list.csv"), format!("{CHAIN},{BOB},listed,\n"))?;
    let (dead, tx) = (world.known("event")?, world.known("tx_id")?);
    let list = file("list.csv");
    let mut runs = Runs { service: &world.service, seen: BTreeSet::new(), known: &known };

    // What looks.
    let status = runs.told(&["status"]).await?;
    ensure!(status["chains"].as_array().is_some_and(|all| all.len() == 2), "{status}");
    for (args, graded) in [
        (vec!["check"], true),
        (vec!["conform", CHAIN, "--address", ALICE, "--blocks", "5"], true),
        (vec!["kinds"], false),
        (vec!["openapi"], false),
        (vec!["chain", "show", CHAIN], false),
        (vec!["watch", "list"], false),
        (vec!["deposits", "--all"], false),
        (vec!["deposit", CHAIN, &tx, "0"], false),
        (vec!["explain", CHAIN, &tx], false),
        (vec!["events"], false),
        (vec!["cursor", "list"], false),
        (vec!["deliveries", "list"], false),
        (vec!["deliveries", "list", "--state", "delivered"], false),
        (vec!["deliveries", "show", &dead], false),
        (vec!["deliveries", "dead"], false),
        (vec!["consumer", "list"], false),
        (vec!["rescan", "coverage", CHAIN, ALICE], false),
        (vec!["rescan", "list", CHAIN], false),
    ] {
        ensure!(!runs.run(&args, graded).await?.is_empty(), "{args:?} prints nothing");
    }
    // What orders.
    let (pages, dump, other) = (file("pages"), file("dump.jsonl"), file("other.toml"));
    let halted = runs.run(&["chain", "resume", HALTED, "--accept-reorg", "--yes"], false).await?;
    ensure!(halted.len() == 1, "{halted:?}");
    let rescan = runs.told(&["rescan", "start", CHAIN, "--from-height", "1"]).await?;
    ensure!(rescan["id"].is_u64(), "{rescan}");
    let [first, second, third] = world.rescans.map(|id| id.to_string());
    for args in [
        vec!["reload"],
        vec!["man", &pages],
        vec!["state", "export", &dump],
        vec!["watch", "add", CHAIN, "0x00000000000000000000000000000000c0ffee09", "--reference", "r"],
        vec!["watch", "import", &list],
        vec!["watch", "remove", CHAIN, "0x00000000000000000000000000000000c0ffee09"],
        vec!["rescan", "resume", CHAIN, &first],
        vec!["rescan", "pause", CHAIN, &second],
        vec!["rescan", "cancel", CHAIN, &third],
        vec!["cursor", "put", "another"],
        vec!["cursor", "remove", "another"],
        vec!["consumer", "pause", "bad", "--why", "by hand"],
        vec!["deliveries", "requeue", "bad", "--all-dead"],
        vec!["deliveries", "replay", "good", &dead],
        vec!["deliveries", "skip", "bad", &dead, "--yes"],
        vec!["consumer", "resume", "bad"],
    ] {
        ensure!(runs.run(&args, false).await?.len() == 1, "{args:?} prints not one object");
    }
    // The receiver of these trials knows no test event, and the answer says so.
    let tested = runs.run(&["consumer", "test", "good"], true).await?;
    ensure!(tested.len() == 1 && tested.iter().all(|one| one["event"].is_string()), "{tested:?}");
    let seen = runs.seen;
    // What is for a stopped instance.
    world.service.terminate().await?;
    let mut runs = Runs { service: &world.service, seen, known: &known };
    runs.run(&["state", "verify"], false).await?;
    runs.told(&["consumer", "rename", "bad", "worse"]).await?;
    runs.told(&["consumer", "purge", "worse", "--yes"]).await?;
    let seen = runs.seen;
    // What makes something anew: another file, and another state.
    std::fs::rename(folder.join("state"), folder.join("old"))?;
    let mut runs = Runs { service: &world.service, seen, known: &known };
    runs.told(&["state", "import", &dump, "--restored"]).await?;
    let mut seen = runs.seen;
    let made = world.service.instance().command(&["--config", &other, "init", "--json"]).await?;
    let made: Value = serde_json::from_slice(&made.stdout).context("init prints no JSON")?;
    ensure!(made.is_object(), "{made}");
    seen.insert("init".to_owned());
    let missing: Vec<_> = known.iter().filter(|name| !seen.contains(*name) && !ELSEWHERE.contains(&name.as_str())).collect();
    ensure!(missing.is_empty(), "not run with --json: {missing:?}");
    Ok(())
}
