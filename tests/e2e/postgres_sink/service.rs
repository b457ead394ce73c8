//! The whole program: the operator's own ledger in the same transaction, whoever is killed; a state restored from a backup.

use super::bench::{self, DATABASE, PASSWORD, PASSWORD_ENV};
use crate::evm_world::{ALICE, BOB, NAME, balance, bare_chain, pay};
use anyhow::{Context, Result, ensure};
use e2e::{Anvil, Config, Needs, Postgres, Service, SinkSection, node_trial};
use libtest_mimic::Trial;
use std::path::Path;
use tokio_postgres::Client;

pub(crate) fn trials() -> Vec<Trial> {
    let needs = &[Needs::Anvil, Needs::Postgres];
    vec![
        node_trial("postgres_sink::k5_killed_confirmd_and_killed_postgres_credit_the_ledger_once", needs, killed),
        node_trial("postgres_sink::g7_a_state_restored_from_a_backup_takes_over_what_the_database_knows", needs, restored),
        node_trial("postgres_sink::a_second_state_is_refused_until_it_adopts_the_books", needs, adopted),
        node_trial(
            "postgres_sink::books_of_a_later_epoch_are_adopted_by_an_earlier_state_only_in_a_new_epoch",
            needs,
            adopted_back,
        ),
        node_trial("postgres_sink::k3_g8_a_deposit_whose_effect_is_refused_waits_alone_and_is_credited_once", needs, refused),
    ]
}

pub(crate) struct Shop {
    pub(crate) anvil: Anvil,
    pub(crate) cluster: Postgres,
    pub(crate) service: Service,
}

pub(crate) fn section(cluster: &Postgres) -> SinkSection {
    section_with(cluster, &["50ms"; 90])
}

fn section_with(cluster: &Postgres, waits: &[&str]) -> SinkSection {
    let section = SinkSection::of_kind("ledger", "postgres").retry(waits);
    bench::keys(cluster.port(), "5s").lines().fold(section, |section, line| section.line(line))
}

pub(super) fn config(anvil: &Anvil, cluster: &Postgres) -> Config {
    Config::new().chain(bare_chain(anvil, "default = 2", 12)).sink(section(cluster))
}

pub(crate) async fn shop() -> Result<Shop> {
    let anvil = Anvil::start().await?;
    anvil.mine(2).await?;
    let cluster = bench::cluster(&[]).await?;
    let mut service = Service::new(&config(&anvil, &cluster))?;
    service.instance().env(PASSWORD_ENV, PASSWORD);
    service.run().await?;
    let shop = Shop { anvil, cluster, service };
    shop.told().await?;
    Ok(shop)
}

impl Shop {
    pub(crate) async fn told(&self) -> Result<()> {
        self.service.until_told(NAME, &self.anvil.tip().await?).await.map(drop)
    }

    pub(crate) async fn admin(&self) -> Result<Client> {
        self.cluster.admin(DATABASE).await
    }

    /// The operator's ledger is what the chain says, and what the books say; no event was posted twice.
    pub(crate) async fn ensure_right(&self) -> Result<()> {
        let admin = self.admin().await?;
        for (address, account) in [(ALICE, "alice"), (BOB, "bob")] {
            let on_chain = balance(&self.anvil, address).await?.to_string();
            let ask = "select coalesce((select sum(amount) from ledger.posting where account = $1), 0)::text,
                coalesce((select sum(amount) from confirmd.deposit where reference = $1 and state = 'confirmed'), 0)::text";
            let row = admin.query_one(ask, &[&account]).await?;
            let (ledger, books) = (row.get::<_, String>(0), row.get::<_, String>(1));
            ensure!(
                ledger == on_chain && books == on_chain,
                "{account}: chain {on_chain}, ledger {ledger}, books {books}\n{}",
                self.service.log()
            );
        }
        let twice = admin.query("select event_id from ledger.posting group by 1 having count(*) > 1", &[]).await?;
        ensure!(twice.is_empty(), "posted twice: {twice:?}");
        Ok(())
    }

    /// What is paid is confirmed one block later.
    pub(crate) async fn pay(&self, to: &str, wei: u128) -> Result<String> {
        let paid = pay(&self.anvil, 1, to, wei).await?;
        self.anvil.mine(2).await?;
        Ok(paid)
    }
}

async fn killed() -> Result<()> {
    let mut shop = shop().await?;
    for round in 0..12_u64 {
        pay(&shop.anvil, 1, ALICE, 100 + u128::from(round)).await?;
        let raw = pay(&shop.anvil, 2, BOB, 7).await?;
        shop.anvil.mine(2).await?;
        tokio::time::sleep(std::time::Duration::from_millis(9 * round)).await;
        match round % 3 {
            0 => shop.service.kill_and_run().await?,
            1 => {
                shop.cluster.kill()?;
                shop.cluster.start_again().await?;
            }
            _ => {
                shop.cluster.kill()?;
                shop.service.kill_and_run().await?;
                shop.cluster.start_again().await?;
            }
        }
        if round == 6 {
            // Taken back, and on the chain again.
            shop.anvil.reorg(2, &[(&raw, 0)]).await?;
            shop.anvil.mine(3).await?;
        }
    }
    shop.told().await?;
    shop.ensure_right().await
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let _ = std::fs::remove_dir_all(to);
    let copied = std::process::Command::new("cp").arg("-a").arg(from).arg(to).status()?;
    ensure!(copied.success(), "cp: {copied}");
    Ok(())
}

async fn restored() -> Result<()> {
    let mut shop = shop().await?;
    let state = shop.service.instance().dir().join("state");
    let backup = shop.service.instance().dir().join("backup");
    let first = shop.pay(ALICE, 100).await?;
    shop.told().await?;
    shop.service.terminate().await?;
    copy(&state, &backup)?;

    // Life goes on: one deposit is confirmed, one is confirmed and taken back, one is confirmed twice.
    shop.service.run().await?;
    shop.pay(ALICE, 20).await?;
    let gone = pay(&shop.anvil, 2, BOB, 3).await?;
    shop.anvil.mine(2).await?;
    shop.told().await?;
    shop.ensure_right().await?;
    shop.service.terminate().await?;

    // The state is lost, and so is the branch with the deposit of Bob, while nobody looks.
    shop.anvil.reorg(2, &[]).await?;
    shop.anvil.mine(4).await?;
    ensure!(shop.anvil.position(&gone).await?.is_none(), "the payment is still on the chain");
    copy(&backup, &state)?;
    shop.service.run().await?;
    shop.told().await?;
    shop.ensure_right().await?;
    let log = shop.service.log();
    ensure!(log.contains("older copy"), "{log}");
    let admin = shop.admin().await?;
    let row = admin.query_one("select state, sequence, epoch from confirmd.deposit where tx_id = $1", &[&gone]).await?;
    ensure!(row.get::<_, &str>(0) == "reverted" && row.get::<_, i64>(1) == 2, "{row:?}");
    let epochs: i64 = admin.query_one("select count(distinct epoch) from confirmd.event", &[]).await?.get(0);
    ensure!(epochs == 2, "{epochs} epochs");
    // What the copy knew was not told again.
    let events: i64 = admin.query_one("select count(*) from confirmd.event where tx_id = $1", &[&first]).await?.get(0);
    ensure!(events == 1, "{events} events of the first deposit");

    // And it goes on, over another restart.
    shop.pay(BOB, 9).await?;
    shop.told().await?;
    shop.service.kill_and_run().await?;
    shop.pay(ALICE, 1).await?;
    shop.told().await?;
    ensure!(!shop.service.log().contains("older copy"), "{}", shop.service.log());
    shop.ensure_right().await
}

async fn adopted() -> Result<()> {
    let mut shop = shop().await?;
    shop.pay(ALICE, 100).await?;
    shop.told().await?;
    shop.service.terminate().await?;
    std::fs::remove_dir_all(shop.service.instance().dir().join("state"))?;
    later_than_the_books(&shop.admin().await?).await?;
    let (code, _, said) = shop.service.attempt(&["run", "--init"]).await?;
    ensure!(code == Some(1) && said.contains("confirmd consumer adopt ledger") && said.contains("two separate states"), "{said}");
    let (code, checked, _) = shop.service.attempt(&["check"]).await?;
    ensure!(code == Some(1) && checked.contains("consumer adopt ledger"), "{checked}");
    let (code, _, said) = shop.service.attempt(&["consumer", "adopt", "ledger"]).await?;
    ensure!(code == Some(1) && said.contains("--yes"), "{said}");
    let said = shop.service.command(&["consumer", "adopt", "ledger", "--yes"]).await?;
    ensure!(said.contains("before, to"), "{said}");
    shop.service.run().await?;
    shop.told().await?;
    shop.pay(BOB, 5).await?;
    shop.service.until_consumer("ledger", "nothing waits", |ledger| ledger["waiting"] == 0).await?;
    shop.told().await.context("after the adoption")?;
    shop.ensure_right().await?;
    Ok(())
}

/// A state begun from here on has a later epoch than the books have: epochs are the seconds of their beginning.
pub(super) async fn later_than_the_books(admin: &Client) -> Result<()> {
    let epoch: i64 = admin.query_one("select max(epoch) from confirmd.consumer", &[]).await?.get(0);
    let seconds = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map(|since| since.as_secs());
    while seconds()? <= u64::try_from(epoch)? {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    Ok(())
}

/// The books are given to a state that is begun anew; it runs.
pub(super) async fn begin_anew(shop: &mut Shop) -> Result<()> {
    later_than_the_books(&shop.admin().await?).await?;
    ensure!(shop.service.attempt(&["run", "--init"]).await?.0 == Some(1), "a second state was taken");
    shop.service.command(&["consumer", "adopt", "ledger", "--yes"]).await?;
    shop.service.run().await?;
    shop.told().await
}

async fn adopted_back() -> Result<()> {
    let mut shop = shop().await?;
    let kept = shop.pay(ALICE, 100).await?;
    shop.told().await?;
    shop.service.terminate().await?;
    // Another state takes the books over, and decides in an epoch of its own.
    let state = shop.service.instance_dir().join("state");
    let first = shop.service.instance_dir().join("first");
    std::fs::rename(&state, &first)?;
    begin_anew(&mut shop).await?;
    shop.service.terminate().await?;

    // The first state comes back, and would be passed over in its own epoch.
    std::fs::remove_dir_all(&state)?;
    std::fs::rename(&first, &state)?;
    let (code, _, said) = shop.service.attempt(&["consumer", "adopt", "ledger", "--yes"]).await?;
    ensure!(code == Some(1) && said.contains("run --restored"), "{said}");
    later_than_the_books(&shop.admin().await?).await?;
    let (code, _, said) = shop.service.attempt(&["run", "--restored"]).await?;
    ensure!(code == Some(1) && said.contains("consumer adopt ledger"), "the books are another state's: {said}");
    shop.service.command(&["consumer", "adopt", "ledger", "--yes"]).await?;
    shop.service.run().await?;
    shop.told().await?;
    shop.ensure_right().await?;
    // What it takes back is taken back.
    let height = shop.anvil.position(&kept).await?.context("the payment is not on the chain")?.block.height;
    shop.anvil.reorg(shop.anvil.tip().await?.height - height + 1, &[]).await?;
    shop.anvil.mine(3).await?;
    shop.told().await?;
    shop.ensure_right().await
}

async fn refused() -> Result<()> {
    let mut shop = shop().await?;
    shop.service.terminate().await?;
    let section = section_with(&shop.cluster, &["50ms", "50ms"]);
    shop.service.configure(&Config::new().chain(bare_chain(&shop.anvil, "default = 2", 12)).sink(section))?;
    shop.service.run().await?;
    let admin = shop.admin().await?;
    admin
        .batch_execute(
            "create function ledger.no_bob() returns trigger language plpgsql as $$ begin
                if new.account = 'bob' then raise exception 'bob has no account yet'; end if; return new; end $$;
             create trigger no_bob before insert on ledger.posting for each row execute function ledger.no_bob()",
        )
        .await?;
    // One batch, the refused one first.
    for (number, to, wei) in [(1, BOB, 7), (2, ALICE, 11), (3, ALICE, 13)] {
        pay(&shop.anvil, number, to, wei).await?;
    }
    shop.anvil.mine(2).await?;
    shop.service
        .until_consumer("ledger", "bob's is a dead letter, nothing else waits", |it| it["dead"] == 1 && it["waiting"] == 0)
        .await?;
    let posted = "select account, sum(amount)::text from ledger.posting group by account";
    let rows = admin.query(posted, &[]).await?;
    ensure!(rows.len() == 1 && rows[0].get::<_, &str>(0) == "alice" && rows[0].get::<_, &str>(1) == "24", "{rows:?}");
    admin.batch_execute("drop trigger no_bob on ledger.posting").await?;
    let dead = shop.service.json_lines(&["deliveries", "list", "--state", "dead", "--json"]).await?;
    ensure!(dead.len() == 1 && dead[0].to_string().contains("bob has no account yet"), "{dead:?}");
    shop.service.command(&["deliveries", "requeue", "ledger", "--all-dead"]).await?;
    shop.service.until_consumer("ledger", "nothing is dead or waits", |it| it["dead"] == 0 && it["waiting"] == 0).await?;
    shop.ensure_right().await
}
