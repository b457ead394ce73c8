//! One deposit and everything that happened to it.

use super::LocalOperator;
use confirmd_api::OperatorError;
use confirmd_api::view::{AttemptView, DeliveryWithAttempts, DepositLife, DepositView, LifeStepView, RuleView};
use confirmd_core::{ChainName, DeliveryFilter, DeliveryState, DepositFilter, DepositRecord, EventId, LifeEvent, LifeStep};

/// No event has more consumers.
const CONSUMERS_MAX: usize = 1_000;

impl LocalOperator {
    pub(super) async fn show_deposit(&self, chain: &ChainName, tx_id: &str, index: u32) -> Result<DepositLife, OperatorError> {
        let slot = self.chains.get(chain)?;
        let filter = DepositFilter {
            chain: Some(slot.id().clone()),
            tx_id: Some(tx_id.to_owned()),
            output_index: Some(index),
            ..DepositFilter::default()
        };
        let found = self.store(self.stores.history.deposits(&filter, None, 1).await)?;
        let Some(record) = found.into_iter().next() else {
            return Err(OperatorError::not_found(format!(
                "no deposit {tx_id}:{index} of {chain} is known within `state.history`; the explanation of the transaction says more"
            )));
        };
        self.life_of(record).await
    }

    async fn life_of(&self, record: DepositRecord) -> Result<DepositLife, OperatorError> {
        let steps = self.store(self.stores.history.life(&record.chain, &record.key).await)?;
        let mut deliveries = Vec::new();
        for step in &steps {
            if let LifeEvent::Confirmed { event, .. } | LifeEvent::Reverted { event, .. } = &step.what {
                self.troubled(event, &mut deliveries).await?;
            }
        }
        let name = self.chains.name_of(&record.chain);
        let deposit = DepositView::new(record, name);
        Ok(DepositLife { deposit, life: steps.into_iter().map(step_view).collect(), deliveries })
    }

    /// Deliveries of an event that are not delivered, or needed more than one attempt.
    async fn troubled(&self, event: &EventId, into: &mut Vec<DeliveryWithAttempts>) -> Result<(), OperatorError> {
        let filter = DeliveryFilter { event: Some(event.clone()), ..DeliveryFilter::default() };
        for delivery in self.store(self.stores.outbox.list(&filter, None, CONSUMERS_MAX).await)? {
            if delivery.state == DeliveryState::Delivered && delivery.last_attempt.is_none() {
                continue;
            }
            let failed = self.store(self.stores.outbox.attempts(&delivery.consumer, delivery.position).await)?;
            let failed = failed.into_iter().map(AttemptView::from).collect();
            into.push(DeliveryWithAttempts { delivery: delivery.into(), failed });
        }
        Ok(())
    }
}

fn step_view(step: LifeStep) -> LifeStepView {
    let nothing = LifeStepView {
        at: step.at.to_rfc3339(),
        what: String::new(),
        block: None,
        ancestor: None,
        event: None,
        sequence: None,
        confirmations: None,
        rule: None,
        floor: None,
        minimum: None,
    };
    match step.what {
        LifeEvent::Seen(block) => LifeStepView { what: "seen".to_owned(), block: Some(block), ..nothing },
        LifeEvent::Confirmed { event, sequence, block, confirmations, rule } => LifeStepView {
            what: "confirmed".to_owned(),
            block: Some(block),
            event: Some(event),
            sequence: Some(sequence),
            confirmations: Some(confirmations),
            rule: rule.map(|rule| RuleView {
                at_least: rule.at_least,
                maturity: rule.maturity,
                tag: rule.tag.map(|(tag, _)| tag.as_str().to_owned()),
                tag_height: rule.tag.and_then(|(_, height)| height),
            }),
            ..nothing
        },
        LifeEvent::Reverted { event, sequence, block, ancestor } => LifeStepView {
            what: "reverted".to_owned(),
            block: Some(block),
            ancestor,
            event: Some(event),
            sequence: Some(sequence),
            ..nothing
        },
        LifeEvent::Left { block, ancestor } => LifeStepView { what: "left".to_owned(), block: Some(block), ancestor, ..nothing },
        LifeEvent::Settled(floor) => LifeStepView { what: "settled".to_owned(), floor: Some(floor), ..nothing },
        LifeEvent::BelowMinimum { block, minimum } => {
            LifeStepView { what: "below_minimum".to_owned(), block: Some(block), minimum: Some(minimum), ..nothing }
        }
    }
}
