//! What trials of the whole program share: a configuration builder, the customer's side, and a running service.

mod config;
mod customer;
mod service;

pub use config::{ChainSection, Config, SinkSection};
pub use customer::{Customer, Sequence};
pub use service::{SOON, Service};
