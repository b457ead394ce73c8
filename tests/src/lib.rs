//! What the end-to-end tests stand on: drivers for real chain nodes, the `confirmd` binary under test, and the
//! harness that shows a trial as ignored, with the reason, where a node is not installed.
//!
//! Everything a driver starts listens on 127.0.0.1 only, keeps its files in a folder of its own that is removed
//! with it, and dies with the test: on drop, and by the kernel if the test process itself is killed.
#![warn(missing_docs)]

mod abi;
mod anvil;
mod binary;
mod bitcoin_family;
mod browser;
mod contracts;
mod instance;
mod lines;
mod mweb;
mod nodes;
mod payments;
mod port;
mod postgres;
mod process;
mod proxy;
mod reorg;
mod rpc;
mod scratch;
mod support;
mod trial;
mod wire_proxy;

pub mod torture;

pub use abi::Arg;
pub use anvil::{Anvil, AnvilOptions, Call};
pub use binary::{confirmd, workspace_root};
pub use bitcoin_family::{Auth, BitcoinFamily, FamilyOptions, Knots, Litecoind};
pub use browser::{Browser, BrowserOptions};
pub use contracts::{Contract, Deployed};
pub use instance::Instance;
pub use lines::Lines;
pub use nodes::Needs;
pub use payments::base_units;
pub use port::Port;
pub use postgres::Postgres;
pub use process::Process;
pub use proxy::{AfterCall, BeforeCall, FaultProxy, RequestFault, with_error, with_result};
pub use rpc::{Rpc, RpcError};
pub use scratch::scratch_dir;
pub use support::{COINS, Due, NODE_PASSWORD_ENV, UtxoPlan, UtxoStage, utxo_node};
pub use support::{ChainSection, Config, Customer, SOON, Sequence, Service, SinkSection, Switch};
pub use trial::{node_trial, run_trials};
pub use wire_proxy::{At, Cut, WireProxy};

/// A block as a node names it: height and hash (hex; with `0x` on EVM chains).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Distance from the genesis block.
    pub height: u64,
    /// The node's spelling of the hash.
    pub hash: String,
}

/// Where a transaction sits on the best chain now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// The block that carries it.
    pub block: Block,
    /// Its place among the block's transactions, from 0.
    pub index: u64,
}
