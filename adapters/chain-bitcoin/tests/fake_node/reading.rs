//! What a healthy node is read as.

use super::*;

#[tokio::test]
async fn s1_identify_names_what_the_node_serves() {
    let node = node().await;
    let source = source(&node);
    assert_eq!(source.identify().await.unwrap(), source.profile().chain);
    let foreign = source_with("litecoin-regtest", &format!("url = '{}'", node.url()));
    assert_ne!(foreign.identify().await.unwrap(), foreign.profile().chain);
    let litecoin =
        FakeBitcoin::start(BitcoinOptions { network: FakeNetwork::LitecoinRegtest, ..Default::default() }).await.unwrap();
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
    node.faults().answer_next("getblockhash", 1, Ok(json!(cash)));
    assert_eq!(mainnet.identify().await.unwrap().as_str(), "bip122:000000000000000000651ef99cb9fcbe");
    // Not there yet: it could still become either.
    node.faults().answer_next("getblockhash", 1, Ok(json!(genesis)));
    transient(mainnet.identify().await);
    // Another genesis block.
    assert_eq!(mainnet.identify().await.unwrap().as_str(), "bip122:0f9188f13cb7b2c71f2a335e3a4fc328");
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
    assert!(
        headers.windows(2).all(|two| two[1].parent == two[0].block.hash && two[1].block.height == two[0].block.height.next())
    );
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
    let listed: Vec<_> = node
        .payments()
        .into_iter()
        .filter(|p| p.script == ours && p.sats > 0)
        .map(|p| (p.txid.to_string(), p.vout, u64::from(p.place.height)))
        .collect();
    assert_eq!(keys(&transfers), listed);
    // Only the range, only what is watched, only what is listed.
    assert_eq!(source.transfers(Height(3), &at(&node, 3), &watch(&*source, &[ADDRESS])).await.unwrap().len(), 1);
    assert_eq!(source.transfers(Height(1), &tip, &watch(&*source, &[OTHER])).await.unwrap().len(), 1);
    let mut unlisted = watch(&*source, &[ADDRESS]);
    unlisted.forget_asset(&source.profile().assets[0].asset.id);
    assert_eq!(source.transfers(Height(1), &tip, &unlisted).await.unwrap(), []);
}

#[tokio::test]
async fn litecoins_older_dialect_is_understood() {
    let options = BitcoinOptions { network: FakeNetwork::LitecoinRegtest, dialect: Dialect::Legacy, ..Default::default() };
    let node = FakeBitcoin::start(options).await.unwrap();
    let source = source_with("litecoin-regtest", &format!("url = '{}'", node.url()));
    let network = Network::by_name("litecoin-regtest").unwrap();
    let address = Destination::P2wpkh([7; 20]).text(network);
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
async fn inspect_says_what_to_do() {
    let node = node().await;
    node.mine(2);
    let lines = source(&node).inspect().await.unwrap();
    assert!(lines.iter().all(|line| line.ok), "{lines:?}");
    let subjects: Vec<_> = lines.iter().map(|line| line.subject.as_str()).collect();
    assert_eq!(subjects, ["network", "sync", "pruning", "filters", "node"]);
    let foreign = source_with("litecoin-regtest", &format!("url = '{}'", node.url()));
    let lines = foreign.inspect().await.unwrap();
    assert!(!lines[0].ok && lines[0].text.contains("correct network or rpc"), "{lines:?}");
}
