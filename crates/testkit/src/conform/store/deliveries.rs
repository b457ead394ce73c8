//! Trials of what an operator and a pump do to one consumer's deliveries (T6, T9), and of what is listed of them (T4, T17).

use super::support::{Bench, LATE, answers, attempt, for_histories, positions, spec};
use super::world::Dice;
use super::{Store, StoreHarness};
use crate::conform::{Broken, Verdict, hold, sample};
use crate::{MemoryDisk, MemoryStore};
use confirmd_core::{
    ConsumerFilter, ConsumerName, ConsumerSpec, ConsumerStart, DELIVERED_LOOK_MAX, DeliveryRecord, Outbox, Position, StateStore,
    StoreError, Timestamp,
};

/// A store with a consumer that was handed five events: two of one key, and three of others.
async fn handed_out(harness: &dyn StoreHarness) -> Result<(Bench, ConsumerName, Vec<Position>), Broken> {
    let mut bench = Bench::start(harness).await?;
    let name = bench.register("ledger", None).await?;
    let chain = sample::chain(0);
    let confirmed = bench.world.confirm_new(&chain, 4, 1);
    bench.commit(confirmed).await?;
    let reverted = bench.world.revert_all(&chain);
    bench.commit(reverted).await?;
    let due = positions(&bench.due(&name, 4).await?);
    hold!(due.len() == 4, "four keys have events, handed out were {due:?}");
    Ok((bench, name, due))
}

/// One call, made twice: the second changes nothing, neither at once nor after a start.
#[derive(Debug, Clone, Copy)]
pub(super) enum Call {
    Acknowledge,
    Bury,
    Requeue,
}

pub(super) async fn idempotent(harness: &dyn StoreHarness, call: Call) -> Verdict {
    let (mut bench, name, due) = handed_out(harness).await?;
    let [first, second, ..] = due.as_slice() else { return Err(Broken::new("nothing was handed out")) };
    if matches!(call, Call::Requeue) {
        make(&bench, &name, Call::Bury, *first).await?;
        make(&bench, &name, Call::Bury, *second).await?;
    }
    let before = bench.answers().await?;
    make(&bench, &name, call, *first).await?;
    let once = bench.answers().await?;
    hold!(before != once, "{call:?} changed nothing that can be seen");
    make(&bench, &name, call, *first).await?;
    let twice = bench.answers().await?;
    hold!(once == twice, "{call:?} made again changed {}", once.difference(&twice));
    bench.reopen().await?;
    let later = bench.answers().await?;
    hold!(once == later, "{call:?} made twice and a new start changed {}", once.difference(&later));
    Ok(())
}

async fn make(bench: &Bench, name: &ConsumerName, call: Call, position: Position) -> Verdict {
    let store = bench.store();
    let made = match call {
        Call::Acknowledge => store.acknowledge(name, &[position]).await,
        Call::Bury => store.bury(name, position, attempt(9)).await,
        Call::Requeue => store.requeue(name, &[position]).await.map(drop),
    };
    made.map_err(|error| Broken::new(format!("{call:?} failed: {error}")))
}

pub(super) fn touches_one_consumer(harness: &dyn StoreHarness) -> Verdict {
    for_histories(harness, |steps| async move {
        let mut bench = Bench::start(harness).await?;
        let ours = bench.register("ours", None).await?;
        let theirs = bench.register("theirs", None).await?;
        let half = steps.len() / 2;
        for (number, step) in steps.into_iter().enumerate() {
            let mut dice = Dice::new(step);
            if dice.below(3) == 0 {
                let set = bench.world.change_set(&mut dice);
                bench.commit(set).await?;
            }
            if number < half {
                operate(bench.store(), &bench.world.positions(), &theirs, &mut dice).await?;
            }
            let before = bench.answers().await?;
            operate(bench.store(), &bench.world.positions(), &ours, &mut dice).await?;
            let after = bench.answers().await?;
            hold!(before.of(&theirs) == after.of(&theirs), "a call for one consumer changed another's deliveries");
        }
        let before = bench.answers().await?;
        let renamed = spec("renamed", None).name;
        bench.store().rename(&ours, &renamed).await.map_err(Broken::tried("renaming"))?;
        bench.store().purge(&renamed).await.map_err(Broken::tried("purging"))?;
        let after = bench.answers().await?;
        hold!(before.of(&theirs) == after.of(&theirs), "renaming and purging one consumer changed another's deliveries");
        Ok(())
    })
}

/// What a call for a consumer answered, as far as it can be compared.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    Done,
    Given(Vec<(Position, u32)>),
    Queued(u64),
    Refused,
}

/// Something that a pump or an operator does to one consumer.
async fn operate(store: &dyn Store, events: &[Position], name: &ConsumerName, dice: &mut Dice) -> Result<Said, Broken> {
    let Some(position) = dice.pick(events).copied() else { return Ok(Said::Done) };
    let done = match dice.below(9) {
        0 | 1 => store.due(name, LATE, 3).await.map(|due| {
            let given = due.iter().map(|delivery| (delivery.position, delivery.attempt));
            Said::Given(given.collect())
        }),
        2 => store.acknowledge(name, &[position]).await.map(|()| Said::Done),
        3 => store.retry_later(name, position, attempt(1), Timestamp(5)).await.map(|()| Said::Done),
        4 => store.bury(name, position, attempt(9)).await.map(|()| Said::Done),
        5 => store.release(name, &[position]).await.map(|()| Said::Done),
        6 => {
            let named = if dice.below(2) == 0 { &[] } else { std::slice::from_ref(&position) };
            store.requeue(name, named).await.map(Said::Queued)
        }
        7 => store.pause(name, (dice.below(3) == 0).then(|| "by hand".to_owned())).await.map(|()| Said::Done),
        _ => match store.skip(name, position, Timestamp(7)).await {
            // It was delivered, or is not waiting.
            Err(StoreError::Invalid(_)) => Ok(Said::Refused),
            done => done.map(|()| Said::Done),
        },
    };
    done.map_err(Broken::tried("a call for a consumer"))
}

/// Whatever is done to deliveries, they are listed and counted as the store in memory lists and counts them.
pub(super) fn listed_as_in_memory(harness: &dyn StoreHarness) -> Verdict {
    for_histories(harness, |steps| async move {
        let disk = MemoryDisk::default();
        let memory = MemoryStore::open(&disk, true).map_err(Broken::tried("making a store in memory"))?;
        let mut bench = Bench::start(harness).await?;
        let filter = ConsumerFilter { chains: [sample::chain(1)].into(), ..ConsumerFilter::default() };
        let specs = [spec("all", None), ConsumerSpec { filter, ..spec("some", None) }];
        for spec in &specs {
            bench.store().register(spec).await.map_err(Broken::tried("registering a consumer"))?;
            memory.register(spec).await.map_err(Broken::tried("registering a consumer in memory"))?;
        }
        for step in steps {
            let mut dice = Dice::new(step);
            if dice.below(3) == 0 {
                let set = bench.world.change_set(&mut dice);
                memory.commit(set.clone()).await.map_err(Broken::tried("a commit in memory"))?;
                bench.commit(set).await?;
            }
            let name = dice.pick(&specs).map_or(&specs[0].name, |spec| &spec.name);
            let (events, mut again) = (bench.world.positions(), dice.clone());
            let wanted = operate(&memory, &events, name, &mut dice).await?;
            let found = operate(bench.store(), &events, name, &mut again).await?;
            hold!(found == wanted, "a call for {name} should be answered with {wanted:?} and was with {found:?}");
            let wanted = answers(&memory).await.map_err(Broken::tried("asking the store in memory"))?;
            let found = bench.answers().await?;
            for spec in &specs {
                let (wanted, found) = (wanted.of(&spec.name), found.of(&spec.name));
                hold!(found == wanted, "the deliveries of {} should be {wanted:?} and are {found:?}", spec.name);
            }
        }
        Ok(())
    })
}

/// A store that holds five events and knows one consumer.
async fn with_events(harness: &dyn StoreHarness) -> Result<(Bench, ConsumerName), Broken> {
    let mut bench = Bench::start(harness).await?;
    let name = bench.register("old", None).await?;
    for height in 1..6 {
        let set = bench.world.confirm_new(&sample::chain(0), 1, height);
        bench.commit(set).await?;
    }
    Ok((bench, name))
}

pub(super) async fn a_start_must_be_given(harness: &dyn StoreHarness) -> Verdict {
    let (bench, _) = with_events(harness).await?;
    match bench.store().register(&spec("new", None)).await {
        Err(StoreError::Invalid(text)) => hold!(!text.is_empty(), "the refusal does not say what to do"),
        other => return Err(Broken::new(format!("a new consumer of a store with events, without a start: {other:?}"))),
    }
    let consumers = bench.store().consumers().await.map_err(Broken::tried("listing consumers"))?;
    hold!(consumers.len() == 1, "a consumer that was refused is there: {consumers:?}");
    Ok(())
}

pub(super) async fn a_start_is_followed(harness: &dyn StoreHarness) -> Verdict {
    let (mut bench, old) = with_events(harness).await?;
    let now = bench.register("now", Some(ConsumerStart::Now)).await?;
    let beginning = bench.register("beginning", Some(ConsumerStart::Beginning)).await?;
    let set = bench.world.confirm_new(&sample::chain(0), 1, 6);
    bench.commit(set).await?;
    bench.reopen().await?;
    for (name, wanted) in [(&now, 1), (&beginning, 6), (&old, 6)] {
        let given = bench.drain(name).await?.len();
        hold!(given == wanted, "of five events and a sixth that came later, {name} should get {wanted} and got {given}");
    }
    // The start counts once: known consumers go on where they are.
    let again = bench.register("now", Some(ConsumerStart::Beginning)).await?;
    let given = bench.drain(&again).await?.len();
    hold!(given == 0, "a known consumer was registered with another start, and {given} events came again");
    Ok(())
}

pub(super) async fn records_stay_until_purged(harness: &dyn StoreHarness) -> Verdict {
    let (mut bench, old) = with_events(harness).await?;
    let due = positions(&bench.due(&old, 2).await?);
    let [first, second] = due.as_slice() else { return Err(Broken::new(format!("of five events came {due:?}"))) };
    bench.store().acknowledge(&old, &[*first]).await.map_err(Broken::tried("an acknowledgement"))?;
    bench.store().bury(&old, *second, attempt(9)).await.map_err(Broken::tried("burying"))?;
    bench.register("other", Some(ConsumerStart::Now)).await?;
    let before = bench.answers().await?;
    // Starts without the old consumer in the configuration.
    for _ in 0..2 {
        bench.reopen().await?;
        bench.register("other", None).await?;
    }
    let after = bench.answers().await?;
    hold!(before.of(&old) == after.of(&old), "a consumer that is not configured any more lost records");
    let renamed = spec("renamed", None).name;
    bench.store().rename(&old, &renamed).await.map_err(Broken::tried("renaming"))?;
    bench.register("renamed", None).await?;
    let taken = bench.store().rename(&renamed, &spec("other", None).name).await;
    hold!(matches!(taken, Err(StoreError::Invalid(_))), "renaming onto a consumer with records: {taken:?}");
    let left = bench.drain(&renamed).await?.len();
    hold!(left == 3, "of five events one was delivered and one buried; the renamed consumer gets {left}");
    let gone = bench.store().purge(&renamed).await.map_err(Broken::tried("purging"))?;
    hold!(gone == 1, "one undelivered event was given up, {gone} were counted");
    let consumers = bench.store().consumers().await.map_err(Broken::tried("listing consumers"))?;
    hold!(consumers.len() == 1, "after one of two was purged: {consumers:?}");
    Ok(())
}

/// Events in the trial of lists; more than may be looked at for two pages.
const MANY: u64 = 4_010;

/// Every page, each of at most `limit`; the trial ends if they do not.
async fn delivered(bench: &Bench, name: &ConsumerName, limit: usize) -> Result<Vec<Vec<DeliveryRecord>>, Broken> {
    let (mut below, mut pages) = (None, Vec::new());
    loop {
        let asked = bench.store().delivered(name, below, limit).await;
        let page = asked.map_err(Broken::tried("listing what was delivered"))?;
        hold!(page.records.len() <= limit, "{} records on a page of {limit}", page.records.len());
        hold!(
            page.below.is_none() || below.is_none() || page.below < below,
            "from below {below:?} it went on below {:?}",
            page.below
        );
        below = page.below;
        pages.push(page.records);
        if below.is_none() {
            return Ok(pages);
        }
    }
}

pub(super) async fn what_was_delivered_is_listed(harness: &dyn StoreHarness) -> Verdict {
    hold!(usize::try_from(MANY).is_ok_and(|many| many > 2 * DELIVERED_LOOK_MAX), "the trial has too few events");
    let mut bench = Bench::start(harness).await?;
    let all = bench.register("all", None).await?;
    let rare = ConsumerSpec {
        filter: ConsumerFilter { chains: [sample::chain(1)].into(), ..ConsumerFilter::default() },
        ..spec("rare", None)
    };
    bench.store().register(&rare).await.map_err(Broken::tried("registering a consumer"))?;
    // One of the rare consumer's before and behind many of others.
    for (chain, count, height) in [(1, 1, 1), (0, MANY, 1), (1, 1, 2)] {
        let set = bench.world.confirm_new(&sample::chain(chain), count, height);
        bench.commit(set).await?;
    }
    let events = bench.world.positions();
    let [first, second, third, .., last] = events.as_slice() else { return Err(Broken::new("no events")) };
    let none = delivered(&bench, &all, 10).await?;
    hold!(none.iter().all(Vec::is_empty), "nothing was handed out, and {none:?} is listed as delivered");
    bench.drain(&rare.name).await?;
    let found: Vec<Position> = delivered(&bench, &rare.name, 10).await?.iter().flatten().map(|record| record.position).collect();
    hold!(found == [*last, *first], "delivered were {last} and {first}, listed are {found:?}");
    // Handed out are three: one fails, one is given up; they are not delivered.
    bench.due(&all, 3).await?;
    let store = bench.store();
    store.acknowledge(&all, &[*second]).await.map_err(Broken::tried("acknowledging"))?;
    store.bury(&all, *first, attempt(1)).await.map_err(Broken::tried("burying"))?;
    store.skip(&all, *third, Timestamp(7)).await.map_err(Broken::tried("skipping"))?;
    let found: Vec<Position> = delivered(&bench, &all, 10).await?.iter().flatten().map(|record| record.position).collect();
    hold!(found == [*second], "delivered was {second}, listed are {found:?}");
    bench.reopen().await?;
    let found: Vec<Position> = delivered(&bench, &all, 1).await?.iter().flatten().map(|record| record.position).collect();
    hold!(found == [*second], "delivered was {second}, listed after a start are {found:?}");
    Ok(())
}
