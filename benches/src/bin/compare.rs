//! confirmd beside bare clients of the same nodes: floor, confirmd, floor in turn, three rounds; one table, and which goals are met.

#[allow(dead_code, unreachable_pub)]
#[path = "../../../tests/src/port.rs"]
mod port;
#[allow(dead_code, unreachable_pub)]
#[path = "../../../tests/src/postgres.rs"]
mod postgres;
#[allow(dead_code, unreachable_pub)]
#[path = "../../../tests/src/process.rs"]
mod process;
#[allow(dead_code, unreachable_pub)]
#[path = "../../../tests/src/scratch.rs"]
mod scratch;

use anyhow::{Result, anyhow, bail, ensure};
use benches::compare::database::Database;
use benches::compare::evm_chain::{EvmChain, WATCHED};
use benches::compare::figure::{Figure, median};
use benches::compare::growth::growth;
use benches::compare::head::head;
use benches::compare::matching::{decoding, matching};
use benches::compare::peer::Peer;
use benches::compare::report::{Goal, print, print_goals, print_head};
use benches::compare::restart::{Crowd, restart};
use benches::compare::rows::rows;
use benches::compare::subject::{Keys, catch_up};
use benches::compare::syncs::syncs;
use benches::compare::utxo_chain::UtxoChain;
use benches::compare::webhooks::webhooks;
use benches::ledger::loads_for_another;
use benches::process::build_confirmd;
use clap::Parser;
use postgres::Postgres;
use std::path::{Path, PathBuf};

const ROUNDS: usize = 3;
/// More than the node is asked to filter by.
const MANY: u64 = 10_001;
/// `reorg_depth` of the EVM chain.
const WINDOW: u64 = 64;

/// Recorded on 2026-11-30 on a quiet machine of the same kind, over a chain of 10,000 blocks; `RESULTS.md` has the details.
mod recorded {
    /// rindexer 0.41, 1,000 watched accounts: client CPU, in ms.
    pub(super) const RINDEXER_WATCHED_MS: u64 = 130;
    /// rindexer 0.41, all transfers.
    pub(super) const RINDEXER_ALL_MS: u64 = 740;
    /// Subsquid evm-processor 1.27.3, 1,000 watched accounts.
    pub(super) const SUBSQUID_WATCHED_MS: u64 = 3_000;
    /// Subsquid, all transfers.
    pub(super) const SUBSQUID_ALL_MS: u64 = 3_300;
    /// The BDK emitter 0.22.1: node and client CPU of a block of 21 transactions, in microseconds.
    pub(super) const BDK_SMALL_US: u64 = 1_280;
    /// The same of a block of 4,001 transactions.
    pub(super) const BDK_LARGE_US: u64 = 59_700;
}

/// Compares confirmd with bare clients of the same nodes.
#[derive(Debug, Parser)]
struct Args {
    /// A tenth of the chains.
    #[arg(long)]
    quick: bool,
    /// Only these goals; the others count as not measured.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Where the plots of the growth curves are written.
    #[arg(long, default_value = "target/plots")]
    plots: PathBuf,
    /// A program to run beside confirmd over the EVM chain; README.md has what it is told. rindexer, for example.
    #[arg(long)]
    peer_bin: Option<PathBuf>,
    /// The binary to measure; otherwise it is built, in the release profile.
    #[arg(long)]
    confirmd: Option<PathBuf>,
}

fn main() -> Result<()> {
    if loads_for_another()? {
        return Ok(());
    }
    let mut args = Args::parse();
    let tenths = if args.quick { 1 } else { 10 };
    let confirmd = args.confirmd.take().map_or_else(build_confirmd, Ok)?.canonicalize()?;
    println!("load average {}", std::fs::read_to_string("/proc/loadavg")?.trim());
    print_head();
    let mut run = Run { only: args.only, goals: Vec::new() };
    run.measure(&["B1", "B2", "B3"], || evm(&confirmd, tenths, args.peer_bin.as_deref()));
    let crowd = run.wants(&["B4", "B9", "B10"]).then(|| Crowd::make(&confirmd, 10_000 * tenths));
    run.measure(&["B4"], || Ok(vec![restart(&confirmd, crowd_of(&crowd)?)?]));
    let runtime = tokio::runtime::Runtime::new()?;
    // The server ends with the thread that starts it: this one.
    let server = run.wants(&["B5", "B10"]).then(|| runtime.block_on(start_postgres()));
    run.measure(&["B5"], || runtime.block_on(async { Ok(vec![head(&confirmd, &database_of(&server)?).await?]) }));
    run.measure(&["B6"], || Ok(vec![utxo(&confirmd, tenths)?]));
    run.measure(&["B7"], || Ok(vec![decoding()?]));
    run.measure(&["B8"], || Ok(vec![matching(args.quick)?]));
    run.measure(&["B9"], || Ok(vec![webhooks(&confirmd, crowd_of(&crowd)?)?]));
    run.measure(&["B10"], || {
        runtime.block_on(async { Ok(vec![rows(&confirmd, &database_of(&server)?, crowd_of(&crowd)?).await?]) })
    });
    run.measure(&["B11"], || Ok(vec![syncs(&confirmd)?]));
    run.measure(&["B12"], || runtime.block_on(async { Ok(vec![growth(args.quick, &args.plots).await?]) }));
    print_goals(&run.goals);
    println!("load average {}", std::fs::read_to_string("/proc/loadavg")?.trim());
    Ok(())
}

/// The goals so far, and which are asked for.
struct Run {
    only: Vec<String>,
    goals: Vec<Goal>,
}

impl Run {
    fn wants(&self, names: &[&str]) -> bool {
        self.only.is_empty() || names.iter().any(|name| self.only.iter().any(|only| only == name))
    }

    /// Measures what decides these goals. What fails says nothing about them, and the others are measured all the same.
    fn measure(&mut self, names: &[&'static str], work: impl FnOnce() -> Result<Vec<Goal>>) {
        let start = std::time::Instant::now();
        let found = if self.wants(names) { work() } else { Err(anyhow!("left out by --only")) };
        if self.wants(names) {
            println!("{} took {} s", names.join(", "), start.elapsed().as_secs());
        }
        match found {
            Ok(goals) => self.goals.extend(goals),
            Err(error) => {
                let why = format!("{error:#}");
                self.goals.extend(names.iter().map(|name| Goal::not_measured(name, why.lines().next().unwrap_or_default())));
                if self.wants(names) {
                    println!("{}: {why}", names.join(", "));
                }
            }
        }
    }
}

fn crowd_of(crowd: &Option<Result<Crowd>>) -> Result<&Crowd> {
    match crowd {
        Some(Ok(crowd)) => Ok(crowd),
        Some(Err(error)) => bail!("no chain with many deposits: {error:#}"),
        None => bail!("no chain with many deposits was asked for"),
    }
}

async fn start_postgres() -> Result<Postgres> {
    Postgres::start_in(benches::process::scratch("postgres")?, &[]).await
}

fn database_of(server: &Option<Result<Postgres>>) -> Result<Database> {
    match server {
        Some(Ok(server)) => {
            let (user, password) = Postgres::SUPERUSER;
            Ok(Database { url: server.url(user, "postgres"), password: password.to_owned() })
        }
        Some(Err(error)) => bail!("no PostgreSQL: {error:#}"),
        None => bail!("no PostgreSQL was asked for"),
    }
}

/// What rounds gave: medians, the subject's last keys, and the peers' medians in their order.
struct Found {
    floor: Figure,
    ours: Figure,
    keys: Keys,
    peers: Vec<Figure>,
}

/// Floor, subject, peers, floor.
fn rounds(
    name: &str,
    floor: impl Fn() -> Result<Figure>,
    subject: impl Fn() -> Result<(Figure, Keys)>,
    peers: &[Peer],
    peer: impl Fn(&Peer) -> Result<Figure>,
) -> Result<Found> {
    let (mut floors, mut subjects, mut keys) = (Vec::new(), Vec::new(), Keys::new());
    let mut theirs = vec![Vec::new(); peers.len()];
    for _ in 0..ROUNDS {
        floors.push(floor()?);
        let (figure, found) = subject()?;
        subjects.push(figure);
        keys = found;
        for (program, into) in peers.iter().zip(&mut theirs) {
            into.push(peer(program)?);
        }
        floors.push(floor()?);
    }
    let (floor, subject) = (median(&floors), median(&subjects));
    print(&format!("{name}: floor"), &floor);
    print(&format!("{name}: confirmd"), &subject);
    let theirs: Vec<Figure> = theirs.iter().map(|runs| median(runs)).collect();
    for (program, figure) in peers.iter().zip(&theirs) {
        print(&format!("{name}: {}", program.name), figure);
    }
    Ok(Found { floor, ours: subject, keys, peers: theirs })
}

/// A figure of a peer that was run beside us, else a recorded one.
fn of_peer(live: Option<u64>, recorded: u64) -> (u64, &'static str) {
    live.map_or((recorded, "recorded"), |figure| (figure, "run beside"))
}

fn print_recorded(name: &str, wall_ms: u64, client_ms: u64, requests: u64, peak_kb: u64, found: u64) {
    print(&format!("{name}, recorded 2026-11-30"), &Figure { wall_ms, client_ms, node_ms: 0, requests, peak_kb, found });
}

fn evm(confirmd: &Path, tenths: u64, given: Option<&Path>) -> Result<Vec<Goal>> {
    let subsquid = Peer::subsquid();
    let is_there = subsquid.is_some();
    let peers: Vec<Peer> = subsquid.into_iter().chain(given.map(Peer::given)).collect();
    let chain = EvmChain::make(1_000 * tenths)?;
    let expected = chain.keys_by_receipts()?;
    let deposits = u64::try_from(expected.len())?;
    let (section, all) = (chain.section(WATCHED), chain.section(MANY));
    let told = [chain.for_peers(true), chain.for_peers(false)];
    let [told, told_all] = &told;
    let Found { floor, ours, keys, peers: theirs } = rounds(
        "EVM, filtered by the node",
        || chain.floor_filtered(),
        || catch_up(confirmd, &chain.node, &section, deposits),
        &peers,
        |peer| peer.run(&chain.node, told),
    )?;
    ensure!(keys == expected, "the keys are not those of a receipts-only read");
    print_recorded("rindexer 0.41, 10,000 blocks", 550, recorded::RINDEXER_WATCHED_MS, 6, 66_000, 9_998);
    let Found { floor: floor_all, ours: ours_all, keys, peers: theirs_all } = rounds(
        "EVM, filtered here",
        || chain.floor_all(),
        || catch_up(confirmd, &chain.node, &all, deposits),
        &peers,
        |peer| peer.run(&chain.node, told_all),
    )?;
    ensure!(keys == expected, "the keys are not those of a receipts-only read");
    print_recorded("rindexer 0.41, all, 10,000 blocks", 1_410, recorded::RINDEXER_ALL_MS, 125, 60_000, 99_990);
    let subsquid = |theirs: &[Figure]| theirs.first().filter(|_| is_there).map(|figure| figure.client_ms);
    let of_ten = |ms: u64| ms * tenths / 10;
    let requests_max = (chain.tip + deposits + WINDOW) / 100 + 10;
    let (squid, how) = of_peer(subsquid(&theirs), of_ten(recorded::SUBSQUID_WATCHED_MS));
    let b1 = Goal::new("B1")
        .at_most(
            "client CPU against 1.5x rindexer's (recorded)",
            ours.client_ms,
            of_ten(recorded::RINDEXER_WATCHED_MS) * 3 / 2,
            "ms",
        )
        .at_most(&format!("and 1/15 of Subsquid's ({how})"), ours.client_ms, squid / 15, "ms")
        .ratio("wall against filtered logs alone", ours.wall_ms, floor.wall_ms, 200)
        .at_most("requests", ours.requests, requests_max, "")
        .clause(true, "keys equal those of a receipts-only read".to_owned());
    let (squid, how) = of_peer(subsquid(&theirs_all), of_ten(recorded::SUBSQUID_ALL_MS));
    let b2 = Goal::new("B2")
        .at_most("client CPU against rindexer's (recorded)", ours_all.client_ms, of_ten(recorded::RINDEXER_ALL_MS), "ms")
        .at_most(&format!("and 1/4 of Subsquid's ({how})"), ours_all.client_ms, squid / 4, "ms")
        .ratio("wall against logs and headers", ours_all.wall_ms, floor_all.wall_ms, 130);
    let peak = ours.peak_kb.max(ours_all.peak_kb);
    let b3 = Goal::new("B3").at_most("peak memory", peak, 48_000, "kB");
    let b3 = match tenths {
        1 => b3.lacks("its growth from 1,000 to 10,000 blocks needs the full run"),
        _ => {
            let small = EvmChain::make(1_000)?;
            let deposits = u64::try_from(small.keys_by_receipts()?.len())?;
            let (figure, _) = catch_up(confirmd, &small.node, &small.section(MANY), deposits)?;
            print("EVM, filtered here, 1,000 blocks: confirmd", &figure);
            b3.ratio("against 1,000 blocks", ours_all.peak_kb, figure.peak_kb, 120)
        }
    };
    Ok(vec![b1, b2, b3])
}

fn utxo(confirmd: &Path, tenths: u64) -> Result<Goal> {
    let (small, large) = (500 * tenths, 10 * tenths);
    let chain = UtxoChain::make(small, large)?;
    let section = chain.section();
    let peers: Vec<Peer> = Peer::bdk().into_iter().collect();
    let told = [("BENCH_USER", "bench".to_owned()), ("BENCH_PASSWORD", "bench".to_owned())];
    let Found { floor, ours, peers: theirs, .. } = rounds(
        "Bitcoin family",
        || chain.floor(),
        || catch_up(confirmd, &chain.node, &section, chain.deposits),
        &peers,
        |peer| peer.run(&chain.node, &told),
    )?;
    let recorded_ms = (small * recorded::BDK_SMALL_US + large * recorded::BDK_LARGE_US) / 1_000;
    let (bdk_ms, how) = of_peer(theirs.first().map(|figure| figure.node_ms + figure.client_ms), recorded_ms);
    Ok(Goal::new("B6").ratio("wall against raw blocks alone", ours.wall_ms, floor.wall_ms, 120).ratio(
        &format!("node and client CPU against the BDK emitter's ({how})"),
        ours.node_ms + ours.client_ms,
        bdk_ms,
        40,
    ))
}
