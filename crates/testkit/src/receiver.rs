//! The customer's side of the webhook sink: it verifies, keeps a ledger by the documented rule,
//! and fails in every way a customer's server can.
//!
//! The rule: per deposit key store epoch, sequence and standing; ignore an (epoch, sequence) that
//! is not greater than the stored one; otherwise store it, and move money only if the standing
//! changes.

mod event;
mod handle;
mod ledger;
mod operational;
mod signature;
mod spoilt;
#[cfg(test)]
mod tests;

pub use event::{EventType, WireAsset, WireBlock, WireEvent, WireKey};
pub use handle::{Behaviour, Now, Received, Receiver, ReceiverOptions};
pub use ledger::{Ledger, LedgerKey, LedgerRow};
pub use operational::OperationalRequest;
