//! confirmd-rpc
