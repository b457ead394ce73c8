//! What goes over the wire and what the CLI prints with `--json`. Times are RFC 3339 in UTC; amounts are strings of
//! base units.

mod chain;
mod consumer;
mod delivery;
mod deposit;
mod status;
mod watch;

pub use chain::{ChainView, Phase, ReorgView, ResumeRequest, ResumeView, SettledView};
pub use consumer::{ConsumerView, Pause};
pub use delivery::{AttemptView, Counted, DeliveryDetail, DeliveryQuery, DeliveryView, DeliveryWithAttempts, Requeue, Skip};
pub use deposit::{DepositQuery, DepositView};
pub use status::{Done, Health, Readiness, Status};
pub use watch::{WatchAdd, WatchAdded, WatchQuery, WatchRemove, WatchRequest, Watched};
