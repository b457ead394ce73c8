//! `push = "long-poll"`: a call that the node answers when its tip changes.

use crate::config::BitcoinConfig;
use async_trait::async_trait;
use confirmd_core::{ChainContext, ConfigError, HumanDuration, NewHeads, SourceError, parse_table};
use confirmd_rpc::RpcClient;
use serde::Deserialize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The node answers after this long even if nothing is new. Each such call keeps one of its RPC threads (four by default) busy.
const WAIT: Duration = Duration::from_secs(10);
/// Longer than `WAIT`, or the call would always be given up.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(25);

/// `push`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Push {
    /// The tip is only polled.
    #[default]
    Off,
    /// By `waitfornewblock`, which Bitcoin Core and what descends from it have offered since 0.14.
    LongPoll,
}

/// Waits for new blocks at a node.
#[derive(Debug)]
struct LongPoll {
    rpc: RpcClient,
    /// The best block when the node last answered.
    last: Mutex<Option<String>>,
}

#[derive(Deserialize)]
struct BestBlock {
    hash: String,
}

/// Where `push` asks for it.
///
/// # Errors
/// Those of the kind.
pub fn build_new_heads(context: &ChainContext, table: toml::Table) -> Result<Option<Arc<dyn NewHeads>>, ConfigError> {
    let config: BitcoinConfig = parse_table(table)?;
    if config.push == Push::Off {
        return Ok(None);
    }
    let mut limits = config.limits;
    limits.request_timeout = HumanDuration(REQUEST_TIMEOUT.max(limits.request_timeout.0));
    limits.deadline = HumanDuration(limits.request_timeout.0.max(limits.deadline.0));
    let rpc = RpcClient::builder().meter(context.meter.clone()).build(&config.rpc, &limits)?;
    Ok(Some(Arc::new(LongPoll { rpc, last: Mutex::default() })))
}

#[async_trait]
impl NewHeads for LongPoll {
    async fn next(&self) -> Result<(), SourceError> {
        loop {
            let wait = u64::try_from(WAIT.as_millis()).expect("invariant: a few seconds");
            let best: BestBlock = self.rpc.call("waitfornewblock", (wait,)).await?;
            let before = self.last.lock().unwrap_or_else(PoisonError::into_inner).replace(best.hash.clone());
            if before.is_none_or(|before| before != best.hash) {
                return Ok(());
            }
        }
    }
}
