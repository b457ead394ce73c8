//! One transaction as the node shows it, for people.

use crate::block::Block;
use crate::cursor::Cursor;
use crate::destination::{Destination, SCRIPT_BYTES_MAX};
use crate::matching::block_hash;
use crate::network::Network;
use crate::node::{NOT_FOUND, Node};
use crate::transaction::{Output, Transaction};
use bitcoin::{BlockHash, Txid};
use confirmd_core::{Address, Amount, AssetId, BlockRef, Height, ShownPayment, ShownTransaction, SourceError};
use confirmd_rpc::RpcError;
use serde::Deserialize;

/// A position for a transaction that has none.
const NOWHERE: u32 = 1;

/// `getrawtransaction`, as far as it is read.
#[derive(Deserialize)]
struct Raw {
    hex: String,
    #[serde(default)]
    blockhash: Option<String>,
    #[serde(default)]
    confirmations: i64,
}

/// See [`confirmd_core::ChainSource::transaction`]. Without its block's height a node knows what is in its mempool, and the rest
/// only with `txindex=1`.
pub(crate) async fn shown(
    node: &Node,
    network: &Network,
    tx_id: &str,
    height: Option<Height>,
) -> Result<Option<ShownTransaction>, SourceError> {
    let Ok(txid) = tx_id.parse::<Txid>() else { return Ok(None) };
    if let Some(height) = height
        && let Some(hash) = node.hash_at(height).await?
        && let Some(found) = in_block(node, network, &txid, BlockRef { height, hash: block_hash(&hash) }, &hash).await?
    {
        return Ok(Some(found));
    }
    let raw: Raw = match node.rpc.call("getrawtransaction", (txid.to_string(), true)).await {
        Ok(raw) => raw,
        Err(RpcError::Call(error)) if error.code == NOT_FOUND => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if let Some(hash) = raw.blockhash.filter(|_| raw.confirmations > 0).and_then(|text| text.parse::<BlockHash>().ok()) {
        let heights = node.heights(std::slice::from_ref(&hash)).await?;
        let height = *heights.first().expect("invariant: a height for each hash");
        return in_block(node, network, &txid, BlockRef { height, hash: block_hash(&hash) }, &hash).await;
    }
    let unreadable = || SourceError::transient(format!("asked the node for {txid} and got something that is no transaction"));
    let bytes = const_hex::decode(&raw.hex).map_err(|_| unreadable())?;
    let mut outputs = Vec::new();
    let read = Transaction::read(&mut Cursor::new(&bytes), NOWHERE, network.mweb_hrp.is_some(), &mut outputs);
    read.map_err(|error| unreadable().with_source(error))?;
    Ok(Some(of_outputs(None, outputs.iter(), network)))
}

async fn in_block(
    node: &Node,
    network: &Network,
    txid: &Txid,
    block: BlockRef,
    hash: &BlockHash,
) -> Result<Option<ShownTransaction>, SourceError> {
    let blocks = node.blocks(std::slice::from_ref(hash)).await?;
    let bytes = blocks.first().ok_or_else(|| SourceError::transient(format!("asked for block {block} and got nothing")))?;
    let read = Block::decode_as(hash, bytes, network);
    let read = read.map_err(|error| SourceError::transient(format!("read block {block} for {txid}")).with_source(error))?;
    let position = read.txids.iter().position(|known| known == txid).and_then(|position| u32::try_from(position).ok());
    let Some(position) = position else { return Ok(None) };
    let outputs = read.outputs.iter().filter(|output| output.position == position);
    Ok(Some(of_outputs(Some(block), outputs, network)))
}

fn of_outputs<'o, 'a: 'o>(
    block: Option<BlockRef>,
    outputs: impl Iterator<Item = &'o Output<'a>>,
    network: &Network,
) -> ShownTransaction {
    let coin = network.coin();
    ShownTransaction {
        block,
        failed: false,
        payments: outputs.map(|output| payment(output, &coin, network)).collect(),
        left_out: None,
    }
}

fn payment(output: &Output<'_>, coin: &AssetId, network: &Network) -> ShownPayment {
    let destination = Some(output.script).filter(|script| script.len() <= SCRIPT_BYTES_MAX).and_then(Destination::of_script);
    let remark = destination.is_none().then(|| "its script has no address that can be watched".to_owned());
    ShownPayment {
        output_index: output.vout,
        address: destination.map(|to| Address::new(output.script.to_vec(), to.text(network))),
        asset: coin.clone(),
        amount: Amount::from(output.value),
        remark,
    }
}
