//! The connection is cut at every message of a commit that carries the operator's own effect; and leases that pass on.

use crate::cluster::Cluster;
use crate::postgres::Postgres;
use crate::rig::{server, server_of};
use crate::wire_proxy::{At, Cut, WireProxy};
use anyhow::{Context, Result, ensure};
use confirmd_core::{
    Address, Amount, Asset, AssetId, Attempt, AttemptOutcome, BlockHash, BlockRef, ChainId, ChainName, Change, ChangeSet,
    ConsumerFilter, ConsumerName, ConsumerSpec, DepositKey, Event, EventId, Height, HeightRange, Outbox, Payment, Reported,
    Rescan, RescanId, RescanScope, Sequence, Sharing, StateStore, StateVersion, StoreError, Timestamp, Transfer, Turn, TxId,
};
use confirmd_postgres::Schema;
use confirmd_store_postgres::{PgOptions, PgStore};
use libtest_mimic::{Failed, Trial};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// More messages than a commit has.
pub(crate) const MESSAGES_MAX: u64 = 200;
pub(crate) const EFFECT: &str = "select effect.post($1::json->>'id')";
pub(crate) const OPERATOR: &str = "
create schema effect;
create table effect.posting (event text not null);
create table effect.rule (closed boolean not null);
insert into effect.rule values (false);
create function effect.post(event text) returns void language plpgsql as $$
begin
    if (select closed from effect.rule) then raise exception 'the books are closed'; end if;
    insert into effect.posting values (event);
end $$;";

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("g5_an_effect_in_the_commit_happens_once_wherever_the_connection_is_cut", cut_everywhere),
        trial("g5_an_effect_that_is_refused_keeps_the_decision_from_being_made", refused),
        trial("g8_a_result_that_comes_after_its_lease_passed_on_is_passed_over", late),
        trial("g11_what_others_committed_is_caught_up_with_by_change_sets", caught_up),
        trial("t8_instances_that_begin_at_once_migrate_once_also_without_advisory_locks", migrated_at_once),
        trial("t8_rescans_that_an_earlier_version_left_in_a_head_are_moved_and_none_is_lost", moved_rescans),
        trial("t8_who_may_read_the_views_of_an_earlier_version_may_read_those_of_a_later_one", readers),
        trial("t8_what_a_later_version_wrote_is_refused_and_never_cut_short", later),
        trial("g11_a_turn_is_one_instances_until_it_passes", turns),
    ]
}

fn trial<F: Future<Output = Result<()>> + 'static>(name: &str, run: fn(Place) -> F) -> Trial {
    Trial::test(format!("store_postgres::{name}"), move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let done = runtime.block_on(async {
            let place = Place::new().await?;
            run(place).await
        });
        done.map_err(|error: anyhow::Error| Failed::from(format!("{error:#}")))
    })
}

/// A cluster with the operator's effect in it, behind a proxy.
struct Place {
    cluster: Cluster,
    proxy: WireProxy,
    folder: tempfile::TempDir,
    admin: tokio_postgres::Client,
}

impl Place {
    async fn new() -> Result<Self> {
        let cluster = Cluster::start()?;
        let proxy = WireProxy::start(cluster.port).await?;
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("password"), Postgres::SUPERUSER.1)?;
        let admin = cluster.admin().await?;
        admin.batch_execute(OPERATOR).await?;
        Ok(Self { cluster, proxy, folder, admin })
    }

    async fn store(&self, schema: &str, change: impl FnOnce(&mut PgOptions)) -> Result<PgStore> {
        let schema = Schema::try_from(schema.to_owned()).map_err(anyhow::Error::msg)?;
        let mut options = PgOptions { init: true, ..PgOptions::new(schema) };
        change(&mut options);
        Ok(PgStore::open(server(self.proxy.port(), self.folder.path(), "cuts")?, options).await?)
    }

    async fn posted(&self) -> Result<Vec<String>> {
        let rows = self.admin.query("select event from effect.posting", &[]).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }
}

pub(crate) fn chain() -> ChainId {
    ChainId::new("eip155:31337").expect("invariant: an id")
}

/// Confirms one new deposit; `number` is its key.
pub(crate) fn confirm(store: &PgStore, base: u64, number: u64) -> Result<ChangeSet> {
    let chain = chain();
    let key = DepositKey { tx_id: TxId::new(format!("0x{number:064x}"))?, output_index: 0 };
    let asset = Asset { id: AssetId::native(&chain, 60)?, symbol: "ETH".into(), decimals: 18 };
    let transfer = Transfer {
        key: key.clone(),
        payment: Payment { address: Address::new([7], "0x07"), asset: asset.id.clone(), amount: Amount::MAX, memo: None },
        block: BlockRef { height: Height(number), hash: BlockHash::new(format!("0xb{number}"))? },
        block_time: None,
        position: 0,
        from: None,
        maturity: None,
    };
    let mut set = ChangeSet::new(chain.clone(), StateVersion(base));
    set.changes.push(Change::ReportedPut(Reported { transfer: transfer.clone(), sequence: Sequence(1) }));
    set.push_event(Event {
        id: EventId::derive(&chain, &key, store.epoch(), Sequence(1)),
        chain,
        chain_name: ChainName::new("devnet")?,
        epoch: store.epoch(),
        sequence: Sequence(1),
        transfer,
        asset,
        reference: None,
        confirmations: 1,
        decided_at: Timestamp(1),
        notice: None,
    });
    Ok(set)
}

async fn cut_everywhere(place: Place) -> Result<()> {
    for (round, cut) in [Cut::Before, Cut::After].into_iter().enumerate() {
        let store = place.store(&format!("cut_{round}"), |options| options.on_event = Some(EFFECT.into())).await?;
        let mut version = 0;
        for message in 1..MESSAGES_MAX {
            let set = confirm(&store, version, version + 1)?;
            let id = set.events.first().map(|(event, _)| event.id.to_string()).context("an event")?;
            place.proxy.cut(At::Message(message), cut, false);
            let receipt = store.commit(set).await.with_context(|| format!("cut {cut:?} at message {message}"))?;
            let cuts = place.proxy.cuts();
            place.proxy.repair();
            version += 1;
            ensure!(receipt.version == StateVersion(version), "{receipt:?} at message {message}");
            let times = place.posted().await?.iter().filter(|posted| **posted == id).count();
            ensure!(times == 1, "cut {cut:?} at message {message}: the effect happened {times} times");
            if cuts == 0 {
                // The commit had fewer messages than that: it was cut at each of them.
                ensure!(message > 10, "only {message} messages were seen");
                eprintln!("a commit with an effect was cut {cut:?} each of its {} messages", message - 1);
                break;
            }
        }
        let held = store.load(&chain()).await?.context("a state")?;
        ensure!(u64::try_from(held.reported.len())? == version, "{} are reported of {version}", held.reported.len());
        place.admin.batch_execute("truncate effect.posting").await?;
    }
    Ok(())
}

async fn refused(place: Place) -> Result<()> {
    let store = place.store("refused", |options| options.on_event = Some(EFFECT.into())).await?;
    place.admin.batch_execute("update effect.rule set closed = true").await?;
    let set = confirm(&store, 0, 1)?;
    match store.commit(set.clone()).await {
        Err(StoreError::Invalid(text)) => ensure!(text.contains("the books are closed") && text.contains("on_event"), "{text}"),
        other => anyhow::bail!("{other:?}"),
    }
    ensure!(store.load(&chain()).await?.is_none() && place.posted().await?.is_empty());
    place.admin.batch_execute("update effect.rule set closed = false").await?;
    store.commit(set).await?;
    ensure!(place.posted().await?.len() == 1);
    Ok(())
}

async fn late(place: Place) -> Result<()> {
    let [slow, quick] = [place.store("late", |_| {}).await?, place.store("late", |_| {}).await?];
    let name = ConsumerName::new("ledger")?;
    let spec = ConsumerSpec { name: name.clone(), filter: ConsumerFilter::default(), start: None };
    slow.register(&spec).await?;
    slow.commit(confirm(&slow, 0, 1)?).await?;
    let first = slow.due(&name, Timestamp(1), 10).await?;
    ensure!(first.len() == 1 && quick.due(&name, Timestamp(1), 10).await?.is_empty(), "both were handed the same");
    // The slow one stands still for longer than its lease.
    place.admin.batch_execute("update late.delivery set lease_until = '-infinity'").await?;
    let again = quick.due(&name, Timestamp(1), 10).await?;
    ensure!(again == first, "{again:?}");
    let position = first.first().context("a delivery")?.position;
    let attempt = Attempt {
        number: 1,
        at: Timestamp(2),
        outcome: AttemptOutcome::Transient,
        status: None,
        error: "late".to_owned(),
        excerpt: None,
    };
    slow.bury(&name, position, attempt).await?;
    let status = slow.consumers().await?;
    ensure!(status.iter().all(|consumer| consumer.dead == 0 && consumer.waiting == 1), "{status:?}");
    // What was handed out to the other one is not given back by a release of ours either.
    slow.release(&name, &[position]).await?;
    ensure!(slow.due(&name, Timestamp(1), 10).await?.is_empty());
    quick.acknowledge(&name, &[position]).await?;
    ensure!(quick.consumers().await?.iter().all(|consumer| consumer.waiting == 0));

    // It says "delivered" too late: whoever has it now goes on with it, and has the last word.
    slow.commit(confirm(&slow, 1, 2)?).await?;
    let position = slow.due(&name, Timestamp(1), 10).await?.first().context("a delivery")?.position;
    place.admin.batch_execute("update late.delivery set lease_until = '-infinity'").await?;
    ensure!(quick.due(&name, Timestamp(1), 10).await?.len() == 1, "its lease has passed");
    slow.acknowledge(&name, &[position]).await?;
    let status = quick.consumers().await?;
    ensure!(status.iter().all(|consumer| consumer.waiting == 1), "{status:?}");
    let attempt = Attempt {
        number: 1,
        at: Timestamp(3),
        outcome: AttemptOutcome::Transient,
        status: None,
        error: "again".to_owned(),
        excerpt: None,
    };
    quick.retry_later(&name, position, attempt, Timestamp(4)).await?;
    let again = slow.due(&name, Timestamp(5), 10).await?;
    ensure!(again.len() == 1 && again.iter().all(|delivery| delivery.attempt == 2), "{again:?}");
    slow.acknowledge(&name, &[position]).await?;
    ensure!(quick.consumers().await?.iter().all(|consumer| consumer.waiting == 0));
    Ok(())
}

async fn caught_up(place: Place) -> Result<()> {
    let [one, two] = [place.store("caught_up", |_| {}).await?, place.store("caught_up", |_| {}).await?];
    let id = chain();
    let heard = two.changed(&id);
    let mut state = confirmd_core::ChainState::default();
    for number in 1..=3 {
        one.commit(confirm(&one, number - 1, number)?).await?;
    }
    tokio::time::timeout(Duration::from_secs(5), heard).await.context("nothing was heard of three commits")?;
    let sets = two.changes_since(&chain(), StateVersion(0)).await?.context("the change sets are kept")?;
    sets.iter().for_each(|set| state.apply(set));
    ensure!(two.load(&chain()).await? == Some(state));
    ensure!(two.changes_since(&chain(), StateVersion(3)).await? == Some(Vec::new()));
    place.admin.batch_execute("delete from caught_up.change where version < 3").await?;
    ensure!(two.changes_since(&chain(), StateVersion(0)).await?.is_none(), "a gap went unnoticed");
    // What the one decided the other one can go on from.
    two.commit(confirm(&two, 3, 4)?).await?;
    let lost = one.commit(confirm(&one, 3, 5)?).await;
    ensure!(matches!(lost, Err(StoreError::Conflict { .. })), "{lost:?}");
    Ok(())
}

async fn later(place: Place) -> Result<()> {
    let store = place.store("later", |_| {}).await?;
    store.commit(confirm(&store, 0, 1)?).await?;
    place.admin.batch_execute("update later.chain set head = (head::jsonb || '{\"later\": 1}')::text").await?;
    let other = place.store("later", |_| {}).await?;
    match other.load(&chain()).await {
        Err(StoreError::Refused { context, .. }) => ensure!(context.contains("another version"), "{context}"),
        loaded => anyhow::bail!("{loaded:?}"),
    }
    ensure!(other.commit(confirm(&other, 1, 2)?).await.is_err(), "it was written over");
    let kept = place.admin.query_one("select head::jsonb ? 'later' from later.chain", &[]).await?;
    ensure!(kept.get::<_, bool>(0), "it was cut short");
    Ok(())
}

async fn migrated_at_once(place: Place) -> Result<()> {
    let weak = format!("create role weak login password '{}'; grant create on database postgres to weak", Postgres::SUPERUSER.1);
    place.admin.batch_execute(&weak).await?;
    for (round, revoke) in [false, true].into_iter().enumerate() {
        if revoke {
            place.admin.batch_execute("revoke execute on function pg_advisory_xact_lock(bigint) from public").await?;
        }
        let open = || async {
            let schema = Schema::try_from(format!("at_once_{round}")).map_err(anyhow::Error::msg)?;
            let server = server_of("weak", place.proxy.port(), place.folder.path(), "at once")?;
            Ok::<_, anyhow::Error>(PgStore::open(server, PgOptions { init: true, ..PgOptions::new(schema) }).await?)
        };
        let stores = futures::future::join_all((0..5).map(|_| open())).await;
        let stores = stores.into_iter().collect::<Result<Vec<_>>>()?;
        let first = stores.first().context("a store")?.identity();
        ensure!(stores.iter().all(|store| store.identity() == first), "several stores were made in one schema");
        let locked = format!("select to_regclass('at_once_{round}.migration_lock') is not null");
        ensure!(place.admin.query_one(&locked, &[]).await?.get::<_, bool>(0) == revoke, "the lock's kind is another one");
    }
    // A schema that was made for the role is enough, with and without such locks.
    place.admin.batch_execute("revoke create on database postgres from weak").await?;
    for (schema, grant) in [("made_locked", false), ("made", true)] {
        if grant {
            place.admin.batch_execute("grant execute on function pg_advisory_xact_lock(bigint) to public").await?;
        }
        place.admin.batch_execute(&format!("create schema {schema} authorization weak")).await?;
        let schema = Schema::try_from(schema.to_owned()).map_err(anyhow::Error::msg)?;
        let server = server_of("weak", place.proxy.port(), place.folder.path(), "at once")?;
        PgStore::open(server, PgOptions { init: true, ..PgOptions::new(schema) }).await?;
    }
    Ok(())
}

/// As an instance before migration 3 left it: rescans in the chain's head, and no table of their own.
async fn before_3(place: &Place, rescans: &[Rescan]) -> Result<()> {
    let tables = [include_str!("../../migrations/1.sql"), include_str!("../../migrations/2.sql")].concat();
    let made = "create table {schema}.migration (part text not null, version integer not null,
            applied_at timestamptz not null default now(), primary key (part, version));
        insert into {schema}.migration (part, version) values ('store', 1), ('store', 2);
        insert into {schema}.meta (store, epoch, created_at, next_position) values (repeat('a', 32), 1, 1, 1)";
    let sql = format!("create schema {{schema}}; {tables}; {made}").replace("{schema}", "before");
    place.admin.batch_execute(&sql).await.context("make the tables of before")?;
    let rescans = serde_json::to_string(rescans)?;
    let head = format!("{{\"name\":null,\"floor\":0,\"linked_from\":0,\"marks\":[],\"halt\":null,\"rescans\":{rescans}}}");
    let chain = chain();
    let insert = "insert into before.chain (chain, version, head) values ($1, 1, $2)";
    place.admin.execute(insert, &[&chain.as_str(), &head]).await?;
    Ok(())
}

async fn readers(place: Place) -> Result<()> {
    before_3(&place, &[]).await?;
    let word = Postgres::SUPERUSER.1;
    let grant = format!(
        "create role reads login password '{word}'; grant usage on schema before to reads;
        grant select on before.deposits, before.events, before.deliveries to reads"
    );
    place.admin.batch_execute(&grant).await?;
    place.store("before", |_| {}).await?;
    let may =
        "select count(*) filter (where has_table_privilege('reads', c.oid, 'select')), count(*) filter (where c.relkind = 'v')
        from pg_class c where c.relnamespace = 'before'::regnamespace and c.relkind in ('r', 'v')";
    let may = place.admin.query_one(may, &[]).await?;
    ensure!(may.get::<_, i64>(0) == 3 && may.get::<_, i64>(1) == 3, "the views, and nothing else: {may:?}");
    Ok(())
}

async fn moved_rescans(place: Place) -> Result<()> {
    let rescan = |number: u64, to: u64| {
        let range = HeightRange::new(Height(1), Height(to)).expect("invariant: not empty");
        Rescan::new(RescanId(number), RescanScope::Asked, range, Timestamp(1))
    };
    let put = |base: u64, rescans: &[Rescan]| {
        let mut set = ChangeSet::new(chain(), StateVersion(base));
        set.changes.extend(rescans.iter().cloned().map(Change::RescanPut));
        set
    };
    let there = async |store: &PgStore| -> Result<Vec<Rescan>> {
        let loaded: Vec<_> = store.load(&chain()).await?.context("a state")?.rescans.into_values().collect();
        ensure!(loaded == store.rescans(&chain()).await?, "the state holds others than are listed");
        Ok(loaded)
    };
    before_3(&place, &[rescan(1, 10), rescan(2, 20)]).await?;
    // Several begin at once.
    let stores = futures::future::join_all((0..4).map(|_| place.store("before", |_| {}))).await;
    let stores = stores.into_iter().collect::<Result<Vec<_>>>()?;
    let [one, two, ..] = stores.as_slice() else { anyhow::bail!("no stores") };
    ensure!(there(one).await? == [rescan(1, 10), rescan(2, 20)], "{:?}", there(one).await?);
    // A commit moves them; what it says itself is newer.
    one.commit(put(1, &[rescan(2, 15)])).await?;
    ensure!(there(two).await? == [rescan(1, 10), rescan(2, 15)], "{:?}", there(two).await?);
    let heads = place.admin.query_one("select head::jsonb ? 'rescans' from before.chain", &[]).await?;
    ensure!(!heads.get::<_, bool>(0), "they are in the head still");
    // An instance of before works on, and writes what it did into the head.
    let late = serde_json::to_string(&rescan(1, 5))?;
    let head = format!(
        "update before.chain set head = (head::jsonb || jsonb_build_object('rescans', jsonb_build_array('{late}'::jsonb)))::text, version = 3"
    );
    place.admin.batch_execute(&head).await?;
    ensure!(there(two).await? == [rescan(1, 5), rescan(2, 15)], "{:?}", there(two).await?);
    two.commit(put(3, &[])).await?;
    ensure!(there(one).await? == [rescan(1, 5), rescan(2, 15)], "{:?}", there(one).await?);
    Ok(())
}

async fn turns(place: Place) -> Result<()> {
    let [one, two] = [place.store("turns", |_| {}).await?, place.store("turns", |_| {}).await?];
    let hold = Duration::from_secs(60);
    ensure!(one.turn(&chain(), hold).await? == Turn::Ours);
    let theirs = two.turn(&chain(), hold).await?;
    ensure!(matches!(theirs, Turn::Theirs { left } if left <= hold && left > hold / 2), "{theirs:?}");
    one.pass(&chain()).await?;
    ensure!(two.turn(&chain(), hold).await? == Turn::Ours);
    place.admin.batch_execute("update turns.turn set until = now() - interval '1 second'").await?;
    ensure!(one.turn(&chain(), hold).await? == Turn::Ours);
    ensure!(place.cluster.port > 0);
    Ok(())
}
