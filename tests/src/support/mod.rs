//! What trials of the whole program share: a configuration builder, the customer's side, and a running service.

mod config;
mod customer;
mod service;
mod switch;
mod utxo;

pub use config::{ChainSection, Config, SinkSection};
pub use customer::{Customer, Sequence};
pub use service::{SOON, Service};
pub use switch::Switch;
pub use utxo::{COINS, Due, NODE_PASSWORD_ENV, UtxoPlan, UtxoStage, utxo_node};
