//! Log lines on stderr.

use crate::config::{ConfigFile, LogFormat};
use anyhow::Context as _;
use indicatif::MultiProgress;
use std::io::{IsTerminal, Write};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// What is logged if nobody says otherwise: our own lines and those of plug-ins, only trouble of the libraries.
const DEFAULT: &str = "info,sled=warn,hyper=warn,hyper_util=warn,jsonrpsee=warn,rustls=warn";

/// Starts logging for the process. The environment variables CONFIRMD_LOG and RUST_LOG win over the file.
pub(crate) fn start(file: &ConfigFile, format: Option<LogFormat>, bars: &MultiProgress) -> anyhow::Result<()> {
    let named = ["CONFIRMD_LOG", "RUST_LOG"].into_iter().find_map(|name| Some((name, std::env::var(name).ok()?)));
    let (origin, text) = match (&named, &file.log.filter) {
        (Some((name, text)), _) => (*name, text.as_str()),
        (None, Some(text)) => ("log.filter", text.as_str()),
        (None, None) => ("log.filter", DEFAULT),
    };
    let filter = EnvFilter::try_new(text).with_context(|| {
        format!("{origin} = {text:?} is not a log filter; write \"info\" or \"warn,confirmd_engine=debug\", say")
    })?;
    let ansi = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(AboveBars(bars.clone())).with_ansi(ansi);
    let started = match format.unwrap_or(file.log.format) {
        LogFormat::Text => builder.with_target(false).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("logging can't start: {error}"))
}

/// Writes lines without tearing progress bars.
#[derive(Debug, Clone)]
struct AboveBars(MultiProgress);

impl<'a> MakeWriter<'a> for AboveBars {
    type Writer = Self;
    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Write for AboveBars {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        self.0.suspend(|| std::io::stderr().write_all(line))?;
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stderr().flush()
    }
}
