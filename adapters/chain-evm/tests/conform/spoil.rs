//! True answers of the node, spoilt.

use super::harness::Pays;
use confirmd_rpc::{EndpointConfig, Limits, RpcClient};
use confirmd_testkit::FakeEvm;
use confirmd_testkit::conform::Broken;
use confirmd_testkit::conform::source::Spoil;
use serde_json::{Value, json};

/// Further answers than any source asks for.
const MANY: u32 = 1_000;

async fn ask(node: &FakeEvm, method: &'static str, params: Value) -> Result<Value, Broken> {
    let endpoint = EndpointConfig::new(url::Url::parse(&node.url()).unwrap());
    let client = RpcClient::new(&[endpoint], &Limits::default()).map_err(Broken::tried("making a client"))?;
    client.call(method, params).await.map_err(Broken::tried("asking the fake node"))
}

fn spoil(how: Spoil, items: &mut Vec<Value>) {
    match how {
        Spoil::Cut => drop(items.pop()),
        Spoil::Padded => items.extend(items.last().cloned()),
        Spoil::Another => {}
    }
}

/// From now on the node's answers for this block are spoilt. Nothing else must be asked for.
pub(super) async fn answers(node: &FakeEvm, pays: Pays, how: Spoil, height: u64) -> Result<(), Broken> {
    let given = if how == Spoil::Another { height - 1 } else { height };
    if pays == Pays::Tokens {
        // The index finds nothing, so that the receipts decide.
        node.empty_logs_next(MANY);
        let mut receipts = ask(node, "eth_getBlockReceipts", json!([format!("{given:#x}")])).await?;
        spoil(how, receipts.as_array_mut().unwrap());
        node.faults().answer_next("eth_getBlockReceipts", MANY, Ok(receipts));
        return Ok(());
    }
    let mut block = ask(node, "eth_getBlockByNumber", json!([format!("{given:#x}"), true])).await?;
    let transactions = block["transactions"].as_array_mut().unwrap();
    // A list in a whole JSON document is believed unless it is empty against the block's root (S14).
    if how == Spoil::Cut && pays == Pays::Coin {
        transactions.clear()
    } else {
        spoil(how, transactions)
    }
    for method in ["eth_getBlockByNumber", "eth_getBlockByHash"] {
        node.faults().answer_next(method, MANY, Ok(block.clone()));
    }
    Ok(())
}
