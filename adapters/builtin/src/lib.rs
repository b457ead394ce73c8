//! confirmd-builtin
