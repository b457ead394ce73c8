//! Trials of a store that can be written out and made again: one moment, the same answers, all or nothing.

use super::support::{ALL, LATE, attempt, spec};
use super::{Everything, Sampled, Store};
use crate::conform::{Broken, Verdict, block_on, hold};
use async_trait::async_trait;
use confirmd_core::{
    ConsumerFilter, ConsumerSpec, ConsumerStart, CursorName, DUMP_FORMAT, DumpHead, DumpReader, DumpRecord, DumpWriter, Notice,
    Position, PullCursor, Snapshots, StoreError, StoreImport, StoreSnapshot, Timestamp,
};
use libtest_mimic::Trial;
use std::future::Future;
use std::sync::Arc;

/// Makes one place per trial.
#[async_trait]
pub trait DumpHarness: Send + Sync {
    /// A place for a store, with nothing in it.
    async fn start(&self) -> Result<Box<dyn DumpPlace>, Broken>;
}

/// An open store with all its contracts.
#[derive(Debug, Clone)]
pub struct Dumpable {
    /// What it answers.
    pub store: Arc<dyn Store>,
    /// What it writes out.
    pub snapshots: Arc<dyn Snapshots>,
}

/// A place for one store.
#[async_trait]
pub trait DumpPlace: Send {
    /// Opens the store at this place. With `init` a new one is made where there is none.
    async fn open(&self, init: bool) -> Result<Dumpable, StoreError>;

    /// Begins to make a store at this place from a dump.
    async fn import(&self, restored: bool) -> Result<Box<dyn StoreImport>, StoreError>;
}

/// The trials of one kind of store.
pub fn dump_trials(name: &str, harness: Arc<dyn DumpHarness>) -> Vec<Trial> {
    vec![
        one(name, "a_store_made_from_a_dump_answers_the_same_and_gives_the_same_lines", &harness, the_same),
        one(name, "a_store_made_from_a_dump_goes_on_as_the_first_one_would", &harness, goes_on),
        one(name, "a_dump_is_of_one_moment_while_the_store_goes_on", &harness, one_moment),
        one(name, "an_import_that_does_not_end_leaves_no_store", &harness, all_or_nothing),
        one(name, "a_dump_is_not_imported_onto_a_store", &harness, onto_a_store),
        one(name, "an_old_copy_takes_a_new_epoch", &harness, old_copy),
        one(name, "one_export_at_a_time", &harness, one_at_a_time),
    ]
}

fn one<F>(name: &str, what: &str, harness: &Arc<dyn DumpHarness>, run: fn(Arc<dyn DumpHarness>) -> F) -> Trial
where
    F: Future<Output = Verdict> + 'static,
{
    let harness = Arc::clone(harness);
    Trial::test(format!("{name}::dump::{what}"), move || {
        let verdict = block_on(run(harness)).and_then(|verdict| verdict);
        verdict.map_err(|broken| broken.to_string().into())
    })
}

fn head() -> DumpHead {
    let (backend, written_by) = ("trial".to_owned(), "trial".to_owned());
    DumpHead { format: DUMP_FORMAT, backend, running: false, exported_at: Timestamp(0), written_by }
}

async fn rest(snapshot: &mut dyn StoreSnapshot, mut records: Vec<DumpRecord>) -> Result<Vec<u8>, Broken> {
    let mut lines = Vec::new();
    let mut writer = DumpWriter::begin(head(), &mut lines);
    loop {
        for record in &records {
            writer.push(record, &mut lines).map_err(Broken::tried("writing a record"))?;
        }
        records = snapshot.next().await.map_err(Broken::tried("reading a snapshot"))?;
        if records.is_empty() {
            writer.end(&mut lines);
            return Ok(lines);
        }
    }
}

/// Everything of a store, as lines.
pub async fn dumped(store: &Dumpable) -> Result<Vec<u8>, Broken> {
    let snapshot = store.snapshots.clone().snapshot().await;
    let mut snapshot = snapshot.map_err(Broken::tried("taking a snapshot"))?;
    rest(snapshot.as_mut(), Vec::new()).await
}

/// A store made of these lines.
pub async fn made_of(lines: &[u8], place: &dyn DumpPlace, restored: bool) -> Result<Dumpable, Broken> {
    let mut import = place.import(restored).await.map_err(Broken::tried("beginning an import"))?;
    let mut reader = DumpReader::default();
    for piece in lines.chunks(40_000) {
        let mut records = Vec::new();
        reader.push(piece, &mut records).map_err(Broken::tried("reading a dump"))?;
        import.put(records).await.map_err(Broken::tried("importing"))?;
    }
    reader.end().map_err(Broken::tried("ending a dump"))?;
    import.finish().await.map_err(Broken::tried("ending an import"))?;
    place.open(false).await.map_err(Broken::tried("opening what was imported"))
}

fn text(lines: &[u8]) -> String {
    String::from_utf8_lossy(lines).into_owned()
}

/// The first line in which they differ.
fn same(one: &[u8], other: &[u8]) -> Verdict {
    let (one, other) = (text(one), text(other));
    let mut pairs = one.lines().zip(other.lines()).enumerate();
    let differ = pairs.find(|(_, (one, other))| one != other);
    hold!(differ.is_none(), "the dumps differ: {differ:?}");
    hold!(one.lines().count() == other.lines().count(), "one dump is longer than the other");
    Ok(())
}

/// A store with a history, and everything that is seldom.
async fn filled(place: &dyn DumpPlace, commits: u64) -> Result<(Dumpable, Sampled), Broken> {
    let opened = place.open(true).await.map_err(Broken::tried("making a store"))?;
    let store = &*opened.store;
    let mut sampled = Sampled::default();
    sampled.go_on(store, commits).await?;
    let late = spec("late", Some(ConsumerStart::Beginning));
    let tried = || Broken::tried("filling a store");
    store.register(&late).await.map_err(tried())?;
    let due = store.due(&late.name, LATE, 5).await.map_err(tried())?;
    for (number, delivery) in due.iter().enumerate() {
        match number {
            0 => store.bury(&late.name, delivery.position, attempt(1)).await.map_err(tried())?,
            1 => store.retry_later(&late.name, delivery.position, attempt(1), Timestamp(77_000)).await.map_err(tried())?,
            2 => store.skip(&late.name, delivery.position, Timestamp(5)).await.map_err(tried())?,
            // The others are out: in a dump they wait.
            _ => {}
        }
    }
    store.pause(&late.name, Some("a trial".to_owned())).await.map_err(tried())?;
    let now = ConsumerSpec { start: Some(ConsumerStart::Now), filter: filter(), ..spec("only-now", None) };
    store.register(&now).await.map_err(tried())?;
    let name = CursorName::new("reader").expect("invariant: a name");
    let cursor = PullCursor { name, after: Position(1), used_at: Timestamp(9), expired: commits % 2 == 1 };
    store.put_cursor(&cursor).await.map_err(tried())?;
    Ok((opened, sampled))
}

fn filter() -> ConsumerFilter {
    ConsumerFilter { chains: [crate::conform::sample::chain(1)].into(), notices: Notice::ALL.into(), ..ConsumerFilter::default() }
}

async fn the_same(harness: Arc<dyn DumpHarness>) -> Verdict {
    for commits in [0, 1, 9, 60, 150] {
        let (from, to) = (harness.start().await?, harness.start().await?);
        let (first, sampled) = filled(&*from, commits).await?;
        let before = Everything::of(&*first.store, &sampled).await.map_err(Broken::tried("asking for everything"))?;
        let lines = dumped(&first).await?;
        let second = made_of(&lines, &*to, false).await?;
        let after = Everything::of(&*second.store, &sampled).await.map_err(Broken::tried("asking for everything"))?;
        hold!(before == after, "after {commits} commits: {}", before.difference(&after));
        same(&lines, &dumped(&second).await?)?;
        hold!(first.store.identity() == second.store.identity(), "the store has another name");
        hold!(first.store.epoch() == second.store.epoch(), "the store has another epoch");
        let cursors = (first.store.cursors().await, second.store.cursors().await);
        hold!(matches!(&cursors, (Ok(one), Ok(other)) if one == other && one.len() == 1), "{cursors:?}");
        for chain in second.store.chains().await.map_err(Broken::tried("reading the chains"))? {
            let reorgs = (first.store.reorgs(&chain, ALL).await, second.store.reorgs(&chain, ALL).await);
            hold!(matches!(&reorgs, (Ok(one), Ok(other)) if one == other), "{reorgs:?}");
        }
    }
    Ok(())
}

/// Both go on with the same commits: places, versions, deliveries and lives stay the same.
async fn goes_on(harness: Arc<dyn DumpHarness>) -> Verdict {
    let (from, to) = (harness.start().await?, harness.start().await?);
    let (first, mut sampled) = filled(&*from, 80).await?;
    let second = made_of(&dumped(&first).await?, &*to, false).await?;
    let mut again = sampled.clone();
    sampled.go_on(&*first.store, 40).await?;
    again.go_on(&*second.store, 40).await?;
    same(&dumped(&first).await?, &dumped(&second).await?)
}

async fn one_moment(harness: Arc<dyn DumpHarness>) -> Verdict {
    let place = harness.start().await?;
    let (opened, mut sampled) = filled(&*place, 60).await?;
    let before = dumped(&opened).await?;
    let snapshot = opened.snapshots.clone().snapshot().await;
    let mut snapshot = snapshot.map_err(Broken::tried("taking a snapshot"))?;
    // Between any two pages something else may be committed, pruned and purged.
    let mut records = Vec::new();
    let mut pages = 0;
    loop {
        let page = snapshot.next().await.map_err(Broken::tried("reading a snapshot"))?;
        if page.is_empty() {
            break;
        }
        hold!(page.len() <= 1_000, "{} records at once: memory would follow the store's size", page.len());
        records.extend(page);
        pages += 1;
        if pages < 12 {
            sampled.go_on(&*opened.store, 5).await?;
        }
        if pages == 7 {
            opened.store.prune(Timestamp(u64::MAX / 2)).await.map_err(Broken::tried("pruning"))?;
        }
        if pages == 3 {
            let late = spec("late", None);
            opened.store.purge(&late.name).await.map_err(Broken::tried("purging"))?;
        }
    }
    hold!(pages > 12, "the snapshot came in only {pages} pages");
    let mut lines = Vec::new();
    let mut writer = DumpWriter::begin(head(), &mut lines);
    for record in &records {
        writer.push(record, &mut lines).map_err(Broken::tried("writing a record"))?;
    }
    writer.end(&mut lines);
    same(&before, &lines)?;
    drop(snapshot);
    hold!(dumped(&opened).await? != before, "nothing was committed meanwhile");
    Ok(())
}

async fn all_or_nothing(harness: Arc<dyn DumpHarness>) -> Verdict {
    let (from, to) = (harness.start().await?, harness.start().await?);
    let (first, _) = filled(&*from, 30).await?;
    let lines = dumped(&first).await?;
    let mut all = Vec::new();
    DumpReader::default().push(&lines, &mut all).map_err(Broken::tried("reading a dump"))?;
    for upto in [0, 1, all.len() / 2, all.len()] {
        let mut import = to.import(false).await.map_err(Broken::tried("beginning an import"))?;
        import.put(all.iter().take(upto).cloned().collect()).await.map_err(Broken::tried("importing"))?;
        drop(import);
        let opened = to.open(false).await;
        hold!(matches!(opened, Err(StoreError::Refused { .. })), "{upto} records make a store: {opened:?}");
    }
    // What does not begin as a dump does is refused.
    let mut import = to.import(false).await.map_err(Broken::tried("beginning an import"))?;
    let put = import.put(all.iter().skip(1).cloned().collect()).await;
    let ended = match put {
        Ok(()) => import.finish().await,
        put => put,
    };
    hold!(ended.is_err(), "a dump without the store's own record was taken");
    let second = made_of(&lines, &*to, false).await?;
    same(&lines, &dumped(&second).await?)
}

async fn onto_a_store(harness: Arc<dyn DumpHarness>) -> Verdict {
    let place = harness.start().await?;
    let (opened, _) = filled(&*place, 3).await?;
    let lines = dumped(&opened).await?;
    drop(opened);
    let import = place.import(false).await;
    let text = match &import {
        Err(StoreError::Refused { context, .. }) => context.clone(),
        other => format!("{other:?}"),
    };
    hold!(text.contains("holds a state already"), "{text}");
    let opened = place.open(false).await.map_err(Broken::tried("opening the store again"))?;
    same(&lines, &dumped(&opened).await?)
}

async fn old_copy(harness: Arc<dyn DumpHarness>) -> Verdict {
    let (from, to) = (harness.start().await?, harness.start().await?);
    let (first, _) = filled(&*from, 20).await?;
    let second = made_of(&dumped(&first).await?, &*to, true).await?;
    hold!(second.store.epoch() > first.store.epoch(), "{:?} is not later than {:?}", second.store.epoch(), first.store.epoch());
    hold!(first.store.identity() == second.store.identity(), "the store has another name");
    Ok(())
}

async fn one_at_a_time(harness: Arc<dyn DumpHarness>) -> Verdict {
    let place = harness.start().await?;
    let (opened, _) = filled(&*place, 3).await?;
    let one = opened.snapshots.clone().snapshot().await;
    let other = opened.snapshots.clone().snapshot().await;
    hold!(matches!(other, Err(StoreError::Invalid(_))), "{other:?}");
    drop((one, other));
    dumped(&opened).await.map(drop)
}
