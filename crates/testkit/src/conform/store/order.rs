//! Trials of the outbox' order over random histories (T4), followed with a book per consumer.

use super::support::{ALL, Bench, LATE, attempt, for_histories, positions, spec};
use super::world::Dice;
use super::{StoreHarness, StoreTest};
use crate::conform::{Broken, Verdict, hold, sample};
use confirmd_core::{ConsumerFilter, ConsumerSpec, Delivery, Event, Notice, Position, Timestamp};
use std::collections::BTreeSet;
use std::task::Poll;

/// What one consumer was given so far.
struct Book {
    spec: ConsumerSpec,
    out: BTreeSet<Position>,
    done: BTreeSet<Position>,
}

impl Book {
    fn wanted<'a>(&'a self, bench: &'a Bench) -> impl Iterator<Item = (Position, &'a Event, &'a [u8])> {
        let events = bench.world.events.iter().filter(|(_, event, _)| self.spec.filter.takes(event));
        events.map(|(position, event, body)| (*position, event, &**body))
    }

    /// What may be tried, in outbox order: of each key the lowest undelivered one, unless it is out.
    fn eligible(&self, bench: &Bench) -> Vec<Position> {
        let mut busy = BTreeSet::new();
        let mut eligible = Vec::new();
        for (position, event, _) in self.wanted(bench) {
            let key = (event.chain.clone(), event.transfer.key.clone());
            if !self.done.contains(&position) && busy.insert(key) && !self.out.contains(&position) {
                eligible.push(position);
            }
        }
        eligible
    }

    /// Takes what was handed out, after comparing it with what should have been.
    fn take(&mut self, bench: &Bench, due: &[Delivery], limit: usize) -> Verdict {
        let name = &self.spec.name;
        let given: Vec<_> = due.iter().map(|delivery| delivery.position).collect();
        let eligible = self.eligible(bench);
        let wanted = eligible.get(..limit.min(eligible.len())).unwrap_or_default();
        hold!(given == wanted, "{name} may be given {wanted:?} and was given {given:?}");
        for delivery in due {
            let there = self.wanted(bench).find(|(position, ..)| *position == delivery.position);
            let Some((_, event, body)) = there else { return Err(Broken::new("a delivery without its event")) };
            let same = delivery.event == event.id && delivery.key == event.transfer.key && delivery.sequence == event.sequence;
            hold!(same && delivery.chain == event.chain && delivery.kind == event.kind(), "{event:?} came as {delivery:?}");
            hold!(*delivery.body == *body, "the body of {} has changed", event.id);
        }
        self.out.extend(given);
        Ok(())
    }
}

pub(super) fn events_come_out_in_order(harness: &dyn StoreHarness) -> Verdict {
    for_histories(harness, |steps| async move {
        let mut bench = Bench::start(harness).await?;
        bench.world.notices = true;
        let asks = ConsumerFilter { notices: Notice::ALL.into(), ..ConsumerFilter::default() };
        let all = ConsumerSpec { filter: asks, ..spec("all", None) };
        let filter = ConsumerFilter { chains: [sample::chain(0)].into(), ..ConsumerFilter::default() };
        let some = ConsumerSpec { filter, ..spec("some", None) };
        let mut books = [all, some].map(|spec| Book { spec, out: BTreeSet::new(), done: BTreeSet::new() });
        register(&bench, &mut books).await?;
        for step in steps {
            let mut dice = Dice::new(step);
            match dice.below(10) {
                0..4 => {
                    let set = bench.world.change_set(&mut dice);
                    bench.commit(set).await?;
                }
                9 => {
                    match harness.unable(StoreTest::Crash) {
                        None => bench.crash().await?,
                        Some(_) => bench.reopen().await?,
                    }
                    register(&bench, &mut books).await?;
                }
                choice => {
                    let [all, some] = &mut books;
                    let book = if dice.below(2) == 0 { all } else { some };
                    pump_step(&bench, book, choice, &mut dice).await?;
                }
            }
        }
        for book in &mut books {
            drain(&bench, book).await?;
        }
        Ok(())
    })
}

/// What is out after a start is taken back.
async fn register(bench: &Bench, books: &mut [Book]) -> Verdict {
    for book in books {
        bench.store().register(&book.spec).await.map_err(Broken::tried("registering a consumer"))?;
        book.out.clear();
    }
    Ok(())
}

async fn pump_step(bench: &Bench, book: &mut Book, choice: u64, dice: &mut Dice) -> Verdict {
    let (store, name) = (bench.store(), book.spec.name.clone());
    let out: Vec<_> = book.out.iter().copied().collect();
    let some: Vec<_> = out.iter().copied().filter(|_| dice.below(2) == 0).collect();
    match choice {
        4 | 5 => {
            let limit = usize::try_from(dice.below(4) + 1).unwrap_or(1);
            let due = store.due(&name, LATE, limit).await.map_err(Broken::tried("asking for deliveries"))?;
            book.take(bench, &due, limit)?;
        }
        6 => {
            store.acknowledge(&name, &some).await.map_err(Broken::tried("an acknowledgement"))?;
            book.out.retain(|position| !some.contains(position));
            book.done.extend(some);
        }
        7 => {
            store.release(&name, &some).await.map_err(Broken::tried("a release"))?;
            book.out.retain(|position| !some.contains(position));
        }
        _ => {
            for position in some {
                let later = store.retry_later(&name, position, attempt(1), Timestamp(dice.below(1_000))).await;
                later.map_err(Broken::tried("putting a retry off"))?;
                book.out.remove(&position);
            }
        }
    }
    Ok(())
}

/// Everything is delivered in the end, each exactly once after it was acknowledged.
async fn drain(bench: &Bench, book: &mut Book) -> Verdict {
    let out: Vec<_> = book.out.iter().copied().collect();
    bench.store().release(&book.spec.name, &out).await.map_err(Broken::tried("a release"))?;
    book.out.clear();
    for _ in 0..ALL {
        let due = bench.due(&book.spec.name, 3).await?;
        book.take(bench, &due, 3)?;
        if due.is_empty() {
            break;
        }
        let positions: Vec<_> = std::mem::take(&mut book.out).into_iter().collect();
        bench.store().acknowledge(&book.spec.name, &positions).await.map_err(Broken::tried("an acknowledgement"))?;
        book.done.extend(positions);
    }
    let missing: Vec<_> = book.wanted(bench).map(|(position, ..)| position).filter(|p| !book.done.contains(p)).collect();
    hold!(missing.is_empty(), "{} never got the events at {missing:?}", book.spec.name);
    Ok(())
}

pub(super) async fn lost_handouts_come_again(harness: &dyn StoreHarness) -> Verdict {
    let mut bench = Bench::start(harness).await?;
    let name = bench.register("ledger", None).await?;
    let set = bench.world.confirm_new(&sample::chain(0), 5, 1);
    bench.commit(set).await?;
    for _ in 0..5 {
        let polled = {
            let mut due = std::pin::pin!(bench.store().due(&name, LATE, 2));
            // Polled once, so that it has begun; then whoever asked goes away.
            std::future::poll_fn(|context| Poll::Ready(due.as_mut().poll(context))).await
        };
        if let Poll::Ready(given) = polled {
            let given = positions(&given.map_err(Broken::tried("asking for deliveries"))?);
            bench.store().release(&name, &given).await.map_err(Broken::tried("a release"))?;
        }
    }
    let given = bench.drain(&name).await?.len();
    hold!(given == 5, "five events were committed; after a caller went away {given} of them come");
    Ok(())
}
