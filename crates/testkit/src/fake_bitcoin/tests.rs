#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use bitcoin::consensus::deserialize;
use bitcoin::{Block, BlockHash, ScriptBuf, Target};
use serde_json::{Value, json};

use super::*;
use crate::faults::BatchFault;
use crate::http::client;
use crate::remine::Remine;

fn script(tag: u8) -> ScriptBuf {
    let mut bytes = vec![0x00, 0x14];
    bytes.extend([tag; 20]);
    ScriptBuf::from_bytes(bytes)
}

async fn started() -> FakeBitcoin {
    FakeBitcoin::start(BitcoinOptions::default()).await.unwrap()
}

async fn ask(node: &FakeBitcoin, method: &str, params: Value) -> Value {
    client::rpc(&node.url(), method, params).await.unwrap()
}

async fn result(node: &FakeBitcoin, method: &str, params: Value) -> Value {
    let reply = ask(node, method, params).await;
    assert!(reply.get("error").is_none(), "{reply}");
    reply["result"].clone()
}

async fn code(node: &FakeBitcoin, method: &str, params: Value) -> i64 {
    ask(node, method, params).await["error"]["code"].as_i64().unwrap()
}

async fn raw_block(node: &FakeBitcoin, height: u32) -> Block {
    let hash = result(node, "getblockhash", json!([height])).await;
    let hex = result(node, "getblock", json!([hash, 0])).await;
    deserialize(&const_hex::decode(hex.as_str().unwrap()).unwrap()).unwrap()
}

#[tokio::test]
async fn blocks_are_what_a_checking_reader_expects() {
    let node = started().await;
    node.pay(&script(1), 50_000);
    node.pay_many(vec![(script(2), 1), (script(2), 1), (script(3), 7)]);
    node.mine(18);
    let mut previous = bitcoin::constants::genesis_block(bitcoin::Network::Regtest).block_hash();
    for height in 1..=18u32 {
        let block = raw_block(&node, height).await;
        assert_eq!(block.header.prev_blockhash, previous);
        assert!(block.check_merkle_root());
        assert!(block.check_witness_commitment());
        // The smallest heights are pushed as opcodes, which the reader below does not know.
        if height > 16 {
            assert_eq!(block.bip34_block_height().unwrap(), u64::from(height));
        }
        block.header.validate_pow(Target::from_compact(block.header.bits)).unwrap();
        previous = block.block_hash();
    }
    let first = raw_block(&node, 1).await;
    assert_eq!(first.txdata.len(), 3);
    assert!(
        first.txdata.iter().skip(1).any(|tx| tx.compute_txid() != bitcoin::Txid::from_raw_hash(tx.compute_wtxid().to_raw_hash()))
    );
    assert_eq!(result(&node, "getbestblockhash", json!([])).await, previous.to_string());
}

#[tokio::test]
async fn the_decoded_form_tells_the_same_outputs_as_the_raw_one() {
    let node = started().await;
    node.pay_many(vec![(script(1), 29_000_000), (script(1), 1), (script(2), 0)]);
    let hash = node.mine(1)[0].to_string();
    let reply =
        client::post(&node.url(), &[], json!({ "id": 1, "method": "getblock", "params": [hash, 2] }).to_string().as_bytes())
            .await
            .unwrap();
    // Eight decimals as text: a float would lose them.
    assert!(reply.text().contains(r#""value":0.29000000,"n":0"#), "{}", reply.text());
    assert!(reply.text().contains(r#""value":0.00000001,"n":1"#));
    let block = reply.json().unwrap()["result"].clone();
    let raw = raw_block(&node, 1).await;
    for (decoded, tx) in block["tx"].as_array().unwrap().iter().zip(&raw.txdata) {
        assert_eq!(decoded["txid"], tx.compute_txid().to_string());
        assert_eq!(decoded["hash"], tx.compute_wtxid().to_string());
        for (n, output) in tx.output.iter().enumerate() {
            assert_eq!(decoded["vout"][n]["n"], n);
            assert_eq!(decoded["vout"][n]["scriptPubKey"]["hex"], output.script_pubkey.to_hex_string());
        }
    }
    assert_eq!(block["nTx"], 2);
    let ids = result(&node, "getblock", json!([hash])).await;
    assert_eq!(ids["tx"][1], raw.txdata[1].compute_txid().to_string());
}

#[tokio::test]
async fn errors_have_the_codes_of_bitcoin_core() {
    let node = started().await;
    let hash = node.mine(1)[0];
    let unknown = "00".repeat(32);
    assert_eq!(code(&node, "getblockhash", json!([2])).await, -8);
    assert_eq!(code(&node, "getblockhash", json!([-1])).await, -8);
    assert_eq!(code(&node, "getblock", json!([unknown, 0])).await, -5);
    assert_eq!(code(&node, "getblockheader", json!([unknown])).await, -5);
    assert_eq!(code(&node, "getblock", json!(["beef", 0])).await, -8);
    assert_eq!(code(&node, "getblockhash", json!(["1"])).await, -3);
    assert_eq!(code(&node, "getbalance", json!([])).await, -32601);

    node.lose_block(hash, Loss::Pruned);
    assert_eq!(code(&node, "getblock", json!([hash.to_string(), 0])).await, -1);
    result(&node, "getblockheader", json!([hash.to_string()])).await;
    node.lose_block(hash, Loss::Unknown);
    assert_eq!(code(&node, "getblock", json!([hash.to_string(), 0])).await, -5);
    node.find_block_again(&hash);
    result(&node, "getblock", json!([hash.to_string(), 0])).await;
    node.prune_below(Some(2));
    assert_eq!(code(&node, "getblock", json!([hash.to_string(), 0])).await, -1);
    let info = result(&node, "getblockchaininfo", json!([])).await;
    assert_eq!((&info["pruned"], &info["pruneheight"]), (&json!(true), &json!(2)));

    node.warming_up(1);
    assert_eq!(code(&node, "getblockcount", json!([])).await, -28);
    assert_eq!(result(&node, "getblockcount", json!([])).await, 1);
}

#[tokio::test]
async fn each_dialect_has_its_own_envelope() {
    let failing = json!({ "jsonrpc": "2.0", "id": 7, "method": "getblockhash", "params": [9] });
    let old = json!({ "id": 7, "method": "getblockhash", "params": [9] });
    for (dialect, request, status, both) in
        [(Dialect::Core29, &failing, 200, false), (Dialect::Core29, &old, 500, true), (Dialect::Legacy, &failing, 500, true)]
    {
        let options = BitcoinOptions { dialect, ..BitcoinOptions::default() };
        let node = FakeBitcoin::start(options).await.unwrap();
        let reply = client::post(&node.url(), &[], request.to_string().as_bytes()).await.unwrap();
        assert_eq!(reply.status, status);
        let body = reply.json().unwrap();
        assert_eq!(body["error"]["message"], "Block height out of range");
        assert_eq!(body["id"], 7);
        assert_eq!(body.get("result").is_some(), both);
        assert_eq!(body.get("jsonrpc").is_some(), !both);
        let good = json!({ "jsonrpc": "2.0", "id": 1, "method": "getblockcount" });
        let good = client::post(&node.url(), &[], good.to_string().as_bytes()).await.unwrap();
        assert_eq!(good.json().unwrap().get("error").is_some(), dialect == Dialect::Legacy);
    }
}

#[tokio::test]
async fn batches_are_answered_whole_unless_told_otherwise() {
    let node = started().await;
    let call = |id: u32| json!({ "jsonrpc": "2.0", "id": id, "method": "getblockhash", "params": [id] });
    let batch = json!([call(0), call(1), call(2)]).to_string();
    let ids = async || {
        let reply = client::post(&node.url(), &[], batch.as_bytes()).await.unwrap();
        let reply = reply.json().unwrap();
        let entries = reply.as_array().cloned().unwrap_or_default();
        entries.iter().map(|entry| entry["id"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    node.faults().batch_fault_next(1, BatchFault::Reversed);
    node.faults().batch_fault_next(1, BatchFault::LastMissing);
    node.faults().batch_fault_next(1, BatchFault::DuplicateId);
    assert_eq!(ids().await, [2, 1, 0]);
    assert_eq!(ids().await, [0, 1]);
    assert_eq!(ids().await, [0, 0, 2]);
    assert_eq!(ids().await, [0, 1, 2]);
    node.faults().batch_limit(Some(2));
    assert_eq!(ids().await, Vec::<u64>::new());
    assert_eq!(node.faults().calls("getblockhash"), 12);
}

#[tokio::test]
async fn a_fork_moves_drops_or_keeps_payments_and_leaves_the_old_blocks_stale() {
    let node = started().await;
    node.mine(2);
    let kept = node.pay(&script(1), 5_000);
    let old = node.mine(3);
    let (place, tip) = (node.find(&kept).unwrap(), node.tip());
    assert_eq!((place.height, place.position, place.block), (3, 1, old[0]));

    let first = node.fork(3, Remine::Keep);
    assert_eq!(first.tip(), tip.1);
    assert_eq!(node.tip().0, 6);
    assert_eq!(node.find(&kept).unwrap().height, 3);
    assert_ne!(node.find(&kept).unwrap().block, old[0]);
    let stale = result(&node, "getblockheader", json!([old[0].to_string()])).await;
    assert_eq!((&stale["confirmations"], &stale["height"]), (&json!(-1), &json!(3)));
    assert!(stale.get("nextblockhash").is_none());

    node.fork(4, Remine::Later(2));
    let place = node.find(&kept).unwrap();
    assert_eq!((place.height, place.position), (5, 2));
    node.fork(3, Remine::Mempool);
    assert!(node.find(&kept).is_none());
    node.mine(1);
    assert_eq!(node.find(&kept).unwrap().height, node.tip().0);
    node.fork(1, Remine::Drop);
    assert!(node.find(&kept).is_none() && node.mempool().is_empty());

    // A -> B -> A: the very same blocks.
    node.return_to(&first).unwrap();
    assert_eq!(node.tip(), tip);
    assert_eq!(node.find(&kept).unwrap().block, old[0]);
    node.forget_stale_blocks();
    let hash = old[0].to_string();
    assert_eq!(result(&node, "getblockheader", json!([hash])).await["confirmations"], 3);
}

#[tokio::test]
async fn a_double_spend_takes_the_place_of_the_first_payment() {
    let node = started().await;
    let first = node.pay(&script(1), 5_000);
    node.mine(1);
    node.fork(1, Remine::Mempool);
    let second = node.double_spend(&first, vec![(script(9), 4_000)]).unwrap();
    node.mine(1);
    assert!(node.find(&first).is_none());
    let block = node.block(&node.find(&second).unwrap().block).unwrap();
    assert_eq!(block.txdata[1].output[0].script_pubkey, script(9));
    let paid: Vec<_> = node.payments().into_iter().filter(|p| p.place.position > 0).collect();
    assert_eq!(paid.len(), 1);
    assert_eq!((paid[0].txid, paid[0].sats), (second, 4_000));
}

#[tokio::test]
async fn a_lagging_node_knows_nothing_of_the_last_blocks() {
    let node = started().await;
    let hashes: Vec<BlockHash> = node.mine(5);
    node.lag(2);
    assert_eq!(result(&node, "getblockcount", json!([])).await, 3);
    assert_eq!(code(&node, "getblockhash", json!([4])).await, -8);
    assert_eq!(code(&node, "getblock", json!([hashes[4].to_string()])).await, -5);
    let header = result(&node, "getblockheader", json!([hashes[2].to_string()])).await;
    assert_eq!(header["confirmations"], 1);
    assert!(header.get("nextblockhash").is_none());
    node.lag(0);
    assert_eq!(result(&node, "getblockcount", json!([])).await, 5);
}

#[tokio::test]
async fn transport_faults_come_in_the_order_they_were_told() {
    let node = started().await;
    node.faults().rate_limit(1, "7");
    node.faults().fail_next(1, 503, "Work queue depth exceeded");
    node.faults().close_next(1);
    let call = json!({ "id": 1, "method": "getblockcount" }).to_string();
    let limited = client::post(&node.url(), &[], call.as_bytes()).await.unwrap();
    assert_eq!((limited.status, limited.header("retry-after")), (429, Some("7")));
    let busy = client::post(&node.url(), &[], call.as_bytes()).await.unwrap();
    assert_eq!((busy.status, busy.text().as_str()), (503, "Work queue depth exceeded"));
    assert!(client::post(&node.url(), &[], call.as_bytes()).await.is_err());
    assert_eq!(client::post(&node.url(), &[], call.as_bytes()).await.unwrap().status, 200);
    assert_eq!(node.faults().requests(), 4);
}

#[tokio::test]
async fn the_chain_can_change_between_two_calls() {
    let node = started().await;
    node.mine(2);
    let forker = node.clone();
    node.faults().before("getblockhash", 1, move || {
        forker.fork(1, Remine::Drop);
    });
    let before = result(&node, "getblockhash", json!([2])).await;
    let after = result(&node, "getblockhash", json!([2])).await;
    assert_ne!(before, after);
    node.faults().answer_next("getblockcount", 1, Ok(json!(99)));
    assert_eq!(result(&node, "getblockcount", json!([])).await, 99);
    assert_eq!(result(&node, "getblockcount", json!([])).await, 3);
}

#[tokio::test]
async fn a_restart_or_rotation_makes_the_old_cookie_useless() {
    use base64::Engine;
    let name = format!("confirmd-testkit-cookie-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let options = BitcoinOptions { auth: Auth::Cookie(path.clone()), ..BitcoinOptions::default() };
    let node = FakeBitcoin::start(options).await.unwrap();
    let status = async |cookie: &str| {
        let value = base64::engine::general_purpose::STANDARD.encode(cookie);
        let headers = [("authorization", format!("Basic {value}"))];
        let headers: Vec<(&str, &str)> = headers.iter().map(|(k, v)| (*k, v.as_str())).collect();
        let call = br#"{"id":1,"method":"getblockcount"}"#;
        let reply = client::post(&node.url(), &headers, call).await.unwrap();
        (reply.status, reply.body.is_empty())
    };
    let first = std::fs::read_to_string(&path).unwrap();
    assert_eq!(status(&first).await, (200, false));
    node.rotate_cookie().unwrap();
    assert_eq!(status(&first).await, (401, true));
    let second = std::fs::read_to_string(&path).unwrap();
    assert_eq!(status(&second).await, (200, false));
    node.stop().await.unwrap();
    assert!(client::get(&node.url()).await.is_err());
    node.restart().await.unwrap();
    assert_eq!(status(&second).await, (401, true));
    std::fs::remove_file(&path).unwrap();
}

#[tokio::test]
async fn rest_serves_binary_blocks_and_headers() {
    let node = started().await;
    let hashes = node.mine(3);
    let url = format!("{}/rest", node.url());
    let block = client::get(&format!("{url}/block/{}.bin", hashes[0])).await.unwrap();
    let block: Block = deserialize(&block.body).unwrap();
    assert_eq!(block.block_hash(), hashes[0]);
    let headers = client::get(&format!("{url}/headers/{}.bin?count=2", hashes[0])).await.unwrap();
    assert_eq!(headers.body.len(), 160);
    let headers = client::get(&format!("{url}/headers/9/{}.bin", hashes[0])).await.unwrap();
    assert_eq!(headers.body.len(), 240);
    let at = client::get(&format!("{url}/blockhashbyheight/2.hex")).await.unwrap();
    assert_eq!(at.text().trim(), hashes[1].to_string());
    let info = client::get(&format!("{url}/chaininfo.json")).await.unwrap().json().unwrap();
    assert_eq!(info["blocks"], 3);
    let missing = client::get(&format!("{url}/block/{}.bin", "00".repeat(32))).await.unwrap();
    assert_eq!(missing.status, 404);
}

#[tokio::test]
async fn coinbases_pay_whom_they_are_told_to() {
    let node = started().await;
    node.mine_to(1, script(5));
    node.coinbase_to(script(6));
    node.mine(1);
    let paid: Vec<_> = node.payments().into_iter().map(|p| (p.script, p.sats)).collect();
    assert_eq!(paid, [(script(5), 5_000_000_000), (script(6), 5_000_000_000)]);
}
