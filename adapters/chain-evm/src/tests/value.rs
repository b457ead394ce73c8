//! What is a payment and what is not.

use super::*;
use confirmd_testkit::fake_evm::{Call, CallKind, TxSpec, three_in_data_log, transfer_log, transfer_topic};

fn wei(n: u64) -> U256 {
    U256::from(n)
}

async fn found(node: &FakeEvm, source: &dyn ChainSource) -> Vec<Row> {
    rows(&source.transfers(Height(1), &tip(node), &watch(source, &[WATCHED])).await.unwrap())
}

#[tokio::test]
async fn b09_b10_b20_b29_s10_look_alikes_failures_and_unlisted_tokens_are_no_deposits() {
    let node = node().await;
    let source = build(&node, ALL, 10);
    let mut nft = transfer_log(TOKEN, PAYER, WATCHED, wei(1));
    nft.data = alloy::primitives::LogData::new_unchecked(
        vec![transfer_topic(), PAYER.into_word(), WATCHED.into_word(), B256::with_last_byte(1)],
        Default::default(),
    );
    node.send(TxSpec::new(PAYER, TOKEN).logs(vec![
        nft,
        three_in_data_log(TOKEN, PAYER, WATCHED, wei(5)),
        transfer_log(TOKEN, PAYER, WATCHED, U256::ZERO),
        transfer_log(OTHER_TOKEN, PAYER, WATCHED, wei(5)),
    ]));
    node.send(TxSpec::new(PAYER, TOKEN).value(wei(5)).logs(vec![transfer_log(TOKEN, PAYER, WATCHED, wei(5))]).failed());
    node.failed_native(PAYER, WATCHED, wei(5));
    node.send(TxSpec::new(PAYER, WATCHED).value(U256::ZERO));
    node.send(TxSpec { to: None, ..TxSpec::new(PAYER, WATCHED).value(wei(5)) });
    node.mine(1);
    assert_eq!(found(&node, &*source).await, []);
}

#[tokio::test]
async fn b33_paying_oneself_is_no_credit() {
    let node = node().await;
    let source = build(&node, ALL, 10);
    node.erc20_transfer(TOKEN, WATCHED, WATCHED, wei(5));
    node.send(
        TxSpec::new(PAYER, TOKEN)
            .logs(vec![transfer_log(TOKEN, WATCHED, WATCHED, wei(5)), transfer_log(TOKEN, PAYER, WATCHED, wei(7))]),
    );
    node.transfer_native(WATCHED, WATCHED, wei(5));
    node.send(TxSpec::new(PAYER, TOKEN).calls(vec![Call::new(WATCHED, WATCHED, wei(5)), Call::new(TOKEN, WATCHED, wei(6))]));
    node.mine(1);
    let rows = found(&node, &*source).await;
    assert_eq!(rows.iter().map(|row| (row.1, row.3)).collect::<Vec<_>>(), [(2, wei(7)), (1_000_000_001, wei(6))]);
}

#[tokio::test]
async fn b06_b26_a_native_payment_that_also_shows_as_a_log_is_counted_once() {
    let node = node().await;
    let keys = format!("{ALL}\nnative_log_emitters = ['0x000000000000000000000000000000000000800a']");
    let source = build(&node, &keys, 10);
    let emitters = [address!("fffffffffffffffffffffffffffffffffffffffe"), address!("000000000000000000000000000000000000800a")];
    let logs = emitters.iter().map(|emitter| transfer_log(*emitter, PAYER, WATCHED, wei(5))).collect();
    let tx = node.send(TxSpec::new(PAYER, WATCHED).value(wei(5)).logs(logs));
    node.mine(1);
    let rows = found(&node, &*source).await;
    assert_eq!(rows, [(tx.to_string(), 0, WATCHED.to_checksum(None), wei(5), 1)]);
}

#[tokio::test]
async fn b27_internal_payments_are_numbered_in_call_order_and_reverted_ones_do_not_count() {
    let node = node().await;
    let source = build(&node, ALL, 10);
    let calls = vec![
        Call::new(TOKEN, PAYER, wei(1)).calls(vec![Call::new(PAYER, WATCHED, wei(2))]),
        Call::new(TOKEN, WATCHED, wei(3)).reverted().calls(vec![Call::new(TOKEN, WATCHED, wei(4))]),
        Call::new(TOKEN, WATCHED, wei(5)).kind(CallKind::DelegateCall),
        Call::new(TOKEN, WATCHED, wei(6)).kind(CallKind::SelfDestruct),
    ];
    let tx = node.send(TxSpec::new(PAYER, TOKEN).value(wei(100)).calls(calls));
    node.mine(1);
    let to = WATCHED.to_checksum(None);
    let expected = [(tx.to_string(), 1_000_000_001, to.clone(), wei(2), 1), (tx.to_string(), 1_000_000_002, to, wei(6), 1)];
    assert_eq!(found(&node, &*source).await, expected);
}

#[tokio::test]
async fn b27_without_traces_auto_goes_on_and_says_so_and_required_halts() {
    let node = node().await;
    node.set_traces(false);
    node.call_internal(PAYER, TOKEN, &[(WATCHED, wei(5))]);
    node.transfer_native(PAYER, WATCHED, wei(1));
    node.mine(1);
    let auto = build(&node, ALL, 10);
    assert_eq!(found(&node, &*auto).await.len(), 1);
    let said = auto.inspect().await.unwrap();
    let line = said.iter().find(|status| status.subject == "internal transfers").unwrap();
    assert!(!line.ok && line.text.contains("debug_traceBlockByHash"), "{}", line.text);

    let required = build(&node, &format!("{ALL}\ninternal_transfers = 'required'"), 10);
    let error = required.transfers(Height(1), &tip(&node), &watch(&*required, &[WATCHED])).await.unwrap_err();
    assert_eq!(error.kind, SourceErrorKind::Fatal);
    assert!(error.to_string().contains("internal_transfers"), "{error}");

    node.set_traces(true);
    let off = build(&node, &format!("{ALL}\ninternal_transfers = 'off'"), 10);
    assert_eq!(found(&node, &*off).await.len(), 1);
    assert_eq!(node.faults().calls("debug_traceBlockByHash"), 2, "only asked by auto and required, before they knew");
}

#[tokio::test]
async fn b27_a_trace_that_fails_is_never_no_internal_payments() {
    let node = node().await;
    let source = build(&node, ALL, 10);
    node.call_internal(PAYER, TOKEN, &[(WATCHED, wei(5))]);
    node.mine(1);
    let to = tip(&node);
    let watch = watch(&*source, &[WATCHED]);
    assert_eq!(source.transfers(Height(1), &to, &watch).await.unwrap().len(), 1);
    for (answer, kind) in [
        (Ok(serde_json::json!([])), SourceErrorKind::Transient { retry_after: None }),
        (Ok(serde_json::Value::Null), SourceErrorKind::Orphaned),
        (Ok(serde_json::json!([{ "error": "out of memory" }])), SourceErrorKind::Transient { retry_after: None }),
        (
            Err(confirmd_testkit::json_rpc::RpcError::new(-32000, "tracing failed")),
            SourceErrorKind::Transient { retry_after: None },
        ),
        (Err(confirmd_testkit::json_rpc::RpcError::new(-32000, "missing trie node")), SourceErrorKind::Fatal),
    ] {
        node.faults().answer_next("debug_traceBlockByHash", 1, answer.clone());
        let error = source.transfers(Height(1), &to, &watch).await.unwrap_err();
        assert_eq!(error.kind, kind, "{answer:?}: {error}");
    }
}

#[tokio::test]
async fn b30_each_withdrawal_is_a_deposit_in_wei_where_the_option_is_on() {
    let node = node().await;
    let indexes: Vec<u64> = [4_783_890_607, 1, u64::MAX].iter().map(|gwei| node.withdraw(7, WATCHED, *gwei)).collect();
    node.mine(1);
    let source = build(&node, ALL, 10);
    let gwei = U256::from(1_000_000_000u64);
    let expected: Vec<Row> = indexes
        .iter()
        .zip([4_783_890_607, 1, u64::MAX])
        .map(|(index, amount)| (format!("withdrawal:{index}"), 0, WATCHED.to_checksum(None), U256::from(amount) * gwei, 1))
        .collect();
    assert_eq!(found(&node, &*source).await, expected);
    let without = build(&node, "native = { symbol = 'ETH' }", 10);
    assert_eq!(found(&node, &*without).await, []);
}

#[tokio::test]
async fn b27_a_trace_nested_deeper_than_recursive_parsers_go_is_read() {
    let node = node().await;
    let source = build(&node, ALL, 10);
    let deepest = Call::new(TOKEN, WATCHED, wei(5));
    let nested = (0..400).fold(deepest, |inner, _| Call::new(TOKEN, PAYER, U256::ZERO).calls(vec![inner]));
    node.send(TxSpec::new(PAYER, TOKEN).calls(vec![nested]));
    node.mine(1);
    assert_eq!(found(&node, &*source).await.len(), 1);
}
