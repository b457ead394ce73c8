//! Which nodes are installed here, and where.

use std::path::{Path, PathBuf};

use crate::binary::workspace_root;

/// Something outside the repository that a trial can't do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// anvil, the EVM node.
    Anvil,
    /// litecoind, the Bitcoin-family node that Debian has.
    Litecoind,
    /// Bitcoin Knots, a full bitcoind.
    Knots,
    /// Prometheus' checker of rules and metrics.
    Promtool,
    /// schemathesis, which asks an API whatever its document allows, and what it does not.
    Schemathesis,
    /// systemd's checker of units.
    SystemdAnalyze,
    /// The PostgreSQL server.
    Postgres,
    /// A browser with its driver.
    Browser,
    /// Recorded blocks of real networks: the folder named by `CONFIRMD_REAL_DATA`.
    RealData,
}

impl Needs {
    /// Where it is, if it is here.
    pub fn path(self) -> Option<PathBuf> {
        let found = match self {
            Self::Anvil => Some(nodes_folder().join("bin/anvil")),
            Self::Knots => Some(nodes_folder().join("bin/bitcoind")),
            Self::Litecoind => on_path("litecoind"),
            Self::Promtool => {
                let installed = workspace_root().join(".tools/venv/bin/promtool");
                on_path("promtool").or(Some(installed))
            }
            Self::Schemathesis => Some(workspace_root().join(".tools/fuzz/bin/st")),
            Self::SystemdAnalyze => on_path("systemd-analyze"),
            Self::Postgres => crate::postgres::find_bin(),
            Self::Browser => on_path("chromium").and_then(|_| on_path("chromedriver")),
            Self::RealData => Some(match std::env::var_os("CONFIRMD_REAL_DATA") {
                Some(folder) => PathBuf::from(folder),
                None => workspace_root().join("../shared/data"),
            }),
        };
        found.filter(|path| path.exists())
    }

    /// Why a trial is ignored, shown with it.
    pub(crate) fn missing(self) -> &'static str {
        match self {
            Self::Anvil => "anvil not installed: run tests/nodes/install",
            Self::Litecoind => "litecoind not installed: run tests/nodes/install",
            Self::Knots => "knots not installed: run tests/nodes/install",
            Self::Promtool => "promtool not installed: run tests/tools/install",
            Self::Schemathesis => "schemathesis not installed: run tests/tools/install",
            Self::SystemdAnalyze => "systemd-analyze not installed: this is no machine with systemd",
            Self::Postgres => "postgres not installed: run tests/postgres/install",
            Self::Browser => "browser not installed: run tests/browser/install",
            Self::RealData => "no real blocks: set CONFIRMD_REAL_DATA",
        }
    }
}

fn nodes_folder() -> PathBuf {
    std::env::var_os("CONFIRMD_NODES").map_or_else(|| workspace_root().join(".nodes"), PathBuf::from)
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder: PathBuf| folder.join(program)).find(|file: &PathBuf| Path::is_file(file))
}
