//! What is sent on the fake node.

use super::harness::Pays;
use alloy::primitives::{Address, B256, LogData, U256, address};
use confirmd_testkit::FakeEvm;
use confirmd_testkit::fake_evm::{Call, CallKind, TxSpec, three_in_data_log, transfer_log, transfer_topic};

pub(super) const TOKEN: Address = address!("a0b86991c6218b36c1d19d4a2e9eb0ce3606eb48");
const OTHER_TOKEN: Address = address!("dac17f958d2ee523a2206206994597c13d831ec7");
const PAYER: Address = address!("00000000000000000000000000000000000000b0");
const ROUTER: Address = address!("00000000000000000000000000000000000000c0");
/// Repeats native payments as logs (EIP-7708).
const SYSTEM: Address = address!("fffffffffffffffffffffffffffffffffffffffe");

/// One transaction; several payments are several logs, or the calls of a contract.
pub(super) fn pay(node: &FakeEvm, pays: Pays, outputs: &[(Address, U256)]) -> B256 {
    match (pays, outputs) {
        (Pays::Tokens, [(to, amount)]) => node.erc20_transfer(TOKEN, PAYER, *to, *amount),
        (Pays::Tokens, _) => {
            let logs = outputs.iter().map(|(to, amount)| transfer_log(TOKEN, PAYER, *to, *amount)).collect();
            node.send(TxSpec::new(PAYER, ROUTER).logs(logs))
        }
        (_, [(to, amount)]) => node.transfer_native(PAYER, *to, *amount),
        _ => node.call_internal(PAYER, ROUTER, outputs),
    }
}

/// What looks like a payment to `to` and is none.
pub(super) fn pay_decoys(node: &FakeEvm, pays: Pays, to: Address) {
    let five = U256::from(5);
    let four_topics = vec![transfer_topic(), PAYER.into_word(), to.into_word(), B256::with_last_byte(1)];
    let mut nft = transfer_log(TOKEN, PAYER, to, five);
    nft.data = LogData::new_unchecked(four_topics, Default::default());
    let mut long = transfer_log(TOKEN, PAYER, to, five);
    long.data = LogData::new_unchecked(long.topics().to_vec(), vec![1u8; 64].into());
    node.send(TxSpec::new(PAYER, ROUTER).logs(vec![
        nft,
        long,
        three_in_data_log(TOKEN, PAYER, to, five),
        transfer_log(TOKEN, PAYER, to, U256::ZERO),
        transfer_log(OTHER_TOKEN, PAYER, to, five),
        transfer_log(TOKEN, to, to, five),
        transfer_log(SYSTEM, PAYER, to, five),
    ]));
    node.send(TxSpec::new(PAYER, ROUTER).value(five).logs(vec![transfer_log(TOKEN, PAYER, to, five)]).failed());
    node.failed_native(PAYER, to, five);
    node.send(TxSpec::new(PAYER, to));
    node.transfer_native(to, to, five);
    node.send(TxSpec::new(PAYER, ROUTER).calls(vec![
        Call::new(ROUTER, to, five).reverted(),
        Call::new(ROUTER, to, five).kind(CallKind::DelegateCall),
        Call::new(ROUTER, to, U256::ZERO),
        Call::new(to, to, five),
    ]));
    if pays == Pays::Tokens {
        // The coin is not listed.
        node.transfer_native(PAYER, to, five);
        node.withdraw(1, to, 5);
    }
}
