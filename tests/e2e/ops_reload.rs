//! The configuration, taken over again while the instance runs: all of it or nothing, and only what changed is touched.

use std::time::Duration;

use anyhow::{Result, ensure};
use confirmd_testkit::receiver::Behaviour;
use e2e::{Config, Customer, Needs, SOON, SinkSection, node_trial};
use libtest_mimic::Trial;

use crate::evm_world::{ALICE, BOB, CHAIN, World, chain, ledger, pay, stage};

pub(crate) fn trials() -> Vec<Trial> {
    let needs = &[Needs::Anvil];
    vec![
        node_trial("ops_reload::a_wrong_url_is_corrected_and_what_died_meanwhile_arrives_after_a_requeue", needs, wrong_url),
        node_trial("ops_reload::a_changed_depth_applies_to_pending_deposits_at_once_and_re_decides_nothing", needs, depth),
        node_trial("ops_reload::a_broken_file_is_refused_by_key_and_everything_goes_on_as_it_was", needs, broken),
        node_trial("ops_reload::a_rotated_secret_is_read_again_and_what_did_not_change_is_not_touched", needs, secret),
        node_trial("ops_reload::nothing_is_lost_or_repeated_by_reloads_with_events_in_flight", needs, in_flight),
        node_trial("ops_reload::consumers_are_added_and_removed_and_a_hanging_one_is_not_disturbed", needs, sinks),
    ]
}

const TAKEN_OVER: &str = "the configuration was taken over";
const REFUSED: &str = "the configuration is refused";

/// SIGHUP, and waits until the log says what came of it.
async fn hang_up(world: &mut World, outcome: &str) -> Result<()> {
    let mark = world.service.instance().stderr()?.all().len();
    world.service.instance().signal("HUP")?;
    world.service.instance().stderr()?.wait_after(mark, outcome, SOON, |line| line.contains(outcome)).await?;
    Ok(())
}

fn one_sink(world: &World, policy: &str, sink: SinkSection) -> Config {
    Config::new().chain(chain(&world.anvil, &world.token, policy, 8)).sink(sink)
}

async fn wrong_url() -> Result<()> {
    let (anvil, token, customer) = stage().await?;
    // Nobody listens there.
    let wrong = SinkSection::webhook("ledger", "http://127.0.0.1:1/hooks").retry(&["50ms"]);
    let config = Config::new().chain(chain(&anvil, &token, "default = 1", 8)).sink(wrong);
    let mut world = World::of(anvil, token, customer, &config).await?;
    let paid = pay(&world.anvil, 1, ALICE, 5).await?;
    world.anvil.mine(1).await?;
    world.service.until_consumer("ledger", "a dead letter", |consumer| consumer["dead"] == 1).await?;
    world.service.configure(&one_sink(&world, "default = 1", ledger(&world.customer)))?;
    hang_up(&mut world, TAKEN_OVER).await?;
    ensure!(world.customer.receiver().requests().is_empty(), "a reload requeues nothing");
    world.service.command(&["deliveries", "requeue", "ledger", "--all-dead"]).await?;
    world.told().await?;
    ensure!(world.history(&paid, 0) == [1], "{}", world.customer.describe());
    world.ensure_books_match().await
}

async fn depth() -> Result<()> {
    let mut world = World::start("default = 5", 8).await?;
    let paid = pay(&world.anvil, 1, ALICE, 5).await?;
    let tip = world.mine(1).await?;
    let chain = world.service.chain("devnet").await?;
    ensure!(chain["pending"] == 1 && world.history(&paid, 0).is_empty(), "{chain}");
    world.service.configure(&one_sink(&world, "default = 1", ledger(&world.customer)))?;
    let told = world.service.command(&["reload"]).await?;
    ensure!(told == "chains.devnet: changed\n", "{told}");
    // No block came meanwhile.
    world.until(&paid, 0, 1).await?;
    ensure!(world.anvil.tip().await? == tip);
    // Raised again: what was reported is not decided again, what comes now waits.
    world.service.configure(&one_sink(&world, "default = 4", ledger(&world.customer)))?;
    hang_up(&mut world, TAKEN_OVER).await?;
    let later = pay(&world.anvil, 2, BOB, 7).await?;
    world.mine(3).await?;
    ensure!(world.history(&paid, 0) == [1] && world.history(&later, 0).is_empty(), "{}", world.customer.describe());
    world.mine(1).await?;
    world.until(&later, 0, 1).await?;
    ensure!(world.history(&paid, 0) == [1], "{}", world.customer.describe());
    world.ensure_books_match().await
}

async fn broken() -> Result<()> {
    let mut world = World::start("default = 1", 8).await?;
    let good = one_sink(&world, "default = 1", ledger(&world.customer));
    let folder = world.service.instance_dir().to_owned();
    let text = good.render(&folder);
    let other = text.replace("/state\"", "/elsewhere\"");
    let token = "{ env = \"CONFIRMD_E2E_SECRET\" }";
    let cases = [
        (text.replace("poll_interval", "pol_interval"), "pol_interval"),
        (format!("{text}\nnonsense ="), "TOML"),
        (text.replace("CONFIRMD_E2E_SECRET", "CONFIRMD_E2E_NO_SECRET"), "CONFIRMD_E2E_NO_SECRET"),
        (other, "state.path: a change needs a restart"),
        (text.replace("[state]\n", "[state]\nhistory = \"30d\"\n"), "state.history: a change needs a restart"),
        (text.replace("[api]\n", &format!("[api]\nadmin_token = {token}\n")), "api.admin_token: a change needs a restart"),
        (text.replace("[api]\n", &format!("[api]\nread_token = {token}\n")), "api.read_token: a change needs a restart"),
        (text.replace("[api]", "[log]\nformat = \"json\"\n\n[api]"), "log.format: a change needs a restart"),
        (text.replace("default = 1", "default = 9"), "reorg_depth"),
    ];
    for (broken, names) in cases {
        ensure!(broken != text, "{names}");
        world.service.instance().configure(|_| broken)?;
        hang_up(&mut world, REFUSED).await?;
        let refused = world.service.status().await?["configuration"]["refused"]["problem"].clone();
        ensure!(refused.as_str().is_some_and(|text| text.contains(names)), "{names}: {refused}");
    }
    let (code, stdout, stderr) = world.service.attempt(&["reload"]).await?;
    ensure!(code == Some(1) && stderr.contains("reorg_depth") && stderr.contains("nothing was changed"), "{stdout}{stderr}");
    // The one before still holds.
    let paid = pay(&world.anvil, 1, ALICE, 5).await?;
    world.mine(1).await?;
    world.until(&paid, 0, 1).await?;
    world.service.configure(&good)?;
    let text = world.service.command(&["status"]).await?;
    ensure!(text.contains("refused") && text.contains("reorg_depth"), "{text}");
    ensure!(world.service.command(&["reload"]).await?.contains("nothing was changed"));
    ensure!(world.service.status().await?["configuration"]["refused"].is_null());
    world.ensure_books_match().await
}

async fn secret() -> Result<()> {
    const OLD: &str = "whsec_b2xkLXNlY3JldC1vZi1hLXRyaWFsLW9mLWNvbmZpcm1k";
    const NEW: &str = "whsec_bmV3LXNlY3JldC1vZi1hLXRyaWFsLW9mLWNvbmZpcm1k";
    let (anvil, token, _) = stage().await?;
    let customer = Customer::with_secret(NEW).await?;
    let files = e2e::scratch_dir()?;
    let file = files.path().join("secret");
    std::fs::write(&file, OLD)?;
    let rotated = SinkSection::of_kind("ledger", "webhook")
        .line(&format!("url = \"{}\"", customer.url()))
        .line(&format!("secret = {{ file = {file:?} }}"))
        .line("allow_private = [\"127.0.0.0/8\"]")
        .retry(&["100ms"; 60]);
    let config = Config::new().chain(chain(&anvil, &token, "default = 1", 8)).sink(rotated);
    let world = World::of(anvil, token, customer, &config).await?;
    let paid = pay(&world.anvil, 1, ALICE, 5).await?;
    world.anvil.mine(1).await?;
    world.service.until_consumer("ledger", "a retry", |consumer| consumer["retrying"] == 1).await?;
    ensure!(world.service.command(&["reload"]).await?.contains("nothing was changed"));
    std::fs::write(&file, format!("{NEW}\n"))?;
    let told = world.service.command(&["reload"]).await?;
    ensure!(told == "sinks.ledger: changed\n", "{told}");
    world.told().await?;
    // What was signed with the old one was refused, and so counts as a broken promise in this ledger.
    ensure!(world.history(&paid, 0) == [1], "{}", world.customer.describe());
    world.ensure_rows_match().await
}

async fn in_flight() -> Result<()> {
    let mut world = World::start("default = 1", 8).await?;
    world.customer.receiver().always(Behaviour::Delay(Duration::from_millis(150)));
    for round in 0..12_usize {
        for from in 1..5 {
            pay(&world.anvil, from, if from % 2 == 0 { ALICE } else { BOB }, 3).await?;
        }
        world.anvil.mine(1).await?;
        let (policy, concurrency) = (["default = 1", "default = 2"][round % 2], 1 + round % 4);
        let sink = ledger(&world.customer).line(&format!("concurrency = {concurrency}"));
        world.service.configure(&one_sink(&world, policy, sink))?;
        hang_up(&mut world, TAKEN_OVER).await?;
        if round == 5 {
            world.anvil.reorg(2, &[]).await?;
        }
    }
    world.customer.receiver().behave();
    world.mine(2).await?;
    ensure!(world.customer.ledger().rows().len() >= 40, "{}", world.customer.describe());
    world.ensure_books_match().await
}

async fn sinks() -> Result<()> {
    let world = World::start("default = 1", 8).await?;
    let (slow, late) = (Customer::start().await?, Customer::start().await?);
    let of = |world: &World, sinks: &[SinkSection]| {
        let base = one_sink(world, "default = 1", ledger(&world.customer));
        sinks.iter().fold(base, |config, sink| config.sink(sink.clone()))
    };
    let hanging = SinkSection::webhook("slow", &slow.url()).retry(&["100ms"; 60]);
    let first = pay(&world.anvil, 1, ALICE, 5).await?;
    world.mine(1).await?;
    // The state has events: whether a new consumer wants them must be said.
    world.service.configure(&of(&world, std::slice::from_ref(&hanging)))?;
    let (code, _, stderr) = world.service.attempt(&["reload"]).await?;
    ensure!(code == Some(1) && stderr.contains("sinks.slow") && stderr.contains("start"), "{stderr}");
    let hanging = hanging.line("start = \"now\"");
    world.service.configure(&of(&world, std::slice::from_ref(&hanging)))?;
    let told = world.service.command(&["reload"]).await?;
    ensure!(told == "sinks.slow: added\n", "{told}");

    // One request of it hangs. Neither that nor its pump is touched by what changes beside it.
    slow.receiver().always(Behaviour::Hang);
    let second = pay(&world.anvil, 2, BOB, 7).await?;
    world.anvil.mine(1).await?;
    slow.until("one request", SOON, |_, requests| requests.len() == 1).await?;
    let beginning = SinkSection::webhook("late", &late.url()).line("start = \"beginning\"");
    world.service.configure(&of(&world, &[hanging.clone(), beginning.clone()]))?;
    let began = std::time::Instant::now();
    let told = world.service.command(&["reload"]).await?;
    ensure!(told == "sinks.late: added\n" && began.elapsed() < Duration::from_secs(5), "{told} {:?}", began.elapsed());
    late.until_at(CHAIN, &first, 0, (1, true), SOON).await?;
    late.until_at(CHAIN, &second, 0, (1, true), SOON).await?;
    ensure!(slow.receiver().requests().len() == 1, "{}", slow.describe());

    // One with undelivered events can't go; one without can.
    world.service.configure(&of(&world, &[beginning]))?;
    let (code, _, stderr) = world.service.attempt(&["reload"]).await?;
    ensure!(code == Some(1) && stderr.contains("consumer purge slow"), "{stderr}");
    world.service.configure(&of(&world, &[hanging]))?;
    let told = world.service.command(&["reload"]).await?;
    ensure!(told == "sinks.late: removed\n", "{told}");
    let third = pay(&world.anvil, 3, ALICE, 9).await?;
    world.anvil.mine(1).await?;
    world.until(&third, 0, 1).await?;
    ensure!(late.history(CHAIN, &third, 0).is_empty(), "{}", late.describe());
    world.ensure_books_match().await
}
