//! What goes over the wire and what the CLI prints with `--json`. Times are RFC 3339 in UTC; amounts are strings of
//! base units.

mod chain;
mod consumer;
mod delivery;
mod deposit;
mod event;
mod rescan;
mod status;
mod watch;

pub use chain::{
    CatchUp, ChainDetail, ChainView, EndpointView, HaltView, PastReorg, Phase, ReorgView, RequestsView, ResumeRequest,
    ResumeView, SettledView,
};
pub use consumer::{ConsumerView, Pause};
pub use delivery::{
    AttemptView, Counted, DeadGroup, DeadQuery, DeliveryDetail, DeliveryQuery, DeliveryView, DeliveryWithAttempts, Replay,
    Requeue, Skip, TestResult,
};
pub use deposit::{
    DepositLife, DepositQuery, DepositView, ExplainQuery, ExplainedPayment, Explanation, LifeStepView, PaymentReason, RuleView,
};
pub use event::{CursorStart, CursorView, EventsPage, EventsQuery, PutCursor};
pub use rescan::{Coverage, CoverageQuery, Covered, Gap, RescanOrder, RescanRequest, RescanView};
pub use status::{ConfigurationView, Done, Health, PartChange, Readiness, RefusedView, Reloaded, ReloadedPart, Status};
pub use watch::{Relabelled, WatchAdd, WatchAdded, WatchQuery, WatchRemove, WatchRequest, Watched};
