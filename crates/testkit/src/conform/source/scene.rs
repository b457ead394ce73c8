//! What trials share: a chain with payments, what the source must say of it, and what it did say.

use super::{Act, Facts, Output, SourceHarness};
use crate::conform::{Broken, Verdict, hold};
use confirmd_core::{
    Address, Amount, AssetId, BlockRef, ChainSource, Height, SourceError, SourceErrorKind, Transfer, TxId, WatchEntry,
    WatchOrigin, WatchSet, WatchState,
};
use std::sync::Arc;

/// The least that is paid; nodes refuse to pass on less.
const UNIT: u64 = 100_000;

/// A payment, as far as every chain has it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Row {
    pub(super) height: Height,
    pub(super) tx: TxId,
    pub(super) to: Address,
    pub(super) asset: AssetId,
    pub(super) amount: Amount,
}

/// One trial's chain.
pub(super) struct Scene<'a> {
    pub(super) harness: &'a dyn SourceHarness,
    pub(super) source: Arc<dyn ChainSource>,
    pub(super) facts: Facts,
    /// The first height that the trial mined.
    pub(super) first: Height,
    waiting: Vec<(TxId, usize, Amount)>,
    paid: Vec<Row>,
}

impl<'a> Scene<'a> {
    pub(super) async fn begin(harness: &'a dyn SourceHarness) -> Result<Self, Broken> {
        let first = harness.tip().await?.height.next();
        let (source, facts) = (harness.source(), harness.facts());
        Ok(Self { harness, source, facts, first, waiting: Vec::new(), paid: Vec::new() })
    }

    /// With payments to addresses 0 and 1: alone, together in a block, in one transaction where that can be; empty blocks
    /// between and behind them.
    pub(super) async fn with_payments(harness: &'a dyn SourceHarness) -> Result<Self, Broken> {
        let mut scene = Self::begin(harness).await?;
        scene.mine(1).await?;
        scene.pay(0, 1).await?;
        scene.pay(1, 2).await?;
        scene.pay(0, 3).await?;
        scene.mine(2).await?;
        scene.pay(1, 4).await?;
        scene.mine(1).await?;
        scene.pay(0, 5).await?;
        scene.mine(2).await?;
        Ok(scene)
    }

    /// One payment; it waits.
    pub(super) async fn pay(&mut self, to: usize, units: u64) -> Result<TxId, Broken> {
        self.pay_many(&[(to, units)]).await
    }

    /// One transaction; it waits.
    pub(super) async fn pay_many(&mut self, outputs: &[(usize, u64)]) -> Result<TxId, Broken> {
        let amounts: Vec<_> = outputs.iter().map(|(to, units)| (*to, Amount::from(UNIT + units))).collect();
        self.pay_amounts(&amounts).await
    }

    /// One transaction with exact amounts; it waits.
    pub(super) async fn pay_amounts(&mut self, outputs: &[(usize, Amount)]) -> Result<TxId, Broken> {
        let sent: Vec<_> = outputs.iter().map(|(to, amount)| Output { to: self.harness.address(*to), amount: *amount }).collect();
        let tx = self.harness.pay(&sent).await?;
        self.waiting.extend(outputs.iter().map(|(to, amount)| (tx.clone(), *to, *amount)));
        Ok(tx)
    }

    pub(super) async fn mine(&mut self, blocks: u32) -> Verdict {
        let height = self.harness.tip().await?.height.next();
        self.harness.mine(blocks).await?;
        // In this one every harness pays.
        let first = self.source.profile().assets.first();
        let asset = first.ok_or_else(|| Broken::new("the source's profile lists no asset"))?.asset.id.clone();
        for (tx, to, amount) in std::mem::take(&mut self.waiting) {
            let to = self.address(to)?;
            self.paid.push(Row { height, tx, to, asset: asset.clone(), amount });
        }
        Ok(())
    }

    /// Mines until everything so far is far below the tip, and lets the source see the tip.
    pub(super) async fn bury(&mut self) -> Verdict {
        let depth = self.source.profile().reorg_depth.get();
        self.mine(u32::try_from(depth).unwrap_or(u32::MAX).saturating_add(2)).await?;
        self.source.tip().await.map_err(tried("asking for the tip"))?;
        Ok(())
    }

    /// Does something else with the network or the node.
    pub(super) async fn act(&self, act: Act) -> Verdict {
        self.harness.act(act).await
    }

    /// Address of the harness, as the source reads it.
    pub(super) fn address(&self, number: usize) -> Result<Address, Broken> {
        let text = self.harness.address(number);
        self.source
            .parse_address(&text)
            .map_err(|error| Broken::new(format!("reading the harness' own address {text:?}: {error}")))
    }

    /// These addresses, with all listed assets.
    pub(super) fn watch(&self, numbers: &[usize]) -> Result<WatchSet, Broken> {
        let mut watch = WatchSet::default();
        self.source.profile().assets.iter().for_each(|asset| watch.put_asset(asset.clone()));
        for number in numbers {
            watch.put_address(entry(self.address(*number)?, WatchState::Watching));
        }
        Ok(watch)
    }

    /// The network's own tip.
    pub(super) async fn tip(&self) -> Result<BlockRef, Broken> {
        self.harness.tip().await
    }

    /// The network's own block.
    pub(super) async fn block(&self, height: Height) -> Result<BlockRef, Broken> {
        let block = self.harness.block_at(height).await?;
        block.ok_or_else(|| Broken::new(format!("the harness has no block at {height}")))
    }

    /// All payments from the first height to the network's tip.
    pub(super) async fn read(&self, watch: &WatchSet) -> Result<Vec<Transfer>, Broken> {
        self.read_range(self.first, self.tip().await?.height, watch).await
    }

    /// Payments of a range of the network's best chain. A node that is behind for a moment is no failure of the source.
    pub(super) async fn read_range(&self, from: Height, to: Height, watch: &WatchSet) -> Result<Vec<Transfer>, Broken> {
        let to = self.block(to).await?;
        let answer = self.source.transfers(from, &to, watch).await;
        answer.map_err(|error| {
            Broken::new(format!("reading payments of {from} to {to} failed ({:?}): {}", error.kind, chain_of(&error)))
        })
    }

    /// What was paid to these addresses in these blocks, sorted.
    pub(super) fn expected(&self, numbers: &[usize], from: Height, to: Height) -> Result<Vec<Row>, Broken> {
        let addresses = numbers.iter().map(|number| self.address(*number)).collect::<Result<Vec<_>, _>>()?;
        let wanted = |row: &&Row| row.height >= from && row.height <= to && addresses.contains(&row.to);
        let mut rows: Vec<_> = self.paid.iter().filter(wanted).cloned().collect();
        rows.sort();
        Ok(rows)
    }

    /// What was paid to these addresses so far, sorted.
    pub(super) fn all(&self, numbers: &[usize]) -> Result<Vec<Row>, Broken> {
        self.expected(numbers, Height(0), Height(u64::MAX))
    }

    /// The heights at which the trial's payments are, lowest first.
    pub(super) fn paid_heights(&self) -> Vec<Height> {
        let mut heights: Vec<_> = self.paid.iter().map(|row| row.height).collect();
        heights.sort();
        heights.dedup();
        heights
    }

    /// A reading of everything gives what was paid.
    pub(super) async fn holds_all(&self, numbers: &[usize], when: &str) -> Verdict {
        let found = rows(&self.read(&self.watch(numbers)?).await?);
        same(&found, &self.all(numbers)?, when)
    }

    /// A block that nobody has, at the tip's height.
    pub(super) async fn unknown(&self) -> Result<BlockRef, Broken> {
        let tip = self.tip().await?;
        let mut hash = tip.hash.as_str().to_owned();
        let last = hash.pop().unwrap_or('0');
        hash.push(if last == '0' { '1' } else { '0' });
        let hash = confirmd_core::BlockHash::new(hash).map_err(|error| Broken::new(error.to_string()))?;
        Ok(BlockRef { hash, ..tip })
    }
}

pub(super) fn entry(address: Address, state: WatchState) -> WatchEntry {
    WatchEntry { address, reference: None, from: Height(0), origin: WatchOrigin::Config, state, history: None }
}

/// The answer's payments, sorted.
pub(super) fn rows(transfers: &[Transfer]) -> Vec<Row> {
    let row = |t: &Transfer| Row {
        height: t.block.height,
        tx: t.key.tx_id.clone(),
        to: t.payment.address.clone(),
        asset: t.payment.asset.clone(),
        amount: t.payment.amount,
    };
    let mut rows: Vec<_> = transfers.iter().map(row).collect();
    rows.sort();
    rows
}

pub(super) fn same(found: &[Row], expected: &[Row], when: &str) -> Verdict {
    hold!(found == expected, "{when}: answered {}, paid were {}", listed(found), listed(expected));
    Ok(())
}

fn listed(rows: &[Row]) -> String {
    let row = |row: &Row| format!("{} {} to {} in {} at {}", row.amount, row.asset, row.to, row.tx, row.height);
    format!("{} ({})", rows.len(), rows.iter().map(row).collect::<Vec<_>>().join("; "))
}

/// An error with its causes.
pub(super) fn chain_of(error: &SourceError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// For `map_err`: the call should have been answered.
pub(super) fn tried(what: &'static str) -> impl Fn(SourceError) -> Broken {
    move |error| Broken::new(format!("{what} failed ({:?}): {}", error.kind, chain_of(&error)))
}

/// What a call must fail with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fails {
    Transient,
    Orphaned,
    Fatal,
}

/// The call failed so; gives the error.
pub(super) fn fails<T: std::fmt::Debug>(answer: Result<T, SourceError>, with: Fails, when: &str) -> Result<SourceError, Broken> {
    let error = match answer {
        Err(error) => error,
        Ok(answer) => return Err(Broken::new(format!("{when}: {with:?} was due, answered was {answer:?}"))),
    };
    let is = match error.kind {
        SourceErrorKind::Transient { .. } => Fails::Transient,
        SourceErrorKind::Orphaned => Fails::Orphaned,
        SourceErrorKind::Fatal => Fails::Fatal,
    };
    hold!(is == with, "{when}: {with:?} was due, failed with {is:?}: {}", chain_of(&error));
    Ok(error)
}

/// Lets the call run for so many turns, then drops it. Gives its answer if it was done.
pub(super) async fn run_for<F: Future>(turns: u32, call: F) -> Option<F::Output> {
    let mut call = std::pin::pin!(call);
    for _ in 0..turns {
        let polled = std::future::poll_fn(|context| std::task::Poll::Ready(call.as_mut().poll(context))).await;
        if let std::task::Poll::Ready(answer) = polled {
            return Some(answer);
        }
        tokio::task::yield_now().await;
    }
    None
}
