//! confirmd-chain-bitcoin
