//! Imports that are refused leave no state behind, and say what to do.

use super::desk::{export, import, in_postgres, lines, place, refused, text, verify};
use crate::evm_world::{ALICE, BOB, World, bare_chain, ledger, pay};
use crate::postgres_sink::shop;
use anyhow::{Result, ensure};
use e2e::{Config, Postgres};
use std::path::Path;

/// One way to spoil a dump, and what is said then.
type Way = (&'static str, fn(Vec<String>) -> Vec<String>, &'static str);

const WAYS: &[Way] = &[
    ("cut in the middle of a line", cut_within, "cut off"),
    ("cut between two lines", |lines| lines[..lines.len() / 2].to_vec(), "cut off"),
    ("without its last line", |lines| lines[..lines.len() - 1].to_vec(), "cut off"),
    ("two lines swapped", swapped, "damaged in line"),
    ("a line left out", left_out, "damaged in line"),
    ("an amount altered", altered, "checksum"),
    (
        "another number of records",
        |lines| lines.iter().map(|line| line.replace("\"store\":1", "\"store\":2")).collect(),
        "numbers of records",
    ),
    (
        "of a later format",
        |lines| lines.iter().map(|line| line.replace("\"format\":1", "\"format\":2")).collect(),
        "or a newer one",
    ),
    (
        "an altered head",
        |lines| lines.iter().map(|line| line.replace("\"sled\"", "\"mem\"")).collect(),
        "head is not what was written",
    ),
    ("nothing", |_| Vec::new(), "not a dump"),
];

fn cut_within(lines: Vec<String>) -> Vec<String> {
    let mut kept = lines[..lines.len() / 2].to_vec();
    if let Some(last) = kept.last_mut() {
        last.truncate(last.len() / 2);
    }
    kept
}

fn swapped(mut lines: Vec<String>) -> Vec<String> {
    let middle = lines.len() / 2;
    lines.swap(middle, middle + 1);
    lines
}

fn left_out(mut lines: Vec<String>) -> Vec<String> {
    lines.remove(lines.len() / 2);
    lines
}

fn altered(lines: Vec<String>) -> Vec<String> {
    lines.iter().map(|line| line.replace("\"amount\":\"5\"", "\"amount\":\"6\"")).collect()
}

pub(super) async fn hostile() -> Result<()> {
    let mut world = World::start("default = 1", 12).await?;
    for _ in 0..2 {
        pay(&world.anvil, 1, ALICE, 5).await?;
        world.mine(1).await?;
    }
    world.service.terminate().await?;
    let whole = export(&world.service, "whole").await?;
    let config = Config::new().chain(bare_chain(&world.anvil, "default = 1", 12)).sink(ledger(&world.customer));
    let cluster = Postgres::start().await?;
    for place in [place(&config)?, place(&in_postgres(config, &cluster))?] {
        for (what, spoil, why) in WAYS {
            let spoilt = world.service.instance_dir().join("spoilt");
            let mut text = spoil(lines(&whole)?).join("\n");
            if !text.is_empty() && *what != "cut in the middle of a line" {
                text.push('\n');
            }
            std::fs::write(&spoilt, text)?;
            ensure!(lines(&spoilt)? != lines(&whole)?, "{what}: nothing was spoilt");
            refused(&place, &spoilt, &[], &[why]).await.map_err(|error| error.context(*what))?;
        }
        refused(&place, Path::new("/not/there"), &[], &["/not/there"]).await?;
        import(&place, &whole, &[]).await?;
        verify(&place).await?;
    }
    Ok(())
}

pub(super) async fn left_alone() -> Result<()> {
    let mut world = World::start("default = 1", 12).await?;
    pay(&world.anvil, 1, BOB, 5).await?;
    world.mine(1).await?;
    let file = export(&world.service, "dump").await?;
    let before = lines(&file)?;
    let (code, _, said) = world.service.attempt(&["state", "export", text(&file)?]).await?;
    ensure!(code == Some(1) && said.contains("is there already"), "{said}");
    ensure!(lines(&file)? == before, "the file was written over");
    let folder = world.service.instance_dir().join("not/there/dump");
    let (code, _, said) = world.service.attempt(&["state", "export", text(&folder)?]).await?;
    ensure!(code == Some(1) && said.contains("not/there"), "{said}");
    // A state that runs, and one that does not.
    for _ in 0..2 {
        let (code, _, said) = world.service.attempt(&["state", "import", text(&file)?, "--restored"]).await?;
        ensure!(code == Some(1) && said.contains("holds a state already") && said.contains("move it away"), "{said}");
        if world.service.get("/healthz").await.is_ok() {
            world.service.terminate().await?;
        }
    }
    world.service.run().await?;
    world.mine(1).await?;
    world.ensure_books_match().await
}

pub(super) async fn behind_a_sink() -> Result<()> {
    let mut shop = shop().await?;
    shop.pay(ALICE, 100).await?;
    shop.told().await?;
    shop.service.terminate().await?;
    let state = shop.service.instance_dir().join("state");
    let old = export(&shop.service, "old").await?;

    // The state goes on; the dump is an older copy of it.
    shop.service.run().await?;
    shop.pay(ALICE, 20).await?;
    let gone = pay(&shop.anvil, 2, BOB, 3).await?;
    shop.anvil.mine(2).await?;
    shop.told().await?;
    shop.service.terminate().await?;
    let new = export(&shop.service, "new").await?;
    std::fs::rename(&state, shop.service.instance_dir().join("aside"))?;
    refused(&shop.service, &old, &[], &["sinks.ledger", "does not hold", "export again", "--restored"]).await?;

    // The newest dump is a move.
    import(&shop.service, &new, &[]).await?;
    shop.service.run().await?;
    shop.pay(BOB, 9).await?;
    shop.told().await?;
    shop.ensure_right().await?;
    ensure!(!shop.service.log().contains("older copy"), "{}", shop.service.log());
    shop.service.terminate().await?;

    // All that is left is the old dump, and a deposit leaves the chain while nobody looks.
    std::fs::remove_dir_all(&state)?;
    let height = shop.anvil.position(&gone).await?.map(|place| place.block.height).unwrap_or_default();
    shop.anvil.reorg(shop.anvil.tip().await?.height - height + 1, &[]).await?;
    shop.anvil.mine(3).await?;
    import(&shop.service, &old, &["--restored"]).await?;
    shop.service.run().await?;
    shop.told().await?;
    shop.ensure_right().await?;
    ensure!(shop.service.log().contains("older copy"), "{}", shop.service.log());
    shop.service.terminate().await?;

    // Of another state nothing fits.
    std::fs::remove_dir_all(&state)?;
    let admin = shop.admin().await?;
    admin.execute("update confirmd.consumer set store = repeat('0', 32)", &[]).await?;
    refused(&shop.service, &new, &[], &["sinks.ledger", "fed by the state 0000", "consumer adopt ledger"]).await
}
