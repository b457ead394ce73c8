//! The file sink on a disk that fails now and then: full, gone, or failing only after the lines were written.

use std::sync::Arc;

use async_trait::async_trait;
use confirmd_core::{DeliverError, Delivery, Sink, SinkBooks, SinkError, SinkErrorKind, SinkProfile};
use confirmd_sink_file::FileSink;

use super::world::{DISK, World};

/// The shipped sink, and what its disk does to it in one life.
#[derive(Debug)]
pub(super) struct Shelf {
    pub(super) file: FileSink,
    pub(super) world: Arc<World>,
    pub(super) life: u64,
}

fn failed() -> SinkError {
    SinkError::new(
        SinkErrorKind::Transient { retry_after: None },
        "appending to the archive: no space left on the disk of this run",
    )
}

#[async_trait]
impl Sink for Shelf {
    fn profile(&self) -> SinkProfile {
        self.file.profile()
    }

    fn books(&self) -> Option<&dyn SinkBooks> {
        self.file.books()
    }

    async fn check(&self) -> Result<(), SinkError> {
        self.file.check().await
    }

    async fn deliver(&self, batch: &[Delivery]) -> Result<(), DeliverError> {
        let world = &self.world;
        world.only_for(self.life).await;
        world.point("append");
        world.only_for(self.life).await;
        let strikes = world.condition(DISK).weather.strikes(&world.luck);
        // Whole lines before the disk is full, or all of them and then no sync: the sink says so, or says nothing of them.
        let written = if strikes { usize::try_from(world.luck.below(4)).unwrap_or(0).min(batch.len()) } else { batch.len() };
        if let Some(part) = batch.get(..written).filter(|part| !part.is_empty()) {
            self.file.deliver(part).await?;
        }
        world.point("appended");
        world.only_for(self.life).await;
        if strikes {
            let accepted = if world.luck.percent(50) { written.min(batch.len().saturating_sub(1)) } else { 0 };
            return Err(DeliverError { accepted, error: failed() });
        }
        Ok(())
    }
}
