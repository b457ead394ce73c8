//! The trials, a file for each kind of rule. Each is a function over the harness.

pub(super) mod answers;
pub(super) mod branch;
pub(super) mod headers;
pub(super) mod keys;
pub(super) mod order;
pub(super) mod secrets;
pub(super) mod trouble;
pub(super) mod values;
