//! Nodes that are not ready, not whole, not allowed, or wrong.

use super::*;

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
    let read = async || source.transfers(Height(1), &at(&node, 40), &watch).await.unwrap().len();
    assert_eq!(read().await, 1);
    // The blocks were small: the next ones are asked for together.
    let requests = node.faults().requests();
    assert_eq!(read().await, 1);
    assert_eq!(node.faults().requests() - requests, 3, "one request for hashes, two for 40 blocks");
    node.faults().batch_limit(Some(4));
    assert_eq!(read().await, 1);
    assert_eq!(source.headers(Height(0), Height(40)).await.unwrap().len(), 41);
    // What was learned is kept.
    let requests = node.faults().requests();
    assert_eq!(read().await, 1);
    assert!(node.faults().requests() - requests <= 40, "{} requests", node.faults().requests() - requests);
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
