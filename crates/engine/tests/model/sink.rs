//! A consumer's other side, which outlives the process that delivers to it.

use super::oracle::Oracle;
use super::step::SinkDoes;
use async_trait::async_trait;
use confirmd_core::{ConsumerName, DeliverError, Delivery, Sink, SinkBooks, SinkError, SinkErrorKind, SinkProfile};
use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Takes every event unless its plan says otherwise.
#[derive(Debug)]
pub(crate) struct Scripted {
    pub(crate) name: ConsumerName,
    pub(crate) oracle: Arc<Mutex<Oracle>>,
    pub(crate) plan: Mutex<VecDeque<SinkDoes>>,
}

impl Scripted {
    /// The same other side, under another name.
    pub(crate) fn renamed(&self, name: ConsumerName) -> Self {
        let plan = std::mem::take(&mut *self.plan.lock().unwrap());
        Self { name, oracle: self.oracle.clone(), plan: Mutex::new(plan) }
    }

    async fn one(&self, delivery: &Delivery) -> Result<(), SinkError> {
        self.oracle.lock().unwrap().handed(&self.name, delivery);
        let does = self.plan.lock().unwrap().pop_front().unwrap_or(SinkDoes::Take);
        let failed = |kind| Err(SinkError::new(kind, "scripted failure"));
        match does {
            SinkDoes::Take => {}
            SinkDoes::Slow { ms } => tokio::time::sleep(Duration::from_millis(ms.into())).await,
            SinkDoes::Fail { after_ms } => {
                let retry_after = (after_ms > 1000).then(|| Duration::from_millis(after_ms.into()));
                return failed(SinkErrorKind::Transient { retry_after });
            }
            SinkDoes::Reject => return failed(SinkErrorKind::Rejected { retry_after: None }),
            SinkDoes::Fatal => return failed(SinkErrorKind::Fatal),
            SinkDoes::TakeAndFail => {
                self.oracle.lock().unwrap().taken(&self.name, delivery);
                return failed(SinkErrorKind::Transient { retry_after: None });
            }
        }
        self.oracle.lock().unwrap().taken(&self.name, delivery);
        Ok(())
    }
}

#[async_trait]
impl Sink for Scripted {
    fn profile(&self) -> SinkProfile {
        SinkProfile { batch_max: NonZeroUsize::new(3).unwrap(), concurrency: NonZeroUsize::new(2).unwrap() }
    }

    fn books(&self) -> Option<&dyn SinkBooks> {
        None
    }

    async fn check(&self) -> Result<(), SinkError> {
        Ok(())
    }

    async fn deliver(&self, batch: &[Delivery]) -> Result<(), DeliverError> {
        for (accepted, delivery) in batch.iter().enumerate() {
            if let Err(error) = self.one(delivery).await {
                return Err(DeliverError { accepted, error });
            }
        }
        Ok(())
    }
}
