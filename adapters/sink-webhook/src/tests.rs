#![allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod addresses;
mod answers;
mod peer;
mod requests;
mod setup;
mod signatures;
mod tls;
