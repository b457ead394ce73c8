//! Who the node is, and what it says of itself.

use super::*;
use confirmd_testkit::fake_evm::Finality;

#[tokio::test]
async fn s1_s12_identify_says_what_the_node_serves_and_a_foreign_genesis_is_fatal() {
    let node = node().await;
    let source = build(&node, ALL, 10);
    assert_eq!(source.identify().await.unwrap(), source.profile().chain);
    assert_eq!(source.profile().chain.as_str(), "eip155:31337");

    let genesis = node.hash_at(0).unwrap();
    let pinned = build(&node, &format!("{ALL}\ngenesis = '{genesis}'"), 10);
    assert_eq!(pinned.identify().await.unwrap(), pinned.profile().chain);

    let salted = FakeEvm::start(EvmOptions { genesis_salt: 1, ..EvmOptions::default() }).await.unwrap();
    let error = build(&salted, &format!("{ALL}\ngenesis = '{genesis}'"), 10).identify().await.unwrap_err();
    assert_eq!(error.kind, SourceErrorKind::Fatal);
    assert!(error.to_string().contains("same chain id"), "{error}");

    let other = FakeEvm::start(EvmOptions { chain_id: 5, ..EvmOptions::default() }).await.unwrap();
    assert_eq!(build(&other, ALL, 10).identify().await.unwrap().as_str(), "eip155:5");
}

#[tokio::test]
async fn s2_s3_s4_headers_link_and_end_at_the_tip() {
    let node = node().await;
    node.mine(5);
    let source = build(&node, ALL, 10);
    let tip = source.tip().await.unwrap();
    assert_eq!(tip, super::tip(&node));
    assert_eq!(source.header_at(tip.height).await.unwrap().unwrap().block, tip);
    assert_eq!(source.header_at(Height(6)).await.unwrap(), None);
    let headers = source.headers(Height(2), Height(9)).await.unwrap();
    assert_eq!(headers.iter().map(|header| header.block.height.0).collect::<Vec<_>>(), [2, 3, 4, 5]);
    assert!(headers.windows(2).all(|pair| pair[0].block.hash == pair[1].parent));
    assert_eq!(headers[3].time, Some(Timestamp::from_seconds(EvmOptions::default().first_block_time + 4 * 12)));
    assert!(source.headers(Height(7), Height(9)).await.unwrap().is_empty());
}

#[tokio::test]
async fn b39_s18_a_tag_that_is_absent_is_none_never_zero() {
    let node = node().await;
    node.mine(100);
    let source = build(&node, ALL, 10);
    let height = |found: Option<BlockRef>| found.map(|block| block.height.0);
    assert_eq!(height(source.finalized(FinalityTag::Safe).await.unwrap()), Some(68));
    assert_eq!(height(source.finalized(FinalityTag::Finalized).await.unwrap()), Some(36));
    node.set_finalized(Finality::At(30));
    assert_eq!(
        height(source.finalized(FinalityTag::Finalized).await.unwrap()),
        Some(30),
        "told as it is; the engine never goes back"
    );
    for absent in [Finality::Null, Finality::NotFound] {
        node.set_finalized(absent);
        assert_eq!(source.finalized(FinalityTag::Finalized).await.unwrap(), None);
    }
    let unsupported = confirmd_testkit::json_rpc::RpcError::new(-32602, "invalid argument 0: hex string without 0x prefix");
    node.faults().answer_next("eth_getBlockByNumber", 1, Err(unsupported));
    assert_eq!(source.finalized(FinalityTag::Safe).await.unwrap(), None);
}

#[tokio::test]
async fn inspect_says_one_line_a_subject_with_what_to_do() {
    let node = node().await;
    node.mine(3);
    node.call_internal(PAYER, TOKEN, &[(WATCHED, U256::from(1))]);
    node.mine(1);
    let source = build(&node, ALL, 10);
    let line = |found: &[EndpointStatus], subject: &str| {
        let status = found.iter().find(|status| status.subject == subject);
        status.map(|status| (status.ok, status.text.clone())).unwrap_or_else(|| panic!("nothing about {subject}"))
    };
    let found = source.inspect().await.unwrap();
    for subject in ["network", "sync", "tag safe", "tag finalized", "logs", "receipts", "internal transfers"] {
        assert!(line(&found, subject).0, "{subject}: {}", line(&found, subject).1);
    }
    node.set_syncing(true);
    node.set_finalized(Finality::Null);
    node.faults().disable("eth_getBlockReceipts");
    let found = source.inspect().await.unwrap();
    assert!(!line(&found, "sync").0);
    assert!(line(&found, "tag finalized").1.contains("no asset asks"));
    assert!(line(&found, "receipts").0 && line(&found, "receipts").1.contains("single"));

    let other = FakeEvm::start(EvmOptions { chain_id: 5, ..EvmOptions::default() }).await.unwrap();
    let found = build(&other, ALL, 10).inspect().await.unwrap();
    assert!(!line(&found, "network").0 && line(&found, "network").1.contains("eip155:5"));
    assert!(!line(&found, "head").0, "the genesis block is old");
}

#[tokio::test]
async fn s17_a_key_in_the_url_shows_nowhere() {
    let node = node().await;
    let keys = format!("{ALL}\nlimits = {{ attempts = 1 }}");
    let table = format!("chain_id = 31337\nrpc = [{{ url = '{}/v3/0123456789secretkey' }}]\n{keys}", node.url()).parse().unwrap();
    let source = (KIND.build)(context(10), table).unwrap();
    node.faults().fail_next(2, 500, "no project 0123456789secretkey");
    let error = source.tip().await.unwrap_err();
    let text = format!("{error} {error:?} {source:?}");
    assert!(!text.contains("secretkey"), "{text}");
}
