//! confirmd-sink-webhook
