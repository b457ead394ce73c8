//! `confirmd check`: one line per thing, with what to do about it.

use super::print;
use crate::config::{Backend, ChainConfig, Config, ConfigFile, SinkConfig};
use confirmd_api::Client;
use confirmd_api::client::Found;
use confirmd_core::{EndpointStatus, Registry, Sink, SinkErrorKind, with_causes};
use confirmd_store_sled::OpenOptions;
use confirmd_store_sled::SledStore;
use serde::Serialize;
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// A node or sink that takes longer is as good as down.
const LIMIT: Duration = Duration::from_secs(30);

/// How a thing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    Warn,
    Fail,
}

/// One checked thing.
#[derive(Debug, Clone, Serialize)]
struct Finding {
    verdict: Verdict,
    subject: String,
    text: String,
}

impl Finding {
    fn new(verdict: Verdict, subject: impl Into<String>, text: impl Into<String>) -> Self {
        Self { verdict, subject: subject.into(), text: text.into() }
    }
}

/// Exits with 1 if anything would keep an instance from doing its job.
pub(super) async fn run(file: &Path, json: bool, registry: &Registry) -> anyhow::Result<ExitCode> {
    let (config, findings) = configuration(file, registry);
    let mut failed = show(&findings, json)?;
    if let Some(config) = config {
        let running = Client::find(&config.file.state.path).await;
        let runs = matches!(running, Found::Running(_));
        failed |= show(&[state(&config, running).await], json)?;
        let chains = futures::future::join_all(config.chains.iter().map(chain));
        let sinks = futures::future::join_all(config.sinks.iter().map(|sink| self::sink(sink, runs)));
        let (chains, sinks) = futures::join!(chains, sinks);
        for findings in chains {
            failed |= show(&findings, json)?;
        }
        failed |= show(&sinks, json)?;
        if let Some(operations) = &config.operations {
            failed |= show(&[asked("operations sink", "it", operations.sink.as_ref(), runs).await], json)?;
        }
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn show(findings: &[Finding], json: bool) -> anyhow::Result<bool> {
    let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    for finding in findings {
        if json {
            print::json(finding)?;
            continue;
        }
        let (word, code) = match finding.verdict {
            Verdict::Ok => ("ok  ", "32"),
            Verdict::Warn => ("warn", "33"),
            Verdict::Fail => ("FAIL", "31"),
        };
        let word = if colour { format!("\u{1b}[{code}m{word}\u{1b}[0m") } else { word.to_owned() };
        print::line(&format!("{word}  {}: {}", finding.subject, finding.text));
    }
    Ok(findings.iter().any(|finding| finding.verdict == Verdict::Fail))
}

fn configuration(path: &Path, registry: &Registry) -> (Option<Config>, Vec<Finding>) {
    let built = ConfigFile::read(path).and_then(|file| Config::build(file, registry));
    let config = match built {
        Ok(config) => config,
        Err(faults) => {
            let lines = faults.to_string();
            return (None, lines.lines().map(|line| Finding::new(Verdict::Fail, "configuration", line)).collect());
        }
    };
    let text = format!(
        "{}: {}, {}",
        path.display(),
        print::counted(config.chains.len(), "chain", "chains"),
        print::counted(config.sinks.len(), "sink", "sinks")
    );
    let mut findings = vec![Finding::new(Verdict::Ok, "configuration", text)];
    if config.chains.is_empty() {
        findings.push(Finding::new(Verdict::Fail, "chains", "none is configured; `confirmd kinds` shows examples"));
    }
    if config.sinks.is_empty() {
        findings.push(Finding::new(Verdict::Warn, "sinks", "none is configured: deposits are recorded, nobody is told"));
    }
    (Some(config), findings)
}

async fn state(config: &Config, running: Found) -> Finding {
    let path = &config.file.state.path;
    let shown = path.display();
    if let Found::Running(client) = running {
        let text = format!("{shown} is in use by the instance at {}", client.address());
        return Finding::new(Verdict::Ok, "state", text);
    }
    if config.file.state.backend == Backend::Sled && !SledStore::is_initialised(path) {
        let text = format!(
            "{shown} is not initialised: right before the first `confirmd run --init`, wrong after it (is a volume missing?)"
        );
        return Finding::new(Verdict::Warn, "state", text);
    }
    let opened = match crate::run::open_state(&config.file.state, OpenOptions::default()).await {
        Ok(store) => store,
        Err(error) => return Finding::new(Verdict::Fail, "state", format!("{error:#}")),
    };
    crate::run::introduce(config, opened.state());
    match crate::run::state_problems(config, &opened.stores()).await {
        Err(error) => Finding::new(Verdict::Fail, "state", format!("{error:#}")),
        Ok(()) => Finding::new(Verdict::Ok, "state", format!("{shown} opens, store {}", opened.state().identity())),
    }
}

/// What the node is, then what it says of itself. An unreachable node is said once.
async fn chain(chain: &ChainConfig) -> Vec<Finding> {
    let source = chain.source.as_ref();
    let identified = tokio::time::timeout(LIMIT, source.identify());
    let inspected = tokio::time::timeout(LIMIT, source.inspect());
    let (identified, inspected) = futures::join!(identified, inspected);
    let finding = |verdict, what: &str, text: String| Finding::new(verdict, format!("{} {what}", chain.name), text);
    let expected = &source.profile().chain;
    let network = match identified {
        Ok(Ok(id)) if id == *expected => finding(Verdict::Ok, "network", format!("the node serves {id}")),
        Ok(Ok(id)) => {
            let remedy = format!("point `chains.{}.rpc` at the right node", chain.name);
            finding(Verdict::Fail, "network", format!("the node serves {id}, the configuration says {expected}; {remedy}"))
        }
        Ok(Err(error)) => finding(Verdict::Fail, "network", with_causes(&error)),
        Err(_) => finding(Verdict::Fail, "network", format!("no answer within {LIMIT:?}; is the node up?")),
    };
    let of_node = |EndpointStatus { subject, ok, text }| finding(if ok { Verdict::Ok } else { Verdict::Warn }, &subject, text);
    let statuses: Vec<Finding> = match inspected {
        Ok(Ok(statuses)) => statuses.into_iter().map(of_node).collect(),
        _ if network.verdict == Verdict::Fail => return vec![network],
        Ok(Err(error)) => vec![finding(Verdict::Fail, "node", with_causes(&error))],
        Err(_) => vec![finding(Verdict::Fail, "node", format!("no answer within {LIMIT:?}"))],
    };
    let said = network.verdict == Verdict::Ok && statuses.iter().any(|status| status.subject == network.subject);
    if said { statuses } else { std::iter::once(network).chain(statuses).collect() }
}

async fn sink(sink: &SinkConfig, runs: bool) -> Finding {
    asked(&format!("{} sink", sink.name()), sink.kind, sink.sink.as_ref(), runs).await
}

/// Asks a sink whether it could deliver. Where an instance `runs`, it may hold what only one can have: a file that is appended to.
async fn asked(subject: &str, what: &str, sink: &dyn Sink, runs: bool) -> Finding {
    match tokio::time::timeout(LIMIT, sink.check()).await {
        Ok(Ok(())) => Finding::new(Verdict::Ok, subject, format!("{what} is ready")),
        Ok(Err(error)) if runs && error.kind == SinkErrorKind::Fatal => {
            let note = "nothing is wrong if that is the running instance (`confirmd status` says what it delivers)";
            Finding::new(Verdict::Warn, subject, format!("{}; {note}", with_causes(&error)))
        }
        Ok(Err(error)) => {
            let note = match error.kind {
                SinkErrorKind::Fatal => "`confirmd run` refuses to start with it",
                SinkErrorKind::Transient { .. } | SinkErrorKind::Rejected { .. } => "events would wait on disk",
            };
            Finding::new(Verdict::Fail, subject, format!("{}; {note}", with_causes(&error)))
        }
        Err(_) => Finding::new(Verdict::Fail, subject, format!("no answer within {LIMIT:?}; events would wait on disk")),
    }
}
