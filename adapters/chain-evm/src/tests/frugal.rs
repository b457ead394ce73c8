//! How many requests a read takes: an indexer should be limited by its node, and ask it as little as can be.

use super::*;

async fn chain(blocks: u64) -> FakeEvm {
    let node = node().await;
    for n in 1..=blocks {
        node.erc20_transfer(TOKEN, PAYER, if n % 10 == 0 { WATCHED } else { WATCHED_TOO }, U256::from(n));
        node.mine(1);
    }
    node
}

#[tokio::test]
async fn far_below_the_tip_a_span_takes_one_request_for_logs_and_one_for_receipts_and_no_headers() {
    let node = chain(600).await;
    let source = build(&node, TOKENS, 64);
    source.tip().await.unwrap();
    let (requests, headers) = (node.faults().requests(), node.faults().calls("eth_getBlockByNumber"));
    let to = block(500, node.hash_at(500).unwrap());
    let found = source.transfers(Height(1), &to, &watch(&*source, &[WATCHED])).await.unwrap();
    assert_eq!(found.len(), 50);
    assert_eq!(node.faults().requests() - requests, 2);
    assert_eq!(node.faults().calls("eth_getLogs"), 1);
    assert_eq!(node.faults().calls("eth_getTransactionReceipt"), 50, "those of matched transactions only");
    // The end of the range, as proof; the blocks' times where the node's logs do not tell them.
    assert!(node.faults().calls("eth_getBlockByNumber") - headers <= 51);
}

#[tokio::test]
async fn within_the_reorg_window_headers_logs_and_receipts_take_one_request_each() {
    let node = chain(60).await;
    let source = build(&node, TOKENS, 64);
    source.tip().await.unwrap();
    let requests = node.faults().requests();
    let found = source.transfers(Height(1), &tip(&node), &watch(&*source, &[WATCHED])).await.unwrap();
    assert_eq!(found.len(), 6);
    assert_eq!(node.faults().requests() - requests, 3);
}

#[tokio::test]
async fn more_addresses_than_a_node_can_filter_by_are_matched_here_in_as_few_requests() {
    let node = chain(600).await;
    let source = build(&node, TOKENS, 64);
    source.tip().await.unwrap();
    let mut accounts: Vec<Account> = (100_000..110_001u32).map(|n| Account::left_padding_from(&n.to_be_bytes())).collect();
    accounts.push(WATCHED);
    let requests = node.faults().requests();
    let to = block(500, node.hash_at(500).unwrap());
    assert_eq!(source.transfers(Height(1), &to, &watch(&*source, &accounts)).await.unwrap().len(), 50);
    assert_eq!(node.faults().calls("eth_getLogs"), 1);
    assert_eq!(node.faults().requests() - requests, 2);
}
