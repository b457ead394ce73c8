//! confirmd-sink-stdout
