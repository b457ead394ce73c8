//! What happened to each deposit, and the reorgs that did it.

use super::disk::Books;
use confirmd_core::{
    ChainState, Change, ChangeSet, EventKind, LifeEvent, LifeStep, Orphaned, REORG_BLOCKS_MAX, ReorgRecord, Rule, Timestamp,
};

/// Takes over what a change set says, before the state has taken it.
pub(super) fn keep(books: &mut Books, set: &ChangeSet, before: &ChainState) {
    let now = Timestamp(books.commits);
    let mut after = before.clone();
    after.apply(set);
    let reorg = reorg(set, before, now);
    let ancestor = reorg.as_ref().map(|reorg| reorg.ancestor.clone());
    let mut steps = Vec::new();
    for event in set.decisions().filter(|event| event.kind() == EventKind::Reverted) {
        let (block, ancestor) = (event.transfer.block.clone(), ancestor.clone());
        let what = LifeEvent::Reverted { event: event.id.clone(), sequence: event.sequence, block, ancestor };
        steps.push((event.transfer.key.clone(), what));
    }
    for change in &set.changes {
        if let Change::OrphanedPut(held) = change
            && has_left(set, held)
        {
            let what = LifeEvent::Left { block: held.transfer.block.clone(), ancestor: ancestor.clone() };
            steps.push((held.transfer.key.clone(), what));
        }
    }
    let left = super::deposits::smalls_left(books, set);
    for small in &left {
        steps.push((small.key.clone(), LifeEvent::Left { block: small.block.clone(), ancestor: ancestor.clone() }));
    }
    for change in &set.changes {
        match change {
            Change::PendingPut(held) => {
                steps.push((held.transfer.key.clone(), LifeEvent::Seen(held.transfer.block.clone())));
            }
            Change::SmallSeen(small)
                if !super::deposits::knows(books, set, small) || left.iter().any(|l| l.key == small.transfer.key) =>
            {
                let (block, minimum) = (small.transfer.block.clone(), small.minimum);
                steps.push((small.transfer.key.clone(), LifeEvent::BelowMinimum { block, minimum }));
            }
            _ => {}
        }
    }
    for event in set.decisions().filter(|event| event.kind() == EventKind::Confirmed) {
        let listed = after.watch.asset(&event.asset.id).or(before.watch.asset(&event.asset.id));
        let rule = listed.map(|listed| Rule {
            at_least: listed.requirement.at_least.get(),
            maturity: event.transfer.maturity.map(std::num::NonZeroU32::get),
            tag: listed.requirement.tag.map(|tag| (tag, after.marks.get(&tag).copied())),
        });
        let what = LifeEvent::Confirmed {
            event: event.id.clone(),
            sequence: event.sequence,
            block: event.transfer.block.clone(),
            confirmations: event.confirmations,
            rule,
        };
        steps.push((event.transfer.key.clone(), what));
    }
    for change in &set.changes {
        if let Change::Archived(key, archived) = change
            && archived.sequence.stands()
        {
            steps.push((key.clone(), LifeEvent::Settled(after.trail.floor())));
        }
    }
    for (key, what) in steps {
        books.lives.entry((set.chain.clone(), key)).or_default().push(LifeStep { at: now, what });
    }
    books.reorgs.extend(reorg.map(|reorg| (set.chain.clone(), reorg)));
}

/// Whether it was pending in a block that left: neither reverted, nor let go because it does not reach a raised minimum.
fn has_left(set: &ChangeSet, held: &Orphaned) -> bool {
    let reverted =
        set.events.iter().any(|(event, _)| event.transfer.key == held.transfer.key && event.kind() == EventKind::Reverted);
    let stands = set.changes.iter().any(|change| matches!(change, Change::SmallSeen(small) if small.transfer == held.transfer));
    !reverted && !stands
}

fn reorg(set: &ChangeSet, before: &ChainState, at: Timestamp) -> Option<ReorgRecord> {
    let (ancestor, accepted) = set.rollback(&before.trail)?;
    let mut orphaned: Vec<_> = before.trail.above(ancestor.height).collect();
    orphaned.sort_by_key(|block| std::cmp::Reverse(block.height));
    let depth = orphaned.len();
    orphaned.truncate(REORG_BLOCKS_MAX);
    let reverted = set.events.iter().filter(|(event, _)| event.kind() == EventKind::Reverted).count();
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let left = |change: &&Change| matches!(change, Change::OrphanedPut(held) if has_left(set, held));
    let dropped = number(set.changes.iter().filter(left).count());
    (depth > 0).then(|| ReorgRecord {
        at,
        ancestor,
        depth: number(depth),
        orphaned,
        reverted: number(reverted),
        dropped,
        accepted,
    })
}
