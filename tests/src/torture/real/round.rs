//! One round, from its seed to its verdict.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use confirmd_testkit::receiver::{EventType, Received};
use tokio::sync::watch;

use super::books::{self, Findings, Rule, Truth};
use super::coin_robot::CoinRobot;
use super::crashes::Patient;
use super::dice::Dice;
use super::evm_robot::EvmRobot;
use super::journal::Journal;
use super::{Counts, FORK_DEPTH_MAX, Pace, truth, weather};
use crate::torture::Tally;
use crate::{BitcoinFamily, ChainSection, Config, Customer, NODE_PASSWORD_ENV, Port, SOON, Service, SinkSection};

const EVM: &str = "devnet";
const COINS: &str = "coins";
const ACTS: u32 = 45;
const PACE: Pace = Pace { low_ms: 0, high_ms: 60 };

/// What a round gave.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Outcome {
    pub(super) tally: Tally,
    /// Reverted events that were delivered.
    pub(super) reverts: u64,
    pub(super) outages: u64,
    pub(super) faults: u64,
}

/// Everything of one round.
struct Stage<'a> {
    evm: EvmRobot,
    coins: CoinRobot<'a>,
    healthy: Customer,
    faulty: Customer,
    patient: Patient,
    journal: Journal,
}

/// Runs a round; on any finding or error its folder is kept and named.
pub(super) async fn run(seed: u64, rule: Rule, node: &mut BitcoinFamily) -> Result<Outcome> {
    let mut stage = Stage::set(seed, node).await?;
    let outcome = stage.act(seed).await;
    let outcome = match outcome {
        Ok(counts) => stage.audit(rule).await.map(|findings| (counts, findings)),
        Err(error) => Err(error),
    };
    match outcome {
        Ok((mut outcome, findings)) => {
            let lines: Vec<String> = findings
                .iter()
                .flat_map(|(who, findings)| {
                    findings.add_to(&mut outcome.tally);
                    findings.lines().map(move |line| format!("{who}: {line}"))
                })
                .collect();
            // Books that are wrong on purpose are no case to look into.
            if !lines.is_empty() && rule == Rule::Documented {
                let kept = stage.keep(seed, &lines.join("\n"))?;
                eprintln!("round {seed} broke promises:\n{}", lines.join("\n"));
                eprintln!("everything about it is in {}; to replay it: torture --real --rounds 1 --from {seed}", kept.display());
            }
            Ok(outcome)
        }
        Err(error) => {
            stage.patient.collect();
            let kept = stage.keep(seed, &format!("{error:#}"))?;
            Err(error).with_context(|| format!("everything about the round is in {}", kept.display()))
        }
    }
}

impl<'a> Stage<'a> {
    async fn set(seed: u64, node: &'a mut BitcoinFamily) -> Result<Self> {
        let evm = EvmRobot::set(seed).await?;
        let credentials = node.credentials();
        let coins = CoinRobot::set(node).await?;
        let (healthy, faulty) = (Customer::start().await?, Customer::start().await?);
        let config = config(&evm, &coins, credentials.0, &healthy, &faulty);
        let mut service = Service::new(&config)?;
        service.instance().env("CONFIRMD_LOG", "info,confirmd_engine::watcher=debug").env(NODE_PASSWORD_ENV, credentials.1);
        Ok(Self { evm, coins, healthy, faulty, patient: Patient::new(service), journal: Journal::begin() })
    }

    /// Everything that happens, until confirmd has read and told everything.
    async fn act(&mut self, seed: u64) -> Result<Outcome> {
        let nobody = Port::free()?;
        let nobody = format!("http://127.0.0.1:{}", nobody.number());
        let (journal, mut dice) = (self.journal.clone(), [1, 2, 3, 4].map(|actor| Dice::of(seed, actor)));
        let [for_evm, for_coins, for_receiver, for_crashes] = &mut dice;
        self.patient.start(for_crashes, &journal).await?;
        self.open().await?;

        let over = watch::Sender::new(false);
        let robots = async {
            let evm = self.evm.run(ACTS, for_evm, &journal, &nobody, PACE);
            let coins = self.coins.run(ACTS, for_coins, &journal, &nobody, PACE);
            let counts = tokio::try_join!(evm, coins);
            over.send_replace(true);
            counts
        };
        let weather = weather::spoil(&self.faulty, for_receiver, &journal, over.subscribe());
        let torment = self.patient.torment(for_crashes, &journal, over.subscribe());
        let ((evm, coins), faults, ()) = tokio::try_join!(robots, weather, torment)?;
        journal.note("round", "the acts are over");
        tokio::try_join!(self.evm.settle(), self.coins.settle())?;
        self.patient.crash_once_more(for_crashes, &journal).await?;
        self.told().await?;
        self.patient.terminate().await?;
        Ok(self.outcome(evm, coins, faults))
    }

    /// One deposit is told and taken back before anything is spoilt: no round is without a revert.
    async fn open(&self) -> Result<()> {
        self.evm.way.turn_to(&self.evm.anvil.url());
        let paid = self.evm.deposit().await?;
        let log = || self.patient.service.log();
        for customer in [&self.healthy, &self.faulty] {
            let told = customer.until_at(&self.evm.watch.chain, &paid, 0, (1, true), SOON).await;
            told.with_context(log)?;
        }
        self.evm.orphan().await?;
        for customer in [&self.healthy, &self.faulty] {
            // The event was handled; a ledger that is wrong on purpose shows in the audit.
            let told = customer.until_at(&self.evm.watch.chain, &paid, 0, (2, false), SOON).await;
            told.with_context(log)?;
        }
        Ok(())
    }

    async fn told(&self) -> Result<()> {
        self.patient.service.until_told(EVM, &self.evm.anvil.tip().await?).await?;
        self.patient.service.until_told(COINS, &self.coins.node.tip().await?).await?;
        self.journal.note("round", "everything is told");
        Ok(())
    }

    fn outcome(&self, evm: Counts, coins: Counts, faults: u64) -> Outcome {
        let (healthy, faulty) = (self.healthy.receiver().requests(), self.faulty.receiver().requests());
        let reverted = |request: &&Received| request.event.as_ref().is_ok_and(|event| event.kind == EventType::Reverted);
        let all = || healthy.iter().chain(&faulty);
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let tally = Tally {
            ticks: self.patient.ticks,
            // The opening's one too.
            reorgs: 1 + evm.reorgs + coins.reorgs,
            crashes: self.patient.crashes,
            deliveries: count(all().count()),
            ..Tally::default()
        };
        Outcome { tally, reverts: count(all().filter(reverted).count()), outages: evm.outages + coins.outages, faults }
    }

    /// Compares the books of both consumers with the nodes.
    async fn audit(&self, rule: Rule) -> Result<Vec<(&'static str, Findings)>> {
        self.patient.log()?;
        let truth = self.truth().await?;
        let mut findings = Vec::new();
        for (name, customer) in [("healthy", &self.healthy), ("faulty", &self.faulty)] {
            let requests = customer.receiver().requests();
            let refused: Vec<_> = requests.iter().filter_map(|request| request.event.as_ref().err()).collect();
            ensure!(refused.is_empty(), "{name} could not read what it was sent: {refused:?}");
            let mut found = books::judge(&requests, rule, &truth);
            // The receiver's own ledger was kept while things happened; it must say the same.
            if found == Findings::default() {
                own_ledger(name, customer, &requests, &truth, &mut found);
            }
            findings.push((name, found));
        }
        Ok(findings)
    }

    async fn truth(&self) -> Result<Truth> {
        let mut truth = truth::of_evm(&self.evm.anvil, &self.evm.watch).await?;
        truth.extend(truth::of_coins(self.coins.node, &self.coins.watch).await?);
        self.journal.note("round", &format!("{} deposits are due", truth.len()));
        Ok(truth)
    }

    /// Copies everything about the round to a folder that stays.
    fn keep(&mut self, seed: u64, verdict: &str) -> Result<PathBuf> {
        let folder = std::env::temp_dir().join(format!("confirmd-torture-real-{seed}-{}", std::process::id()));
        copy(self.patient.service.instance().dir(), &folder.join("instance"))?;
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).with_context(|| format!("write {name}"));
        write("verdict.txt", verdict)?;
        write("journal.txt", &self.journal.text())?;
        write("confirmd.log", self.patient.log().unwrap_or("confirmd panicked: see instance"))?;
        write("healthy.txt", &self.healthy.describe())?;
        write("faulty.txt", &self.faulty.describe())?;
        Ok(folder)
    }
}

/// The ledger kept by the documented rule has moved as much money as stands, and broke no promise as it went.
fn own_ledger(name: &str, customer: &Customer, requests: &[Received], truth: &Truth, found: &mut Findings) {
    let ledger = customer.ledger();
    found.out_of_order.extend(ledger.problems().iter().map(|problem| format!("{name}'s ledger: {problem}")));
    let rows = books::rows(requests, Rule::Documented);
    for (key, row) in ledger.rows() {
        let ours = rows.get(key).map(|row| (row.order, row.stands));
        if ours != Some(((row.epoch, row.sequence), row.stands)) {
            found.duplicated.push(format!("{name}'s ledger has {row:?} for {key:?}, its requests give {ours:?}"));
        }
    }
    for ((address, asset), balance) in ledger.balances() {
        let due = truth.iter().filter(|(key, due)| asset.starts_with(&key.chain) && due.address.eq_ignore_ascii_case(address));
        let due = due.filter(|(_, due)| due.asset.as_ref().is_none_or(|due| due.eq_ignore_ascii_case(asset)));
        let sum = due.fold(confirmd_testkit::alloy::primitives::U256::ZERO, |sum, (_, due)| sum.saturating_add(due.amount));
        if sum != *balance {
            found.duplicated.push(format!("{name}'s ledger credits {address} with {balance} of {asset}, {sum} is due"));
        }
    }
}

fn config(evm: &EvmRobot, coins: &CoinRobot<'_>, user: &str, healthy: &Customer, faulty: &Customer) -> Config {
    let limits = "limits = { requests_per_second = 5000, attempts = 2, request_timeout = \"300ms\" }";
    let common = |section: ChainSection, from: u64| {
        let section = section.reorg_depth(2 * FORK_DEPTH_MAX).line(&format!("start = {from}"));
        // Short, so that a shorter chain is sometimes taken for what it is.
        section.line(limits).line("fork_grace = \"300ms\"")
    };
    let mut devnet = ChainSection::evm(EVM, 31_337, &evm.way.url()).confirmations("default = 2, MINI = 3, SHIFT = 1");
    devnet = common(devnet.line(&evm.assets()), evm.watch.from);
    for (index, address) in evm.watch.addresses.iter().enumerate() {
        devnet = devnet.watch(address, &format!("customer-{index}"));
    }
    let url = coins.way.url();
    let rpc = format!("{{ url = \"{url}\", user = \"{user}\", password = {{ env = \"{NODE_PASSWORD_ENV}\" }} }}");
    let mut litecoin = ChainSection::bitcoin(COINS, "litecoin-regtest", &rpc);
    litecoin = litecoin.confirmations(&format!("default = {}", coins.watch.confirmations));
    litecoin = common(litecoin, coins.watch.from);
    for (index, (_, address)) in coins.watch.scripts.iter().enumerate() {
        litecoin = litecoin.watch(address, &format!("customer-{index}"));
    }
    // Never enough failures for a dead letter.
    let retry = ["150ms"; 100];
    let sink = |name, customer: &Customer| SinkSection::webhook(name, &customer.url()).retry(&retry).line("timeout = \"300ms\"");
    Config::new().chain(devnet).chain(litecoin).sink(sink("healthy", healthy)).sink(sink("faulty", faulty))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to).with_context(|| format!("make {}", to.display()))?;
    for entry in std::fs::read_dir(from).with_context(|| format!("list {}", from.display()))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()? {
            kind if kind.is_dir() => copy(&entry.path(), &target)?,
            kind if kind.is_file() => std::fs::copy(entry.path(), &target).map(drop).context("copy a file")?,
            _ => {}
        }
    }
    Ok(())
}
