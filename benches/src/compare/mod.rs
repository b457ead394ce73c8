//! What `compare` is made of: test chains on real nodes, bare clients as floors, and the shipped binary between them.

pub mod database;
pub mod driver;
pub mod evm_chain;
pub mod figure;
pub mod growth;
pub mod head;
pub mod instance;
pub mod matching;
pub mod peer;
pub mod plot;
pub mod probe;
pub mod receiver;
pub mod report;
pub mod restart;
pub mod rows;
pub mod snapshot_model;
pub mod subject;
pub mod syncs;
pub mod tracer;
pub mod utxo_chain;
pub mod webhooks;
