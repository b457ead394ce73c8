//! What confirmd must have told about one chain, derived from the history of that chain and of what was made of it: the yardstick
//! of the property tests.
//!
//! It is slow and simple on purpose: it holds the whole followed branch and looks at every deposit each time. It shares no
//! code with the engine beyond the vocabulary of `confirmd-core`.

mod ledger;

pub use ledger::{Ledger, Row, Rule};

use crate::scripted::BlockOf;
use confirmd_core::{
    Address, AssetId, BlockHash, BlockRef, DepositKey, FinalityTag, Height, ListedAsset, Transfer, WatchSet, confirmations,
};
use std::collections::{BTreeMap, BTreeSet};

/// One thing that happened, in the order in which it took effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happening {
    /// Watching began behind this branch (every block from genesis on); everything at or below `floor` is final.
    Began {
        /// Genesis first.
        branch: Vec<BlockOf>,
        /// The first floor.
        floor: Height,
    },
    /// The best chain that was followed now is this branch: a longer one, or another one.
    Followed {
        /// Genesis first.
        branch: Vec<BlockOf>,
        /// The chain's own finality, where it has risen.
        marks: BTreeMap<FinalityTag, Height>,
        /// Payments of newly followed blocks that the node kept silent about.
        withheld: BTreeSet<(BlockHash, DepositKey)>,
    },
    /// An operator accepted a reorg below the floor: what was followed ends at this block, which is final.
    Accepted {
        /// The highest recorded block that the node still has.
        ancestor: BlockRef,
        /// Settled deposits that were reverted, too.
        settled: BTreeSet<DepositKey>,
    },
    /// An address takes payments of blocks that are followed from here on.
    Watched(Address),
    /// An address takes no new payments.
    Unwatched(Address),
    /// An asset is listed, or its requirement has changed.
    Listed(ListedAsset),
    /// An asset takes no new payments.
    Delisted(AssetId),
}

/// One event that must have been decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// Which payment, and where it sits or sat.
    pub transfer: Transfer,
    /// Odd: confirmed; even: reverted.
    pub sequence: u64,
    /// What the event says of the confirmations.
    pub confirmations: u64,
}

/// Where a deposit is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standing {
    /// In a block of the followed branch, not deep enough.
    Pending,
    /// Told, and above the floor.
    Reported,
    /// Told, and at or below the floor.
    Settled,
    /// Its block was left, above the floor.
    Orphaned,
    /// Its block was left, and the floor has passed it.
    Gone,
}

/// A deposit, as it was last seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deposit {
    /// Where it is in its life.
    pub standing: Standing,
    /// Its last event; 0 if there was none.
    pub sequence: u64,
    /// As it sits or sat in its block.
    pub transfer: Transfer,
}

/// The reference model of one chain.
#[derive(Debug, Clone)]
pub struct Model {
    reorg_depth: u64,
    branch: Vec<BlockRef>,
    floor: Height,
    marks: BTreeMap<FinalityTag, Height>,
    watched: BTreeSet<Address>,
    assets: BTreeMap<AssetId, ListedAsset>,
    deposits: BTreeMap<DepositKey, Deposit>,
    /// Below their minimum in blocks of the followed branch: nothing else is known of them.
    small: BTreeMap<DepositKey, Transfer>,
}

impl Model {
    /// Nothing has happened yet.
    pub fn new(reorg_depth: u64) -> Self {
        Self {
            reorg_depth,
            branch: Vec::new(),
            floor: Height(0),
            marks: BTreeMap::new(),
            watched: BTreeSet::new(),
            assets: BTreeMap::new(),
            deposits: BTreeMap::new(),
            small: BTreeMap::new(),
        }
    }

    /// Takes a happening in; returns the events it must lead to, in order.
    pub fn take(&mut self, happening: Happening) -> Vec<Told> {
        let told = match happening {
            Happening::Began { branch, floor } => {
                self.branch = branch.into_iter().map(|block| block.block).collect();
                self.floor = floor;
                Vec::new()
            }
            Happening::Followed { branch, marks, withheld } => self.follow(branch, marks, &withheld),
            Happening::Accepted { ancestor, settled } => self.accept(&ancestor, &settled),
            Happening::Watched(address) => {
                self.watched.insert(address);
                Vec::new()
            }
            Happening::Unwatched(address) => {
                self.watched.remove(&address);
                Vec::new()
            }
            Happening::Listed(asset) => {
                self.assets.insert(asset.asset.id.clone(), asset);
                Vec::new()
            }
            Happening::Delisted(id) => {
                self.assets.entry(id).and_modify(|asset| asset.delisted = true);
                Vec::new()
            }
        };
        self.forget();
        told
    }

    /// Every deposit ever taken, in every standing.
    pub fn deposits(&self) -> &BTreeMap<DepositKey, Deposit> {
        &self.deposits
    }

    /// Payments of the followed branch that were below their minimum when it counted.
    pub fn small(&self) -> &BTreeMap<DepositKey, Transfer> {
        &self.small
    }

    /// Keys in one standing.
    pub fn keys(&self, standing: Standing) -> BTreeSet<DepositKey> {
        let these = self.deposits.iter().filter(|(_, deposit)| deposit.standing == standing);
        these.map(|(key, _)| key.clone()).collect()
    }

    /// Blocks at or below are final.
    pub fn floor(&self) -> Height {
        self.floor
    }

    /// Where what is followed ends.
    pub fn tip(&self) -> Option<&BlockRef> {
        self.branch.last()
    }

    /// Whether a watch set has the addresses and assets that take new payments here, and no others.
    pub fn agrees_with(&self, watch: &WatchSet) -> bool {
        let watching = watch.addresses().filter(|entry| entry.state == confirmd_core::WatchState::Watching);
        let watched: BTreeSet<Address> = watching.map(|entry| entry.address.clone()).collect();
        let assets: BTreeMap<_, _> = watch.assets().map(|asset| (asset.asset.id.clone(), asset.clone())).collect();
        watched == self.watched && assets == self.assets
    }

    fn follow(
        &mut self,
        branch: Vec<BlockOf>,
        marks: BTreeMap<FinalityTag, Height>,
        withheld: &BTreeSet<(BlockHash, DepositKey)>,
    ) -> Vec<Told> {
        let common = branch.iter().zip(&self.branch).take_while(|(new, old)| new.block == **old).count();
        if common < self.branch.len() {
            // What the chain called final on a branch that it left is not final on the next.
            let ancestor = common.checked_sub(1).and_then(|at| self.branch.get(at)).map_or(Height(0), |block| block.height);
            self.marks.values_mut().for_each(|mark| *mark = (*mark).min(ancestor));
        }
        let on_branch: BTreeSet<BlockRef> = branch.iter().map(|block| block.block.clone()).collect();
        let mut told = self.undo(|transfer| !on_branch.contains(&transfer.block));
        for transfer in branch.iter().skip(common).flat_map(|block| &block.transfers) {
            if !withheld.contains(&(transfer.block.hash.clone(), transfer.key.clone())) {
                self.see(transfer);
            }
        }
        self.branch = branch.into_iter().map(|block| block.block).collect();
        for (tag, height) in marks {
            let mark = self.marks.entry(tag).or_default();
            *mark = (*mark).max(height);
        }
        told.extend(self.confirm());
        self.settle();
        told
    }

    /// What was seen in left blocks ends, newest first.
    fn undo(&mut self, left: impl Fn(&Transfer) -> bool) -> Vec<Told> {
        let mut told = Vec::new();
        self.small.retain(|_, transfer| !left(transfer));
        for deposit in self.deposits.values_mut() {
            let reported = deposit.standing == Standing::Reported;
            if (reported || deposit.standing == Standing::Pending) && left(&deposit.transfer) {
                deposit.standing = Standing::Orphaned;
                if reported {
                    deposit.sequence += 1;
                    told.push(Told { transfer: deposit.transfer.clone(), sequence: deposit.sequence, confirmations: 0 });
                }
            }
        }
        told.sort_by_key(|told| std::cmp::Reverse(place(&told.transfer)));
        told
    }

    /// A payment in a block that is followed now.
    fn see(&mut self, transfer: &Transfer) {
        let payment = &transfer.payment;
        let takes_new =
            self.watched.contains(&payment.address) && self.assets.get(&payment.asset).is_some_and(|asset| !asset.delisted);
        let known = self.deposits.get(&transfer.key);
        let sequence = match known.map(|deposit| (deposit.standing, deposit.sequence)) {
            Some((Standing::Pending | Standing::Reported | Standing::Settled, _)) => return,
            Some((Standing::Orphaned, sequence)) => sequence,
            Some((Standing::Gone, sequence)) if takes_new => sequence,
            None if takes_new => 0,
            _ => return,
        };
        if self.is_small(transfer) {
            self.small.insert(transfer.key.clone(), transfer.clone());
            return;
        }
        self.small.remove(&transfer.key);
        let deposit = Deposit { standing: Standing::Pending, sequence, transfer: transfer.clone() };
        self.deposits.insert(transfer.key.clone(), deposit);
    }

    fn is_small(&self, transfer: &Transfer) -> bool {
        let minimum = self.assets.get(&transfer.payment.asset).and_then(|asset| asset.minimum);
        minimum.is_some_and(|minimum| transfer.payment.amount < minimum)
    }

    /// What is deep enough and not small is told, oldest first. What is small by now is let go, with the key's last event.
    fn confirm(&mut self) -> Vec<Told> {
        let Some(tip) = self.branch.last() else { return Vec::new() };
        let (mut told, mut small) = (Vec::new(), Vec::new());
        for deposit in self.deposits.values().filter(|deposit| deposit.standing == Standing::Pending) {
            if self.is_small(&deposit.transfer) {
                small.push(deposit.transfer.key.clone());
            }
        }
        for deposit in self.deposits.values_mut().filter(|deposit| deposit.standing == Standing::Pending) {
            let Some(asset) = self.assets.get(&deposit.transfer.payment.asset) else { continue };
            let height = deposit.transfer.block.height;
            let count = confirmations(tip.height, height);
            let maturity = deposit.transfer.maturity.map_or(0, |maturity| u64::from(maturity.get()));
            let tag = asset.requirement.tag;
            let is_final = tag.is_none_or(|tag| self.marks.get(&tag).is_some_and(|mark| height <= *mark));
            if count >= u64::from(asset.requirement.at_least.get()) && count >= maturity && is_final {
                if small.contains(&deposit.transfer.key) {
                    self.small.insert(deposit.transfer.key.clone(), deposit.transfer.clone());
                    deposit.standing = Standing::Orphaned;
                    continue;
                }
                deposit.standing = Standing::Reported;
                deposit.sequence += 1;
                told.push(Told { transfer: deposit.transfer.clone(), sequence: deposit.sequence, confirmations: count });
            }
        }
        let never_told = |key: &DepositKey, deposit: &Deposit| {
            small.contains(key) && deposit.standing == Standing::Orphaned && deposit.sequence == 0
        };
        self.deposits.retain(|key, deposit| !never_told(key, deposit));
        told.sort_by_key(|told| place(&told.transfer));
        told
    }

    /// The floor rises, and what lies at or below it is final.
    fn settle(&mut self) {
        let Some(tip) = self.branch.last() else { return };
        let tags = self.assets.values().filter_map(|asset| asset.requirement.tag);
        let marks = tags.map(|tag| self.marks.get(&tag).copied().unwrap_or_default());
        let wanted = marks.fold(tip.height.minus(self.reorg_depth), Height::min);
        self.floor = self.floor.max(wanted);
        for deposit in self.deposits.values_mut().filter(|deposit| deposit.transfer.block.height <= self.floor) {
            deposit.standing = match deposit.standing {
                Standing::Reported => Standing::Settled,
                Standing::Orphaned => Standing::Gone,
                other => other,
            };
        }
    }

    fn accept(&mut self, ancestor: &BlockRef, settled: &BTreeSet<DepositKey>) -> Vec<Told> {
        let mut told = self.undo(|transfer| transfer.block.height > ancestor.height);
        for deposit in self.deposits.values_mut().filter(|deposit| deposit.standing == Standing::Settled) {
            if settled.contains(&deposit.transfer.key) {
                deposit.standing = Standing::Gone;
                deposit.sequence += 1;
                told.push(Told { transfer: deposit.transfer.clone(), sequence: deposit.sequence, confirmations: 0 });
            }
        }
        self.branch.retain(|block| block.height <= ancestor.height);
        self.floor = ancestor.height;
        self.marks.values_mut().for_each(|mark| *mark = (*mark).min(ancestor.height));
        told
    }

    /// A delisted asset goes with the last deposit that is still open in it.
    fn forget(&mut self) {
        let open = |deposit: &&Deposit| !matches!(deposit.standing, Standing::Settled | Standing::Gone);
        let held: BTreeSet<&AssetId> =
            self.deposits.values().filter(open).map(|deposit| &deposit.transfer.payment.asset).collect();
        self.assets.retain(|id, asset| !asset.delisted || held.contains(id));
    }
}

fn place(transfer: &Transfer) -> (Height, u32, u32) {
    (transfer.block.height, transfer.position, transfer.key.output_index)
}
