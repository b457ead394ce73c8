//! Shows a catch-up: a bar with blocks per second and time left on a terminal, a log line now and then elsewhere.

use super::Tasks;
use crate::operator::{ChainSlot, LocalOperator};
use crate::stop::Stop;
use confirmd_core::ChainName;
use confirmd_engine::{ChainStatus, Phase};
use indicatif::{MultiProgress, ProgressBar, ProgressState, ProgressStyle};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often is looked.
const LOOK: Duration = Duration::from_millis(500);
/// How often a log line tells of a catch-up where there is no terminal.
const LINE: Duration = Duration::from_secs(30);
/// A shorter catch-up is over before anyone reads about it.
const WORTH_A_BAR: u64 = 20;

pub(super) fn spawn(operator: &Arc<LocalOperator>, bars: &MultiProgress, tasks: &mut Tasks) {
    let bars = std::io::stderr().is_terminal().then(|| bars.clone());
    tasks.spawn("progress", follow(operator.clone(), bars, tasks.stop().clone()));
}

async fn follow(operator: Arc<LocalOperator>, bars: Option<MultiProgress>, stop: Stop) {
    let mut shown: BTreeMap<ChainName, CatchUp> = BTreeMap::new();
    loop {
        tokio::select! {
            () = stop.stopped() => break,
            () = tokio::time::sleep(LOOK) => {}
        }
        let mut left: BTreeMap<ChainName, (Arc<ChainSlot>, u64, u64)> = BTreeMap::new();
        for slot in operator.chains.iter() {
            if let Some((at, to)) = slot.handle().and_then(|handle| left_of(&handle.status())) {
                left.insert(slot.name.clone(), (slot, at, to));
            }
        }
        shown.retain(|name, _| left.contains_key(name));
        for (name, (slot, at, to)) in left {
            match shown.get_mut(&name) {
                Some(catch_up) => catch_up.advance(at, to),
                None if to.saturating_sub(at) >= WORTH_A_BAR => {
                    shown.insert(name, CatchUp::new(&slot, bars.as_ref(), at, to));
                }
                None => {}
            }
        }
    }
}

/// Where a chain is and where it goes to, while it catches up.
fn left_of(status: &ChainStatus) -> Option<(u64, u64)> {
    let (at, to) = (status.trail_tip.as_ref()?.height.0, status.source_tip.as_ref()?.height.0);
    matches!(status.phase, Phase::CatchingUp).then_some((at, to))
}

struct CatchUp {
    chain: String,
    began: Instant,
    from: u64,
    bar: Option<ProgressBar>,
    line: Instant,
}

impl CatchUp {
    fn new(slot: &ChainSlot, bars: Option<&MultiProgress>, at: u64, to: u64) -> Self {
        let chain = slot.name.to_string();
        let bar = bars.map(|bars| {
            let bar = bars.add(ProgressBar::new(to.saturating_sub(at)));
            if let Ok(style) =
                ProgressStyle::with_template("{prefix:>16} [{bar:30}] {msg} {pos}/{len} blocks, {speed}, {eta} left")
            {
                let speed = |state: &ProgressState, out: &mut dyn Write| {
                    let _ = write!(out, "{:.0} blocks/s", state.per_sec());
                };
                bar.set_style(style.with_key("speed", speed).progress_chars("=> "));
            }
            bar.set_prefix(chain.clone());
            bar
        });
        Self { chain, began: Instant::now(), from: at, bar, line: Instant::now() }
    }

    fn advance(&mut self, at: u64, to: u64) {
        let done = at.saturating_sub(self.from);
        if let Some(bar) = &self.bar {
            bar.set_length(to.saturating_sub(self.from));
            bar.set_position(done);
            bar.set_message(format!("height {at}"));
        } else if self.line.elapsed() >= LINE {
            self.line = Instant::now();
            let per_second = done / self.began.elapsed().as_secs().max(1);
            let left = to.saturating_sub(at);
            tracing::info!(
                chain = self.chain,
                height = at,
                tip = to,
                blocks_per_second = per_second,
                seconds_left = left / per_second.max(1),
                "catching up"
            );
        }
    }
}

impl Drop for CatchUp {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        let blocks = self.bar.as_ref().map(ProgressBar::position);
        if let Some(blocks) = blocks {
            tracing::info!(chain = self.chain, blocks, seconds = self.began.elapsed().as_secs(), "catch-up ended");
        }
    }
}
