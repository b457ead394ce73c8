//! The API of one instance: what an operator can ask and order, over HTTP.
//!
//! [`Operator`] states the operations once. [`server`] offers one over HTTP, [`Client`] is one over HTTP, and the
//! daemon's own stands on the watchers and the store.
#![warn(missing_docs)]

mod access;
pub mod client;
mod dashboard;
mod error;
mod extract;
mod guard;
pub mod import;
pub mod instance;
mod limit;
mod metrics;
pub mod openapi;
mod operator;
mod orders_schema;
mod page;
mod problem;
mod routes;
mod schema;
pub mod server;
pub mod view;

pub use access::{Access, Role};
pub use client::Client;
pub use error::{ErrorKind, OperatorError};
pub use metrics::{ChainFigures, ConsumerFigures, Figures, Metrics};
pub use operator::{DumpStream, Operator};
pub use page::{Cursor, PAGE_MAX, Page, WAIT_MAX, page_size};

/// Takes the answer about one part of a list into that about the whole: counts add up, coverage is that of the last part.
pub fn merge(all: &mut Vec<view::WatchAdded>, new: view::WatchAdded) {
    match all.iter_mut().find(|one| one.chain == new.chain) {
        Some(one) => {
            one.count = one.count.saturating_add(new.count);
            one.from_height = one.from_height.max(new.from_height);
            one.rescan = new.rescan.or(one.rescan);
            one.relabelled.extend(new.relabelled);
        }
        None => all.push(new),
    }
}
