//! confirmd-store-sled
