//! The source against a node that speaks the real JSON-RPC over loopback HTTP, and misbehaves on demand.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use bitcoin::ScriptBuf;
use confirmd_chain_bitcoin::KIND;
use confirmd_core::{
    Address, BlockHash, BlockRef, ChainContext, ChainName, ChainSource, FinalityTag, Height, Requirement, SourceError, SourceErrorKind, StartAt,
    Transfer, WatchEntry, WatchOrigin, WatchSet, WatchState,
};
use confirmd_testkit::fake_bitcoin::{Auth, Dialect, FakeNetwork, Loss};
use confirmd_testkit::json_rpc::RpcError;
use confirmd_testkit::{BitcoinOptions, FakeBitcoin, Remine};
use serde_json::json;
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::time::Duration;

const ADDRESS: &str = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080";
const OTHER: &str = "bcrt1q0xcqpzrky6eff2g52qdye53xkk9jxkvrh6yhyw";

fn context() -> ChainContext {
    ChainContext {
        name: ChainName::new("regtest").unwrap(),
        default_requirement: Requirement::confirmations(NonZeroU32::new(2).unwrap()),
        requirements: Default::default(),
        reorg_depth: NonZeroU64::new(6).unwrap(),
        start: StartAt::Tip,
        poll_interval: None,
        fork_grace: Duration::ZERO,
        behind_alarm: Duration::ZERO,
        span_max: None,
    }
}

fn source_with(network: &str, endpoint: &str) -> Arc<dyn ChainSource> {
    let limits = "requests_per_second = 100000, attempts = 2, deadline = '5s', request_timeout = '2s'";
    let table = format!("network = '{network}'\nrpc = [{{ {endpoint} }}]\nlimits = {{ {limits} }}");
    (KIND.build)(context(), table.parse().unwrap()).unwrap()
}

fn source(node: &FakeBitcoin) -> Arc<dyn ChainSource> {
    source_with("regtest", &format!("url = '{}'", node.url()))
}

async fn node() -> FakeBitcoin {
    FakeBitcoin::start(BitcoinOptions::default()).await.unwrap()
}

fn script(source: &dyn ChainSource, address: &str) -> ScriptBuf {
    ScriptBuf::from_bytes(source.parse_address(address).unwrap().bytes().to_vec())
}

fn watch(source: &dyn ChainSource, addresses: &[&str]) -> WatchSet {
    let mut watch = WatchSet::default();
    source.profile().assets.iter().for_each(|asset| watch.put_asset(asset.clone()));
    for address in addresses {
        let address: Address = source.parse_address(address).unwrap();
        watch.put_address(WatchEntry { address, reference: None, from: Height(0), origin: WatchOrigin::Command, state: WatchState::Watching });
    }
    watch
}

fn at(node: &FakeBitcoin, height: u32) -> BlockRef {
    BlockRef { height: Height(u64::from(height)), hash: BlockHash::new(node.hash_at(height).unwrap().to_string()).unwrap() }
}

fn orphaned<T: std::fmt::Debug>(answer: Result<T, SourceError>) -> String {
    let error = answer.unwrap_err();
    assert_eq!(error.kind, SourceErrorKind::Orphaned, "{error}");
    error.to_string()
}

fn transient<T: std::fmt::Debug>(answer: Result<T, SourceError>) {
    let error = answer.unwrap_err();
    assert!(matches!(error.kind, SourceErrorKind::Transient { .. }), "{error}");
}

fn fatal<T: std::fmt::Debug>(answer: Result<T, SourceError>) -> String {
    let error = answer.unwrap_err();
    assert_eq!(error.kind, SourceErrorKind::Fatal, "{error}");
    error.to_string()
}

fn keys(transfers: &[Transfer]) -> Vec<(String, u32, u64)> {
    transfers.iter().map(|t| (t.key.tx_id.as_str().to_owned(), t.key.output_index, t.block.height.0)).collect()
}

#[tokio::test]
async fn s1_identify_names_what_the_node_serves() {
    let node = node().await;
    let source = source(&node);
    assert_eq!(source.identify().await.unwrap(), source.profile().chain);
    let foreign = source_with("litecoin-regtest", &format!("url = '{}'", node.url()));
    assert_ne!(foreign.identify().await.unwrap(), foreign.profile().chain);
    let litecoin = FakeBitcoin::start(BitcoinOptions { network: FakeNetwork::LitecoinRegtest, ..Default::default() }).await.unwrap();
    let right = source_with("litecoin-regtest", &format!("url = '{}'", litecoin.url()));
    assert_eq!(right.identify().await.unwrap(), right.profile().chain);
}

#[tokio::test]
async fn a29_a_chain_with_bitcoins_genesis_but_another_block_behind_the_fork_is_another_chain() {
    let node = node().await;
    let mainnet = source_with("mainnet", &format!("url = '{}'", node.url()));
    let (genesis, cash) = (
        "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f",
        "000000000000000000651ef99cb9fcbe0dadde1d424bd9f15ff20136191a5eec",
    );
    node.faults().answer_next("getblockhash", 1, Ok(json!(genesis)));
    node.faults().before("getblockhash", 1, {
        let node = node.clone();
        move || node.faults().answer_next("getblockhash", 1, Ok(json!(cash)))
    });
    let found = mainnet.identify().await;
    // The answer that is put in before a call may come one call late: then the node is merely not there yet.
    match found {
        Ok(found) => assert_eq!(found.as_str(), "bip122:000000000000000000651ef99cb9fcbe"),
        Err(error) => assert!(matches!(error.kind, SourceErrorKind::Transient { .. }), "{error}"),
    }
}

#[tokio::test]
async fn s2_s3_s4_headers_link_up_to_the_tip_and_are_none_above_it() {
    let node = node().await;
    node.mine(250);
    let source = source(&node);
    let tip = source.tip().await.unwrap();
    assert_eq!(tip, at(&node, 250));
    assert_eq!(source.header_at(tip.height).await.unwrap().unwrap().block, tip);
    for above in [251, 1 << 31, u64::MAX] {
        assert_eq!(source.header_at(Height(above)).await.unwrap(), None);
    }
    let headers = source.headers(Height(0), Height(1_000)).await.unwrap();
    assert_eq!(headers.len(), 251, "the answer ends where the chain ends");
    assert!(headers.windows(2).all(|two| two[1].parent == two[0].block.hash && two[1].block.height == two[0].block.height.next()));
    assert_eq!(headers.last().unwrap().block, tip);
    assert!(headers[1].time.is_some());
    assert_eq!(source.headers(Height(251), Height(260)).await.unwrap(), []);
    assert_eq!(source.finalized(FinalityTag::Finalized).await.unwrap(), None);
}

#[tokio::test]
async fn a14_s5_s6_s7_every_output_to_a_watched_script_is_a_transfer_in_order() {
    let node = node().await;
    let source = source(&node);
    let (ours, theirs) = (script(&*source, ADDRESS), script(&*source, OTHER));
    node.mine(1);
    let many = node.pay_many((0..10).map(|_| (ours.clone(), 230_000)).chain([(theirs.clone(), 5), (ours.clone(), 0)]).collect());
    let second = node.pay(&ours, 1);
    node.mine(1);
    node.mine_to(1, ours.clone());
    let third = node.pay(&ours, 2_100_000_000_000_000);
    node.mine(3);
    let tip = at(&node, 6);
    let transfers = source.transfers(Height(1), &tip, &watch(&*source, &[ADDRESS])).await.unwrap();
    assert_eq!(transfers.len(), 13);
    assert!((0u32..10).zip(&transfers).all(|(vout, t)| t.key.tx_id.as_str() == many.to_string() && t.key.output_index == vout));
    assert_eq!(keys(&transfers[10..11]), [(second.to_string(), 0, 2)]);
    assert_eq!((transfers[11].position, transfers[11].maturity.map(NonZeroU32::get)), (0, Some(100)));
    assert_eq!(keys(&transfers[12..]), [(third.to_string(), 0, 4)]);
    assert_eq!(transfers[12].payment.amount.to_string(), "2100000000000000");
    assert_eq!(transfers[12].block, at(&node, 4));
    assert_eq!(transfers[12].payment.address.as_str(), ADDRESS);
    // The same as the node's own list.
    let listed: Vec<_> = node.payments().into_iter().filter(|p| p.script == ours && p.sats > 0).map(|p| (p.txid.to_string(), p.vout, u64::from(p.place.height))).collect();
    assert_eq!(keys(&transfers), listed);
    // Only the range, only what is watched, only what is listed.
    assert_eq!(source.transfers(Height(3), &at(&node, 3), &watch(&*source, &[ADDRESS])).await.unwrap().len(), 1);
    assert_eq!(source.transfers(Height(1), &tip, &watch(&*source, &[OTHER])).await.unwrap().len(), 1);
    let mut unlisted = watch(&*source, &[ADDRESS]);
    unlisted.forget_asset(&source.profile().assets[0].asset.id);
    assert_eq!(source.transfers(Height(1), &tip, &unlisted).await.unwrap(), []);
}

#[tokio::test]
async fn s8_a_transaction_mined_again_elsewhere_keeps_its_key() {
    let node = node().await;
    let source = source(&node);
    let txid = node.pay_many(vec![(script(&*source, OTHER), 9), (script(&*source, ADDRESS), 7)]);
    node.mine(2);
    let watch = watch(&*source, &[ADDRESS]);
    let before = source.transfers(Height(1), &at(&node, 2), &watch).await.unwrap();
    node.fork(2, Remine::Later(1));
    let after = source.transfers(Height(1), &at(&node, 3), &watch).await.unwrap();
    assert_eq!(keys(&before), [(txid.to_string(), 1, 1)]);
    assert_eq!(keys(&after), [(txid.to_string(), 1, 2)]);
    assert_eq!(before[0].key, after[0].key);
    assert_ne!(before[0].position, after[0].position);
}

#[tokio::test]
async fn s9_a41_a_stale_block_is_orphaned_though_the_node_still_serves_it() {
    let node = node().await;
    let source = source(&node);
    node.mine(3);
    let stale = at(&node, 3);
    let watch = watch(&*source, &[ADDRESS]);
    assert_eq!(source.transfers(Height(1), &stale, &watch).await.unwrap(), []);
    node.fork(1, Remine::Drop);
    assert!(node.block(&stale.hash.as_str().parse().unwrap()).is_some());
    assert!(orphaned(source.transfers(Height(1), &stale, &watch).await).contains(stale.hash.as_str()));
    orphaned(source.transfers(Height(1), &stale, &WatchSet::default()).await);
    orphaned(source.transfers(Height(4), &stale, &watch).await);
}

#[tokio::test]
async fn s9_a_lagging_node_is_orphaned_and_never_an_empty_answer() {
    let node = node().await;
    let source = source(&node);
    node.pay(&script(&*source, ADDRESS), 5);
    node.mine(5);
    let tip = at(&node, 5);
    node.lag(2);
    for watch in [watch(&*source, &[ADDRESS]), WatchSet::default()] {
        orphaned(source.transfers(Height(1), &tip, &watch).await);
    }
    assert_eq!(source.tip().await.unwrap(), at(&node, 3));
    assert_eq!(source.header_at(Height(4)).await.unwrap(), None);
}

#[tokio::test]
async fn a40_a_chain_that_moves_between_two_calls_gives_no_half_answer() {
    let node = node().await;
    let source = source(&node);
    node.mine(2);
    node.pay(&script(&*source, ADDRESS), 5);
    node.mine(3);
    let tip = at(&node, 5);
    let watch = watch(&*source, &[ADDRESS]);
    // The old branch is still served by hash: the answer is for it, as asked.
    let moving = node.clone();
    node.faults().before("getblock", 1, move || drop(moving.fork(3, Remine::Drop)));
    assert_eq!(source.transfers(Height(1), &tip, &watch).await.unwrap().len(), 1);
    // The old branch is forgotten at once.
    let tip = at(&node, 6);
    let moving = node.clone();
    node.faults().before("getblock", 1, move || {
        moving.fork(6, Remine::Drop);
        moving.forget_stale_blocks();
    });
    orphaned(source.transfers(Height(1), &tip, &watch).await);
}

#[tokio::test]
async fn a40_blocks_that_do_not_link_are_thrown_away() {
    let node = node().await;
    let source = source(&node);
    node.mine(3);
    let stale = node.hash_at(2).unwrap();
    node.fork(2, Remine::Drop);
    let tip = at(&node, 4);
    // A node that names a block of another branch in the middle.
    let lying = node.clone();
    node.faults().before("getblockhash", 1, move || lying.faults().answer_next("getblockhash", 1, Ok(json!(stale.to_string()))));
    let answer = source.transfers(Height(1), &tip, &watch(&*source, &[ADDRESS])).await;
    assert!(orphaned(answer).contains("follow"));
}

#[tokio::test]
async fn a31_warm_up_passes_and_a_vanished_header_is_no_halt() {
    let node = node().await;
    let source = source(&node);
    node.mine(2);
    node.warming_up(1);
    assert_eq!(source.tip().await.unwrap().height, Height(2));
    node.warming_up(2);
    transient(source.tip().await);
    node.lose_block(node.hash_at(2).unwrap(), Loss::Unknown);
    transient(source.header_at(Height(2)).await);
    transient(source.headers(Height(1), Height(2)).await);
    orphaned(source.transfers(Height(1), &at(&node, 2), &watch(&*source, &[ADDRESS])).await);
}

#[tokio::test]
async fn a30_pruned_history_is_fatal_and_names_the_height() {
    let node = node().await;
    let source = source(&node);
    node.mine(10);
    node.prune_below(Some(7));
    let watch = watch(&*source, &[ADDRESS]);
    let text = fatal(source.transfers(Height(1), &at(&node, 10), &watch).await);
    assert!(text.contains("from 7 (pruneheight)"), "{text}");
    assert_eq!(source.transfers(Height(7), &at(&node, 10), &watch).await.unwrap(), []);
    let lines = source.inspect().await.unwrap();
    assert!(lines.iter().any(|line| line.subject == "pruning" && line.text.contains('7')), "{lines:?}");
}

#[tokio::test]
async fn s12_s14_a_spoilt_block_is_read_again_and_then_fatal() {
    let node = node().await;
    let source = source(&node);
    node.mine(2);
    node.pay(&script(&*source, ADDRESS), 5);
    node.mine(1);
    let watch = watch(&*source, &[ADDRESS]);
    let other = const_hex::encode(bitcoin::consensus::serialize(&*node.block(&node.hash_at(1).unwrap()).unwrap()));
    let tip = at(&node, 3);
    for spoilt in [json!(other), json!("00"), json!("not hex"), json!(null), json!({})] {
        node.faults().answer_next("getblock", 1, Ok(spoilt.clone()));
        let read = source.transfers(Height(3), &tip, &watch).await.unwrap();
        assert_eq!(read.len(), 1, "{spoilt}");
        node.faults().answer_next("getblock", 2, Ok(spoilt.clone()));
        fatal(source.transfers(Height(3), &tip, &watch).await);
        node.faults().clear();
    }
    node.faults().answer_next("getblockheader", 1, Ok(json!("00".repeat(80))));
    fatal(source.header_at(Height(3)).await);
}

#[tokio::test]
async fn a_batch_that_is_too_much_at_once_is_asked_for_in_parts() {
    let node = node().await;
    let source = source(&node);
    node.pay(&script(&*source, ADDRESS), 5);
    node.mine(40);
    let watch = watch(&*source, &[ADDRESS]);
    assert_eq!(source.transfers(Height(1), &at(&node, 40), &watch).await.unwrap().len(), 1);
    // The blocks were small: the next ones are asked for together, and a short answer is halved.
    node.faults().answer_next("getblock", 1, Err(RpcError::new(-32005, "batch too large")));
    let _ = source.transfers(Height(1), &at(&node, 40), &watch).await;
    assert_eq!(source.transfers(Height(1), &at(&node, 40), &watch).await.unwrap().len(), 1);
    let requests = node.faults().requests();
    assert_eq!(source.transfers(Height(1), &at(&node, 40), &watch).await.unwrap().len(), 1);
    assert!(node.faults().requests() - requests <= 4, "{} requests for 40 small blocks", node.faults().requests() - requests);
}

#[tokio::test]
async fn litecoins_older_dialect_is_understood() {
    let options = BitcoinOptions { network: FakeNetwork::LitecoinRegtest, dialect: Dialect::Legacy, ..Default::default() };
    let node = FakeBitcoin::start(options).await.unwrap();
    let source = source_with("litecoin-regtest", &format!("url = '{}'", node.url()));
    let address = "rltc1qw508d6qejxtdg4y5r3zarvary0c5xw7k2hj4fr";
    let address = match source.parse_address(address) {
        Ok(address) => address.as_str().to_owned(),
        Err(_) => confirmd_chain_bitcoin::Destination::P2wpkh([7; 20]).text(confirmd_chain_bitcoin::Network::by_name("litecoin-regtest").unwrap()),
    };
    node.pay(&script(&*source, &address), 77);
    node.mine(3);
    assert_eq!(source.header_at(Height(4)).await.unwrap(), None);
    let stale = at(&node, 3);
    assert_eq!(source.transfers(Height(1), &stale, &watch(&*source, &[&address])).await.unwrap().len(), 1);
    node.fork(1, Remine::Drop);
    node.forget_stale_blocks();
    orphaned(source.transfers(Height(1), &stale, &watch(&*source, &[&address])).await);
    node.lose_block(node.hash_at(4).unwrap(), Loss::Unknown);
    transient(source.header_at(Height(4)).await);
}

#[tokio::test]
async fn s12_s17_wrong_credentials_are_fatal_and_stay_secret() {
    let auth = Auth::Basic { user: "u".into(), password: "right-password".into() };
    let node = FakeBitcoin::start(BitcoinOptions { auth, ..Default::default() }).await.unwrap();
    let url = node.url().replace("http://", "http://u:wrong-password@");
    let folder = std::env::temp_dir().join(format!("confirmd-chain-bitcoin-{}", std::process::id()));
    std::fs::write(&folder, url).unwrap();
    let source = source_with("regtest", &format!("url = {{ file = '{}' }}", folder.display()));
    std::fs::remove_file(&folder).unwrap();
    let error = source.tip().await.unwrap_err();
    assert_eq!(error.kind, SourceErrorKind::Fatal);
    let shown = format!("{error} {error:?} {:?} {source:?}", error.source);
    assert!(!shown.contains("wrong-password"), "{shown}");
}

#[tokio::test]
async fn s13_a_dropped_call_leaves_the_source_usable() {
    let node = node().await;
    let source = source(&node);
    node.pay(&script(&*source, ADDRESS), 5);
    node.mine(3);
    node.faults().hang_next(1);
    let tip = at(&node, 3);
    let watch = watch(&*source, &[ADDRESS]);
    tokio::select! {
        biased;
        _ = source.transfers(Height(1), &tip, &watch) => panic!("the node hangs"),
        () = async { while node.faults().requests() == 0 { tokio::task::yield_now().await } } => {}
    }
    let (one, two) = tokio::join!(source.transfers(Height(1), &tip, &watch), source.headers(Height(0), Height(3)));
    assert_eq!((one.unwrap().len(), two.unwrap().len()), (1, 4));
}

#[tokio::test]
async fn inspect_says_what_to_do() {
    let node = node().await;
    node.mine(2);
    let lines = source(&node).inspect().await.unwrap();
    assert!(lines.iter().all(|line| line.ok), "{lines:?}");
    let subjects: Vec<_> = lines.iter().map(|line| line.subject.as_str()).collect();
    assert_eq!(subjects, ["network", "sync", "pruning", "node"]);
    let foreign = source_with("litecoin-regtest", &format!("url = '{}'", node.url()));
    let lines = foreign.inspect().await.unwrap();
    assert!(!lines[0].ok && lines[0].text.contains("correct network or rpc"), "{lines:?}");
}

#[tokio::test]
async fn a34_a_node_in_its_initial_download_gives_no_tip_to_count_from() {
    let node = node().await;
    node.mine(2);
    node.set_initial_block_download(true);
    // On demand-mined networks an old tip is normal.
    assert_eq!(source(&node).tip().await.unwrap().height, Height(2));
    let mainnet = source_with("mainnet", &format!("url = '{}'", node.url()));
    transient(mainnet.tip().await);
    let lines = mainnet.inspect().await.unwrap();
    assert!(lines.iter().any(|line| line.subject == "sync" && !line.ok), "{lines:?}");
}
