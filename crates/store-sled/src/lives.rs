//! Writes down what happened to each deposit, and the reorgs that did it, with the commit that did it; people read it.

use crate::keys;
use crate::reader::Rows;
use confirmd_core::{ChainId, KeyDigest, LifePlan, StoreError};

/// One record a step, and one for a reorg. `commit` grows with every commit of the store.
pub(crate) fn write(plan: &LifePlan<'_>, chain: (&ChainId, u32), commit: u64, rows: &mut Rows) -> Result<(), StoreError> {
    let (chain, number) = chain;
    for (key, index, step) in plan.steps() {
        rows.put(keys::life_step(&KeyDigest::of(chain, key), commit, index), &step)?;
    }
    match plan.reorg() {
        Some(reorg) => rows.put(keys::reorg(number, commit), reorg),
        None => Ok(()),
    }
}
