//! The node's compact block filters: fewer blocks are read, and the answer is that of a whole read.

use super::*;

const BLOCKS: u32 = 150;

/// 150 blocks, of which these heights pay the address; nine blocks make a payment to somebody else.
async fn paid_at(heights: &[u32], dialect: Dialect, filters: bool) -> FakeBitcoin {
    let node = FakeBitcoin::start(BitcoinOptions { dialect, filters, ..Default::default() }).await.unwrap();
    let (ours, other) = (script(&*source(&node), ADDRESS), script(&*source(&node), OTHER));
    for height in 1..=BLOCKS {
        if heights.contains(&height) {
            node.pay(&ours, 1_000 + u64::from(height));
        }
        if height % 16 == 0 {
            node.pay(&other, 5);
        }
        node.mine(1);
    }
    node
}

fn heights(transfers: &[Transfer]) -> Vec<u64> {
    transfers.iter().map(|transfer| transfer.block.height.0).collect()
}

#[tokio::test]
async fn only_blocks_that_may_match_and_those_that_may_still_change_are_read() {
    let node = paid_at(&[3, 4, 70, 144, 150], Dialect::Core29, true).await;
    let source = source(&node);
    let watch = watch(&*source, &[ADDRESS]);
    let found = source.transfers(Height(1), &at(&node, BLOCKS), &watch).await.unwrap();
    assert_eq!(heights(&found), [3, 4, 70, 144, 150]);
    // Four that pay below the last six (the reorg depth), three by chance, and those six.
    assert_eq!(node.faults().calls("getblock"), 4 + 3 + 6);
    assert_eq!(node.faults().calls("scanblocks"), 1);
    let before = node.faults().calls("getblock");
    assert_eq!(heights(&source.transfers(Height(5), &at(&node, 60), &watch).await.unwrap()), [0_u64; 0]);
    assert_eq!(node.faults().calls("getblock") - before, 1, "the one by chance");
}

#[tokio::test]
async fn what_is_found_is_what_a_whole_read_finds_whatever_is_watched_and_paid() {
    for seed in 0..12 {
        let mut random = fastrand::Rng::with_seed(seed);
        let paid: Vec<u32> = (1..=BLOCKS).filter(|_| random.u8(..) < 30).collect();
        let node = paid_at(&paid, Dialect::Core29, true).await;
        let by_filters = source(&node);
        let whole = source_without_filters(&node);
        let watch = watch(&*whole, if random.bool() { &[ADDRESS, OTHER] } else { &[ADDRESS] });
        for _ in 0..4 {
            let from = Height(random.u64(1..=100));
            let to = at(&node, random.u32(100..=BLOCKS));
            let found = by_filters.transfers(from, &to, &watch).await.unwrap();
            assert_eq!(found, whole.transfers(from, &to, &watch).await.unwrap(), "seed {seed}, {from} to {to}");
        }
    }
}

fn source_without_filters(node: &FakeBitcoin) -> Arc<dyn ChainSource> {
    let table = format!("network = 'regtest'\nrest = 'off'\nfilters = 'off'\nrpc = [{{ url = '{}' }}]", node.url());
    (KIND.build)(context(), table.parse().unwrap()).unwrap()
}

#[tokio::test]
async fn a_node_without_the_index_or_the_method_is_read_block_by_block() {
    for (dialect, filters) in [(Dialect::Core29, false), (Dialect::Legacy, false), (Dialect::Legacy, true)] {
        let node = paid_at(&[9, 100], dialect, filters).await;
        let source = source(&node);
        let watch = watch(&*source, &[ADDRESS]);
        for _ in 0..2 {
            assert_eq!(heights(&source.transfers(Height(1), &at(&node, BLOCKS), &watch).await.unwrap()), [9, 100]);
        }
        assert_eq!(node.faults().calls("getblock"), 2 * u64::from(BLOCKS), "{dialect:?}");
        assert_eq!(node.faults().calls("scanblocks"), u64::from(filters), "a missing method is asked for once: {dialect:?}");
        assert_eq!(node.faults().calls("getindexinfo"), 1, "and so is a missing index");
        let lines = source.inspect().await.unwrap();
        let line = lines.iter().find(|line| line.subject == "filters").unwrap();
        assert!(line.ok && line.text.contains("blockfilterindex=1"), "{line:?}");
    }
    let node = paid_at(&[9], Dialect::Core29, true).await;
    let lines = source(&node).inspect().await.unwrap();
    assert!(lines.iter().any(|line| line.text.contains("up to block 150")), "{lines:?}");
}

#[tokio::test]
async fn what_the_index_refuses_or_answers_in_part_is_read_block_by_block() {
    let node = paid_at(&[9, 100], Dialect::Core29, true).await;
    let source = source(&node);
    let watch = watch(&*source, &[ADDRESS]);
    let busy = confirmd_testkit::json_rpc::RpcError::new(-8, "Scan already in progress, use action \"abort\" or \"status\"");
    let stranger = node.hash_at(149).unwrap().to_string();
    let (ninth, last) = (node.hash_at(9).unwrap().to_string(), node.hash_at(100).unwrap().to_string());
    let answer = |from: u32, blocks: &[&String], completed: bool| json!({ "from_height": from, "to_height": 144, "relevant_blocks": blocks, "completed": completed });
    let answers = [
        Err(busy),
        Ok(answer(1, &[], false)),
        Ok(answer(10, &[&last], true)),
        Ok(answer(1, &[&stranger], true)),
        Ok(answer(1, &[&last, &ninth], true)),
    ];
    for told in answers {
        let before = node.faults().calls("getblock");
        node.faults().answer_next("scanblocks", 1, told.clone());
        assert_eq!(heights(&source.transfers(Height(1), &at(&node, BLOCKS), &watch).await.unwrap()), [9, 100], "{told:?}");
        assert_eq!(node.faults().calls("getblock") - before, u64::from(BLOCKS), "{told:?}");
    }
    let before = node.faults().calls("getblock");
    source.transfers(Height(1), &at(&node, BLOCKS), &watch).await.unwrap();
    assert!(node.faults().calls("getblock") - before < 20, "the next time it is asked again");
}

#[tokio::test]
async fn s9_a_branch_that_is_gone_is_orphaned_with_filters_too() {
    let node = paid_at(&[9, 148], Dialect::Core29, true).await;
    let source = source(&node);
    let watch = watch(&*source, &[ADDRESS]);
    let (stale, replaced) = (at(&node, BLOCKS), node.hash_at(140).unwrap().to_string());
    node.fork(20, Remine::Drop);
    orphaned(source.transfers(Height(1), &stale, &watch).await);
    // A block that the index names, and that is no longer on the best chain when it is looked up.
    let answer = json!({ "from_height": 1, "to_height": 145, "relevant_blocks": [replaced], "completed": true });
    node.faults().answer_next("scanblocks", 1, Ok(answer));
    orphaned(source.transfers(Height(1), &at(&node, 151), &watch).await);
    assert_eq!(heights(&source.transfers(Height(1), &at(&node, 151), &watch).await.unwrap()), [9]);
}

#[tokio::test]
async fn short_ranges_and_the_newest_blocks_are_read_without_asking_the_index() {
    let node = paid_at(&[145], Dialect::Core29, true).await;
    let source = source(&node);
    let watch = watch(&*source, &[ADDRESS]);
    assert_eq!(heights(&source.transfers(Height(140), &at(&node, BLOCKS), &watch).await.unwrap()), [145]);
    assert_eq!(heights(&source.transfers(Height(126), &at(&node, BLOCKS), &watch).await.unwrap()), [145]);
    assert_eq!(node.faults().calls("scanblocks"), 0);
    assert_eq!(node.faults().calls("getblock"), 11 + 25);
}
