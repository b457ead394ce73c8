//! Events for the suites: of a chain that does not exist, but whole and of the wire format.

use confirmd_core::{
    Address, Amount, AskedHistory, Asset, AssetId, BlockHash, BlockRef, ChainId, ChainName, Delivery, DepositKey, Epoch, Event,
    EventId, Height, HeightRange, ListedAsset, Payment, Position, Requirement, Rescan, RescanId, RescanScope, Sequence,
    Timestamp, Transfer, TxId, WatchEntry, WatchOrigin, WatchState,
};
use std::num::NonZeroU32;

/// The epoch of the sample's events, in Unix seconds.
const EPOCH: Epoch = Epoch(1_790_000_000);

/// One of the sample's chains.
pub(crate) fn chain(number: u64) -> ChainId {
    ChainId::new(format!("eip155:99900{number}")).expect("invariant: digits behind eip155:")
}

/// The chain's only asset, or another one.
pub(crate) fn asset(chain: &ChainId, number: u64) -> Asset {
    let id = AssetId::native(chain, u32::try_from(number).unwrap_or(u32::MAX)).expect("invariant: digits behind slip44:");
    Asset { id, symbol: format!("T{number}"), decimals: 8 }
}

/// The asset as an operator lists it.
pub(crate) fn listed(chain: &ChainId, number: u64, delisted: bool) -> ListedAsset {
    let requirement = Requirement::confirmations(NonZeroU32::MIN);
    ListedAsset { asset: asset(chain, number), requirement, minimum: None, delisted }
}

/// A deposit's key; numbers are keys.
pub(crate) fn key(number: u64) -> DepositKey {
    let tx_id = TxId::new(format!("0x{number:064x}")).expect("invariant: hex digits");
    DepositKey { tx_id, output_index: u32::try_from(number % 3).unwrap_or(0) }
}

/// One of the watched addresses.
pub(crate) fn address(number: u64) -> Address {
    Address::new(number.to_be_bytes(), format!("0xa{number:039x}"))
}

/// A block; `branch` tells two of one height apart.
pub(crate) fn block(height: u64, branch: u64) -> BlockRef {
    let hash = BlockHash::new(format!("0xb{branch}-{height}")).expect("invariant: printable");
    BlockRef { height: Height(height), hash }
}

/// A rescan of ten heights, of which some were read.
pub(crate) fn rescan(number: u64, read: u64) -> Rescan {
    let range = HeightRange { from: Height(number + 1), to: Height(number + 10) };
    let mut rescan = Rescan::new(RescanId(number), RescanScope::Asked, range, Timestamp(number));
    rescan.read_to = Some(block(read, 0));
    rescan.read(&HeightRange { from: Height(read), to: Height(read + 1) });
    rescan
}

/// A watched address with a label.
pub(crate) fn watch(number: u64, state: WatchState) -> WatchEntry {
    WatchEntry {
        address: address(number),
        reference: Some(format!("customer-{number}").into()),
        from: Height(1),
        origin: WatchOrigin::Config,
        state,
        history: number.is_multiple_of(2).then_some(AskedHistory { from: Height(number), rescan: RescanId(number) }),
    }
}

/// Payment `number`, in a block.
pub(crate) fn transfer(chain: &ChainId, number: u64, block: BlockRef) -> Transfer {
    let payment =
        Payment { address: address(number % 7), asset: asset(chain, 0).id, amount: Amount::from(number + 1), memo: None };
    Transfer { key: key(number), payment, block, block_time: None, position: 0, from: None, maturity: None }
}

/// The event of this sequence.
pub(crate) fn event(chain: &ChainId, transfer: Transfer, sequence: Sequence) -> Event {
    Event {
        id: EventId::derive(chain, &transfer.key, EPOCH, sequence),
        chain: chain.clone(),
        chain_name: ChainName::new("testchain").expect("invariant: a word"),
        epoch: EPOCH,
        sequence,
        asset: asset(chain, 0),
        reference: Some("customer".into()),
        confirmations: if sequence.stands() { 12 } else { 0 },
        decided_at: Timestamp(transfer.block.height.0.saturating_mul(1_000)),
        notice: None,
        transfer,
    }
}

/// Key `number` at a sequence, as a sink is handed it the first time.
pub(crate) fn delivery(number: u64, sequence: u64) -> Delivery {
    let chain = chain(0);
    let event = event(&chain, transfer(&chain, number, block(number + 1, 0)), Sequence(sequence));
    let body = event.to_body().into();
    Delivery::new(Position(number * 10 + sequence), event, body, 1)
}
