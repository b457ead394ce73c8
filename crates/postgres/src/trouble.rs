//! What an error of the server or of the way to it means for the caller.

use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

/// What to do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// The connection is gone, or the server is going down, starting, full, overloaded or a read-only replica: try again on a new one.
    Passing,
    /// This transaction lost against another one: the same again may pass at once.
    Collision,
    /// It took longer than its limit, or waited too long for a lock.
    Slow,
    /// Credentials, database, privileges, TLS: nothing passes until an operator acts.
    Setup,
    /// The server refuses what this statement said.
    Statement,
}

impl Trouble {
    /// By the SQLSTATE, or by its absence: then the connection failed.
    pub fn of(error: &Error) -> Self {
        let Some(code) = error.code() else {
            return if is_refused_tls(error) { Self::Setup } else { Self::Passing };
        };
        Self::of_code(code)
    }

    /// By a SQLSTATE.
    pub fn of_code(code: &SqlState) -> Self {
        match code.code() {
            "40001" | "40P01" => Self::Collision,
            "57014" | "55P03" | "25P03" | "25P04" => Self::Slow,
            // Read-only, going down, starting, dropped connections; a statement of ours behind one that failed.
            "25006" | "57P01" | "57P02" | "57P03" | "57P05" | "25P02" => Self::Passing,
            "3D000" | "3F000" | "42501" | "57P04" => Self::Setup,
            code => match code.get(..2) {
                // Connections; resources (disk full, memory, too many connections); the operating system; the server itself.
                Some("08" | "53" | "58" | "XX") => Self::Passing,
                Some("28") => Self::Setup,
                _ => Self::Statement,
            },
        }
    }

    /// The server's own words with their code and what it advises, or those of the connection. One line.
    pub fn describe(error: &Error) -> String {
        let Some(server) = error.as_db_error() else { return confirmd_core::with_causes(error) };
        let mut text = format!("{} (SQLSTATE {})", server.message(), server.code().code());
        for more in [server.detail(), server.hint()].into_iter().flatten() {
            text.push_str("; ");
            text.push_str(more);
        }
        if let Some(remedy) = remedy(server.code()) {
            text.push_str("; ");
            text.push_str(remedy);
        }
        text.replace('\n', " ")
    }
}

/// The server was asked for TLS and has none, or its certificate is not to be trusted.
fn is_refused_tls(error: &Error) -> bool {
    let text = confirmd_core::with_causes(error);
    text.contains("server does not support TLS") || text.contains("invalid peer certificate")
}

fn remedy(code: &SqlState) -> Option<&'static str> {
    Some(match code.code() {
        "53100" => "make room on the server's disk",
        "53300" => "raise max_connections, or keep a connection free for confirmd",
        "25006" => "the server is a read-only replica: name all hosts in the url with target_session_attrs=read-write",
        "28P01" | "28000" => "correct user or password, or the server's pg_hba.conf",
        "3D000" => "create the database, or correct its name in the url",
        "42501" => "grant what docs/postgres.md lists to confirmd's role",
        "57014" => "statement_timeout: is the statement slow, or waiting for a lock?",
        "55P03" => "something holds a lock for long: look at pg_stat_activity",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k6_sqlstates_are_sorted_by_what_the_caller_does_next() {
        let of = |code| Trouble::of_code(&SqlState::from_code(code));
        for code in ["08006", "53100", "53200", "53300", "57P01", "57P02", "57P03", "25006", "58030", "XX000"] {
            assert_eq!(of(code), Trouble::Passing, "{code}");
        }
        for code in ["28P01", "28000", "3D000", "42501"] {
            assert_eq!(of(code), Trouble::Setup, "{code}");
        }
        for code in ["22003", "23505", "23514", "P0001", "42883", "22P02"] {
            assert_eq!(of(code), Trouble::Statement, "{code}");
        }
        assert_eq!(of("40001"), Trouble::Collision);
        assert_eq!(of("57014"), Trouble::Slow);
    }
}
