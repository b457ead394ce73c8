//! A store that commits while everything it does is recorded, and what must be there after a power cut (T1, T2, T11).

use super::Store;
use super::support::{ALL, LATE, attempt, spec};
use super::world::{Dice, World};
use crate::conform::power_cut::{Cuts, Tally, record_and_cut};
use crate::conform::{Broken, Verdict, block_on, hold, sample};
use async_trait::async_trait;
use confirmd_core::{ChangeSet, CommitReceipt, ConsumerName, DeliveryFilter, Position, StateVersion, StoreError};
use libtest_mimic::{Failed, Trial};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Tells the program that it is to commit, and in which life.
const LIFE: &str = "POWER_CUT_LIFE";
/// Where.
const STATE: &str = "POWER_CUT_STATE";
/// How many points each model is tried with.
const POINTS: &str = "CONFIRMD_POWER_CUT_POINTS";
const POINTS_DEFAULT: u64 = 40;
/// Commits of one life.
const COMMITS: u64 = 70;
/// The last life ends in a clean close, those before are killed or closed in turn.
const LIVES: u32 = 4;
/// How far a commit gets before the process dies: somewhere between its first write and its answer.
const DYING: Duration = Duration::from_micros(60);
/// Worlds kept to derive others from.
const STRIDE: u64 = 16;

/// A kind of store that lies in a directory.
#[async_trait]
pub trait OpenStore: Send + Sync {
    /// Opens the store in `directory`, or makes it there if `init` and there is none. Dropping the handle closes it.
    async fn open(&self, directory: &Path, init: bool) -> Result<Arc<dyn Store>, StoreError>;
}

/// To be called first in the `main` of a test binary that runs [`power_cut_trials`]: the trials start that binary again to have
/// something recorded, and then this commits and says how the process ends.
pub fn commit_if_recorded(kind: &dyn OpenStore) -> Option<ExitCode> {
    let life = std::env::var(LIFE).ok()?.parse().unwrap_or(0);
    let directory = std::env::var_os(STATE)?;
    match block_on(live(kind, Path::new(&directory), life)).and_then(|verdict| verdict) {
        Ok(()) => Some(ExitCode::SUCCESS),
        Err(broken) => {
            eprintln!("{broken}");
            Some(ExitCode::FAILURE)
        }
    }
}

/// Cuts the power of a store at many points. `CONFIRMD_POWER_CUT_POINTS` says at how many for each model.
pub fn power_cut_trials(under_test: &str, kind: Arc<dyn OpenStore>) -> Vec<Trial> {
    let name = format!("{under_test}::t2_no_power_cut_loses_or_halves_what_was_answered");
    let trial = Trial::test(name, move || {
        let tally = cut_store(&*kind).map_err(|broken| Failed::from(broken.to_string()))?;
        println!("power cuts: {tally}");
        let wrong: Vec<_> = tally.wrong.iter().map(|(model, wrong)| format!("under {model:?}: {}", wrong.join("; "))).collect();
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(Failed::from(format!("{tally}; {}", wrong.join("; ")))),
        }
    });
    vec![match crate::conform::power_cut::power_can_be_cut() {
        Ok(()) => trial,
        Err(why) => trial.with_kind(why).with_ignored_flag(true),
    }]
}

fn cut_store(kind: &dyn OpenStore) -> Result<Tally, Broken> {
    let points = std::env::var(POINTS).ok().and_then(|points| points.parse().ok()).unwrap_or(POINTS_DEFAULT);
    let mut worlds = Worlds::default();
    record_and_cut(
        Cuts { lives: LIVES, points, seed: points },
        |command, files, life| {
            command.env(STATE, files.join("state")).env(LIFE, life.to_string());
        },
        |image, said| block_on(judge(kind, &image.join("state"), &Said::parse(said), &mut worlds))?,
    )
}

/// The change set of commit `n`, which follows from what was committed before.
fn nth(world: &mut World, n: u64) -> ChangeSet {
    let chain = sample::chain(n % 2);
    match n {
        n if n % 50 == 0 => world.archive_all(&chain),
        n if n % 23 == 0 => world.confirm_new(&chain, 80, n),
        n if n % 5 == 0 => world.watch_some(&chain, n),
        n => world.change_set(&mut Dice::new(u32::try_from(n).unwrap_or(0))),
    }
}

fn take(world: &mut World, set: &ChangeSet) {
    let first = Position(u64::try_from(world.events.len()).unwrap_or(0).saturating_add(1));
    let first_event = (!set.events.is_empty()).then_some(first);
    world.take(set, &CommitReceipt { version: StateVersion(set.base.0.saturating_add(1)), first_event });
}

/// What the first `n` commits add up to.
#[derive(Default)]
struct Worlds(Vec<World>);

impl Worlds {
    fn after(&mut self, commits: u64) -> World {
        let kept = usize::try_from(commits / STRIDE).unwrap_or(0);
        while self.0.len() <= kept {
            let mut world = self.0.last().cloned().unwrap_or_default();
            let from = u64::try_from(self.0.len()).unwrap_or(0).saturating_sub(1).saturating_mul(STRIDE);
            if !self.0.is_empty() {
                advance(&mut world, from, from.saturating_add(STRIDE));
            }
            self.0.push(world);
        }
        let mut world = self.0.get(kept).cloned().unwrap_or_default();
        advance(&mut world, commits / STRIDE * STRIDE, commits);
        world
    }
}

fn advance(world: &mut World, from: u64, to: u64) {
    for n in from.saturating_add(1)..=to {
        let set = nth(world, n);
        take(world, &set);
    }
}

fn say(text: &str) -> Verdict {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(Broken::tried("saying something"))
}

/// How many commits a store holds: a chain's version counts its own.
async fn commits_of(store: &dyn Store) -> Result<u64, Broken> {
    let mut commits = 0;
    for chain in store.chains().await.map_err(Broken::tried("asking for the chains"))? {
        let state = store.load(&chain).await.map_err(Broken::tried("a load"))?;
        commits += state.map_or(0, |state| state.version.0);
    }
    Ok(commits)
}

/// One life: commits, hands out, acknowledges, and ends by a clean close or by dying.
async fn live(kind: &dyn OpenStore, directory: &Path, life: u32) -> Verdict {
    let store = kind.open(directory, true).await.map_err(Broken::tried("opening the store"))?;
    say("open")?;
    let commits = commits_of(&*store).await?;
    // What a killed life had not been answered is decided now.
    say(&format!("committed {commits}"))?;
    let mut world = Worlds::default().after(commits);
    let ledger = spec("ledger", None);
    store.register(&ledger).await.map_err(Broken::tried("registering a consumer"))?;
    for n in commits + 1..=commits + COMMITS {
        round(&*store, &ledger.name, &mut world, n, say).await?;
    }
    if life.is_multiple_of(2) {
        // Dies as a killed process does, in the middle of one more commit: the next life finds what was written and not synced.
        let next = nth(&mut world, commits + COMMITS + 1);
        std::thread::spawn(move || {
            std::thread::sleep(DYING * (1 + life));
            std::process::exit(0);
        });
        drop(store.commit(next).await);
        std::future::pending::<()>().await;
    }
    drop(store);
    say("closed")
}

/// One commit, and what a pump would do: some of what is due is delivered, the last of it is not. Each is said when it is so.
pub(super) async fn round(
    store: &dyn Store,
    ledger: &ConsumerName,
    world: &mut World,
    n: u64,
    say: fn(&str) -> Verdict,
) -> Verdict {
    let set = nth(world, n);
    store.commit(set.clone()).await.map_err(Broken::tried("a commit"))?;
    say(&format!("committed {n}"))?;
    take(world, &set);
    let due = store.due(ledger, LATE, 4).await.map_err(Broken::tried("asking for deliveries"))?;
    for delivery in &due {
        say(&format!("handed {}", delivery.event))?;
    }
    let Some((failing, delivered)) = due.split_last() else { return Ok(()) };
    for delivery in delivered {
        say(&format!("acknowledging {}", delivery.event))?;
        store.acknowledge(ledger, &[delivery.position]).await.map_err(Broken::tried("an acknowledgement"))?;
        say(&format!("acknowledged {}", delivery.event))?;
    }
    let failed = match n % 3 {
        0 => store.bury(ledger, failing.position, attempt(1)).await,
        1 => store.retry_later(ledger, failing.position, attempt(1), LATE).await,
        _ => store.release(ledger, &[failing.position]).await,
    };
    failed.map_err(Broken::tried("putting a delivery back"))
}

/// What the process said before the power went.
#[derive(Default)]
struct Said<'a> {
    open: bool,
    committed: u64,
    handed: BTreeSet<&'a str>,
    acknowledging: BTreeSet<&'a str>,
    acknowledged: BTreeSet<&'a str>,
}

impl<'a> Said<'a> {
    fn parse(text: &'a str) -> Self {
        let mut said = Self::default();
        for line in text.lines() {
            match line.split_once(' ') {
                Some(("committed", n)) => said.committed = n.parse().unwrap_or(said.committed),
                Some(("handed", event)) => drop(said.handed.insert(event)),
                Some(("acknowledging", event)) => drop(said.acknowledging.insert(event)),
                Some(("acknowledged", event)) => drop(said.acknowledged.insert(event)),
                _ => said.open |= line == "open",
            }
        }
        said
    }
}

/// Everything that was answered is there, and nothing half; and the store goes on from there.
async fn judge(kind: &dyn OpenStore, directory: &Path, said: &Said<'_>, worlds: &mut Worlds) -> Verdict {
    // Before it was opened for the first time nobody was promised a store.
    let store = kind.open(directory, !said.open).await.map_err(Broken::tried("opening what the power cut left"))?;
    let commits = commits_of(&*store).await?;
    let answered = said.committed;
    hold!((answered..=answered + 1).contains(&commits), "{answered} commits were answered, {commits} are there");
    let mut world = worlds.after(commits);
    equals(&*store, &world).await?;
    deliveries_are_whole(&*store, &world, said).await?;
    let next = nth(&mut world, commits + 1);
    for (event, _) in &next.events {
        let found = store.event(&event.id).await.map_err(Broken::tried("asking for an event"))?;
        hold!(found.is_none(), "an event of a commit that is not there is there: {}", event.id);
    }
    store.commit(next).await.map_err(Broken::tried("committing after the power cut"))?;
    drop(store);
    let store = kind.open(directory, false).await.map_err(Broken::tried("opening a second time"))?;
    let after = commits_of(&*store).await?;
    hold!(after == commits + 1, "after one more commit there are {after}, before it there were {commits}");
    Ok(())
}

async fn equals(store: &dyn Store, world: &World) -> Verdict {
    for (chain, state) in &world.states {
        let loaded = store.load(chain).await.map_err(Broken::tried("a load"))?;
        hold!(loaded.as_ref() == Some(state), "{chain} is not what its commits add up to");
        let archived = world.archived.iter().filter(|((of, _), _)| of == chain);
        let archived: Vec<_> = archived.map(|((_, key), archived)| (key.clone(), *archived)).collect();
        let keys: Vec<_> = archived.iter().map(|(key, _)| key.clone()).collect();
        let found = store.settled_among(chain, &keys).await.map_err(Broken::tried("asking for archived keys"))?;
        hold!(found == archived.into_iter().collect(), "archived keys of {chain} are not as they were");
    }
    let mut last = Position(0);
    for (_, event, body) in &world.events {
        let record = store.event(&event.id).await.map_err(Broken::tried("asking for an event"))?;
        let Some(record) = record else { return Err(Broken::new(format!("the event {} is gone", event.id))) };
        hold!(record.event == *event && record.body == *body, "the event {} is another one", event.id);
        hold!(record.position > last, "events are not in their order at {}", event.id);
        last = record.position;
    }
    Ok(())
}

async fn deliveries_are_whole(store: &dyn Store, world: &World, said: &Said<'_>) -> Verdict {
    let consumers = store.consumers().await.map_err(Broken::tried("listing consumers"))?;
    if consumers.is_empty() {
        hold!(said.handed.is_empty(), "the consumer is gone");
        return Ok(());
    }
    let (mut undelivered, mut after) = (BTreeSet::new(), None);
    loop {
        let page = store.list(&DeliveryFilter::default(), after, ALL).await.map_err(Broken::tried("listing deliveries"))?;
        let Some(last) = page.last() else { break };
        after = Some((last.consumer.clone(), last.position));
        undelivered.extend(page.iter().map(|record| record.event.to_string()));
    }
    let events: BTreeSet<_> = world.events.iter().map(|(_, event, _)| event.id.to_string()).collect();
    for event in &said.handed {
        hold!(events.contains(*event), "{event} was handed out and was never decided");
    }
    for event in &said.acknowledged {
        hold!(!undelivered.contains(*event), "{event} was acknowledged and is undelivered");
    }
    let lost = events.iter().find(|event| !undelivered.contains(*event) && !said.acknowledging.contains(event.as_str()));
    hold!(lost.is_none(), "{lost:?} was never delivered and nobody waits for it");
    Ok(())
}
