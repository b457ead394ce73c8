//! Limits, throttling and half-broken answers.

use super::*;
use confirmd_testkit::faults::BatchFault;
use confirmd_testkit::json_rpc::RpcError;

async fn paid(blocks: u64) -> FakeEvm {
    let node = node().await;
    for n in 1..=blocks {
        node.erc20_transfer(TOKEN, PAYER, WATCHED, U256::from(n));
        node.mine(1);
    }
    node
}

#[tokio::test]
async fn b16_ranges_are_halved_on_any_limit_and_no_block_is_skipped() {
    let node = paid(40).await;
    let to = block(30, node.hash_at(30).unwrap());
    let expected = truth(&node, &[WATCHED])[..30].to_vec();
    let limits: [&dyn Fn(&FakeEvm); 4] = [
        &|node| node.limit_log_range(Some(3)),
        &|node| node.limit_log_results(Some(1)),
        &|node| node.limit_log_results(Some(0)),
        &|node| node.faults().answer_next("eth_getLogs", 7, Err(RpcError::new(35, "no, for reasons of our own"))),
    ];
    for limit in limits {
        node.limit_log_range(None);
        node.limit_log_results(None);
        limit(&node);
        let source = build(&node, TOKENS, 5);
        let found = source.transfers(Height(1), &to, &watch(&*source, &[WATCHED])).await.unwrap();
        assert_eq!(rows(&found), expected);
    }
}

#[tokio::test]
async fn b17_pruned_history_is_fatal_and_says_what_to_do() {
    let node = paid(20).await;
    let source = build(&node, TOKENS, 5);
    let to = block(10, node.hash_at(10).unwrap());
    node.faults().answer_next("eth_getLogs", 1, Err(RpcError::new(4444, "pruned history unavailable")));
    let error = source.transfers(Height(1), &to, &watch(&*source, &[WATCHED])).await.unwrap_err();
    assert_eq!(error.kind, SourceErrorKind::Fatal);
    assert!(error.to_string().contains("archive node"), "{error}");
}

#[tokio::test]
async fn b44_s11_throttling_and_half_answers_are_transient_with_the_servers_wish() {
    let node = paid(3).await;
    let source = build(&node, ALL, 50);
    let watch = watch(&*source, &[WATCHED]);
    let to = tip(&node);
    source.transfers(Height(1), &to, &watch).await.unwrap();
    node.faults().rate_limit(1, "0");
    let error = source.transfers(Height(1), &to, &watch).await.unwrap_err();
    assert_eq!(error.kind, SourceErrorKind::Transient { retry_after: Some(Duration::ZERO) }, "{error}");
    for fault in [BatchFault::LastMissing, BatchFault::DuplicateId] {
        node.faults().batch_fault_next(1, fault);
        let error = source.transfers(Height(1), &to, &watch).await.unwrap_err();
        assert!(matches!(error.kind, SourceErrorKind::Transient { .. }), "{fault:?}: {error}");
    }
    node.faults().fail_next(1, 200, "<html>busy</html>");
    assert!(matches!(source.tip().await.unwrap_err().kind, SourceErrorKind::Transient { .. }));
    node.faults().batch_fault_next(9, BatchFault::Reversed);
    assert_eq!(source.transfers(Height(1), &to, &watch).await.unwrap().len(), 3);
}

#[tokio::test]
async fn a_node_that_takes_only_small_batches_is_read_in_small_batches() {
    let node = paid(60).await;
    node.faults().batch_limit(Some(7));
    for (keys, depth) in [(ALL, 100), (TOKENS, 100), (TOKENS, 5)] {
        let source = build(&node, keys, depth);
        let to = block(50, node.hash_at(50).unwrap());
        assert_eq!(source.headers(Height(1), Height(50)).await.unwrap().len(), 50);
        let found = source.transfers(Height(1), &to, &watch(&*source, &[WATCHED])).await.unwrap();
        assert_eq!(rows(&found), truth(&node, &[WATCHED])[..50]);
    }
}

#[tokio::test]
async fn s12_an_answer_that_can_not_be_decoded_twice_is_fatal() {
    let node = paid(1).await;
    let source = build(&node, ALL, 50);
    node.faults().answer_next("eth_getBlockByNumber", 2, Ok(serde_json::json!({ "hash": "0x12" })));
    assert_eq!(source.header_at(Height(1)).await.unwrap_err().kind, SourceErrorKind::Fatal);
    assert!(source.header_at(Height(1)).await.unwrap().is_some());
}

#[tokio::test]
async fn s13_a_dropped_call_leaves_the_source_usable() {
    let node = paid(3).await;
    let source = build(&node, ALL, 50);
    let watch = watch(&*source, &[WATCHED]);
    let to = tip(&node);
    for _ in 0..3 {
        let mut call = Box::pin(source.transfers(Height(1), &to, &watch));
        assert!(futures_poll_once(call.as_mut()).await.is_none());
    }
    let (one, two) = tokio::join!(source.transfers(Height(1), &to, &watch), source.transfers(Height(2), &to, &watch));
    assert_eq!((one.unwrap().len(), two.unwrap().len()), (3, 2));
}

async fn futures_poll_once<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
    std::future::poll_fn(|context| match std::pin::Pin::new(&mut future).poll(context) {
        std::task::Poll::Ready(output) => std::task::Poll::Ready(Some(output)),
        std::task::Poll::Pending => std::task::Poll::Ready(None),
    })
    .await
}

#[tokio::test]
async fn far_below_the_tip_a_thousand_blocks_take_a_handful_of_requests_and_no_headers() {
    let node = node().await;
    for n in 1..=1_010u64 {
        if n % 10 == 0 {
            node.erc20_transfer(TOKEN, PAYER, WATCHED, U256::from(n));
        }
        node.mine(1);
    }
    let source = build(&node, TOKENS, 5);
    source.tip().await.unwrap();
    let watch = watch(&*source, &[WATCHED]);
    let before = node.faults().requests();
    let mut found = Vec::new();
    for (from, to) in [(1, 500), (501, 1_000)] {
        let to = block(to, node.hash_at(to).unwrap());
        found.extend(source.transfers(Height(from), &to, &watch).await.unwrap());
    }
    assert_eq!(rows(&found), truth(&node, &[WATCHED])[..100]);
    let requests = node.faults().requests() - before;
    assert!(requests <= 4, "{requests} requests");
    assert!(node.faults().calls("eth_getBlockByNumber") <= 4);
}

#[tokio::test]
async fn more_addresses_than_a_filter_takes_are_matched_here() {
    let node = paid(3).await;
    let source = build(&node, TOKENS, 50);
    let mut many: Vec<Account> = (1..=300u64).map(|n| Account::left_padding_from(&(n << 32).to_be_bytes())).collect();
    many.push(WATCHED);
    let found = source.transfers(Height(1), &tip(&node), &watch(&*source, &many)).await.unwrap();
    assert_eq!(rows(&found), truth(&node, &[WATCHED]));
}
