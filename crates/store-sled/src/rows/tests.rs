#![allow(clippy::unwrap_used, clippy::indexing_slicing)]
use super::*;
use crate::record::seal;
use crate::tests::support::*;
use confirmd_core::*;

/// One line per kind of record: its name and the bytes of a sample under the key `00`.
fn samples() -> String {
    let mut lines = String::new();
    let mut line = |name: &str, sealed: Vec<u8>| lines.push_str(&format!("{name} {}\n", const_hex::encode(sealed)));
    let transfer = Transfer {
        block_time: Some(Timestamp(5)),
        from: Some("0xf".into()),
        maturity: std::num::NonZeroU32::new(100),
        ..transfer(3, 9)
    };
    let event = Some(Position(4));
    line("meta", seal(&[0], &Meta { format: 3, epoch: Epoch(7), instance: [9; 16], created_at: Timestamp(7000) }).unwrap());
    line("progress", seal(&[0], &Progress::new(Epoch(7))).unwrap());
    let halt = Halt { reason: HaltReason::BrokenContract { detail: "S7".into() }, at: Timestamp(1) };
    let head = HeadRow {
        chain: chain(),
        version: 300,
        name: ChainName::new("ethereum").ok(),
        floor: Height(5),
        linked_from: Height(6),
        marks: vec![(FinalityTag::Safe, Height(1)), (FinalityTag::Finalized, Height(2))],
        halt: Some(serde_json::to_string(&halt).unwrap()),
    };
    line("head", seal(&[0], &head).unwrap());
    line("trail", seal(&[0], &block(9).hash).unwrap());
    let pending = Pending { transfer: transfer.clone(), last_sequence: Sequence(2) };
    line("pending", seal(&[0], &HeldRow { deposit: pending, event }).unwrap());
    let reported = Reported { transfer: transfer.clone(), sequence: Sequence(3) };
    line("reported", seal(&[0], &HeldRow { deposit: reported, event }).unwrap());
    let orphaned = Orphaned { transfer: transfer.clone(), last_sequence: Sequence(2) };
    line("orphaned", seal(&[0], &HeldRow { deposit: orphaned, event: None }).unwrap());
    let segment = WatchSegmentRow { file: 1, records: 2, index_at: 300, bytes: 400, sum: 5 };
    let list = WatchListRow { next_file: 3, segments: vec![segment], log: Some(WatchLogRow { file: 2, bytes: 300, sum: 9 }) };
    line("watch_list", seal(&[0], &list).unwrap());
    line("asset", seal(&[0], &listed()).unwrap());
    let archived = Archived { height: Height(9), sequence: Sequence(3) };
    line("archive", seal(&[0], &ArchiveRow { chain: 1, archived, event }).unwrap());
    let decided = Event { transfer, ..event_of(&chain(), 3, 9, 3) };
    line("event", seal(&[0], &EventRow { body: decided.to_body().into(), event: decided }).unwrap());
    line("event_id", seal(&[0], &Position(300)).unwrap());
    let filter = ConsumerFilter { chains: [chain()].into(), assets: [asset().id].into(), notices: [Notice::Settled].into() };
    let name = ConsumerName::new("ledger").unwrap();
    let consumer = ConsumerRow { name, filter, began: Position(1), cursor: Position(9), paused: Some("gone".into()) };
    line("consumer", seal(&[0], &consumer).unwrap());
    for state in [OpenState::Queued, OpenState::Retrying { at: Timestamp(8) }, OpenState::Dead] {
        let open = OpenDelivery { key: KeyDigest([5; 16]), state, attempts: 2, attempts_ever: 11 };
        line("open", seal(&[0], &OpenRow::from(open)).unwrap());
    }
    line("attempt", seal(&[0], &AttemptRow::from(&attempt(2, 77))).unwrap());
    line("skipped", seal(&[0], &SkippedRow { at: Timestamp(6), attempts: 9 }).unwrap());
    let deposit = DepositRecord {
        chain: chain(),
        key: key(3),
        address: address(3),
        reference: Some("customer-3".into()),
        asset: asset(),
        amount: Amount::MAX,
        block: block(9),
        state: DepositState::Settled,
        sequence: Sequence(3),
        event,
        seen_at: Timestamp(1),
        changed_at: Timestamp(2),
    };
    line("deposit", seal(&[0], &deposit).unwrap());
    line("index", seal(&[0], &()).unwrap());
    line("rescan", seal(&[0], &rescan(7, 300)).unwrap());
    lines
}

#[test]
fn t8_the_bytes_of_every_kind_of_record_are_pinned() {
    let golden = include_str!("golden.txt");
    let samples = samples();
    for (found, pinned) in samples.lines().zip(golden.lines()) {
        assert_eq!(found, pinned, "the format of a record changed: raise FORMAT and write a migration");
    }
    assert_eq!(samples.lines().count(), golden.lines().count());
}

#[test]
fn t8_keys_are_pinned_and_sort_by_their_numbers() {
    use crate::keys;
    use crate::record::Kind;
    let hex = |key: keys::Key| const_hex::encode(key.as_ref());
    assert_eq!(hex(keys::trail(1, Height(256))), "11000000010000000000000100");
    assert_eq!(hex(keys::event(Position(1))), "200000000000000001");
    assert_eq!(hex(keys::attempt(2, Position(3), 4)), "3200000002000000000000000300000004");
    assert_eq!(hex(keys::archive(&KeyDigest([7; 16]))), format!("17{}", "07".repeat(16)));
    assert_eq!(
        hex(keys::index_entry(Kind::ByState, &[3], Timestamp(1), &KeyDigest([7; 16]))),
        format!("46030000000000000001{}", "07".repeat(16))
    );
    assert!(keys::event(Position(255)).as_ref() < keys::event(Position(256)).as_ref());
    for (n, kind) in Kind::ALL.iter().enumerate() {
        assert!(Kind::ALL.iter().skip(n + 1).all(|other| other.byte() != kind.byte()));
    }
}

#[test]
#[ignore = "prints the lines of golden.txt, for a new format version"]
fn print_the_golden_lines() {
    println!("{}", samples());
}
