//! What the benches, and the runners that compare and judge, share.
//!
//! Everything measured is the real thing: the shipped fold, store, decoder and binary. Ratios between two measurements
//! that were taken in turn are judged, never absolute times: those say more about the machine than about the code.
#![warn(missing_docs)]

pub mod address_list;
pub mod block;
pub mod compare;
pub mod http;
pub mod ledger;
pub mod process;
pub mod ratio;
pub mod sweep;
pub mod usage;
pub mod village;
