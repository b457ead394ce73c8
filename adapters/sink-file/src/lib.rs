//! confirmd-sink-file
