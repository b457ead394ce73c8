//! Log lines on stderr.

use crate::config::{ConfigFile, LogFormat};
use anyhow::Context as _;
use indicatif::MultiProgress;
use std::io::{IsTerminal, Write};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::{EnvFilter, reload};

/// What is logged if nobody says otherwise: our own lines and those of plug-ins, only trouble of the libraries.
const DEFAULT: &str = "info,sled=warn,hyper=warn,hyper_util=warn,jsonrpsee=warn,rustls=warn";

/// Puts another filter in the place of the one that logging was started with.
pub(crate) struct SetFilter(Box<dyn Fn(EnvFilter) -> Result<(), reload::Error> + Send + Sync>);

impl std::fmt::Debug for SetFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SetFilter")
    }
}

impl SetFilter {
    /// From now on.
    pub(crate) fn set(&self, filter: EnvFilter) -> anyhow::Result<()> {
        (self.0)(filter).context("the log filter can't be changed")
    }
}

/// The filter that holds. The environment variables CONFIRMD_LOG and RUST_LOG win over the file.
pub(crate) fn filter(file: &ConfigFile) -> anyhow::Result<EnvFilter> {
    let named = ["CONFIRMD_LOG", "RUST_LOG"].into_iter().find_map(|name| Some((name, std::env::var(name).ok()?)));
    let (origin, text) = match (&named, &file.log.filter) {
        (Some((name, text)), _) => (*name, text.as_str()),
        (None, Some(text)) => ("log.filter", text.as_str()),
        (None, None) => ("log.filter", DEFAULT),
    };
    EnvFilter::try_new(text).with_context(|| {
        format!("{origin} = {text:?} is not a log filter; write \"info\" or \"warn,confirmd_engine=debug\", say")
    })
}

/// Starts logging for the process.
pub(crate) fn start(file: &ConfigFile, format: Option<LogFormat>, bars: &MultiProgress) -> anyhow::Result<SetFilter> {
    let filter = filter(file)?;
    let ansi = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let builder = tracing_subscriber::fmt().with_writer(AboveBars(bars.clone())).with_ansi(ansi).with_env_filter(filter);
    let failed = |error| anyhow::anyhow!("logging can't start: {error}");
    match format.unwrap_or(file.log.format) {
        LogFormat::Text => {
            let builder = builder.with_target(false).with_filter_reloading();
            let handle = builder.reload_handle();
            builder.try_init().map_err(failed)?;
            Ok(SetFilter(Box::new(move |filter| handle.reload(filter))))
        }
        LogFormat::Json => {
            let builder = builder.json().flatten_event(true).with_filter_reloading();
            let handle = builder.reload_handle();
            builder.try_init().map_err(failed)?;
            Ok(SetFilter(Box::new(move |filter| handle.reload(filter))))
        }
    }
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
