//! Which key a payment has, and that it keeps it.

use super::*;
use alloy::primitives::{Log, LogData};
use confirmd_testkit::Remine;
use confirmd_testkit::fake_evm::{Call, TxSpec, transfer_log};

fn amount(n: u64) -> U256 {
    U256::from(n)
}

/// A transaction that first emits foreign logs, then pays the same account several times.
fn noisy(n: u64) -> TxSpec {
    let foreign = Log { address: PAYER, data: LogData::new_unchecked(vec![B256::repeat_byte(7)], vec![1].into()) };
    let logs = vec![
        foreign.clone(),
        transfer_log(OTHER_TOKEN, PAYER, WATCHED, amount(9)),
        transfer_log(TOKEN, PAYER, WATCHED, amount(n)),
        foreign,
        transfer_log(TOKEN, PAYER, WATCHED_TOO, amount(n)),
        transfer_log(TOKEN, PAYER, WATCHED, amount(n)),
    ];
    let calls = vec![Call::new(TOKEN, PAYER, amount(3)), Call::new(TOKEN, WATCHED, amount(4))];
    TxSpec::new(PAYER, TOKEN).value(amount(7)).logs(logs).calls(calls)
}

fn keys(transfers: &[Transfer]) -> Vec<(String, u32)> {
    let mut keys: Vec<_> = transfers.iter().map(|t| (t.key.tx_id.to_string(), t.key.output_index)).collect();
    keys.sort();
    keys
}

#[tokio::test]
async fn b08_b35_several_payments_to_one_address_in_one_transaction_are_several_exact_deposits() {
    let node = node().await;
    let source = build(&node, ALL, 10);
    let tx = node.send(TxSpec::new(PAYER, TOKEN).logs(vec![
        transfer_log(TOKEN, PAYER, WATCHED, U256::MAX),
        transfer_log(TOKEN, PAYER, WATCHED, U256::MAX),
        transfer_log(TOKEN, PAYER, WATCHED, amount(1)),
    ]));
    node.mine(1);
    let found = source.transfers(Height(1), &tip(&node), &watch(&*source, &[WATCHED])).await.unwrap();
    let expected: Vec<_> = [(1, Amount::MAX), (2, Amount::MAX), (3, Amount::from(1))].to_vec();
    assert_eq!(found.iter().map(|t| (t.key.output_index, t.payment.amount)).collect::<Vec<_>>(), expected);
    assert!(found.iter().all(|t| t.key.tx_id.as_str() == tx.to_string() && t.payment.asset.parts().0 == "erc20"));
    assert_eq!(found[0].from.as_deref(), Some(PAYER.to_checksum(None).as_str()));
    assert_eq!(found[0].block_time, Some(Timestamp::from_seconds(EvmOptions::default().first_block_time)));
    assert_eq!(found[0].payment.address.as_str(), WATCHED.to_checksum(None));
}

#[tokio::test]
async fn b01_s8_a_transaction_mined_again_elsewhere_keeps_its_keys() {
    let node = node().await;
    let source = build(&node, ALL, 20);
    let watch = watch(&*source, &[WATCHED, WATCHED_TOO]);
    for n in 1..=3 {
        node.send(noisy(n));
    }
    node.mine(2);
    let before = source.transfers(Height(1), &tip(&node), &watch).await.unwrap();
    assert_eq!(before.len(), 3 * 4);
    for remine in [Remine::AnotherPosition, Remine::Later(1), Remine::Keep] {
        node.fork(2, remine);
        let after = source.transfers(Height(1), &tip(&node), &watch).await.unwrap();
        assert_eq!(keys(&after), keys(&before), "{remine:?}");
        assert_ne!(after[0].block.hash, before[0].block.hash);
    }
}

#[tokio::test]
async fn b04_s20_keys_equal_those_of_a_receipts_only_read_whatever_else_is_watched_and_however_it_is_read() {
    let node = node().await;
    for n in 1..=4 {
        node.send(noisy(n));
        node.transfer_native(PAYER, WATCHED_TOO, amount(n));
        node.withdraw(5, WATCHED, n);
        node.mine(1);
    }
    node.mine(30);
    let near = build(&node, ALL, 100);
    let deep = build(&node, ALL, 5);
    let to = block(4, node.hash_at(4).unwrap());
    let both = watch(&*near, &[WATCHED, WATCHED_TOO]);
    let mut truth = Vec::new();
    for height in 1..=4 {
        truth.extend(receipts_only(&node, height, &both).await);
    }
    assert_eq!(near.transfers(Height(1), &to, &both).await.unwrap(), truth);
    assert_eq!(deep.transfers(Height(1), &to, &both).await.unwrap(), truth);
    let mut told = super::truth(&node, &[WATCHED, WATCHED_TOO]);
    let mut read = rows(&truth);
    told.sort();
    read.sort();
    assert_eq!(read, told, "the node's own account");

    let one = watch(&*near, &[WATCHED]);
    let alone = near.transfers(Height(1), &to, &one).await.unwrap();
    let expected: Vec<_> = truth.iter().filter(|t| t.payment.address.as_str() == WATCHED.to_checksum(None)).cloned().collect();
    assert_eq!(alone, expected);
}

#[tokio::test]
async fn s6_payments_come_by_height_position_and_output_index() {
    let node = node().await;
    let source = build(&node, ALL, 10);
    for _ in 0..2 {
        node.withdraw(1, WATCHED, 5);
        node.send(noisy(1));
        node.transfer_native(PAYER, WATCHED, amount(2));
        node.mine(1);
    }
    let found = source.transfers(Height(1), &tip(&node), &watch(&*source, &[WATCHED])).await.unwrap();
    let order: Vec<_> = found.iter().map(|t| (t.block.height.0, t.position, t.key.output_index)).collect();
    let own = [(0, 3), (0, 6), (0, 1_000_000_001), (1, 0), (2, 0)];
    let expected: Vec<_> =
        (1..=2).flat_map(|height| own.iter().map(move |(position, index)| (height, *position, *index))).collect();
    assert_eq!(order, expected);
}
