//! confirmd-core
