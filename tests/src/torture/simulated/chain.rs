//! One chain with its node software: what may be done to it, what it truly pays, and how each endpoint sees it.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::Router;
use confirmd_testkit::alloy::primitives::{Address, U256};
use confirmd_testkit::fake_bitcoin::Branch;
use confirmd_testkit::fake_evm::{EvmBranch, Finality, TxSpec, transfer_log};
use confirmd_testkit::receiver::LedgerKey;
use confirmd_testkit::{BitcoinOptions, EvmOptions, FakeBitcoin, FakeEvm, Remine};

use super::dice::Dice;
use super::payment::{ACCOUNTS, COIN_ADDRESSES, OTHER_TOKEN, Owed, PAYER, SPLITTER, STRANGER, TOKEN, Truth, script};

/// Gas of `FakeEvm`'s own token transfers: part of a transaction's hash.
const TRANSFER_GAS: u64 = 52_000;
/// CAIP-2 of Bitcoin's regtest.
const REGTEST: &str = "bip122:0f9188f13cb7b2c71f2a335e3a4fc328";

/// Which node software.
#[derive(Debug)]
enum Node {
    Bitcoin(FakeBitcoin),
    /// Whether its own coin is watched, with contracts' payments and withdrawals.
    Evm {
        node: FakeEvm,
        coin: bool,
        id: u64,
    },
}

/// A branch of either.
#[derive(Debug, Clone)]
enum AnyBranch {
    Bitcoin(Branch),
    Evm(EvmBranch),
}

/// How one endpoint sees the chain.
#[derive(Debug, Clone, Default)]
pub(super) struct View {
    /// Blocks that have not reached it.
    lag: u64,
    /// The branch it is still on.
    branch: Option<AnyBranch>,
}

/// A chain.
#[derive(Debug)]
pub(super) struct Chain {
    /// The operator's name.
    pub(super) name: &'static str,
    /// Blocks that may change.
    pub(super) reorg_depth: u64,
    /// Confirmations that every asset needs at least.
    pub(super) confirmations: u64,
    node: Node,
    notes: Mutex<Notes>,
}

#[derive(Debug, Default)]
struct Notes {
    /// The branch before the last fork, as long as going back to it makes no transaction appear twice.
    left: Option<AnyBranch>,
    /// Hashes of blocks that have left some endpoint's best chain.
    orphaned: BTreeSet<String>,
    highest: u64,
    reorgs: u64,
}

impl Chain {
    pub(super) fn bitcoin(reorg_depth: u64, confirmations: u64) -> anyhow::Result<Self> {
        let node = Node::Bitcoin(FakeBitcoin::detached(BitcoinOptions::default())?);
        Ok(Self { name: "bitcoin", reorg_depth, confirmations, node, notes: Mutex::default() })
    }

    pub(super) fn evm(name: &'static str, id: u64, coin: bool, reorg_depth: u64, confirmations: u64) -> Self {
        let node = FakeEvm::detached(EvmOptions { chain_id: id, ..EvmOptions::default() });
        node.deploy_token(TOKEN, "USDX", 6);
        node.deploy(SPLITTER);
        Self { name, reorg_depth, confirmations, node: Node::Evm { node, coin, id }, notes: Mutex::default() }
    }

    /// CAIP-2.
    pub(super) fn id(&self) -> String {
        match &self.node {
            Node::Bitcoin(_) => REGTEST.to_owned(),
            Node::Evm { id, .. } => format!("eip155:{id}"),
        }
    }

    /// `safe` and `finalized` stand so far below the tip.
    pub(super) fn finality(&self, distance: u64) {
        if let Node::Evm { node, .. } = &self.node {
            node.set_finalized(Finality::Distance(distance));
            node.set_safe(Finality::Distance(distance));
        }
    }

    /// The true tip's height.
    pub(super) fn height(&self) -> u64 {
        match &self.node {
            Node::Bitcoin(node) => u64::from(node.tip().0),
            Node::Evm { node, .. } => node.tip().0,
        }
    }

    /// The true tip's hash, as events spell it.
    pub(super) fn tip_hash(&self) -> String {
        match &self.node {
            Node::Bitcoin(node) => node.tip().1.to_string(),
            Node::Evm { node, .. } => node.tip().1.to_string(),
        }
    }

    /// The highest tip it ever had.
    pub(super) fn highest(&self) -> u64 {
        self.notes().highest
    }

    /// Reorgs made so far.
    pub(super) fn reorgs(&self) -> u64 {
        self.notes().reorgs
    }

    /// Whether the block has ever left the best chain that some endpoint showed.
    pub(super) fn was_orphaned(&self, hash: &str) -> bool {
        self.notes().orphaned.contains(hash)
    }

    pub(super) fn mine(&self, blocks: u32) {
        match &self.node {
            Node::Bitcoin(node) => drop(node.mine(blocks)),
            Node::Evm { node, .. } => drop(node.mine(blocks)),
        }
        let height = self.height();
        let mut notes = self.notes();
        notes.highest = notes.highest.max(height);
    }

    /// Something is paid: to customers, to strangers, in one of the ways the network has.
    pub(super) fn pay(&self, dice: &Dice) {
        match &self.node {
            Node::Bitcoin(node) => {
                let outputs = (0..dice.between(1, 4)).filter_map(|_| {
                    let to = dice.pick(&COIN_ADDRESSES).map(|(_, hex)| script(hex))?;
                    let to = if dice.percent(20) { script("51") } else { to };
                    Some((to, dice.between(1_000, 100_000_000)))
                });
                node.pay_many(outputs.collect());
            }
            Node::Evm { node, coin, .. } => pay_evm(node, *coin, dice),
        }
    }

    /// The last `depth` blocks are replaced by `depth + 1` others. Returns the words for it.
    pub(super) fn fork(&self, depth: u64, dice: &Dice) -> String {
        let remine = match dice.below(6) {
            0 => Remine::Keep,
            1 => Remine::Drop,
            2 => Remine::Later(u32::try_from(dice.between(1, 2)).unwrap_or(1)),
            3 => Remine::AnotherPosition,
            _ => Remine::Mempool,
        };
        self.note_orphaned(depth);
        let left = match &self.node {
            Node::Bitcoin(node) => {
                let before: Vec<_> = node.payments().into_iter().map(|payment| payment.txid).collect();
                let left = node.fork(u32::try_from(depth).unwrap_or(u32::MAX), remine);
                if remine == Remine::Mempool && dice.percent(40) {
                    let waiting: BTreeSet<_> = node.mempool().iter().map(|waiting| waiting.compute_txid()).collect();
                    if let Some(gone) = before.into_iter().find(|txid| waiting.contains(txid)) {
                        let to = dice.pick(&COIN_ADDRESSES).map(|(_, hex)| script(hex)).unwrap_or_default();
                        node.double_spend(&gone, vec![(to, dice.between(1_000, 5_000))]);
                    }
                }
                AnyBranch::Bitcoin(left)
            }
            Node::Evm { node, .. } => {
                let before = node.payments();
                let left = node.fork(depth, remine);
                if remine == Remine::Mempool {
                    // The same transaction, executed on another state: it pays another amount.
                    let tokens = before.iter().filter(|payment| payment.token == Some(TOKEN) && payment.output_index == 1);
                    let gone = tokens.filter_map(|payment| Some((payment.tx_id.parse().ok()?, payment.to)));
                    for (hash, to) in gone.filter(|(hash, _)| node.find(hash).is_none()).collect::<Vec<_>>() {
                        if dice.percent(40) {
                            let amount = U256::from(dice.between(1, 1_000_000));
                            node.send_replacing(&hash, token_transfer(to, amount));
                        }
                    }
                }
                AnyBranch::Evm(left)
            }
        };
        let safe = matches!(remine, Remine::Keep | Remine::Drop | Remine::AnotherPosition);
        let height = self.height();
        let mut notes = self.notes();
        notes.left = safe.then_some(left);
        notes.highest = notes.highest.max(height);
        notes.reorgs += 1;
        format!("{} fork: {depth} blocks, {remine:?}, tip {height}", self.name)
    }

    /// The branch before the last fork wins after all. False if there is none to go back to.
    pub(super) fn return_to_left(&self) -> bool {
        let Some(left) = self.notes().left.take() else { return false };
        let before = self.height();
        let Some(other) = self.switch(&left) else { return false };
        self.note_difference(&other);
        let missing = before.saturating_sub(self.height());
        self.mine(u32::try_from(missing.saturating_add(1)).unwrap_or(1));
        self.notes().reorgs += 1;
        true
    }

    /// An endpoint's view from now on: up to date, behind, or on a branch that was left.
    pub(super) fn view(&self, dice: &Dice) -> View {
        match dice.below(6) {
            0 | 1 => View { lag: dice.between(1, self.reorg_depth.saturating_add(2)), branch: None },
            2 => {
                let branch = self.notes().left.clone();
                if let Some(branch) = &branch {
                    self.note_unlike(branch);
                }
                View { lag: 0, branch }
            }
            _ => View::default(),
        }
    }

    /// Answers `ask` as an endpoint with this view would.
    pub(super) fn seen_by<T>(&self, view: &View, ask: impl FnOnce() -> T) -> T {
        let truth = view.branch.as_ref().and_then(|branch| {
            // Blocks mined since are not on that branch.
            self.note_unlike(branch);
            self.switch(branch)
        });
        self.lag(view.lag);
        let answer = ask();
        self.lag(0);
        if let Some(truth) = truth {
            self.switch(&truth);
        }
        answer
    }

    /// What answers requests, whatever the view.
    pub(super) fn app(&self) -> Router {
        match &self.node {
            Node::Bitcoin(node) => node.app(),
            Node::Evm { node, .. } => node.app(),
        }
    }

    /// What the best chain pays to watched addresses in listed assets.
    pub(super) fn truth(&self) -> Truth {
        let chain = self.id();
        match &self.node {
            Node::Bitcoin(node) => {
                let watched = |payment: &confirmd_testkit::fake_bitcoin::Payment| {
                    let found = COIN_ADDRESSES.iter().find(|(_, hex)| script(hex) == payment.script)?;
                    let key = LedgerKey {
                        chain: chain.clone(),
                        tx_id: payment.txid.to_string(),
                        output_index: u64::from(payment.vout),
                    };
                    let (address, asset) = (found.0.to_lowercase(), format!("{chain}/slip44:1"));
                    Some((key, Owed { address, asset, amount: U256::from(payment.sats) }))
                };
                node.payments().iter().filter_map(watched).collect()
            }
            Node::Evm { node, coin, .. } => {
                let listed = node.payments().into_iter().filter(|payment| ACCOUNTS.contains(&payment.to));
                let listed = listed.filter_map(|payment| {
                    let asset = match payment.token {
                        None if *coin => format!("{chain}/slip44:60"),
                        Some(TOKEN) => format!("{chain}/erc20:{TOKEN:#x}"),
                        _ => return None,
                    };
                    let key = LedgerKey { chain: chain.clone(), tx_id: payment.tx_id, output_index: payment.output_index };
                    Some((key, Owed { address: format!("{:#x}", payment.to), asset, amount: payment.amount }))
                });
                listed.collect()
            }
        }
    }

    fn lag(&self, blocks: u64) {
        match &self.node {
            Node::Bitcoin(node) => node.lag(u32::try_from(blocks).unwrap_or(u32::MAX)),
            Node::Evm { node, .. } => node.lag(blocks),
        }
    }

    /// Makes a branch the best chain, and gives the one that was.
    fn switch(&self, branch: &AnyBranch) -> Option<AnyBranch> {
        match (&self.node, branch) {
            (Node::Bitcoin(node), AnyBranch::Bitcoin(branch)) => node.return_to(branch).map(AnyBranch::Bitcoin),
            (Node::Evm { node, .. }, AnyBranch::Evm(branch)) => node.return_to(branch).map(AnyBranch::Evm),
            _ => None,
        }
    }

    fn hash_at(&self, height: u64) -> Option<String> {
        match &self.node {
            Node::Bitcoin(node) => node.hash_at(u32::try_from(height).ok()?).map(|hash| hash.to_string()),
            Node::Evm { node, .. } => node.hash_at(height).map(|hash| hash.to_string()),
        }
    }

    fn note_orphaned(&self, depth: u64) {
        let tip = self.height();
        let gone: Vec<_> =
            (tip.saturating_sub(depth).saturating_add(1)..=tip).filter_map(|height| self.hash_at(height)).collect();
        self.notes().orphaned.extend(gone);
    }

    /// The best chain's blocks that are not on `branch` are not on the best chain for whoever looks at that.
    fn note_unlike(&self, branch: &AnyBranch) {
        let unlike = (1..=self.height()).rev().map_while(|height| {
            let ours = self.hash_at(height)?;
            (hash_on(branch, height).as_ref() != Some(&ours)).then_some(ours)
        });
        let unlike: Vec<_> = unlike.collect();
        self.notes().orphaned.extend(unlike);
    }

    /// The other way round: `branch` was left, and what it has alone is orphaned.
    fn note_difference(&self, branch: &AnyBranch) {
        let highest = self.highest();
        let unlike = (1..=highest).rev().filter_map(|height| {
            let theirs = hash_on(branch, height)?;
            (self.hash_at(height).as_ref() != Some(&theirs)).then_some(theirs)
        });
        let unlike: Vec<_> = unlike.collect();
        self.notes().orphaned.extend(unlike);
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn hash_on(branch: &AnyBranch, height: u64) -> Option<String> {
    match branch {
        AnyBranch::Bitcoin(branch) => branch.hash_at(u32::try_from(height).ok()?).map(|hash| hash.to_string()),
        AnyBranch::Evm(branch) => branch.hash_at(height).map(|hash| hash.to_string()),
    }
}

fn token_transfer(to: Address, amount: U256) -> TxSpec {
    let logs = vec![transfer_log(TOKEN, PAYER, to, amount)];
    TxSpec { gas_used: TRANSFER_GAS, ..TxSpec::new(PAYER, TOKEN).logs(logs) }
}

fn pay_evm(node: &FakeEvm, coin: bool, dice: &Dice) {
    let to = dice.pick(&ACCOUNTS).copied().unwrap_or(STRANGER);
    let amount = U256::from(dice.between(1, 1_000_000_000));
    match dice.below(if coin { 8 } else { 5 }) {
        0 | 1 => drop(node.send(token_transfer(to, amount))),
        2 => {
            // Ten to one address in one transaction, a stranger's among them.
            let mut logs: Vec<_> = (0..dice.between(2, 10)).map(|_| transfer_log(TOKEN, PAYER, to, amount)).collect();
            logs.push(transfer_log(TOKEN, PAYER, STRANGER, amount));
            logs.push(transfer_log(OTHER_TOKEN, PAYER, to, amount));
            node.send(TxSpec { gas_used: TRANSFER_GAS, ..TxSpec::new(PAYER, TOKEN).logs(logs) });
        }
        3 => drop(node.erc20_transfer(OTHER_TOKEN, PAYER, to, amount)),
        4 => drop(node.failed_native(PAYER, to, amount)),
        5 => drop(node.transfer_native(PAYER, to, amount)),
        6 => drop(node.call_internal(PAYER, SPLITTER, &[(to, amount), (STRANGER, amount), (to, U256::from(7))])),
        _ => drop(node.withdraw(dice.below(100), to, dice.between(1, 1_000_000))),
    }
}
