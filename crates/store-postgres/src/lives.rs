//! Writes down what happened to each deposit, and the reorgs that did it, with the commit that did it; people read it.

use crate::chain::ChainNumber;
use crate::error::{Failed, int, to_json};
use crate::session::Session;
use confirmd_core::{ChainId, KeyDigest, LifePlan, StoreError};

/// What is written down of a commit.
#[derive(Debug, Default)]
pub(crate) struct LifeRows {
    digests: Vec<Vec<u8>>,
    numbers: Vec<i32>,
    steps: Vec<String>,
    reorg: Option<(i64, String)>,
}

const LIFE: &str = "insert into life (digest, version, number, step)
select digest, $1, number, step from unnest($2::bytea[], $3::integer[], $4::text[]) as i (digest, number, step)";
pub(crate) const REORG: &str = "insert into reorg (chain, version, at, record) values ($1, $2, $3, $4)";

impl LifeRows {
    /// One row a step, and one for a reorg.
    pub(crate) fn of(plan: &LifePlan<'_>, chain: &ChainId) -> Result<Self, StoreError> {
        let mut rows = Self::default();
        for (key, number, step) in plan.steps() {
            rows.digests.push(KeyDigest::of(chain, key).0.to_vec());
            rows.numbers.push(i32::try_from(number).unwrap_or(i32::MAX));
            rows.steps.push(to_json(&step)?);
        }
        rows.reorg = plan.reorg().map(|reorg| Ok::<_, StoreError>((int(reorg.at.0), to_json(reorg)?))).transpose()?;
        Ok(rows)
    }

    /// `version` is the state's after the commit.
    pub(crate) async fn write(&self, session: &Session, chain: ChainNumber, version: i64) -> Result<(), Failed> {
        if !self.steps.is_empty() {
            session.execute(LIFE, &[&version, &self.digests, &self.numbers, &self.steps]).await?;
        }
        if let Some((at, record)) = &self.reorg {
            session.execute(REORG, &[&chain, &version, at, record]).await?;
        }
        Ok(())
    }
}
