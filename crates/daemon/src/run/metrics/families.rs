//! Every metric: its name, kind, labels and meaning. `docs/metrics.md` shows this table; a test compares them.

/// What a family counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    /// Only grows, from the start of the process.
    Counter,
    /// As it is now.
    Gauge,
    /// Counts below these bounds.
    Histogram(&'static [f64]),
}

impl Kind {
    /// As `# TYPE` says it.
    #[cfg(test)]
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram(_) => "histogram",
        }
    }
}

/// One metric.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Family {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// Their values are bounded: names of the configuration, and the words `help` lists.
    pub(crate) labels: &'static [&'static str],
    pub(crate) help: &'static str,
}

const fn family(name: &'static str, kind: Kind, labels: &'static [&'static str], help: &'static str) -> Family {
    Family { name, kind, labels, help }
}

const CHAIN: &[&str] = &["chain"];
const CONSUMER: &[&str] = &["consumer"];

pub(crate) const TIP_HEIGHT: Family =
    family("confirmd_chain_tip_height", Kind::Gauge, CHAIN, "Height of the node's tip when it last answered.");
pub(crate) const TRAIL_HEIGHT: Family =
    family("confirmd_chain_trail_height", Kind::Gauge, CHAIN, "Height of the highest block that was read and committed.");
pub(crate) const FLOOR_HEIGHT: Family =
    family("confirmd_chain_floor_height", Kind::Gauge, CHAIN, "At or below this height everything is settled.");
pub(crate) const LAG_BLOCKS: Family =
    family("confirmd_chain_lag_blocks", Kind::Gauge, CHAIN, "Blocks between the highest committed block and the node's tip.");
pub(crate) const LAG_SECONDS: Family = family(
    "confirmd_chain_lag_seconds",
    Kind::Gauge,
    CHAIN,
    "Seconds since the chain was last known to be at its node's tip; grows while it catches up, is behind, halted or unreachable.",
);
pub(crate) const STATE: Family = family(
    "confirmd_chain_state",
    Kind::Gauge,
    &["chain", "state"],
    "1 for the state the chain is in, 0 for the others: starting, catching_up, following, behind, waiting_for_fork, halted, unreachable, stopped.",
);
pub(crate) const PENDING: Family =
    family("confirmd_chain_pending_deposits", Kind::Gauge, CHAIN, "Deposits that were seen and are not deep enough yet.");
pub(crate) const REPORTED: Family =
    family("confirmd_chain_reported_deposits", Kind::Gauge, CHAIN, "Deposits that were reported and may still be taken back.");
pub(crate) const WATCHED: Family =
    family("confirmd_chain_watched_addresses", Kind::Gauge, CHAIN, "Watched addresses, leaving ones included.");
pub(crate) const RESCANS: Family =
    family("confirmd_rescans", Kind::Gauge, &["chain", "state"], "Rescans that have not ended: running, paused, failed.");
pub(crate) const RESCAN_LEFT: Family = family(
    "confirmd_rescan_heights_left",
    Kind::Gauge,
    CHAIN,
    "Heights that the running rescan with the most of them has still to read.",
);
pub(crate) const RESCAN_RATE: Family =
    family("confirmd_rescan_heights_per_second", Kind::Gauge, CHAIN, "Heights a second that rescans read lately.");
pub(crate) const RESCAN_SECONDS: Family =
    family("confirmd_rescan_seconds_left", Kind::Gauge, CHAIN, "Seconds until the running rescans are done, at their pace.");
pub(crate) const REORGS: Family =
    family("confirmd_reorgs_total", Kind::Counter, CHAIN, "Reorgs that were followed, or accepted by an operator.");
pub(crate) const REORG_DEPTH: Family = family(
    "confirmd_reorg_depth_blocks",
    Kind::Histogram(&[1.0, 2.0, 3.0, 6.0, 12.0, 24.0, 48.0, 96.0, 192.0]),
    CHAIN,
    "Heights a reorg went back.",
);
pub(crate) const DEPOSITS: Family =
    family("confirmd_deposits_total", Kind::Counter, &["chain", "event"], "Events decided and committed: confirmed, reverted.");
pub(crate) const DELIVERIES: Family = family(
    "confirmd_deliveries",
    Kind::Gauge,
    &["consumer", "state"],
    "Undelivered events by state: queued (counted up to 10,000 unread ones), retrying, blocked, dead.",
);
pub(crate) const PAUSED: Family = family(
    "confirmd_consumer_paused",
    Kind::Gauge,
    CONSUMER,
    "1 while no attempts are made, by an operator's wish or the sink's.",
);
pub(crate) const OLDEST: Family = family(
    "confirmd_oldest_undelivered_seconds",
    Kind::Gauge,
    CONSUMER,
    "Age of the oldest event that is queued or retrying; 0 if none is. Dead ones do not count.",
);
pub(crate) const DELIVERY: Family = family(
    "confirmd_delivery_seconds",
    Kind::Histogram(&[0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0, 43200.0, 172_800.0]),
    CONSUMER,
    "From decided to accepted by the consumer.",
);
pub(crate) const ATTEMPTS: Family = family(
    "confirmd_delivery_attempts_total",
    Kind::Counter,
    &["consumer", "outcome"],
    "Events tried, by outcome: delivered, transient, rejected, fatal.",
);
pub(crate) const RPC: Family = family(
    "confirmd_rpc_requests_total",
    Kind::Counter,
    &["chain", "outcome"],
    "Requests to the chain's nodes, by outcome: answered, failed, throttled. A batch counts once.",
);
pub(crate) const RPC_THROTTLED: Family = family(
    "confirmd_rpc_throttled_seconds_total",
    Kind::Counter,
    CHAIN,
    "How long requests waited for our own rate limit and for pauses the node asked for, added up over all requests.",
);
pub(crate) const COMMIT: Family = family(
    "confirmd_commit_seconds",
    Kind::Histogram(&[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0]),
    &[],
    "How long a commit of a chain's changes took, its sync to the disk included.",
);
pub(crate) const OPERATIONS: Family = family(
    "confirmd_operations_waiting",
    Kind::Gauge,
    &[],
    "Operational events that wait for their sink; 0 where none is configured.",
);
pub(crate) const BUILD: Family =
    family("confirmd_build_info", Kind::Gauge, &["version", "revision"], "1; its labels say what runs.");
pub(crate) const CPU: Family =
    family("process_cpu_seconds_total", Kind::Counter, &[], "Processor time of the process, user and system.");
pub(crate) const MEMORY: Family =
    family("process_resident_memory_bytes", Kind::Gauge, &[], "Memory of the process that is resident.");
pub(crate) const FILES: Family = family("process_open_fds", Kind::Gauge, &[], "Open file descriptors of the process.");
pub(crate) const STARTED: Family =
    family("process_start_time_seconds", Kind::Gauge, &[], "When the instance started, in Unix seconds.");

/// In the order of the table.
#[cfg(test)]
pub(crate) const ALL: &[Family] = &[
    TIP_HEIGHT,
    TRAIL_HEIGHT,
    FLOOR_HEIGHT,
    LAG_BLOCKS,
    LAG_SECONDS,
    STATE,
    PENDING,
    REPORTED,
    WATCHED,
    RESCANS,
    RESCAN_LEFT,
    RESCAN_RATE,
    RESCAN_SECONDS,
    REORGS,
    REORG_DEPTH,
    DEPOSITS,
    DELIVERIES,
    PAUSED,
    OLDEST,
    DELIVERY,
    ATTEMPTS,
    RPC,
    RPC_THROTTLED,
    COMMIT,
    OPERATIONS,
    BUILD,
    CPU,
    MEMORY,
    FILES,
    STARTED,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_on_metrics_shows_exactly_these() {
        let page = include_str!("../../../../../docs/metrics.md");
        let row = |family: &Family| {
            let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
            format!("| `{}` | {} | {} | {} |", family.name, family.kind.as_str(), labels.join(", "), family.help)
        };
        let wanted: Vec<String> = ALL.iter().map(row).collect();
        let shown: Vec<&str> =
            page.lines().filter(|line| line.starts_with("| `confirmd_") || line.starts_with("| `process_")).collect();
        assert_eq!(shown, wanted, "docs/metrics.md must have these rows:\n{}", wanted.join("\n"));
    }
}
