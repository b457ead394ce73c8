//! Branches that end, move or repeat themselves while they are read.

use super::*;

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
async fn a24_a_transaction_that_stands_in_two_blocks_is_one_transfer_in_the_first() {
    let node = node().await;
    let source = source(&node);
    let twice = node.make_payment(vec![(script(&*source, ADDRESS), 50)]);
    node.mine_with(vec![twice.clone()]);
    node.mine(1);
    node.mine_with(vec![twice.clone()]);
    let watch = watch(&*source, &[ADDRESS]);
    let both = source.transfers(Height(1), &at(&node, 3), &watch).await.unwrap();
    assert_eq!(keys(&both), [(twice.compute_txid().to_string(), 0, 1)]);
    // Read alone, the second block has it, too, under the same key: whoever holds the first knows that it stands.
    let second = source.transfers(Height(3), &at(&node, 3), &watch).await.unwrap();
    assert_eq!((&second[0].key, &second[0].payment), (&both[0].key, &both[0].payment));
}
