//! confirmd-testkit
