//! The torture run in virtual time, from one seed.
//!
//! The daemon's own composition runs on one thread under tokio's paused clock: watchers of three chains, sled in a real folder,
//! a pump for each of three consumers. Connections in memory stand in for sockets below the JSON-RPC reader and the webhook
//! client; nothing above is replaced. The store's writer is a task instead of a thread, so that everything happens in one order.

mod chain;
mod clock;
mod crash;
mod dice;
mod judge;
mod life;
mod node_side;
mod operator;
mod payment;
mod plan;
mod receiver_side;
mod record;
mod run;
mod series;
mod shelf;
mod weather;
mod wire;
mod world;

pub use run::{Outcome, run_seed};
pub use series::{Series, Summary, run};
