//! The way to a PostgreSQL server: where it is and how to reach it ([`Server`]), versioned migrations that several instances may
//! run at once ([`migrate`]), and what an error means for the caller ([`Trouble`]).
//!
//! `sslmode` in the URL is kept: `require`, `verify-ca` and `verify-full` all mean TLS with the certificate and the host name
//! verified (stricter than libpq's `require`); nothing is ever sent in plain then. Without `sslmode` a server on loopback or a
//! Unix socket is spoken to in plain, any other as by `require`. `prefer` takes plain where the server has no TLS.
#![warn(missing_docs)]

mod migration;
mod schema;
mod server;
mod tls;
mod trouble;
mod url_source;

pub use migration::{MigrateError, Migration, migrate};
pub use schema::Schema;
pub use server::{Connection, Server, ServerConfig};
pub use trouble::Trouble;
pub use url_source::UrlSource;
