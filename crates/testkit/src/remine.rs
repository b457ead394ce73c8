//! What becomes of the transactions of replaced blocks.

/// What a fork does with the transactions of the blocks that it replaces. Coinbases never return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remine {
    /// Mined again at the same height, in the same order (in blocks with other hashes).
    Keep,
    /// Gone for ever.
    Drop,
    /// Mined again this many blocks higher, at another position within the block. What would land
    /// above the new tip waits in the mempool instead.
    Later(u32),
    /// Mined again at the same height, behind a foreign transaction and in reverse order.
    AnotherPosition,
    /// Back in the mempool: the next `mine` takes them.
    Mempool,
}

/// The new branch, as lists of what each block carries.
pub(crate) struct Plan<T> {
    /// One entry per new block, lowest first.
    pub(crate) blocks: Vec<PlannedBlock<T>>,
    pub(crate) mempool: Vec<T>,
}

pub(crate) struct PlannedBlock<T> {
    pub(crate) items: Vec<T>,
    /// Whether a foreign transaction goes first, so that positions change.
    pub(crate) filler_first: bool,
}

/// Spreads what the `orphaned` blocks carried (lowest block first) over `length` new blocks.
pub(crate) fn plan<T>(orphaned: Vec<Vec<T>>, length: u32, remine: Remine) -> Plan<T> {
    let mut blocks: Vec<PlannedBlock<T>> = (0..length).map(|_| PlannedBlock { items: Vec::new(), filler_first: false }).collect();
    let mut mempool = Vec::new();
    let moved = matches!(remine, Remine::Later(_) | Remine::AnotherPosition);
    let shift = match remine {
        Remine::Later(higher) => usize::try_from(higher).unwrap_or(usize::MAX),
        _ => 0,
    };
    for (offset, mut items) in orphaned.into_iter().enumerate() {
        if remine == Remine::Drop {
            continue;
        }
        if moved {
            items.reverse();
        }
        let target = match remine {
            Remine::Mempool => None,
            _ => blocks.get_mut(offset.saturating_add(shift)),
        };
        match target {
            Some(block) => {
                block.filler_first = moved && !items.is_empty();
                block.items = items;
            }
            None => mempool.append(&mut items),
        }
    }
    Plan { blocks, mempool }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    fn items(remine: Remine) -> (Vec<Vec<u8>>, Vec<u8>) {
        let plan = plan(vec![vec![1, 2], vec![3]], 3, remine);
        (plan.blocks.into_iter().map(|block| block.items).collect(), plan.mempool)
    }

    #[test]
    fn every_way_to_remine_puts_each_transaction_where_it_says() {
        assert_eq!(items(Remine::Keep), (vec![vec![1, 2], vec![3], vec![]], vec![]));
        assert_eq!(items(Remine::Drop), (vec![vec![], vec![], vec![]], vec![]));
        assert_eq!(items(Remine::Later(1)), (vec![vec![], vec![2, 1], vec![3]], vec![]));
        assert_eq!(items(Remine::Later(2)), (vec![vec![], vec![], vec![2, 1]], vec![3]));
        assert_eq!(items(Remine::AnotherPosition), (vec![vec![2, 1], vec![3], vec![]], vec![]));
        assert_eq!(items(Remine::Mempool), (vec![vec![], vec![], vec![]], vec![1, 2, 3]));
    }
}
