//! confirmd
