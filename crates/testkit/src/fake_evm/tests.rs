#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use alloy::consensus::proofs::{calculate_transaction_root, calculate_withdrawals_root};
use alloy::eips::eip2718::Encodable2718;
use alloy::primitives::{Address, B256, Bloom, Bytes, Log, U256, keccak256};
use alloy::rpc::types::{Block, Log as RpcLog, TransactionReceipt};
use serde_json::{Value, json};

use super::*;
use crate::http::client;
use crate::remine::Remine;

fn who(tag: u8) -> Address {
    Address::repeat_byte(tag)
}

async fn started() -> FakeEvm {
    FakeEvm::start(EvmOptions::default()).await.unwrap()
}

async fn ask(node: &FakeEvm, method: &str, params: Value) -> Value {
    client::rpc(&node.url(), method, params).await.unwrap()
}

async fn result(node: &FakeEvm, method: &str, params: Value) -> Value {
    let reply = ask(node, method, params).await;
    assert!(reply.get("error").is_none(), "{reply}");
    reply["result"].clone()
}

async fn code(node: &FakeEvm, method: &str, params: Value) -> i64 {
    ask(node, method, params).await["error"]["code"].as_i64().unwrap()
}

async fn logs(node: &FakeEvm, filter: Value) -> Vec<RpcLog> {
    serde_json::from_value(result(node, "eth_getLogs", json!([filter])).await).unwrap()
}

#[tokio::test]
async fn hashes_roots_and_blooms_are_those_of_the_contents() {
    let node = started().await;
    node.transfer_native(who(1), who(2), U256::from(5));
    node.erc20_transfer(who(0xaa), who(1), who(2), U256::MAX);
    node.failed_native(who(1), who(2), U256::from(7));
    node.withdraw(9, who(3), 1_000);
    node.mine(2);
    let mut parent = node.hash_at(0).unwrap();
    for height in 1..=2u64 {
        let found = result(&node, "eth_getBlockByNumber", json!([format!("{height:#x}"), true])).await;
        let block: Block = serde_json::from_value(found).unwrap();
        assert_eq!(block.header.hash, keccak256(alloy::rlp::encode(&block.header.inner)));
        assert_eq!(block.header.inner.parent_hash, parent);
        parent = block.header.hash;
        let transactions = block.transactions.as_transactions().unwrap();
        let envelopes: Vec<_> = transactions.iter().map(|tx| tx.inner.inner().clone()).collect();
        for envelope in &envelopes {
            assert_eq!(*envelope.tx_hash(), keccak256(envelope.encoded_2718()));
        }
        assert_eq!(calculate_transaction_root(&envelopes), block.header.inner.transactions_root);
        let withdrawals = block.withdrawals.unwrap().into_inner();
        let root = calculate_withdrawals_root(&withdrawals);
        assert_eq!(Some(root), block.header.inner.withdrawals_root);
        assert_eq!(withdrawals.len(), if height == 1 { 1 } else { 0 });

        let receipts = result(&node, "eth_getBlockReceipts", json!([block.header.hash])).await;
        let receipts: Vec<TransactionReceipt> = serde_json::from_value(receipts).unwrap();
        assert_eq!(receipts.len(), envelopes.len());
        let bloom = receipts.iter().fold(Bloom::ZERO, |sum, one| sum | *one.inner.logs_bloom());
        assert_eq!(bloom, block.header.inner.logs_bloom);
        let consensus: Vec<_> = receipts.iter().map(|one| one.clone().into_primitives_receipt().inner).collect();
        let root = alloy::consensus::proofs::calculate_receipt_root(&consensus);
        assert_eq!(root, block.header.inner.receipts_root);
        assert_eq!(receipts.iter().map(|one| one.gas_used).sum::<u64>(), block.header.inner.gas_used);
    }
}

#[tokio::test]
async fn log_indexes_count_over_the_block_and_filters_read_as_in_geth() {
    let node = started().await;
    let foreign = transfer_log(who(0xbb), who(7), who(8), U256::from(1));
    let nft =
        Log::new_unchecked(who(0xaa), vec![transfer_topic(), who(1).into_word(), who(2).into_word(), B256::ZERO], Bytes::new());
    let ours = transfer_log(who(0xaa), who(1), who(2), U256::from(25));
    let odd = three_in_data_log(who(0xaa), who(1), who(2), U256::from(4));
    node.send(TxSpec::new(who(7), who(8)).logs(vec![foreign.clone(), foreign]));
    let hash = node.send(TxSpec::new(who(1), who(0xaa)).logs(vec![nft, ours, odd]));
    let block = node.mine(1)[0];

    let receipt = result(&node, "eth_getTransactionReceipt", json!([hash])).await;
    let indexes: Vec<_> = receipt["logs"].as_array().unwrap().iter().map(|log| log["logIndex"].clone()).collect();
    assert_eq!(indexes, ["0x2", "0x3", "0x4"]);
    assert_eq!((&receipt["status"], &receipt["transactionIndex"]), (&json!("0x1"), &json!("0x1")));

    let by = |extra: Value| {
        let mut filter = json!({ "blockHash": block });
        filter.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        filter
    };
    let topic = transfer_topic();
    let to = who(2).into_word();
    assert_eq!(logs(&node, by(json!({}))).await.len(), 5);
    assert_eq!(logs(&node, by(json!({ "address": who(0xaa) }))).await.len(), 3);
    assert_eq!(logs(&node, by(json!({ "address": [who(0xaa), who(0xbb)] }))).await.len(), 5);
    assert_eq!(logs(&node, by(json!({ "topics": [topic, null, [to, B256::ZERO]] }))).await.len(), 2);
    // Four positions ask for four topics.
    assert_eq!(logs(&node, by(json!({ "topics": [topic, null, to, null] }))).await.len(), 1);
    let ranged = json!({ "fromBlock": "0x0", "toBlock": "latest", "topics": [[topic]] });
    assert_eq!(logs(&node, ranged).await.len(), 5);
    // The payments oracle takes three topics and 32 bytes, and names the place in the receipt.
    let paid: Vec<_> = node.payments().into_iter().map(|p| (p.tx_id, p.output_index)).collect();
    assert_eq!(paid[2], (hash.to_string(), 2));
    assert_eq!(paid.len(), 3);
}

#[tokio::test]
async fn what_is_not_there_is_null_or_an_error_as_in_geth() {
    let node = started().await;
    let block = node.mine(1)[0];
    let unknown = B256::repeat_byte(9);
    assert_eq!(result(&node, "eth_getBlockByNumber", json!(["0x2", false])).await, Value::Null);
    assert_eq!(result(&node, "eth_getBlockByHash", json!([unknown, false])).await, Value::Null);
    assert_eq!(result(&node, "eth_getBlockReceipts", json!([unknown])).await, Value::Null);
    assert_eq!(result(&node, "eth_getTransactionReceipt", json!([unknown])).await, Value::Null);
    let reply = ask(&node, "eth_getLogs", json!([{ "blockHash": unknown }])).await;
    assert_eq!(reply["error"], json!({ "code": -32000, "message": "unknown block" }));
    assert_eq!(code(&node, "eth_getBlockByNumber", json!(["0x1"])).await, -32602);
    assert_eq!(code(&node, "parity_nothing", json!([])).await, -32601);
    node.lose_block(block);
    assert_eq!(result(&node, "eth_getBlockByHash", json!([block, false])).await, Value::Null);
    assert_eq!(code(&node, "eth_getLogs", json!([{ "blockHash": block }])).await, -32000);
    node.find_block_again(&block);
    assert_eq!(result(&node, "eth_getBlockByHash", json!([block, false])).await["number"], "0x1");
}

#[tokio::test]
async fn tags_mean_what_they_are_told_to_mean() {
    let node = started().await;
    node.mine(10);
    let number = async |tag: &str| result(&node, "eth_getBlockByNumber", json!([tag, false])).await["number"].clone();
    assert_eq!(number("latest").await, "0xa");
    assert_eq!(number("earliest").await, "0x0");
    assert_eq!(number("finalized").await, "0x0");
    node.set_safe(Finality::Distance(2));
    node.set_finalized(Finality::At(5));
    assert_eq!((number("safe").await, number("finalized").await), (json!("0x8"), json!("0x5")));
    node.set_finalized(Finality::Null);
    assert_eq!(result(&node, "eth_getBlockByNumber", json!(["finalized", false])).await, Value::Null);
    node.set_finalized(Finality::NotFound);
    let reply = ask(&node, "eth_getBlockByNumber", json!(["finalized", false])).await;
    assert_eq!(reply["error"]["message"], "finalized block not found");
}

#[tokio::test]
async fn traces_show_what_no_log_shows_until_they_are_switched_off() {
    let node = started().await;
    let hash = node.call_internal(who(1), who(0xcc), &[(who(2), U256::from(3)), (who(3), U256::from(4))]);
    let deep = Call::new(who(0xcc), who(0xcd), U256::ZERO).calls(vec![
        Call::new(who(0xcd), who(4), U256::from(6)).reverted(),
        Call::new(who(0xcd), who(4), U256::from(7)).kind(CallKind::DelegateCall),
        Call::new(who(0xcd), who(4), U256::from(8)).kind(CallKind::SelfDestruct),
    ]);
    let second = node.send(TxSpec::new(who(1), who(0xcc)).calls(vec![deep]));
    let block = node.mine(1)[0];
    let params = json!([block, { "tracer": "callTracer" }]);
    let traces = result(&node, "debug_traceBlockByHash", params.clone()).await;
    assert_eq!(traces[0]["txHash"], json!(hash));
    assert_eq!(traces[0]["result"]["value"], "0x7");
    assert_eq!(traces[0]["result"]["calls"][1]["to"], json!(who(3)));
    assert_eq!(traces[1]["result"]["calls"][0]["calls"][0]["error"], "execution reverted");
    assert_eq!(traces[1]["result"]["calls"][0]["calls"][2]["type"], "SELFDESTRUCT");
    let paid: Vec<_> = node.payments().into_iter().map(|p| (p.tx_id, p.output_index, p.amount)).collect();
    assert_eq!(
        paid,
        [
            (hash.to_string(), 0, U256::from(7)),
            (hash.to_string(), 1_000_000_000, U256::from(3)),
            (hash.to_string(), 1_000_000_001, U256::from(4)),
            (second.to_string(), 1_000_000_000, U256::from(8)),
        ]
    );
    node.set_traces(false);
    assert_eq!(code(&node, "debug_traceBlockByHash", params.clone()).await, -32601);
    node.set_traces(true);
    result(&node, "debug_traceBlockByHash", params).await;
}

#[tokio::test]
async fn a_transaction_mined_elsewhere_keeps_its_hash_and_changes_its_log_index() {
    let node = started().await;
    let hash = node.erc20_transfer(who(0xaa), who(1), who(2), U256::from(9));
    let old = node.mine(2);
    let first = node.fork(2, Remine::Later(1));
    let place = node.find(&hash).unwrap();
    assert_eq!((place.height, place.position), (2, 1));
    let receipt = result(&node, "eth_getTransactionReceipt", json!([hash])).await;
    assert_eq!((&receipt["logs"][0]["logIndex"], &receipt["blockHash"]), (&json!("0x1"), &json!(place.block)));
    assert_eq!(node.tip().0, 3);
    // The stale block is still served by hash, as geth does, until it is forgotten.
    assert_eq!(logs(&node, json!({ "blockHash": old[0] })).await.len(), 1);
    node.fork(2, Remine::Drop);
    assert_eq!(result(&node, "eth_getTransactionReceipt", json!([hash])).await, Value::Null);
    node.return_to(&first).unwrap();
    assert_eq!(node.find(&hash).unwrap().block, old[0]);
    node.fork(2, Remine::Mempool);
    let pending = result(&node, "eth_getTransactionByHash", json!([hash])).await;
    assert_eq!((&pending["blockHash"], &pending["from"]), (&Value::Null, &json!(who(1))));
    let other = node.send_replacing(&hash, TxSpec::new(who(9), who(4))).unwrap();
    node.mine(1);
    assert!(node.find(&hash).is_none());
    let mined = result(&node, "eth_getTransactionByHash", json!([other])).await;
    assert_eq!((&mined["nonce"], &mined["from"]), (&json!("0x0"), &json!(who(1))));
    node.forget_stale_blocks();
    assert_eq!(code(&node, "eth_getLogs", json!([{ "blockHash": old[0] }])).await, -32000);
}

#[tokio::test]
async fn a_lagging_or_limited_node_answers_less() {
    let node = started().await;
    node.erc20_transfer(who(0xaa), who(1), who(2), U256::from(9));
    node.mine(1);
    node.mine(4);
    node.lag(2);
    assert_eq!(result(&node, "eth_blockNumber", json!([])).await, "0x3");
    assert_eq!(result(&node, "eth_getBlockByNumber", json!(["0x4", false])).await, Value::Null);
    assert_eq!(result(&node, "eth_getBlockByHash", json!([node.tip().1, false])).await, Value::Null);
    let beyond = json!({ "fromBlock": "0x1", "toBlock": "0x5" });
    assert_eq!(logs(&node, beyond.clone()).await.len(), 1);
    node.refuse_logs_above_tip(true);
    assert_eq!(code(&node, "eth_getLogs", json!([beyond.clone()])).await, -32000);
    node.lag(0);
    node.limit_log_range(Some(2));
    assert_eq!(code(&node, "eth_getLogs", json!([beyond])).await, -32005);
    let two = json!({ "fromBlock": "0x1", "toBlock": "0x2" });
    assert_eq!(logs(&node, two.clone()).await.len(), 1);
    node.empty_logs_next(1);
    assert_eq!(logs(&node, two.clone()).await.len(), 0);
    assert_eq!(logs(&node, two.clone()).await.len(), 1);
    node.limit_log_results(Some(0));
    assert_eq!(code(&node, "eth_getLogs", json!([two])).await, -32005);
    node.faults().rpc_error_next(1, -32005, "daily request count exceeded");
    assert_eq!(code(&node, "eth_chainId", json!([])).await, -32005);
    assert_eq!(result(&node, "eth_chainId", json!([])).await, "0x7a69");
}

#[tokio::test]
async fn tokens_have_code_symbol_and_decimals() {
    let node = started().await;
    node.deploy_token(who(0xaa), "USDC", 6);
    assert_eq!(result(&node, "eth_getCode", json!([who(1), "latest"])).await, "0x");
    assert_ne!(result(&node, "eth_getCode", json!([who(0xaa), "latest"])).await, "0x");
    let call = json!([{ "to": who(0xaa), "input": "0x313ce567" }, "latest"]);
    let decimals = result(&node, "eth_call", call).await;
    assert_eq!(decimals, json!(B256::with_last_byte(6)));
    let call = json!([{ "to": who(0xaa), "data": "0x95d89b41" }, "latest"]);
    let symbol = result(&node, "eth_call", call).await;
    assert!(symbol.as_str().unwrap().contains(&const_hex::encode("USDC")));
}

#[tokio::test]
async fn two_networks_can_share_a_chain_id() {
    let other = EvmOptions { genesis_salt: 1, ..EvmOptions::default() };
    let (one, other) = (started().await, FakeEvm::start(other).await.unwrap());
    assert_ne!(one.hash_at(0), other.hash_at(0));
    one.stop().await.unwrap();
    assert!(client::get(&one.url()).await.is_err());
    one.restart().await.unwrap();
    assert_eq!(result(&one, "net_version", json!([])).await, "31337");
}
