//! Blocks by the REST interface, which is only a short cut: whatever it says or does not say, RPC decides.

use super::*;

async fn paid_chain(blocks: u32) -> (FakeBitcoin, Arc<dyn ChainSource>, WatchSet) {
    let node = node().await;
    let source = source_by("auto", "regtest", &format!("url = '{}'", node.url()));
    let watch = watch(&*source, &[ADDRESS]);
    for _ in 0..blocks {
        node.pay(&script(&*source, ADDRESS), 1_000);
        node.mine(1);
    }
    (node, source, watch)
}

#[tokio::test]
async fn blocks_come_by_rest_one_request_each_and_few_others() {
    let (node, source, watch) = paid_chain(100).await;
    let before = node.faults().requests();
    let found = source.transfers(Height(1), &at(&node, 100), &watch).await.unwrap();
    assert_eq!(found.len(), 100);
    assert_eq!(node.faults().calls("getblock"), 0);
    let requests = node.faults().requests() - before;
    assert!(requests <= 102, "{requests} requests for 100 blocks");
}

#[tokio::test]
async fn a_batch_of_rpc_reads_many_blocks_where_rest_is_off() {
    let (node, _, watch) = paid_chain(100).await;
    let source = source(&node);
    // How large blocks are is only known by then.
    source.transfers(Height(1), &at(&node, 1), &watch).await.unwrap();
    let before = node.faults().requests();
    assert_eq!(source.transfers(Height(1), &at(&node, 100), &watch).await.unwrap().len(), 100);
    let requests = node.faults().requests() - before;
    assert!(requests <= 10, "{requests} requests for 100 blocks");
}

#[tokio::test]
async fn a_block_that_rest_does_not_give_is_asked_for_by_rpc_which_knows_why() {
    let (node, source, watch) = paid_chain(6).await;
    assert_eq!(source.transfers(Height(1), &at(&node, 6), &watch).await.unwrap().len(), 6);
    let to = at(&node, 6);
    let lost = node.hash_at(3).unwrap();
    node.lose_block(lost, Loss::Unknown);
    let error = source.transfers(Height(1), &to, &watch).await.unwrap_err();
    assert_eq!(error.kind, SourceErrorKind::Orphaned, "{error}");
    node.find_block_again(&lost);
    assert_eq!(source.transfers(Height(1), &to, &watch).await.unwrap().len(), 6);
}

#[tokio::test]
async fn a_node_without_rest_is_read_by_rpc_after_one_try() {
    for (status, body) in [(404, ""), (403, "no"), (405, "<html>"), (200, "<html>"), (503, "busy")] {
        let (node, source, watch) = paid_chain(6).await;
        let refusing = node.clone();
        node.faults().before("getblockhash", 5, move || refusing.faults().fail_next(1, status, body));
        let generation = source.connection();
        assert_eq!(source.transfers(Height(1), &at(&node, 6), &watch).await.unwrap().len(), 6, "{status}");
        // A request that was under way beside the refused one may still have been served.
        assert!(node.faults().calls("getblock") >= 5, "{status}");
        assert_eq!(source.connection(), generation, "{status} is no news of the node");
        let before = node.faults().requests();
        assert_eq!(source.transfers(Height(1), &at(&node, 6), &watch).await.unwrap().len(), 6);
        assert_eq!(node.faults().requests() - before, 2, "{status} was asked again");
    }
}
