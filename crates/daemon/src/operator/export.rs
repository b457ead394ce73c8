//! The whole state, written out while it goes on.

use super::LocalOperator;
use confirmd_api::{DumpStream, OperatorError};
use confirmd_core::{DUMP_FORMAT, DumpHead, DumpWriter, StoreError, StoreSnapshot, Timestamp};
use futures::StreamExt as _;
use futures::stream;

/// A dump that is being written.
struct Export {
    snapshot: Box<dyn StoreSnapshot>,
    writer: Option<DumpWriter>,
    /// What was written and not yet handed out.
    lines: Vec<u8>,
}

impl LocalOperator {
    pub(super) async fn export_state(&self) -> Result<DumpStream, OperatorError> {
        let snapshots = self.stores.snapshots.clone();
        let backend = snapshots.backend().to_owned();
        let snapshot = match snapshots.snapshot().await {
            Err(StoreError::Invalid(text)) => return Err(OperatorError::conflict(text)),
            snapshot => self.store(snapshot)?,
        };
        let head = DumpHead {
            format: DUMP_FORMAT,
            backend,
            running: self.running() || snapshot.is_shared(),
            exported_at: Timestamp::from_seconds(self.clock.now().seconds()),
            written_by: env!("CARGO_PKG_VERSION").to_owned(),
        };
        tracing::info!("the state is exported");
        let mut lines = Vec::new();
        let writer = Some(DumpWriter::begin(head, &mut lines));
        let export = Export { snapshot, writer, lines };
        let parts = stream::try_unfold(export, |export| async { export.go_on().await.map_err(OperatorError::from) });
        Ok(parts.map(|part| part.map(Into::into)).boxed())
    }
}

impl Export {
    /// The next lines; none behind the end.
    async fn go_on(mut self) -> Result<Option<(Vec<u8>, Self)>, StoreError> {
        if let Some(mut writer) = self.writer.take() {
            let records = self.snapshot.next().await?;
            for record in &records {
                writer.push(record, &mut self.lines)?;
            }
            if records.is_empty() {
                writer.end(&mut self.lines);
            } else {
                self.writer = Some(writer);
            }
        }
        let lines = std::mem::take(&mut self.lines);
        Ok((!lines.is_empty()).then_some((lines, self)))
    }
}
