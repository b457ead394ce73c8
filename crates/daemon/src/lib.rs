//! confirmd as a library: configuration, supervision and command line around a registry of kinds.
//!
//! A whole main function with a network of your own is
//! `confirmd::run(confirmd_builtin::registry().with_chain(my_chain::KIND))`.
#![warn(missing_docs)]

mod cli;
pub mod config;
mod conform;
#[cfg(feature = "demo")]
pub mod demo;
mod operator;
mod run;
mod stop;
mod verify;

pub use cli::run;
pub use run::{Embedded, EmbeddedOptions};
