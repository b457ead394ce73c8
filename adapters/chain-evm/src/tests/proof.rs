//! An empty answer proves something, or it is not believed.

use super::*;
use confirmd_testkit::Remine;
use confirmd_testkit::json_rpc::RpcError;

fn pay(node: &FakeEvm, blocks: u64) {
    for n in 1..=blocks {
        node.erc20_transfer(TOKEN, PAYER, WATCHED, U256::from(n));
        node.mine(1);
    }
}

async fn kind(source: &dyn ChainSource, from: u64, to: &BlockRef) -> SourceErrorKind {
    source.transfers(Height(from), to, &watch(source, &[WATCHED])).await.unwrap_err().kind
}

#[tokio::test]
async fn b12_s9_a_node_that_lags_behind_the_block_asked_for_is_orphaned_never_empty() {
    let node = node().await;
    pay(&node, 30);
    for keys in [ALL, TOKENS] {
        for (depth, last) in [(50, 30), (5, 20)] {
            let source = build(&node, keys, depth);
            source.tip().await.unwrap();
            let to = block(last, node.hash_at(last).unwrap());
            node.lag(15);
            assert_eq!(kind(&*source, 10, &to).await, SourceErrorKind::Orphaned, "{keys} {depth}");
            node.lag(0);
            let found = source.transfers(Height(10), &to, &watch(&*source, &[WATCHED])).await.unwrap();
            assert_eq!(rows(&found), truth(&node, &[WATCHED])[9..usize::try_from(last).unwrap()]);
        }
    }
}

#[tokio::test]
async fn s9_an_orphaned_or_unknown_block_is_orphaned_also_with_nothing_to_look_for() {
    let node = node().await;
    pay(&node, 30);
    for (keys, depth, last) in [(ALL, 50, 30), (ALL, 5, 20), (TOKENS, 50, 30), (TOKENS, 5, 20)] {
        let source = build(&node, keys, depth);
        source.tip().await.unwrap();
        let unknown = block(last, B256::repeat_byte(9));
        let odd = BlockRef { hash: BlockHash::new("nonsense").unwrap(), ..unknown.clone() };
        for to in [unknown, odd] {
            assert_eq!(kind(&*source, last - 3, &to).await, SourceErrorKind::Orphaned);
            let nothing = source.transfers(Height(last - 3), &to, &WatchSet::default()).await.unwrap_err();
            assert_eq!(nothing.kind, SourceErrorKind::Orphaned);
        }
        // The fake node serves stale blocks by hash, as geth does.
        let stale = block(last, node.hash_at(last).unwrap());
        let branch = node.fork(15, Remine::Drop);
        assert_eq!(kind(&*source, last - 3, &stale).await, SourceErrorKind::Orphaned, "{keys} {depth}");
        node.return_to(&branch);
    }
}

#[tokio::test]
async fn b12_near_the_tip_an_empty_log_answer_is_checked_against_bloom_and_receipts() {
    let node = node().await;
    pay(&node, 3);
    for receipts in [true, false] {
        if !receipts {
            node.faults().disable("eth_getBlockReceipts");
        }
        let source = build(&node, TOKENS, 50);
        node.empty_logs_next(3);
        let found = source.transfers(Height(1), &tip(&node), &watch(&*source, &[WATCHED])).await.unwrap();
        assert_eq!(rows(&found), truth(&node, &[WATCHED]));
    }
}

#[tokio::test]
async fn b17_far_below_the_tip_a_log_index_that_ends_early_is_noticed() {
    let node = node().await;
    pay(&node, 30);
    let source = build(&node, TOKENS, 5);
    let to = block(20, node.hash_at(20).unwrap());
    node.empty_logs_next(1);
    let error = source.transfers(Height(1), &to, &watch(&*source, &[WATCHED])).await.unwrap_err();
    assert!(matches!(error.kind, SourceErrorKind::Transient { .. }) && error.to_string().contains("log index"), "{error}");
}

#[tokio::test]
async fn b14_a_lost_block_or_receipt_is_orphaned_never_empty() {
    let node = node().await;
    pay(&node, 3);
    let source = build(&node, ALL, 50);
    let to = tip(&node);
    let lost = node.hash_at(2).unwrap();
    node.lose_block(lost);
    assert_eq!(kind(&*source, 1, &to).await, SourceErrorKind::Orphaned);
    node.find_block_again(&lost);
    node.faults().answer_next("eth_getTransactionReceipt", 1, Ok(serde_json::Value::Null));
    assert_eq!(kind(&*source, 1, &to).await, SourceErrorKind::Orphaned);
    node.faults().answer_next("eth_getLogs", 1, Err(RpcError::new(-32000, "unknown block")));
    assert_eq!(kind(&*source, 1, &to).await, SourceErrorKind::Orphaned);
    assert_eq!(source.transfers(Height(1), &to, &watch(&*source, &[WATCHED])).await.unwrap().len(), 3);
}

#[tokio::test]
async fn a_reorg_between_the_reads_of_one_span_is_orphaned() {
    let node = node().await;
    pay(&node, 6);
    let source = build(&node, ALL, 50);
    let watch = watch(&*source, &[WATCHED]);
    let again = node.clone();
    node.faults().before("eth_getTransactionReceipt", 0, move || {
        again.fork(6, Remine::Later(1));
    });
    let error = source.transfers(Height(1), &tip(&node), &watch).await.unwrap_err();
    assert_eq!(error.kind, SourceErrorKind::Orphaned, "{error}");
}

#[tokio::test]
async fn b36_removed_logs_are_no_payments() {
    let node = node().await;
    pay(&node, 30);
    let source = build(&node, TOKENS, 5);
    let to = block(20, node.hash_at(20).unwrap());
    let removed = serde_json::json!([{
        "address": TOKEN, "topics": [B256::repeat_byte(1)], "data": "0x", "blockNumber": "0x1", "blockHash": B256::repeat_byte(5),
        "transactionHash": B256::repeat_byte(6), "removed": true,
    }]);
    node.faults().answer_next("eth_getLogs", 1, Ok(removed));
    // Block 20 alone proves the answer incomplete; the removed log is neither a payment nor a contradiction.
    let error = source.transfers(Height(1), &to, &watch(&*source, &[WATCHED])).await.unwrap_err();
    assert!(error.to_string().contains("log index"), "{error}");
}

#[tokio::test]
async fn s4_blocks_in_the_middle_that_belong_to_another_branch_are_noticed() {
    let node = node().await;
    pay(&node, 6);
    for keys in [ALL, TOKENS] {
        let source = build(&node, keys, 50);
        let to = source.tip().await.unwrap();
        // Heights 3 and 4 are read while another branch without the payments is best; the rest is as it was.
        let (there, back) = (node.clone(), node.clone());
        let branch = node.branch();
        node.faults().before("eth_getBlockByNumber", 2, move || drop(there.fork(5, Remine::Drop)));
        node.faults().before("eth_getBlockByNumber", 4, move || drop(back.return_to(&branch)));
        assert_eq!(kind(&*source, 1, &to).await, SourceErrorKind::Orphaned, "{keys}");
        assert_eq!(tip(&node), to);
    }
}
