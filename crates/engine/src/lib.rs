//! confirmd-engine
