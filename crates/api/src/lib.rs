//! The control API of one instance: what an operator can ask and order, over HTTP on the loopback interface.
//!
//! [`Operator`] states the operations once. [`server`] offers one over HTTP, [`Client`] is one over HTTP, and the
//! daemon's own stands on the watchers and the store.
#![warn(missing_docs)]

pub mod client;
mod error;
mod guard;
pub mod import;
pub mod instance;
mod operator;
mod page;
mod problem;
mod routes;
pub mod server;
pub mod view;

pub use client::Client;
pub use error::{ErrorKind, OperatorError};
pub use operator::Operator;
pub use page::{Cursor, Page, page_size};
