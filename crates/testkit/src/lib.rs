//! What the tests of confirmd and `confirmd demo` run against: nodes and a customer that live in
//! this process but are reached the way real ones are, over loopback HTTP.
//!
//! * [`FakeBitcoin`] speaks Bitcoin Core's JSON-RPC and REST over really encoded blocks;
//! * [`FakeEvm`] speaks geth's JSON-RPC over blocks whose hashes, roots and blooms are real;
//! * [`Receiver`] plays the customer's ledger: it verifies both signatures and moves money by the
//!   documented rule for consumers.
//!
//! [`FakeNode`] speaks JSON-RPC for a network of your own; [`json_rpc::RpcError`] and [`Faults`] are its words.
//!
//! Beside them stand [`ScriptedChain`], a source without a node, and [`MemoryStore`], a store without a disk. With the feature
//! `conform` comes the conformance kit: every rule of `docs/contracts` as trials for your own source, sink or store. With the
//! feature `model` comes the reference model, which says what must have been told about a scripted chain.
//!
//! Each server is started with `start(options).await`, listens on a port of its own, and is steered by
//! plain methods of its handle. Handles are cheap to clone; the server stops with the last one.
//! Faults of the transport (rate limits, error pages, silence) sit behind `faults()`, faults of a
//! node's view of the chain (lag, lost blocks, missing finality) on the handle itself.
//!
//! ```
//! use bitcoin::ScriptBuf;
//! use confirmd_testkit::{BitcoinOptions, FakeBitcoin, Remine};
//!
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! let node = FakeBitcoin::start(BitcoinOptions::default()).await?;
//! let script = ScriptBuf::from_hex("0014751e76e8199196d454941c45d1b3a323f1433bd6").unwrap_or_default();
//! let txid = node.pay(&script, 50_000);
//! node.mine(3);
//! assert_eq!(node.find(&txid).map(|place| place.height), Some(1));
//!
//! // The last three blocks are replaced by four; the payment comes back one block higher.
//! node.fork(3, Remine::Later(1));
//! assert_eq!(node.find(&txid).map(|place| place.height), Some(2));
//! assert_eq!(node.tip().0, 4);
//! // An adapter connects to node.url().
//! # std::io::Result::Ok(())
//! # })?;
//! # std::io::Result::Ok(())
//! ```
#![warn(missing_docs)]

#[cfg(feature = "conform")]
pub mod conform;
pub mod fake_bitcoin;
pub mod fake_evm;
mod fake_node;
pub mod faults;
pub mod http;
pub mod json_rpc;
pub mod memory_store;
#[cfg(feature = "model")]
pub mod model;
pub mod receiver;
mod remine;
pub mod scripted;

// Their types stand in the fake nodes' methods.
pub use {alloy, bitcoin};

pub use fake_bitcoin::{BitcoinOptions, FakeBitcoin};
pub use fake_evm::{EvmOptions, FakeEvm};
pub use fake_node::FakeNode;
pub use faults::Faults;
pub use memory_store::{MemoryDisk, MemoryStore};
pub use receiver::{Receiver, ReceiverOptions};
pub use remine::Remine;
pub use scripted::{Pay, ScriptedChain, scripted_profile};
