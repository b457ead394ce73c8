//! What keeps an instance from starting on a state, or ends it: each says what to do, and nothing is lost.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use e2e::{
    COINS, ChainSection, Config, Customer, FamilyOptions, Instance, NODE_PASSWORD_ENV, Needs, SOON, Service, SinkSection,
    UtxoPlan, UtxoStage, confirmd, node_trial, utxo_node,
};
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = vec![
        node_trial("ops::a_state_that_was_never_made_is_not_begun_silently", &[], never_made),
        node_trial("ops::a_state_path_that_can_not_be_one_says_what_to_do", &[], no_folder),
        node_trial("ops::a_sink_that_refuses_keeps_the_instance_from_starting", &[], sink_refuses),
        node_trial("ops::the_fullest_log_shows_no_secret", &[Needs::Litecoind], fullest_log),
        node_trial("ops::a_state_in_use_is_refused_and_its_owner_named", &[Needs::Litecoind], in_use),
        node_trial("ops::a_damaged_state_is_refused_with_the_way_back", &[Needs::Litecoind], damaged),
        node_trial("ops::a_consumer_with_undelivered_events_can_not_just_leave", &[Needs::Litecoind], consumer_left),
        node_trial("ops::another_network_under_a_chains_name_is_refused", &[Needs::Litecoind], network_changed),
    ];
    for (group, node) in [("litecoind", Needs::Litecoind), ("knots", Needs::Knots)] {
        let name = format!("ops::a_reorg_of_{group}_below_the_floor_halts_the_chain_until_an_operator_accepts_it");
        trials.push(node_trial(&name, &[node], move || too_deep(node)));
        let name = format!("ops::{group}_of_another_network_or_with_other_credentials_halts_the_chain_until_resumed");
        trials.push(node_trial(&name, &[node], move || wrong_node(node)));
    }
    trials.push(mount_trial("ops::a_full_disk_ends_the_instance_and_loses_nothing", &[Needs::Litecoind], full_disk));
    trials.push(mount_trial("ops::a_state_that_can_not_be_written_says_what_to_do", &[], read_only));
    trials
}

/// A trial that mounts a file system of its own, in a namespace that ends with it.
fn mount_trial<F>(name: &str, needs: &[Needs], test: fn() -> F) -> Trial
where
    F: Future<Output = Result<()>> + 'static,
{
    let probe = std::process::Command::new("unshare").args(["-m", "-p", "-f", "sh", "-c", "mount -t tmpfs none /mnt"]).output();
    let trial = node_trial(name, needs, test);
    if probe.is_ok_and(|output| output.status.success()) {
        return trial;
    }
    trial.with_kind("mounting is not permitted here").with_ignored_flag(true)
}

const UNREACHABLE: &str = "{ url = \"http://127.0.0.1:1\" }";

fn unreachable() -> Config {
    let chain = ChainSection::bitcoin(COINS, "litecoin-regtest", UNREACHABLE).confirmations("default = 1").reorg_depth(6);
    Config::new().chain(chain).sink(SinkSection::of_kind("screen", "stdout"))
}

/// The command is refused with every part on stderr, or on stdout for `check`.
async fn refused(service: &Service, args: &[&str], parts: &[&str]) -> Result<()> {
    let (code, stdout, stderr) = service.attempt(args).await?;
    ensure!(code == Some(1), "{args:?} ends with {code:?}\n{stdout}{stderr}");
    let text = stdout + &stderr;
    for part in parts {
        ensure!(text.contains(part), "{args:?}: {part:?} is not in\n{text}");
    }
    Ok(())
}

async fn never_made() -> Result<()> {
    let mut service = Service::new(&unreachable())?;
    refused(&service, &["run"], &["state", "no confirmd state", "--init", "state.path"]).await?;
    refused(&service, &["status"], &["--init"]).await?;
    ensure!(!service.instance().dir().join("state").exists(), "a refused start made a state");
    service.run().await?;
    service.terminate().await?;
    // The volume is gone.
    std::fs::remove_dir_all(service.instance().dir().join("state"))?;
    refused(&service, &["run"], &["--init", "mount"]).await
}

async fn no_folder() -> Result<()> {
    let service = Service::new(&unreachable())?;
    let at = |path: &str| {
        let path = path.to_owned();
        move |folder: &Path| {
            unreachable().render(folder).replace(&format!("path = {:?}", folder.join("state")), &format!("path = {path:?}"))
        }
    };
    let mut service = service;
    service.instance().configure(at("./confirmd.toml"))?;
    refused(&service, &["run", "--init"], &["confirmd.toml", "`state.path` must name a directory"]).await?;
    service.instance().configure(at("./confirmd.toml/state"))?;
    refused(&service, &["run", "--init"], &["confirmd.toml/state", "`state.path` must name a directory"]).await?;
    service.instance().configure(at("./not/there/state"))?;
    refused(&service, &["run", "--init"], &["not/there/state", "create the directory above it", "`state.path`"]).await
}

async fn sink_refuses() -> Result<()> {
    let config = unreachable().sink(SinkSection::of_kind("archive", "file").line("path = \"./missing/events.jsonl\""));
    let service = Service::new(&config)?;
    refused(&service, &["run", "--init"], &["sinks.archive", "./missing", "refuses to start", "nothing is lost"]).await?;
    refused(&service, &["check"], &["archive sink", "./missing", "refuses to start"]).await
}

async fn stage(customer_is_down: bool) -> Result<(UtxoStage, String)> {
    let node = utxo_node(Needs::Litecoind, FamilyOptions::default()).await?;
    let address = node.new_address().await?;
    let stage = UtxoStage::set(node, UtxoPlan { watch: vec![address.clone()], ..UtxoPlan::default() }).await?;
    if customer_is_down {
        stage.customer.receiver().down().await?;
    }
    Ok((stage, address))
}

async fn in_use() -> Result<()> {
    let (mut stage, address) = stage(false).await?;
    let pid = stage.service.instance().pid()?.to_string();
    refused(&stage.service, &["run"], &["in use", "state", &format!("process {pid}"), "stop it first"]).await?;
    refused(&stage.service, &["consumer", "purge", "ledger", "--yes"], &["an instance runs", "stop it"]).await?;
    stage.pay(&address, 1_000_000).await?;
    stage.node.mine(1).await?;
    ensure!(stage.audit().await? == 1);
    Ok(())
}

async fn damaged() -> Result<()> {
    let (mut stage, address) = stage(false).await?;
    stage.pay(&address, 1_000_000).await?;
    stage.node.mine(1).await?;
    stage.told().await?;
    stage.service.terminate().await?;
    let state = stage.service.instance().dir().join("state");
    for file in ["db", "commits", "conf"] {
        let path = state.join(file);
        let whole = std::fs::read(&path)?;
        let flipped: Vec<u8> = whole.iter().map(|byte| byte ^ 0x55).collect();
        std::fs::write(&path, flipped)?;
        let said = ["damage", "put a copy back", "--restored", "start anew with --init"];
        refused(&stage.service, &["run"], &said).await?;
        refused(&stage.service, &["check"], &["FAIL  state", "damage", "put a copy back"]).await?;
        std::fs::write(&path, whole)?;
    }
    std::fs::rename(state.join("db"), state.join("aside"))?;
    refused(&stage.service, &["run", "--init"], &["lost its file `db`", "put a copy back"]).await?;
    std::fs::rename(state.join("aside"), state.join("db"))?;
    // Nothing of it was touched.
    stage.service.run().await?;
    ensure!(stage.audit().await? == 1);
    stage.customer.ensure_once()
}

async fn consumer_left() -> Result<()> {
    let (mut stage, address) = stage(true).await?;
    stage.pay(&address, 1_000_000).await?;
    stage.node.mine(1).await?;
    stage.service.until_consumer("ledger", "an event waits", |ledger| ledger["waiting"] == 1).await?;
    stage.service.terminate().await?;
    let other = Customer::start().await?;
    stage.service.configure(&stage.config_for("books", &other))?;
    let said = ["sinks.ledger", "1 undelivered", "consumer rename ledger", "consumer purge ledger"];
    refused(&stage.service, &["run"], &said).await?;
    refused(&stage.service, &["check"], &said).await?;
    stage.service.command(&["consumer", "rename", "ledger", "books"]).await?;
    stage.service.run().await?;
    other.until("the event of the consumer's old name", SOON, |ledger, _| ledger.moves() == 1).await?;
    stage.service.until_consumer("books", "nothing waits", |books| books["waiting"] == 0).await?;

    // Given up, on record.
    other.receiver().down().await?;
    stage.pay(&address, 2_000_000).await?;
    stage.node.mine(1).await?;
    stage.service.until_consumer("books", "an event waits", |books| books["waiting"] == 1).await?;
    stage.service.terminate().await?;
    stage.service.configure(&stage.config_for("third", &other))?;
    refused(&stage.service, &["run"], &["sinks.books", "1 undelivered"]).await?;
    refused(&stage.service, &["consumer", "purge", "books"], &["1 undelivered", "--yes"]).await?;
    stage.service.command(&["consumer", "purge", "books", "--yes"]).await?;
    // A consumer that comes late to a state with events says where it begins.
    refused(&stage.service, &["run"], &["sinks.third", "start", "now", "beginning"]).await?;
    other.ensure_sound()
}

async fn network_changed() -> Result<()> {
    let (mut stage, address) = stage(false).await?;
    stage.pay(&address, 1_000_000).await?;
    stage.node.mine(1).await?;
    stage.told().await?;
    stage.service.terminate().await?;
    let endpoint = UtxoStage::endpoint(&stage.node);
    let chain = ChainSection::bitcoin(COINS, "regtest", &endpoint).confirmations("default = 1").reorg_depth(6);
    let config = Config::new().chain(chain).sink(SinkSection::webhook("ledger", &stage.customer.url()));
    stage.service.configure(&config)?;
    let said = ["chains.coins", "bip122:0f9188f1", stage.chain(), "set the network back", "state.path"];
    refused(&stage.service, &["run"], &said).await?;
    refused(&stage.service, &["check"], &said).await?;
    stage.service.configure(&stage.config())?;
    stage.service.run().await?;
    ensure!(stage.audit().await? == 1);
    stage.customer.ensure_once()
}

/// The operator's way through: `check` names what is wrong, the running instance halts that chain, and once it is
/// mended `chain resume` goes on.
async fn wrong_node(kind: Needs) -> Result<()> {
    let node = utxo_node(kind, FamilyOptions::default()).await?;
    let address = node.new_address().await?;
    let mut stage = UtxoStage::prepared(node, UtxoPlan { watch: vec![address.clone()], ..UtxoPlan::default() }).await?;
    let other = if kind == Needs::Knots { "litecoin-regtest" } else { "regtest" };
    let chain =
        ChainSection::bitcoin(COINS, other, &UtxoStage::endpoint(&stage.node)).confirmations("default = 1").reorg_depth(6);
    stage.service.configure(&Config::new().chain(chain))?;
    refused(&stage.service, &["check"], &["FAIL  coins network", stage.chain(), "chains.coins.rpc"]).await?;
    stage.service.run().await?;
    let halted = |chain: &serde_json::Value| chain["phase"] == "halted";
    let chain = stage.service.until_chain(COINS, "halted", halted).await?;
    let alarm = chain["alarm"].as_str().unwrap_or_default();
    ensure!(alarm.contains(stage.chain()) && alarm.contains("confirmd chain resume coins"), "{alarm}");
    stage.service.terminate().await?;

    // Another state, the right network, the wrong password.
    std::fs::remove_dir_all(stage.service.instance().dir().join("state"))?;
    stage.service.configure(&stage.config())?;
    stage.service.instance().env(NODE_PASSWORD_ENV, "battery-staple");
    refused(&stage.service, &["check"], &["FAIL  coins network", "password"]).await?;
    stage.service.run().await?;
    let chain = stage.service.until_chain(COINS, "halted", halted).await?;
    let alarm = chain["alarm"].as_str().unwrap_or_default();
    ensure!(alarm.contains("password") && alarm.contains("confirmd chain resume coins"), "{alarm}");
    let (_, check, more) = stage.service.attempt(&["check"]).await?;
    for text in [&stage.service.log(), &check, &more, &chain.to_string()] {
        ensure!(!text.contains("battery-staple"), "the password is shown: {text}");
    }
    stage.service.terminate().await?;
    stage.service.instance().env(NODE_PASSWORD_ENV, stage.node.credentials().1);
    stage.service.run().await?;
    stage.service.until_chain(COINS, "still halted", halted).await?;
    stage.service.command(&["chain", "resume", COINS]).await?;
    stage.told().await?;
    stage.pay(&address, 1_000_000).await?;
    stage.node.mine(1).await?;
    ensure!(stage.audit().await? == 1);
    stage.customer.ensure_once()
}

async fn too_deep(kind: Needs) -> Result<()> {
    let node = utxo_node(kind, FamilyOptions::default()).await?;
    let address = node.new_address().await?;
    let plan = UtxoPlan { reorg_depth: 3, watch: vec![address.clone()], ..UtxoPlan::default() };
    let mut stage = UtxoStage::set(node, plan).await?;
    let halted = |chain: &serde_json::Value| chain["phase"] == "halted";
    for revert_settled in [false, true] {
        let deposit = stage.pay(&address, 1_000_000).await?;
        stage.node.mine(6).await?;
        stage.told().await?;
        let thief = stage.node.new_address().await?;
        stage.node.reorg_double_spend(6, &deposit.0, &thief).await?;
        let chain = stage.service.until_chain(COINS, "halted", halted).await?;
        let alarm = chain["alarm"].as_str().unwrap_or_default();
        ensure!(alarm.contains("floor") && alarm.contains("confirmd chain resume coins --accept-reorg"), "{alarm}");
        stage.service.kill_and_run().await?;
        stage.service.until_chain(COINS, "still halted", halted).await?;
        stage.ensure_history(&deposit.0, deposit.1, &[1])?;
        let mut resume = vec!["chain", "resume", COINS, "--accept-reorg"];
        refused(&stage.service, &resume, &["halted", "--yes"]).await?;
        resume.extend(if revert_settled { ["--yes", "--revert-settled"].as_slice() } else { &["--yes"] });
        let said = stage.service.command(&resume).await?;
        ensure!(said.contains(&deposit.0), "{said}");
        stage.told().await?;
        stage.ensure_history(&deposit.0, deposit.1, if revert_settled { &[1, 2] } else { &[1] })?;
    }
    stage.customer.ensure_once()
}

async fn fullest_log() -> Result<()> {
    let (mut stage, address) = stage(false).await?;
    stage.service.terminate().await?;
    stage.service.instance().env("CONFIRMD_LOG", "trace");
    stage.service.run().await?;
    stage.pay(&address, 1_000_000).await?;
    stage.node.mine(1).await?;
    ensure!(stage.audit().await? == 1);
    stage.service.terminate().await?;
    let log = stage.service.log();
    ensure!(log.contains("TRACE"), "the log is not full");
    let (user, password) = stage.node.credentials();
    let basic = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
    let [(_, secret), _] = stage.environment();
    for secret in [password, &basic, secret, secret.trim_start_matches("whsec_")] {
        let line = log.lines().find(|line| line.contains(secret));
        ensure!(line.is_none(), "a secret is in the log: {line:?}");
    }
    Ok(())
}

/// An instance whose program is a shell in a mount namespace: `$CONFIRMD` is the program under test.
fn in_namespace(config: &Config, state: &str) -> Result<Instance> {
    let mut instance = Instance::of_program(Path::new("unshare"), |folder| {
        config.render(folder).replace(&format!("path = {:?}", folder.join("state")), &format!("path = {state:?}"))
    })?;
    instance.env("CONFIRMD", confirmd()?).env("NO_COLOR", "1").env("CONFIRMD_LOG", "info");
    std::fs::create_dir(instance.dir().join("disk"))?;
    Ok(instance)
}

const NAMESPACE: [&str; 6] = ["--mount", "--pid", "--fork", "--kill-child", "sh", "-c"];

async fn read_only() -> Result<()> {
    let mut instance = in_namespace(&unreachable(), "./disk/state")?;
    let script = "mount -t tmpfs -o ro none disk && exec \"$CONFIRMD\" run --init";
    let args: Vec<&str> = NAMESPACE.into_iter().chain([script]).collect();
    instance.start(&args)?;
    let code = instance.wait(SOON).await?.code();
    let text = instance.stderr()?.until_end(SOON).await?.join("\n");
    ensure!(code == Some(1), "{code:?}: {text}");
    for part in ["disk/state", "writable for the user confirmd runs as"] {
        ensure!(text.contains(part), "{part:?} is not in {text}");
    }
    Ok(())
}

/// The disk fills up under a running instance; with room again nothing is missing and nothing is told twice.
async fn full_disk() -> Result<()> {
    let node = utxo_node(Needs::Litecoind, FamilyOptions::default()).await?;
    let address = node.new_address().await?;
    let stage = UtxoStage::prepared(node, UtxoPlan { watch: vec![address.clone()], ..UtxoPlan::default() }).await?;
    let mut instance = in_namespace(&stage.config(), "./disk/state")?;
    for (name, value) in stage.environment() {
        instance.env(name, value);
    }
    let fifo = instance.dir().join("fill");
    ensure!(std::process::Command::new("mkfifo").arg(&fifo).status()?.success(), "mkfifo failed");
    let script = "mount -t tmpfs -o size=16m none disk || exit 77
        head -c 20m /dev/zero >disk/filler 2>/dev/null
        \"$CONFIRMD\" run --init; echo \"first $?\"
        rm disk/filler
        \"$CONFIRMD\" run --init & pid=$!
        read _ <fill
        head -c 20m /dev/zero >disk/filler 2>/dev/null; echo full
        wait $pid; echo \"second $?\"
        rm disk/filler
        exec \"$CONFIRMD\" run";
    let args: Vec<&str> = NAMESPACE.into_iter().chain([script]).collect();
    instance.start(&args)?;
    let stdout = instance.stdout()?.clone();
    let stderr = instance.stderr()?.clone();
    let code = stdout.wait_for("the end of a start without room", SOON, |line| line.starts_with("first")).await?;
    let refusal = stderr.all().join("\n");
    ensure!(code == "first 1", "{code}: {refusal}");
    ensure!(refusal.contains("the disk is full") && refusal.contains("make room"), "{refusal}");

    stderr.wait_for("the start", SOON, |line| line.contains("watching begins")).await?;
    let before = stage.pay(&address, 1_000_000).await?;
    stage.node.mine(1).await?;
    stage.until_at(&before.0, before.1, (1, true)).await?;
    std::fs::write(&fifo, "now\n")?;
    stdout.wait_for("a full disk", SOON, |line| line == "full").await?;
    // Far more than fits into what the database has set aside.
    let mut paid = 1;
    let mark = stderr.count();
    let noticed = || stderr.all().iter().skip(mark).any(|line| line.contains("ERROR"));
    while !noticed() {
        ensure!(paid < 10_000, "the instance did not mind a full disk:\n{}", stderr.all().join("\n"));
        stage.node.pay_many(&[(address.as_str(), 20_000); 100]).await?;
        stage.node.mine(1).await?;
        paid += 100;
    }
    let code = stdout.wait_for("the end without room", SOON, |line| line.starts_with("second")).await;
    let log = || stderr.all().into_iter().skip(mark).collect::<Vec<_>>().join("\n");
    let code = code.with_context(log)?;
    ensure!(code == "second 1", "{code}: {}", log());
    for part in ["the disk is full: make room and start again", "No space left"] {
        ensure!(log().contains(part), "{part:?} is not in {}", log());
    }
    stderr.wait_after(mark, "the start with room", SOON, |line| line.contains("confirmd runs")).await?;
    let credited = |ledger: &confirmd_testkit::receiver::Ledger| ledger.rows().len();
    stage.customer.until("every deposit", SOON, |ledger, _| credited(ledger) == paid).await?;
    let ledger = stage.customer.ledger();
    let due = stage.due().await?;
    ensure!(due.len() == paid && ledger.rows().keys().all(|key| due.contains_key(&(key.tx_id.clone(), key.output_index))));
    stage.customer.ensure_sound().context("after the disk was full")
}
