//! One transaction as the node shows it, for people.

use crate::address::canonical;
use crate::block::{Transaction, block_hash};
use crate::erc20::TokenTransfer;
use crate::log::Log;
use crate::native::{to_itself, value_of};
use crate::node::{Node, RECEIPT, is_absent};
use crate::plan::TOKEN_NAMESPACE;
use crate::reading::FIRST_LOG_INDEX;
use crate::receipt::{Outcome, Receipt};
use alloy::primitives::{Address as Account, B256};
use confirmd_core::{AssetId, BlockRef, ChainId, Height, ShownPayment, ShownTransaction, SourceError};
use confirmd_rpc::RpcError;
use serde::de::DeserializeOwned;
use serde_json::json;
use std::collections::BTreeSet;

const TRANSACTION: &str = "eth_getTransactionByHash";
/// SLIP-44's number of Ether, which most networks use for their coin.
const ETHER: u32 = 60;
const TO_ITSELF: &str = "it goes from an account to itself: no balance grows";

/// What the operator configured of a chain.
pub(crate) struct Configured<'a> {
    pub(crate) chain: &'a ChainId,
    /// The chain's coin, if it is listed.
    pub(crate) native: Option<&'a AssetId>,
    /// Contracts that repeat native payments as logs.
    pub(crate) emitters: &'a BTreeSet<Account>,
}

/// See [`confirmd_core::ChainSource::transaction`].
pub(crate) async fn shown(
    node: &Node,
    configured: &Configured<'_>,
    tx_id: &str,
) -> Result<Option<ShownTransaction>, SourceError> {
    let Ok(hash) = tx_id.parse::<B256>() else { return Ok(None) };
    let Some(tx) = asked::<Transaction>(node, TRANSACTION, hash).await? else { return Ok(None) };
    let receipt = asked::<Receipt>(node, RECEIPT, hash).await?;
    let block =
        receipt.as_ref().map(|receipt| BlockRef { height: Height(receipt.block_number.0), hash: block_hash(receipt.block_hash) });
    let failed = receipt.as_ref().is_some_and(|receipt| receipt.outcome() == Outcome::Failed);
    let mut payments: Vec<ShownPayment> = native(&tx, configured).into_iter().collect();
    let logs = receipt.iter().flat_map(|receipt| (FIRST_LOG_INDEX..).zip(&receipt.logs));
    payments.extend(logs.filter_map(|(index, log)| token(index, log, configured)));
    let left_out = "what contracts pay within it (internal transfers)".to_owned();
    Ok(Some(ShownTransaction { block, failed, payments, left_out: Some(left_out) }))
}

async fn asked<T: DeserializeOwned>(node: &Node, method: &'static str, hash: B256) -> Result<Option<T>, SourceError> {
    match node.call(method, json!([hash])).await {
        Err(RpcError::Call(error)) if is_absent(&error) => Ok(None),
        answer => Ok(answer?),
    }
}

fn native(tx: &Transaction, configured: &Configured<'_>) -> Option<ShownPayment> {
    let coin = || AssetId::native(configured.chain, ETHER).ok();
    Some(ShownPayment {
        output_index: 0,
        address: Some(canonical(tx.to?)),
        asset: configured.native.cloned().or_else(coin)?,
        amount: value_of(tx)?,
        remark: to_itself(tx).then(|| TO_ITSELF.to_owned()),
    })
}

fn token(index: u32, log: &Log, configured: &Configured<'_>) -> Option<ShownPayment> {
    let transfer = TokenTransfer::read(log)?;
    let remark = if configured.emitters.contains(&log.address) {
        Some("its contract repeats the chain's own payments as logs: the payment itself counts")
    } else {
        (transfer.from == transfer.to).then_some(TO_ITSELF)
    };
    Some(ShownPayment {
        output_index: index,
        address: Some(canonical(transfer.to)),
        asset: AssetId::token(configured.chain, TOKEN_NAMESPACE, &log.address.to_string().to_lowercase()).ok()?,
        amount: transfer.amount,
        remark: remark.map(str::to_owned),
    })
}
