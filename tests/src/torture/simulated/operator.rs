//! The operator: looks now and then, and does what the messages say.

use std::collections::BTreeSet;
use std::sync::Arc;

use confirmd_api::Operator;
use confirmd_api::view::{Phase, Requeue, ResumeRequest, ResumeView};
use confirmd_testkit::receiver::LedgerKey;

use super::plan::Plan;
use super::world::World;

/// What an operator has been told of deposits that nobody looks at again.
#[derive(Debug, Default)]
pub(super) struct Accepted {
    told: BTreeSet<LedgerKey>,
    /// What the look before an order showed, until the order is answered: a crash in between may come after the commit.
    looked_at: BTreeSet<LedgerKey>,
}

impl Accepted {
    pub(super) fn contains(&self, key: &LedgerKey) -> bool {
        self.told.contains(key) || self.looked_at.contains(key)
    }
}

/// How far the instance is.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Standing {
    /// Every chain is read to its true tip.
    pub(super) at_tips: bool,
    /// No consumer waits for anything.
    pub(super) delivered: bool,
}

/// One look; with `act`, everything that stands still is set going again.
pub(super) async fn look(
    world: &World,
    plan: &Plan,
    operator: &Arc<dyn Operator>,
    act: bool,
    accepted: &mut Accepted,
) -> anyhow::Result<Standing> {
    let status = operator.status().await?;
    let mut standing = Standing { at_tips: true, delivered: status.consumers.iter().all(|consumer| consumer.waiting == 0) };
    for (view, chain) in status.chains.iter().filter_map(|view| {
        let chain = world.chains.iter().find(|chain| chain.id() == view.chain.as_str())?;
        Some((view, chain))
    }) {
        let at_tip = view.tip.as_ref().is_some_and(|tip| tip.hash.as_str() == chain.tip_hash());
        standing.at_tips &= at_tip && view.phase == Phase::Following;
        if view.phase == Phase::Halted && act {
            let detail = view.detail.clone().unwrap_or_default();
            world.record.line(&world.clock, format_args!("operator: {} is halted: {detail}", chain.name));
            let reorg = view.halt.as_ref().and_then(|halt| halt.reorg.clone());
            let deep = ResumeRequest { accept_reorg: true, revert_settled: plan.revert_settled, reorg };
            if let Ok(report) = operator.preview(&view.name, deep.clone()).await {
                accepted.looked_at.extend(left_settled(report, &chain.id()));
            }
            let mut resumed = operator.resume(&view.name, deep).await;
            if resumed.is_err() {
                resumed = operator.resume(&view.name, ResumeRequest::default()).await;
            }
            accepted.looked_at.clear();
            match resumed {
                Ok(report) => accepted.told.extend(left_settled(report, &chain.id())),
                Err(error) => world.record.line(&world.clock, format_args!("operator: not resumed: {error}")),
            }
        }
    }
    if act {
        for consumer in &status.consumers {
            if consumer.paused.is_some() {
                operator.pause(&consumer.name, None).await?;
            }
            if consumer.dead > 0 {
                operator.requeue(&consumer.name, Requeue { events: Vec::new(), all_dead: true, ..Requeue::default() }).await?;
            }
        }
    }
    Ok(standing)
}

/// The settled deposits that a resume leaves as they are, on a chain.
fn left_settled(report: ResumeView, chain: &str) -> impl Iterator<Item = LedgerKey> {
    let left = report.settled.into_iter().filter(|settled| !settled.reverted).filter_map(|settled| settled.key);
    left.map(move |key| LedgerKey {
        chain: chain.to_owned(),
        tx_id: key.tx_id.to_string(),
        output_index: key.output_index.into(),
    })
}
