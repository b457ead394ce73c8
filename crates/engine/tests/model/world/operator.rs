//! What the operator does.

use super::{ADDRESSES, COMMAND_LONGEST, World};
use crate::store::Gate;
use confirmd_core::{
    Clock, ConsumerFilter, ConsumerName, ConsumerStart, DeliveryFilter, DeliveryState, HaltReason, Notice, Outbox, StoreError,
    WatchOrigin, WatchState,
};
use confirmd_engine::{NewWatch, Resume, offline};
use confirmd_testkit::ScriptedChain;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::time::timeout;

/// Deliveries looked at when some are given up.
const LISTED_MAX: usize = 1000;

impl World {
    /// A command at the running instance. When nobody answers, what was recorded counts.
    pub(super) async fn watch(&mut self, chain: usize, address: u8, add: bool) -> Result<(), String> {
        self.mind().await?;
        let Some(process) = &self.process else { return Ok(()) };
        let handle = process.handles[chain].clone();
        let named = ScriptedChain::address(ADDRESSES[usize::from(address)]);
        let answered = if add {
            let new = NewWatch { address: named, reference: None, origin: WatchOrigin::Command, from_height: None };
            let covered = timeout(COMMAND_LONGEST, handle.add(vec![new])).await;
            covered.is_ok_and(|answer| answer.is_ok())
        } else {
            timeout(COMMAND_LONGEST, handle.remove(vec![named])).await.is_ok_and(|answer| answer.is_ok())
        };
        self.mind().await?;
        match (answered, add) {
            (true, true) => drop(self.commanded[chain].insert(address)),
            (true, false) => drop(self.commanded[chain].remove(&address)),
            (false, _) => {
                let oracle = self.oracle.lock().unwrap();
                let watch = &oracle.chains[chain].mirror.watch;
                let watching = |address: &u8| {
                    let entry = watch.get(ADDRESSES[usize::from(*address)].as_bytes());
                    entry.is_some_and(|entry| entry.state == WatchState::Watching)
                };
                self.commanded[chain] = [2, 3].into_iter().filter(watching).collect();
            }
        }
        Ok(())
    }

    pub(super) async fn resume(&mut self, chain: usize, how: Resume, offline: bool) -> Result<(), String> {
        self.mind().await?;
        self.oracle().chains[chain].reverts_settled = how.revert_settled;
        if offline {
            self.stop().await;
            let (gate, source) = (self.open(), self.source(chain));
            let resumed = offline::resume(gate.as_ref(), &source, self.clock.as_ref(), how);
            let _ = timeout(COMMAND_LONGEST, resumed).await;
            drop(gate);
            self.disk.close();
            self.start().await;
        } else if let Some(process) = &self.process {
            let handle = process.handles[chain].clone();
            let _ = timeout(COMMAND_LONGEST, handle.resume(how)).await;
        }
        self.mind().await
    }

    pub(super) async fn tend(&mut self, consumer: usize) {
        let (Some(sink), Some(process)) = (self.sinks.get(consumer), &self.process) else { return };
        let name = sink.name.clone();
        let tended = async {
            process.gate.pause(&name, None).await?;
            process.gate.requeue(&name, &[]).await
        };
        let _ = timeout(COMMAND_LONGEST, tended).await;
        process.wake.notify_waiters();
    }

    /// A chain that halted is resumed: once for what was broken before, once for what is seen then.
    pub(super) async fn mend(&mut self, chain: usize, revert_settled: bool) -> Result<(), String> {
        for _ in 0..3 {
            let halt = self.oracle().chains[chain].mirror.halt.clone();
            let Some(halt) = halt else { return Ok(()) };
            let accept_reorg = matches!(halt.reason, HaltReason::TooDeep { .. });
            self.resume(chain, Resume { accept_reorg, revert_settled }, false).await?;
            self.pass(2).await?;
        }
        Ok(())
    }

    pub(super) async fn give_up(&mut self, consumer: usize, dead: bool) {
        let (Some(sink), Some(process)) = (self.sinks.get(consumer), &self.process) else { return };
        let filter = DeliveryFilter {
            consumer: Some(sink.name.clone()),
            state: dead.then_some(DeliveryState::Dead),
            ..DeliveryFilter::default()
        };
        let given_up = async {
            let mut listed = process.gate.list(&filter, None, LISTED_MAX).await?;
            listed.retain(|record| record.state != DeliveryState::Skipped);
            listed.truncate(if dead { LISTED_MAX } else { 1 });
            for record in listed {
                process.gate.skip(&sink.name, record.position, self.clock.now()).await?;
            }
            Ok::<_, StoreError>(())
        };
        let _ = timeout(COMMAND_LONGEST, given_up).await;
        process.wake.notify_waiters();
    }

    pub(super) async fn rename(&mut self, consumer: usize) {
        let Some(sink) = self.sinks.get(consumer).cloned() else { return };
        self.stop().await;
        self.renamed += 1;
        let to = ConsumerName::new(format!("{}-{}", role(&sink.name), self.renamed)).unwrap();
        let from = sink.name.clone();
        self.at_last(async |gate: Arc<Gate>| {
            let there = gate.consumers().await?.iter().any(|consumer| consumer.name == to);
            if there { Ok(()) } else { gate.rename(&from, &to).await }
        })
        .await;
        self.oracle().books.iter_mut().filter(|book| book.name == from).for_each(|book| book.name = to.clone());
        self.sinks[consumer] = Arc::new(sink.renamed(to));
        self.start().await;
    }

    /// The consumer's other side keeps what it holds.
    pub(super) async fn purge(&mut self, consumer: usize) {
        let Some(sink) = self.sinks.get(consumer).cloned() else { return };
        self.stop().await;
        self.at_last(async |gate: Arc<Gate>| {
            let there = gate.consumers().await?.iter().any(|consumer| consumer.name == sink.name);
            if there { gate.purge(&sink.name).await.map(drop) } else { Ok(()) }
        })
        .await;
        self.oracle().leave(&sink.name, ConsumerName::new(role(&sink.name)).unwrap());
        self.sinks.remove(consumer);
        self.starts.remove(consumer);
        self.start().await;
    }

    /// The first consumer that is not there.
    pub(super) async fn join_again(&mut self, beginning: bool) {
        let there: BTreeSet<&str> = self.sinks.iter().map(|sink| role(&sink.name)).collect();
        let Some(missing) = ["late", "failing"].into_iter().find(|name| !there.contains(name)) else { return };
        self.stop().await;
        let start = if beginning { ConsumerStart::Beginning } else { ConsumerStart::Now };
        let mut filter = ConsumerFilter { notices: [Notice::Settled].into(), ..ConsumerFilter::default() };
        if missing == "late" {
            filter.chains.insert(self.oracle().chains[0].id.clone());
        }
        self.join(missing, filter, start);
        self.start().await;
    }

    /// A command at the stopped instance, until it is known to be done.
    async fn at_last(&mut self, command: impl AsyncFn(Arc<Gate>) -> Result<(), StoreError>) {
        for _ in 0..3 {
            let gate = self.open();
            let done = timeout(COMMAND_LONGEST, command(gate)).await;
            self.disk.close();
            if let Ok(Ok(())) = done {
                return;
            }
        }
        self.oracle().violated("a command at the stopped instance never ends".to_owned());
    }
}

/// A consumer's name before it was changed.
fn role(name: &ConsumerName) -> &str {
    name.as_str().split('-').next().unwrap()
}
