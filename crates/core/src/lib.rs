//! confirmd's vocabulary and contracts. No runtime, no I/O, no adapter: every other crate stands on this one.
//!
//! Start with [`ChainSource`] (what a network must be able to say), [`StateStore`] and [`Outbox`] (what is written down)
//! and [`Sink`] (who is told). The words are those of `GLOSSARY.md`.
#![warn(missing_docs)]

mod address;
mod amount;
mod asset;
mod block;
mod causes;
mod chain_id;
mod change;
mod clock;
mod config;
mod consumer;
mod delivery;
mod deposit;
mod deposit_key;
mod dump;
mod duration;
mod event;
mod halt;
mod held;
mod history;
mod life_plan;
mod meter;
mod new_heads;
mod notice;
mod outbox;
mod plugin;
mod policy;
mod queue;
mod rescan;
mod secret;
mod sequence;
mod sharing;
mod shown;
mod sink;
mod source;
mod state;
mod store;
mod text_id;
mod told;
mod trace_context;
mod trail;
mod transfer;
mod watch;

pub use address::{Address, AddressError};
pub use amount::{Amount, AmountError};
pub use asset::{Asset, AssetId, ListedAsset};
pub use block::{BlockHash, BlockHeader, BlockRef, Height, confirmations};
pub use causes::with_causes;
pub use chain_id::{ChainId, ChainName};
pub use change::{Change, ChangeSet, CommitReceipt};
pub use clock::{Clock, SystemClock, Timestamp};
pub use config::{ConfigError, parse_table};
pub use consumer::{ConsumerFilter, ConsumerName, ConsumerSpec, ConsumerStart, ConsumerStatus};
pub use delivery::{
    Attempt, AttemptOutcome, DELIVERED_LOOK_MAX, DeliveredPage, Delivery, DeliveryFilter, DeliveryRecord, DeliveryState,
};
pub use deposit::{Archived, Orphaned, Pending, Reported, SettledDeposit, Small};
pub use deposit_key::{DepositKey, KeyDigest, TxId};
pub use dump::{
    DUMP_FORMAT, DumpError, DumpHead, DumpReader, DumpRecord, DumpSummary, DumpWriter, DumpedArchive, DumpedAttempt, DumpedChain,
    DumpedConsumer, DumpedEvent, DumpedHeld, DumpedOpen, DumpedSkip, DumpedStep, DumpedStore, Snapshots, StoreImport,
    StoreSnapshot,
};
pub use duration::HumanDuration;
pub use event::{Event, EventId, EventKind, EventRecord, Position};
pub use halt::{Halt, HaltReason};
pub use held::{ByHeight, Held};
pub use history::{
    CURSORS_MAX, CursorName, DepositFilter, DepositRecord, DepositState, History, LifeEvent, LifeStep, PullCursor,
    REORG_BLOCKS_MAX, ReorgRecord, Rule,
};
pub use life_plan::{LifePlan, SmallsBefore};
pub use meter::{SourceCounts, SourceMeter};
pub use new_heads::{BuildNewHeads, NewHeads};
pub use notice::{Notice, NoticeName, NoticesWanted};
pub use outbox::{Outbox, Pace};
pub use plugin::{BuildForgedSink, ChainContext, ChainKind, Forgery, Registry, SinkContext, SinkKind};
pub use policy::{FinalityTag, Requirement};
pub use queue::{DeliveryQueue, OPEN_MAX, OpenDelivery, OpenState, QueueChanges, QueueCounts};
pub use rescan::{AskedHistory, HeightRange, Rescan, RescanId, RescanScope, RescanState};
pub use secret::{Secret, SecretSource};
pub use sequence::{Epoch, Sequence};
pub use sharing::{Sharing, Turn};
pub use shown::{ShownPayment, ShownTransaction};
pub use sink::{DeliverError, Feed, Newest, Sink, SinkBooks, SinkError, SinkErrorKind, SinkProfile};
pub use source::{ChainProfile, ChainSource, EndpointStatus, SourceError, SourceErrorKind, StartAt};
pub use state::{ChainState, StateVersion};
pub use store::{StateStore, StoreError, StoreId};
pub use text_id::TextIdError;
pub use told::Told;
pub use trace_context::TraceContext;
pub use trail::Trail;
pub use transfer::{Payment, Transfer};
pub use watch::{WatchEntry, WatchOrigin, WatchSet, WatchState};
