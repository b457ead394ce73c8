//! `confirmd state verify`: a whole state, read and compared.

use anyhow::{Context, Result, ensure};
use confirmd_testkit::receiver::Behaviour;
use e2e::{Needs, node_trial};
use libtest_mimic::Trial;
use serde_json::Value;

use crate::evm_world::{ALICE, BOB, World, pay};

pub(crate) fn trials() -> Vec<Trial> {
    vec![node_trial(
        "ops_verify::a_state_with_reorgs_and_open_deliveries_agrees_with_itself_and_with_its_node_until_that_leaves",
        &[Needs::Anvil],
        agrees,
    )]
}

async fn verify(world: &World, more: &[&str]) -> Result<(Option<i32>, Value)> {
    let args = [&["state", "verify", "--json"], more].concat();
    let (code, stdout, stderr) = world.service.attempt(&args).await?;
    let report = serde_json::from_str(&stdout).with_context(|| format!("{args:?} prints {stdout}{stderr}"))?;
    Ok((code, report))
}

async fn agrees() -> Result<()> {
    let mut world = World::start("default = 2", 4).await?;
    let mut paid = Vec::new();
    for round in 0..8_usize {
        paid.push(pay(&world.anvil, 1, ALICE, 5).await?);
        world.mine(1).await?;
        if round == 4 {
            world.anvil.reorg(2, &[(&paid[3], 0), (&paid[4], 1)]).await?;
            world.mine(1).await?;
        }
    }
    world.customer.receiver().always(Behaviour::Status(500));
    pay(&world.anvil, 2, BOB, 7).await?;
    world.anvil.mine(2).await?;
    world.service.until_consumer("ledger", "something waits", |consumer| consumer["waiting"] != 0).await?;
    let (code, _, stderr) = world.service.attempt(&["state", "verify"]).await?;
    ensure!(code == Some(1) && stderr.contains("in use"), "{stderr}");

    world.service.terminate().await?;
    let (code, report) = verify(&world, &["--against-nodes"]).await?;
    ensure!(code == Some(0) && report["findings"] == serde_json::json!([]), "{report:#}");
    ensure!(report["events"].as_u64() >= Some(9) && report["deliveries"].as_u64() >= Some(1), "{report:#}");
    ensure!(report["held"].as_u64() >= Some(1) && report["blocks_compared"].as_u64() >= Some(5), "{report:#}");
    let text = world.service.command(&["state", "verify"]).await?;
    ensure!(text.contains("nothing is wrong") && text.contains("compared 0 blocks"), "{text}");

    // The node leaves what we recorded; the state still agrees with itself.
    world.anvil.reorg(2, &[]).await?;
    ensure!(verify(&world, &[]).await?.0 == Some(0));
    let (code, report) = verify(&world, &["--against-nodes"]).await?;
    let findings = report["findings"].as_array().context("no findings")?;
    ensure!(code == Some(1) && findings.len() == 2, "{report:#}");
    ensure!(findings.iter().all(|one| one.as_str().is_some_and(|one| one.contains("devnet: the trail has"))), "{report:#}");

    // Verifying changed nothing: the next start takes the reorg.
    world.customer.receiver().behave();
    world.service.run().await?;
    world.mine(2).await?;
    world.ensure_rows_match().await
}
