//! B12: what a tick and a start cost by what is held, one curve for each kind of size.

use super::plot::{Curve, svg};
use super::report::Goal;
use super::snapshot_model::SnapshotModel;
use crate::ledger::{Held, Ledger};
use crate::ratio::median;
use crate::usage::{Usage, Used};
use anyhow::{Context, Result};
use confirmd_core::{ChainSource, ChainState, Change, ChangeSet, Height};
use confirmd_engine::{ReorgWalker, Walk};
use confirmd_testkit::ScriptedChain;
use confirmd_testkit::scripted::scripted_profile;
use std::path::Path;

const ROUNDS: u64 = 9;
const TICKS: u64 = 20;
const WARM_UP_TICKS: u64 = 5;
/// The model rewrites everything: few ticks say enough.
const MODEL_TICKS: u64 = 5;
const TICK_MOST: u64 = 120;
const START_MOST: u64 = 150;

/// One kind of size.
struct Kind {
    name: &'static str,
    sizes: &'static [u32],
    held: fn(u32) -> Held,
}

/// The last size is left to the full run.
const KINDS: [Kind; 5] = [
    Kind {
        name: "settled",
        sizes: &[1_000, 10_000, 100_000, 1_000_000],
        held: |n| Held { settled: u64::from(n), ..Held::default() },
    },
    Kind { name: "watched", sizes: &[1_000, 10_000, 100_000, 1_000_000], held: |n| Held { watched: n, ..Held::default() } },
    Kind { name: "pending", sizes: &[10, 100, 1_000, 10_000, 100_000], held: |n| Held { pending: n, ..Held::default() } },
    Kind { name: "backlog", sizes: &[0, 1_000, 10_000, 100_000, 1_000_000], held: |n| Held { backlog: n, ..Held::default() } },
    Kind { name: "chain length", sizes: &[1_000, 10_000, 100_000], held: |n| Held { length: n, ..Held::default() } },
];

/// What was found at one size.
#[derive(Debug, Clone, Copy)]
struct Point {
    size: u64,
    tick: Used,
    /// Syncs of a hundred ticks.
    syncs: u64,
    start: Used,
}

/// Every curve, written to a folder as SVG. `quick`: without each one's largest size.
pub async fn growth(quick: bool, plots: &Path) -> Result<Goal> {
    std::fs::create_dir_all(plots).with_context(|| format!("making {}", plots.display()))?;
    let mut goal = Goal::new("B12");
    for kind in &KINDS {
        let sizes = if quick { kind.sizes.split_last().map_or(kind.sizes, |(_, rest)| rest) } else { kind.sizes };
        let points = points(kind, sizes).await?;
        let (Some(first), Some(last)) = (points.first(), points.last()) else { continue };
        let what = format!("{} {} to {}", kind.name, first.size, last.size);
        goal = goal
            .ratio(&format!("{what}: a tick's CPU"), last.tick.cpu_ns, first.tick.cpu_ns, TICK_MOST)
            .ratio("bytes", last.tick.written_bytes, first.tick.written_bytes, TICK_MOST)
            .ratio("syncs", last.syncs, first.syncs, TICK_MOST)
            .ratio("start-up CPU", last.start.cpu_ns, first.start.cpu_ns, START_MOST);
        let mut curves = curves(&points);
        if kind.name == "settled" {
            curves.push(model()?);
        }
        let file = plots.join(format!("{}.svg", kind.name.replace(' ', "-")));
        std::fs::write(&file, svg(&format!("A tick and a start by {}", kind.name), kind.name, &curves))?;
    }
    let (goal, curve) = ancestor_searches(goal).await?;
    std::fs::write(plots.join("reorg-depth.svg"), svg("Requests of an ancestor search", "reorg depth", &[curve]))?;
    println!("B12 plots are in {}", plots.display());
    Ok(if quick { goal.lacks("each curve's largest size needs the full run") } else { goal })
}

/// All sizes in turn, round by round.
async fn points(kind: &Kind, sizes: &[u32]) -> Result<Vec<Point>> {
    let mut ledgers = Vec::new();
    for size in sizes {
        let (ledger, start) = Ledger::holding((kind.held)(*size)).await?;
        ledgers.push((*size, ledger, start, Vec::new(), 0));
    }
    for _ in 0..ROUNDS {
        for (_, ledger, _, used, syncs) in &mut ledgers {
            ledger.ticks(WARM_UP_TICKS).await?;
            let (usage, before) = (Usage::now()?, ledger.syncs());
            ledger.ticks(TICKS).await?;
            used.push(usage.used()?.each(TICKS));
            *syncs += ledger.syncs() - before;
        }
    }
    let mut points = Vec::new();
    for (size, _, start, used, syncs) in ledgers {
        let of = |read: fn(&Used) -> u64| median(used.iter().map(read).collect());
        let tick = Used {
            cpu_ns: of(|used| used.cpu_ns),
            wall_ns: of(|used| used.wall_ns),
            written_bytes: of(|used| used.written_bytes),
        };
        let point = Point { size: u64::from(size), tick, syncs: syncs * 100 / (ROUNDS * TICKS), start };
        println!(
            "B12 {} {size}: a tick {} us CPU, {} bytes, {}.{:02} syncs; start {} us CPU",
            kind.name,
            tick.cpu_ns / 1_000,
            tick.written_bytes,
            point.syncs / 100,
            point.syncs % 100,
            start.cpu_ns / 1_000
        );
        points.push(point);
    }
    Ok(points)
}

fn curves(points: &[Point]) -> Vec<Curve> {
    let curve = |name: &str, read: fn(&Point) -> u64| Curve {
        name: name.to_owned(),
        points: points.iter().map(|point| (point.size, read(point))).collect(),
    };
    vec![
        curve("a tick's CPU, us", |point| point.tick.cpu_ns / 1_000),
        curve("a tick's bytes", |point| point.tick.written_bytes),
        curve("syncs of a hundred ticks", |point| point.syncs),
        curve("a start's CPU, us", |point| point.start.cpu_ns / 1_000),
    ]
}

/// The snapshot-rewriting design, with one payment a tick.
fn model() -> Result<Curve> {
    let mut points = Vec::new();
    for settled in [1_000, 10_000, 100_000] {
        let used = SnapshotModel::with_settled(settled)?.measured(MODEL_TICKS)?;
        println!(
            "B12 snapshot-rewriting model, settled {settled}: a tick {} us CPU, {} bytes",
            used.cpu_ns / 1_000,
            used.written_bytes
        );
        points.push((settled, used.cpu_ns / 1_000));
    }
    Ok(Curve { name: "a tick's CPU of a design that rewrites its snapshot, us".to_owned(), points })
}

/// Requests until the common ancestor of a reorg is found.
async fn ancestor_searches(mut goal: Goal) -> Result<(Goal, Curve)> {
    let mut points = Vec::new();
    for depth in [1u64, 2, 5, 10, 20, 50, 100] {
        let chain = ScriptedChain::new(scripted_profile("bench", 1, 200));
        chain.mine_empty(150);
        let mut state = ChainState::default();
        let mut set = ChangeSet::new(chain.profile().chain.clone(), state.version);
        for height in 1..=150 {
            set.changes.push(Change::TrailPushed(chain.best_block(Height(height)).context("a block that was mined")?));
        }
        state.apply(&set);
        chain.fork(usize::try_from(depth)?);
        chain.mine_empty(depth + 1);
        let before = chain.requests();
        let found = ReorgWalker.walk(&chain, &state.trail).await.map_err(|error| anyhow::anyhow!("{error}"))?;
        let requests = chain.requests() - before;
        let right = matches!(&found, Walk::Forked { ancestor, .. } if ancestor.height == Height(150 - depth));
        goal = goal.clause(
            right && requests <= depth + 2,
            format!("a reorg of {depth} found in {requests} requests (at most {})", depth + 2),
        );
        points.push((depth, requests));
    }
    println!("B12 requests of an ancestor search by depth: {points:?}");
    Ok((goal, Curve { name: "requests".to_owned(), points }))
}
