//! confirmd-chain-evm
