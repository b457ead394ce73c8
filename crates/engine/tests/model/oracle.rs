//! Judges every commit and every delivery at the moment it happens.

use super::node::Node;
use confirmd_core::{
    ChainId, ChainState, Change, ChangeSet, CommitReceipt, ConsumerFilter, ConsumerName, Delivery, DepositKey, Event, EventId,
    EventKind, Held, Notice, NoticeName, NoticesWanted, Position, Sequence, WatchState,
};
use confirmd_testkit::model::{Happening, Ledger, Model, Rule, Standing, Told};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Payments below their minimum: where they are, and how much.
pub(crate) type Small = BTreeMap<DepositKey, (confirmd_core::BlockRef, confirmd_core::Amount)>;

/// One chain: what really is, what must be told, and what was recorded.
#[derive(Debug)]
pub(crate) struct Chain {
    pub(crate) id: ChainId,
    pub(crate) node: Node,
    pub(crate) model: Model,
    /// Every committed change, applied: what a load must give.
    pub(crate) mirror: ChainState,
    /// The operator's wish at the resume that is under way.
    pub(crate) reverts_settled: bool,
    /// Settled deposits that an accepted reorg left standing.
    pub(crate) stranded: BTreeSet<DepositKey>,
    reorg_depth: u64,
}

/// One consumer's books.
#[derive(Debug)]
pub(crate) struct Book {
    pub(crate) name: ConsumerName,
    pub(crate) filter: ConsumerFilter,
    /// Events before do not concern it.
    pub(crate) began: Position,
    /// What it holds by the documented rule.
    pub(crate) ledger: Ledger,
    /// What it held when a state was lost.
    pub(crate) before: Ledger,
    acknowledged: BTreeSet<Position>,
    /// Given up by the operator.
    skipped: BTreeSet<Position>,
    /// Applied at least once.
    taken: BTreeSet<Position>,
    moves: BTreeMap<EventId, u64>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Oracle {
    pub(crate) chains: Vec<Chain>,
    pub(crate) books: Vec<Book>,
    /// Of consumers that left.
    closed: Vec<Book>,
    /// What is durable, of this epoch.
    pub(crate) log: Vec<(Position, Event, Arc<[u8]>)>,
    /// Bodies of every epoch by id.
    bodies: BTreeMap<EventId, Arc<[u8]>>,
    violations: Vec<String>,
    /// What is asked for beside the decisions; the process that runs makes no other.
    pub(crate) notices: Arc<NoticesWanted>,
    pub(crate) commits: u64,
    pub(crate) handed: u64,
}

impl Chain {
    pub(crate) fn new(id: ChainId, node: Node, reorg_depth: u64) -> Self {
        let (model, mirror) = (Model::new(reorg_depth), ChainState::default());
        Self { id, node, model, mirror, reverts_settled: false, stranded: BTreeSet::new(), reorg_depth }
    }

    /// What must be written down of payments below their minimum: key, block and amount.
    pub(crate) fn small(&self) -> Small {
        self.model
            .small()
            .iter()
            .map(|(key, transfer)| (key.clone(), (transfer.block.clone(), transfer.payment.amount)))
            .collect()
    }

    fn forget(&mut self) {
        (self.model, self.mirror) = (Model::new(self.reorg_depth), ChainState::default());
        self.stranded.clear();
    }

    /// What the model makes of a change set, and what is wrong with it.
    fn take(&mut self, set: &ChangeSet, wanted: &BTreeSet<Notice>) -> Vec<String> {
        let mut wrong = Vec::new();
        let began = self.mirror.trail.is_empty();
        self.mirror.apply(set);
        let told = if let Some(ancestor) = set.changes.iter().find_map(reanchored) {
            self.accepted(ancestor, set, &mut wrong)
        } else if set.changes.iter().any(decides) {
            self.followed(began, set, &mut wrong)
        } else {
            Vec::new()
        };
        if began || !set.changes.iter().any(|change| decides(change) || reanchored(change).is_some()) {
            set.changes.iter().filter_map(watch_change).for_each(|happening| drop(self.model.take(happening)));
        }
        self.compare_events(&told, set, &mut wrong);
        self.compare_notices(set, wanted, &mut wrong);
        self.compare_state(&mut wrong);
        wrong
    }

    fn followed(&mut self, began: bool, set: &ChangeSet, wrong: &mut Vec<String>) -> Vec<Told> {
        let Some(tip) = self.mirror.trail.tip() else {
            wrong.push("a decision without a trail".to_owned());
            return Vec::new();
        };
        if !self.node.is_best(&tip) && !self.node.is_touched(&tip) && self.model.tip() != Some(&tip) {
            wrong.push(format!("G4: {tip} was followed and was not on the best chain"));
        }
        for event in set.decisions().filter(|event| event.kind() == EventKind::Reverted) {
            let block = &event.transfer.block;
            if self.node.is_best(block) && !self.node.is_touched(block) {
                wrong.push(format!("G3: {} was reverted while its block {block} is on the best chain", event.transfer.key));
            }
        }
        let withheld = self.node.decided();
        let branch = self.node.chain.branch_to(&tip);
        if began {
            return self.model.take(Happening::Began { branch, floor: self.mirror.trail.floor() });
        }
        let raised = set.changes.iter().filter_map(|change| match change {
            Change::MarkRaised(tag, height) => Some((*tag, *height)),
            _ => None,
        });
        self.model.take(Happening::Followed { branch, marks: raised.collect(), withheld })
    }

    /// What is wrong with an informative event of a change set that was taken; `last` is the deposit's last decision.
    fn beside(&self, event: &Event, notice: Notice, last: Sequence, set: &ChangeSet) -> Vec<String> {
        let (key, sequence) = (&event.transfer.key, event.sequence);
        let name = NoticeName { chain: &event.chain, key, epoch: event.epoch, sequence, notice, base: set.base };
        let mut wrong = Vec::new();
        if event.id != EventId::of_notice(name) {
            wrong.push(format!("G7: {} is not the id of what it tells", event.id));
        }
        if sequence != last {
            wrong.push(format!("{key} was {} with sequence {sequence}, its last decision has {last}", notice.word()));
        }
        let holds = match notice {
            Notice::Detected => self.mirror.pending.get(key).is_some_and(|held| held.transfer == event.transfer),
            Notice::Settled => {
                let deposit = self.model.deposits().get(key);
                let settled = deposit.is_some_and(|deposit| deposit.standing == Standing::Settled);
                settled && sequence.stands() && event.transfer.block.height <= self.mirror.trail.floor()
            }
        };
        if !holds {
            wrong.push(format!("{key} was {} and is not", notice.word()));
        }
        wrong
    }

    /// Informative events are neither missing nor more than are asked for: one for whatever is taken in and waits, one for whatever is
    /// settled.
    fn compare_notices(&self, set: &ChangeSet, wanted: &BTreeSet<Notice>, wrong: &mut Vec<String>) {
        let told = |notice: Notice| {
            let of_it = set.events.iter().filter(|(event, _)| event.notice == Some(notice));
            of_it.map(|(event, _)| event.transfer.key.clone()).collect::<Vec<_>>()
        };
        let keys = |notice: Notice, found: fn(&Change) -> Option<&DepositKey>| match wanted.contains(&notice) {
            true => set.changes.iter().filter_map(found).cloned().collect(),
            false => Vec::new(),
        };
        let taken_in = keys(Notice::Detected, |change| match change {
            Change::PendingPut(pending) => Some(&pending.transfer.key),
            _ => None,
        });
        let settled = keys(Notice::Settled, |change| match change {
            Change::Archived(key, archived) if archived.sequence.stands() => Some(key),
            _ => None,
        });
        for (notice, mut wanted) in [(Notice::Detected, taken_in), (Notice::Settled, settled)] {
            let mut told = told(notice);
            told.sort();
            wanted.sort();
            if told != wanted {
                wrong.push(format!("{} {told:?}, and that holds for {wanted:?}", notice.word()));
            }
        }
    }

    fn accepted(&mut self, ancestor: confirmd_core::BlockRef, set: &ChangeSet, wrong: &mut Vec<String>) -> Vec<Told> {
        if !self.node.is_best(&ancestor) && !self.node.is_touched(&ancestor) {
            wrong.push(format!("G10: the accepted ancestor {ancestor} is not on the best chain"));
        }
        let above = self
            .model
            .deposits()
            .iter()
            .filter(|(_, deposit)| deposit.standing == Standing::Settled && deposit.transfer.block.height > ancestor.height);
        let (mut wanted, mut stranded) = (BTreeSet::new(), BTreeSet::new());
        for (key, deposit) in above {
            let stands = self.node.is_best(&deposit.transfer.block);
            match self.reverts_settled {
                // While the best chain moves under the command either answer is right.
                true if self.node.is_touched(&deposit.transfer.block) => {
                    if set.decisions().any(|event| event.transfer.key == *key) {
                        wanted.insert(key.clone());
                    }
                }
                true if !stands => drop(wanted.insert(key.clone())),
                _ => drop(stranded.insert(key.clone())),
            }
        }
        self.stranded.extend(stranded);
        self.model.take(Happening::Accepted { ancestor, settled: wanted })
    }

    fn compare_events(&self, told: &[Told], set: &ChangeSet, wrong: &mut Vec<String>) {
        let decided = set.decisions().map(|event| Told {
            transfer: event.transfer.clone(),
            sequence: event.sequence.0,
            confirmations: event.confirmations,
        });
        let mut decided: Vec<Told> = decided.collect();
        let mut told = told.to_vec();
        if set.changes.iter().any(|change| reanchored(change).is_some()) {
            // The order of settled deposits among each other is the store's.
            let place = |told: &Told| told.transfer.key.clone();
            decided.sort_by_key(place);
            told.sort_by_key(place);
        }
        if decided != told {
            wrong.push(format!("decided {}, but the model says {}", list(&decided), list(&told)));
        }
    }

    fn compare_state(&self, wrong: &mut Vec<String>) {
        let mirror = &self.mirror;
        let keys = |held: Vec<&DepositKey>| held.into_iter().cloned().collect::<BTreeSet<_>>();
        let found = [
            (Standing::Pending, keys(mirror.pending.iter().map(Held::key).collect())),
            (Standing::Reported, keys(mirror.reported.iter().map(Held::key).collect())),
            (Standing::Orphaned, keys(mirror.orphaned.iter().map(Held::key).collect())),
        ];
        for (standing, found) in found {
            let wanted = self.model.keys(standing);
            if found != wanted {
                wrong.push(format!("{standing:?}: recorded {found:?}, the model says {wanted:?}"));
            }
        }
        if mirror.trail.floor() != self.model.floor() {
            wrong.push(format!("the floor is {}, the model says {}", mirror.trail.floor(), self.model.floor()));
        }
        if !self.model.agrees_with(&mirror.watch) {
            wrong.push(format!("the watch set {:?} is not the model's", mirror.watch));
        }
    }
}

impl Oracle {
    pub(crate) fn new(chains: Vec<Chain>) -> Self {
        Self {
            chains,
            books: Vec::new(),
            closed: Vec::new(),
            log: Vec::new(),
            bodies: BTreeMap::new(),
            violations: Vec::new(),
            notices: Arc::default(),
            commits: 0,
            handed: 0,
        }
    }

    pub(crate) fn violated(&mut self, what: String) {
        self.violations.push(what);
    }

    pub(crate) fn violations(&mut self) -> Vec<String> {
        std::mem::take(&mut self.violations)
    }

    /// The place behind the last event.
    pub(crate) fn next(&self) -> Position {
        self.log.last().map_or(Position(1), |(position, ..)| position.next())
    }

    /// A consumer is new, or comes back with the books that it had.
    pub(crate) fn join(&mut self, name: ConsumerName, filter: ConsumerFilter, began: Position) {
        let closed = self.closed.iter().position(|book| book.name == name).map(|at| self.closed.remove(at));
        let mut book = closed.unwrap_or_else(|| Book::new(name, filter));
        book.begin(began);
        self.books.push(book);
    }

    pub(crate) fn leave(&mut self, name: &ConsumerName, under: ConsumerName) {
        if let Some(at) = self.books.iter().position(|book| book.name == *name) {
            let book = self.books.remove(at);
            self.closed.push(Book { name: under, ..book });
        }
    }

    /// The state is gone: from here on another epoch counts.
    pub(crate) fn lost(&mut self) {
        self.chains.iter_mut().for_each(Chain::forget);
        self.log.clear();
        self.books.iter_mut().for_each(|book| book.begin(Position(1)));
    }

    pub(crate) fn committed(&mut self, set: &ChangeSet, receipt: &CommitReceipt) {
        self.commits += 1;
        let Some(chain) = self.chains.iter_mut().find(|chain| chain.id == set.chain) else { return };
        let wrong = chain.take(set, &self.notices.of(&set.chain));
        self.violations.extend(wrong.into_iter().map(|wrong| format!("{}: {wrong}", set.chain)));
        let mut position = receipt.first_event.unwrap_or_default();
        for (event, body) in &set.events {
            if self.bodies.insert(event.id.clone(), body.clone()).is_some() {
                self.violations.push(format!("G1: {} was decided twice", event.id));
            }
            let last = self.log.iter().rev().find(|(_, other, _)| other.decides() && same_key(other, event));
            let last = last.map_or(Sequence::NONE, |(_, last, _)| last.sequence);
            if let Some(notice) = event.notice {
                self.violations.extend(chain.beside(event, notice, last, set));
            } else if event.id != EventId::derive(&event.chain, &event.transfer.key, event.epoch, event.sequence) {
                self.violations.push(format!("G7: {} is not the id of what it tells", event.id));
            } else if last.next() != event.sequence {
                self.violations.push(format!("G2: {} has sequence {} behind {last}", event.transfer.key, event.sequence));
            }
            self.log.push((position, event.clone(), body.clone()));
            position = position.next();
        }
    }

    pub(crate) fn handed(&mut self, consumer: &ConsumerName, delivery: &Delivery) {
        self.handed += 1;
        let Some(book) = self.books.iter().find(|book| book.name == *consumer) else { return };
        let found = self.log.iter().find(|(position, ..)| *position == delivery.position);
        let Some((position, event, body)) = found else {
            return self.violated(format!("G5: {} was handed over and is not durable", delivery.event));
        };
        let mut wrong = Vec::new();
        if event.id != delivery.event || *body != delivery.body {
            wrong.push(format!("G7: {} was handed over with another id or body", event.id));
        }
        if *position < book.began || !book.filter.takes(event) {
            wrong.push(format!("{} does not concern {consumer}", event.id));
        }
        if book.acknowledged.contains(position) {
            wrong.push(format!("{} was handed to {consumer} after it was acknowledged", event.id));
        }
        let before = self.log.iter().filter(|(other, ..)| *other < *position && *other >= book.began);
        let mut before = before.filter(|(_, other, _)| same_key(other, event) && book.filter.takes(other));
        if let Some((_, open, _)) = before.find(|(other, ..)| !book.is_done(other)) {
            wrong.push(format!("G8: {} was handed to {consumer} before {} was delivered", event.id, open.id));
        }
        self.violations.extend(wrong);
    }

    pub(crate) fn acknowledged(&mut self, consumer: &ConsumerName, positions: &[Position]) {
        if let Some(book) = self.books.iter_mut().find(|book| book.name == *consumer) {
            book.acknowledged.extend(positions);
        }
    }

    pub(crate) fn skipped(&mut self, consumer: &ConsumerName, position: Position) {
        if let Some(book) = self.books.iter_mut().find(|book| book.name == *consumer) {
            book.skipped.insert(position);
        }
    }

    /// The consumer applies an event by the documented rule.
    pub(crate) fn taken(&mut self, consumer: &ConsumerName, delivery: &Delivery) {
        let found = self.log.iter().find(|(position, ..)| *position == delivery.position);
        let Some((_, event, _)) = found else { return };
        let Some(book) = self.books.iter_mut().find(|book| book.name == *consumer) else { return };
        book.taken.insert(delivery.position);
        if book.apply(event) == Rule::Moved {
            let moves = book.moves.entry(event.id.clone()).or_default();
            *moves += 1;
            if *moves > 1 {
                self.violations.push(format!("{} moved money twice at {consumer}", delivery.event));
            }
        }
    }

    /// Events that a consumer has not acknowledged yet.
    pub(crate) fn undelivered(&self, book: &Book) -> Vec<EventId> {
        let concerns = |(position, event, _): &&(Position, Event, Arc<[u8]>)| {
            *position >= book.began && book.filter.takes(event) && !book.is_done(position)
        };
        self.log.iter().filter(concerns).map(|(_, event, _)| event.id.clone()).collect()
    }

    /// What a consumer must hold in the end: what it held when the state was lost, and every event since.
    pub(crate) fn wanted(&self, book: &Book) -> Ledger {
        let mut ledger = book.before.clone();
        for (position, event, _) in &self.log {
            if *position >= book.began && book.filter.takes(event) && !book.missed(*position) {
                take(&mut ledger, event);
            }
        }
        ledger
    }
}

impl Book {
    fn new(name: ConsumerName, filter: ConsumerFilter) -> Self {
        let (ledger, before) = (Ledger::default(), Ledger::default());
        let (acknowledged, skipped, taken) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        Self { name, filter, began: Position(1), ledger, before, acknowledged, skipped, taken, moves: BTreeMap::new() }
    }

    /// From here on other records count; what it holds it holds.
    fn begin(&mut self, began: Position) {
        self.began = began;
        self.before = self.ledger.clone();
        (self.acknowledged, self.skipped, self.taken) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    }

    fn is_done(&self, position: &Position) -> bool {
        self.acknowledged.contains(position) || self.skipped.contains(position)
    }

    /// Given up before the consumer had applied it.
    pub(crate) fn missed(&self, position: Position) -> bool {
        self.skipped.contains(&position) && !self.taken.contains(&position)
    }

    fn apply(&mut self, event: &Event) -> Rule {
        take(&mut self.ledger, event)
    }
}

/// The documented rule: what is neither confirmed nor reverted changes nothing.
fn take(ledger: &mut Ledger, event: &Event) -> Rule {
    if !event.decides() {
        return Rule::Ignored;
    }
    let (key, payment) = (&event.transfer.key, &event.transfer.payment);
    let stands = event.kind() == EventKind::Confirmed;
    ledger.take(&event.chain, key, (event.epoch.0, event.sequence.0), stands, payment)
}

fn same_key(one: &Event, other: &Event) -> bool {
    one.chain == other.chain && one.transfer.key == other.transfer.key
}

fn reanchored(change: &Change) -> Option<confirmd_core::BlockRef> {
    match change {
        Change::Reanchored(ancestor) => Some(ancestor.clone()),
        _ => None,
    }
}

/// Changes that follow from what a tick saw.
fn decides(change: &Change) -> bool {
    use Change::{
        Archived, FloorRaised, MarkRaised, OrphanedDropped, OrphanedPut, PendingDropped, PendingPut, ReportedDropped,
        ReportedPut, SmallSeen, TrailCut, TrailForgot, TrailJumped, TrailPushed,
    };
    matches!(
        change,
        TrailCut(_)
            | TrailPushed(_)
            | TrailJumped(_)
            | TrailForgot(_)
            | FloorRaised(_)
            | MarkRaised(..)
            | PendingPut(_)
            | PendingDropped(_)
            | ReportedPut(_)
            | ReportedDropped(_)
            | OrphanedPut(_)
            | OrphanedDropped(_)
            | SmallSeen(_)
            | Archived(..)
    )
}

fn watch_change(change: &Change) -> Option<Happening> {
    Some(match change {
        Change::WatchPut(entry) if entry.state == WatchState::Watching => Happening::Watched(entry.address.clone()),
        Change::WatchPut(entry) => Happening::Unwatched(entry.address.clone()),
        Change::WatchForgotten(bytes) => {
            let text = String::from_utf8_lossy(bytes);
            Happening::Unwatched(confirmd_testkit::ScriptedChain::address(&text))
        }
        Change::AssetPut(asset) if asset.delisted => Happening::Delisted(asset.asset.id.clone()),
        Change::AssetPut(asset) => Happening::Listed(asset.clone()),
        Change::AssetForgotten(id) => Happening::Delisted(id.clone()),
        _ => return None,
    })
}

fn list(told: &[Told]) -> String {
    let lines = told.iter().map(|told| {
        let Told { transfer, sequence, confirmations } = told;
        format!("{} #{sequence} of {} in {} at {confirmations}", transfer.key, transfer.payment.amount, transfer.block)
    });
    format!("[{}]", lines.collect::<Vec<_>>().join(", "))
}
