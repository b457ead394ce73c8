//! What `compare` is made of: test chains on real nodes, bare clients as floors, and the shipped binary between them.

pub mod driver;
pub mod evm_chain;
pub mod figure;
pub mod report;
pub mod subject;
pub mod utxo_chain;
