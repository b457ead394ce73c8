//! `confirmd state import` into PostgreSQL, killed at every statement: there is no state or the whole one, and the same command begins again.

use super::fleet::PASSWORD_ENV;
use super::page;
use crate::evm_world::{ALICE, BOB, World, bare_chain, ledger, pay};
use anyhow::{Context, Result, ensure};
use e2e::{At, Config, Cut, Postgres, SOON, Service, WireProxy};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio_postgres::Client;

const SETTLE: std::time::Duration = std::time::Duration::from_millis(5);

/// What is left in the database.
#[derive(Debug, PartialEq, Eq)]
enum Left {
    Nothing,
    Tables,
    State,
}

/// Imports into the database of the page, as its role, which may make no schema.
struct Desk {
    place: Service,
    proxy: WireProxy,
    admin: Client,
    dump: String,
}

impl Desk {
    /// Whether the import was killed behind a statement; it ended by itself if it has fewer. How many it has is not quite constant: what
    /// was prepared is closed when there is time for it.
    async fn killed_behind(&mut self, at: At) -> Result<bool> {
        let victim = Arc::new(AtomicU32::new(0));
        let pid = Arc::clone(&victim);
        self.proxy.cut_and(at.clone(), Cut::After, move || {
            while pid.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            drop(Command::new("sh").args(["-c", &format!("kill -KILL {}", pid.load(Ordering::SeqCst))]).status());
        });
        let config = self.place.instance().config();
        let config = config.to_str().context("a path")?;
        self.place.instance().start(&["--config", config, "state", "import", &self.dump])?;
        victim.store(self.place.instance().pid()?, Ordering::SeqCst);
        let status = self.place.instance().wait(SOON).await?;
        let cut = self.proxy.cuts() > 0;
        self.proxy.repair();
        ensure!(status.success() || cut, "{at:?}: {status}\n{}", self.place.log());
        Ok(!status.success())
    }

    /// Once the server has noticed that the process is gone.
    async fn left(&self) -> Result<Left> {
        let sessions = "select 1 from pg_stat_activity where usename = 'confirmd_state'";
        while !self.admin.query(sessions, &[]).await?.is_empty() {
            tokio::time::sleep(SETTLE).await;
        }
        let there = self.admin.query_one("select to_regclass('confirmd_state.meta') is not null", &[]).await?;
        if !there.get::<_, bool>(0) {
            return Ok(Left::Nothing);
        }
        let states: i64 = self.admin.query_one("select count(*) from confirmd_state.meta", &[]).await?.get(0);
        if states > 0 {
            return Ok(Left::State);
        }
        for table in ["chain", "event", "watch", "consumer", "deposit", "rescan"] {
            let rows: i64 = self.admin.query_one(&format!("select count(*) from confirmd_state.{table}"), &[]).await?.get(0);
            ensure!(rows == 0, "{rows} rows of {table} are left");
        }
        Ok(Left::Tables)
    }
}

/// A dump with deposits in several parts of their lives, one of them taken back.
async fn dump(world: &mut World) -> Result<String> {
    pay(&world.anvil, 1, ALICE, 11).await?;
    world.mine(16).await?;
    pay(&world.anvil, 2, BOB, 3).await?;
    world.mine(2).await?;
    world.anvil.reorg(2, &[]).await?;
    pay(&world.anvil, 3, BOB, 13).await?;
    world.mine(4).await?;
    world.service.terminate().await?;
    let file = world.service.instance_dir().join("dump");
    let file = file.to_str().context("a path")?.to_owned();
    world.service.command(&["state", "export", &file]).await?;
    Ok(file)
}

fn records(file: &Path) -> Result<Vec<String>> {
    Ok(std::fs::read_to_string(file)?.lines().skip(1).map(str::to_owned).collect())
}

pub(super) async fn killed() -> Result<()> {
    let mut world = World::start("default = 2", 12).await?;
    let dump = dump(&mut world).await?;
    let cluster = Postgres::start().await?;
    let admin = page::prepared(&cluster).await?;
    let proxy = WireProxy::start(cluster.port()).await?;
    let state = page::state(&cluster)?;
    ensure!(state.contains(&cluster.port().to_string()), "{state}");
    let state = state.replace(&cluster.port().to_string(), &proxy.port().to_string());
    let config = |schema: &str| {
        let chain = bare_chain(&world.anvil, "default = 2", 12);
        Config::new().chain(chain).sink(ledger(&world.customer)).state(&state.replace("\"confirmd_state\"", schema))
    };
    let mut place = Service::new(&config("\"of_somebody_else\""))?;
    place.instance().env(PASSWORD_ENV, Postgres::SUPERUSER.1);
    let (code, _, said) = place.attempt(&["state", "import", &dump]).await?;
    ensure!(code == Some(1) && said.contains("docs/postgres.md"), "without a schema and the right to make one: {said}");
    place.configure(&config("\"confirmd_state\""))?;

    let mut desk = Desk { place, proxy, admin, dump };
    // The tables are made; once they are there, what follows is counted from the beginning again.
    let (mut making, mut filling) = (0, 0);
    let mut left = Left::Nothing;
    while left == Left::Nothing {
        making += 1;
        ensure!(desk.killed_behind(At::Statement(making)).await?, "an import has fewer than {making} statements");
        left = desk.left().await?;
    }
    while left == Left::Tables && desk.killed_behind(At::Statement(filling + 1)).await? {
        filling += 1;
        left = desk.left().await?;
    }
    ensure!(making > 3 && filling > 30, "{making} statements make tables, {filling} fill them");
    eprintln!("an import was killed behind each of {making} statements that make tables and {filling} that fill them");
    // Whichever was the last one: now it is the commit itself.
    let again = "drop schema confirmd_state cascade; create schema confirmd_state authorization confirmd_state";
    desk.admin.batch_execute(again).await?;
    ensure!(desk.killed_behind(At::Text("commit\0")).await?, "an import has no commit");
    ensure!(desk.left().await? == Left::State, "what was committed is not there");
    // Killed behind its commit: the state is whole, and not imported twice.
    let (code, _, said) = desk.place.attempt(&["state", "import", &desk.dump]).await?;
    ensure!(code == Some(1) && said.contains("holds a state already"), "{said}");
    let again = desk.place.instance_dir().join("again");
    desk.place.command(&["state", "export", again.to_str().context("a path")?]).await?;
    ensure!(records(&again)? == records(Path::new(&desk.dump))?, "another state came of it");
    desk.place.command(&["state", "verify"]).await?;

    // It goes on, and repeats nothing.
    desk.place.run().await?;
    world.service = desk.place;
    pay(&world.anvil, 1, BOB, 5).await?;
    world.mine(2).await?;
    world.ensure_books_match().await?;
    world.customer.ensure_once()
}
