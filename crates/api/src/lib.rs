//! confirmd-api
