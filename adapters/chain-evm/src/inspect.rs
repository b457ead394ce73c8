//! What an operator should know of the node, one line a subject, with what to do.

use crate::block::Header;
use crate::config::InternalTransfers;
use crate::log_filter::{LogFilter, Place};
use crate::node::{GET_LOGS, TRACE_BLOCK};
use crate::quantity::hex;
use crate::source::EvmSource;
use alloy::primitives::{Address, B256};
use confirmd_core::{ChainSource, EndpointStatus, FinalityTag, SourceError, StartAt, Timestamp};
use confirmd_rpc::RpcError;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

pub(crate) struct Inspection<'a> {
    source: &'a EvmSource,
    found: Vec<EndpointStatus>,
}

impl<'a> Inspection<'a> {
    pub(crate) fn new(source: &'a EvmSource) -> Self {
        Self { source, found: Vec::new() }
    }

    /// Errors only if the node does not answer at all.
    pub(crate) async fn run(mut self) -> Result<Vec<EndpointStatus>, SourceError> {
        let latest = self.source.latest().await?;
        self.network().await;
        self.sync().await;
        self.head(&latest);
        self.finality(&latest).await;
        self.logs(&latest).await;
        self.receipts(latest.hash).await;
        self.internal_transfers().await;
        self.history(&latest).await;
        Ok(self.found)
    }

    fn say(&mut self, subject: &str, ok: bool, text: impl Into<String>) {
        self.found.push(EndpointStatus { subject: subject.into(), ok, text: text.into() });
    }

    async fn network(&mut self) {
        let expected = &self.source.profile.chain;
        match self.source.chain_found().await {
            Ok(found) if found == *expected => match self.source.check_genesis().await {
                Ok(()) => self.say("network", true, found.to_string()),
                Err(error) => self.say("network", false, error.to_string()),
            },
            Ok(found) => {
                let text = format!("the node serves {found}, configured is {expected}: correct rpc or chain_id");
                self.say("network", false, text);
            }
            Err(error) => self.say("network", false, error.to_string()),
        }
    }

    async fn sync(&mut self) {
        match self.source.node.call::<Value>("eth_syncing", json!([])).await {
            Ok(Value::Bool(false)) => self.say("sync", true, "in sync, by its own account"),
            Ok(progress) => {
                let text = |key: &str| progress.get(key).and_then(Value::as_str).unwrap_or("?").to_owned();
                let text = format!(
                    "still syncing (block {} of {}): wait; deposits are reported as it gets there",
                    text("currentBlock"),
                    text("highestBlock")
                );
                self.say("sync", false, text);
            }
            Err(error) if missing(&error) => self.say("sync", true, "the node does not say (no eth_syncing)"),
            Err(error) => self.say("sync", false, error.to_string()),
        }
    }

    fn head(&mut self, latest: &Header) {
        let age = self.source.clock.now().since(Timestamp::from_seconds(latest.timestamp.0));
        let fresh = age <= self.source.profile.behind_alarm;
        let hint = if fresh { "" } else { ": the node is behind, or the network makes no blocks" };
        self.say("head", fresh, format!("block {}, {} s old{hint}", latest.block_ref(), age.as_secs()));
    }

    async fn finality(&mut self, latest: &Header) {
        for tag in [FinalityTag::Safe, FinalityTag::Finalized] {
            let needed = self.source.profile.assets.iter().any(|asset| asset.requirement.tag == Some(tag));
            let subject = format!("tag {}", tag.as_str());
            match self.source.finalized(tag).await {
                Ok(Some(block)) => {
                    let text = format!("block {}, {} below the tip", block.height, latest.block_ref().height.since(block.height));
                    self.say(&subject, true, text);
                }
                Ok(None) if needed => {
                    let text =
                        "the node does not know it, and payments wait for it: use another node, or a number of confirmations";
                    self.say(&subject, false, text);
                }
                Ok(None) => self.say(&subject, true, "the node does not know it; no asset asks for it"),
                Err(error) => self.say(&subject, !needed, error.to_string()),
            }
        }
    }

    async fn logs(&mut self, latest: &Header) {
        let filter = LogFilter::new(vec![Address::repeat_byte(0xee)], None);
        let Some(params) = filter.params(Place::Block(latest.hash)).pop() else { return };
        match self.source.node.call::<Option<Vec<IgnoredAny>>>(GET_LOGS, params).await {
            Ok(_) => self.say("logs", true, "eth_getLogs by block hash"),
            Err(error) => self.say("logs", false, format!("eth_getLogs by block hash: {error}; use a node that offers it")),
        }
    }

    async fn receipts(&mut self, latest: B256) {
        match self.source.node.call::<IgnoredAny>("eth_getBlockReceipts", json!([latest])).await {
            Ok(_) => self.say("receipts", true, "eth_getBlockReceipts and single receipts"),
            Err(error) if missing(&error) => {
                self.say("receipts", true, "single receipts (no eth_getBlockReceipts, which is only a short cut)")
            }
            Err(error) => self.say("receipts", false, error.to_string()),
        }
    }

    async fn internal_transfers(&mut self) {
        let subject = "internal transfers";
        let native = self.source.profile.assets.iter().any(|asset| asset.asset.id.parts().0 == "slip44");
        let mode = self.source.settings.config.internal_transfers;
        if !native {
            return self.say(subject, true, "off: the native coin is not watched");
        }
        match self.source.traces_on().await {
            Ok(true) => self.say(subject, true, format!("on: read by {TRACE_BLOCK}")),
            Ok(false) if mode == InternalTransfers::Off => {
                self.say(subject, true, "off, as configured: payments by contracts are not seen")
            }
            Ok(false) => {
                let text = format!(
                    "off: the node offers no {TRACE_BLOCK}, payments by contracts are not seen; enable its debug API, or set \
                     internal_transfers = \"off\" to agree"
                );
                self.say(subject, false, text);
            }
            Err(error) => self.say(subject, false, error.to_string()),
        }
    }

    async fn history(&mut self, latest: &Header) {
        let StartAt::Height(start) = self.source.profile.start else { return };
        if start > latest.block_ref().height {
            let text = format!("start = {start} is above the tip: nothing is read until the chain gets there");
            return self.say("history", true, text);
        }
        match self.source.node.block_at::<IgnoredAny>(&hex(start.0), false).await {
            Ok(Some(_)) => self.say("history", true, format!("block {start} (start) is there")),
            Ok(None) => {
                let text = format!("the node has no block {start}, where to start: use an archive node or a later start");
                self.say("history", false, text);
            }
            Err(error) => {
                self.say("history", false, format!("block {start} (start): {error}; use an archive node or a later start"))
            }
        }
    }
}

fn missing(error: &RpcError) -> bool {
    matches!(error, RpcError::Call(error) if error.is_method_missing())
}
