//! What was written is read back, and nothing else is taken.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
use super::*;
use crate::*;
use proptest::prelude::*;
use std::num::NonZeroU32;

fn chain() -> ChainId {
    ChainId::new("eip155:1").unwrap()
}

fn block(height: u64) -> BlockRef {
    BlockRef { height: Height(height), hash: BlockHash::new(format!("0xb{height}")).unwrap() }
}

fn asset() -> Asset {
    Asset { id: AssetId::new("eip155:1/slip44:60").unwrap(), symbol: "ETH".into(), decimals: 18 }
}

fn transfer(number: u64) -> Transfer {
    Transfer {
        key: DepositKey { tx_id: TxId::new(format!("0xt{number}")).unwrap(), output_index: 1 },
        payment: Payment {
            address: Address::new([0xbb, 1], "0xBB01"),
            asset: asset().id,
            amount: Amount::MAX,
            memo: Some("memo \"1\"\n".into()),
        },
        block: block(number),
        block_time: Some(Timestamp(5)),
        position: 3,
        from: None,
        maturity: NonZeroU32::new(100),
    }
}

fn held<T>(number: u64, deposit: T) -> DumpedHeld<T> {
    DumpedHeld { digest: KeyDigest::of(&chain(), &transfer(number).key), event: Some(Position(1)), deposit }
}

/// One of every kind.
fn sample() -> Vec<DumpRecord> {
    let digest = KeyDigest::of(&chain(), &transfer(1).key);
    let event = Event {
        id: EventId::derive(&chain(), &transfer(1).key, Epoch(7), Sequence(1)),
        chain: chain(),
        chain_name: ChainName::new("ethereum").unwrap(),
        epoch: Epoch(7),
        sequence: Sequence(1),
        transfer: transfer(1),
        asset: asset(),
        reference: Some("customer-1".into()),
        confirmations: 3,
        decided_at: Timestamp(1_000),
        notice: None,
    };
    let body = String::from_utf8(event.to_body()).unwrap();
    let attempt = Attempt {
        number: 1,
        at: Timestamp(2),
        outcome: AttemptOutcome::Rejected,
        status: Some(404),
        error: "not found".into(),
        excerpt: Some("no \u{e4}".into()),
    };
    let reason = HaltReason::TooDeep { floor: Height(1), recorded: block(2), seen: block(3) };
    let range = HeightRange::new(Height(1), Height(9)).unwrap();
    let watched = WatchEntry {
        address: Address::new([0xbb, 1], "0xBB01"),
        reference: Some("customer-1".into()),
        from: Height(1),
        origin: WatchOrigin::Command,
        state: WatchState::Watching,
        history: Some(AskedHistory { from: Height(1), rescan: RescanId(1) }),
    };
    let requirement = Requirement { at_least: NonZeroU32::MIN, tag: Some(FinalityTag::Safe) };
    let open = OpenDelivery { key: digest, state: OpenState::Retrying { at: Timestamp(9) }, attempts: 1, attempts_ever: 2 };
    let deposit = DepositRecord {
        chain: chain(),
        key: transfer(1).key,
        address: transfer(1).payment.address,
        reference: None,
        asset: asset(),
        amount: Amount::from(7_u64),
        block: block(1),
        state: DepositState::Confirmed,
        sequence: Sequence(1),
        event: Some(Position(1)),
        seen_at: Timestamp(1),
        changed_at: Timestamp(2),
    };
    let step = |what| DumpRecord::Step(DumpedStep { digest, step: LifeStep { at: Timestamp(3), what } });
    let reorg = ReorgRecord {
        at: Timestamp(4),
        ancestor: block(1),
        depth: 1,
        orphaned: vec![block(2)],
        reverted: 0,
        dropped: 1,
        accepted: false,
    };
    vec![
        DumpRecord::Store(DumpedStore {
            id: StoreId::new("0123456789abcdef0123456789abcdef").unwrap(),
            epoch: Epoch(7),
            created_at: Timestamp(7_000),
            next_position: Position(3),
        }),
        DumpRecord::Chain(DumpedChain {
            id: chain(),
            version: StateVersion(5),
            name: Some(ChainName::new("ethereum").unwrap()),
            floor: Height(1),
            linked_from: Height(2),
            marks: [(FinalityTag::Safe, Height(2))].into(),
            halt: Some(Halt { reason, at: Timestamp(8) }),
        }),
        DumpRecord::Block(block(1)),
        DumpRecord::Block(block(2)),
        DumpRecord::Asset(ListedAsset { asset: asset(), requirement, minimum: Some(Amount::from(7)), delisted: true }),
        DumpRecord::Watched(watched),
        DumpRecord::Pending(held(2, Pending { transfer: transfer(2), last_sequence: Sequence(2) })),
        DumpRecord::Reported(held(1, Reported { transfer: transfer(1), sequence: Sequence(1) })),
        DumpRecord::Orphaned(held(3, Orphaned { transfer: transfer(3), last_sequence: Sequence(2) })),
        DumpRecord::Rescan(Rescan::new(RescanId(1), RescanScope::Asked, range, Timestamp(1))),
        DumpRecord::Reorg(reorg.clone()),
        DumpRecord::Reorg(reorg),
        DumpRecord::Archived(DumpedArchive {
            digest,
            chain: chain(),
            archived: Archived { height: Height(1), sequence: Sequence(1) },
            event: None,
        }),
        DumpRecord::Event(Box::new(DumpedEvent { position: Position(1), event, body })),
        DumpRecord::Consumer(DumpedConsumer {
            name: ConsumerName::new("ledger").unwrap(),
            filter: ConsumerFilter { chains: [chain()].into(), assets: [asset().id].into(), notices: [Notice::Detected].into() },
            began: Position(1),
            cursor: Position(2),
            paused: Some("by hand".into()),
        }),
        DumpRecord::Open(DumpedOpen::new(Position(1), open)),
        DumpRecord::Skipped(DumpedSkip { position: Position(2), at: Timestamp(1), attempts: 0 }),
        DumpRecord::Attempt(DumpedAttempt { position: Position(1), ever: 1, attempt }),
        DumpRecord::Deposit(Box::new(deposit)),
        step(LifeEvent::Seen(block(1))),
        step(LifeEvent::Settled(Height(9))),
        DumpRecord::Cursor(PullCursor {
            name: CursorName::new("reader").unwrap(),
            after: Position(1),
            used_at: Timestamp(6),
            expired: false,
        }),
    ]
}

fn head() -> DumpHead {
    DumpHead {
        format: DUMP_FORMAT,
        backend: "sled".into(),
        running: true,
        exported_at: Timestamp(1_790_000_000_000),
        written_by: "0.1.0".into(),
    }
}

fn written(records: &[DumpRecord]) -> String {
    let mut lines = Vec::new();
    let mut writer = DumpWriter::begin(head(), &mut lines);
    records.iter().for_each(|record| writer.push(record, &mut lines).unwrap());
    writer.end(&mut lines);
    String::from_utf8(lines).unwrap()
}

fn read(text: &[u8]) -> Result<(Vec<DumpRecord>, DumpSummary), DumpError> {
    let (mut reader, mut records) = (DumpReader::default(), Vec::new());
    reader.push(text, &mut records)?;
    Ok((records, reader.end()?))
}

#[test]
fn the_lines_of_a_dump_are_pinned() {
    assert_eq!(written(&sample()), include_str!("golden.ndjson"));
}

#[test]
fn what_was_written_is_read_back_in_pieces_of_any_length() {
    let text = written(&sample());
    let (records, summary) = read(text.as_bytes()).unwrap();
    assert_eq!((records, summary.head), (sample(), head()));
    assert_eq!(summary.records.values().sum::<u64>(), u64::try_from(sample().len()).unwrap());
    for length in [1, 2, 7, 1_000] {
        let (mut reader, mut records) = (DumpReader::default(), Vec::new());
        text.as_bytes().chunks(length).for_each(|piece| reader.push(piece, &mut records).unwrap());
        assert_eq!(records, sample());
        assert_eq!(reader.end().unwrap().sha256, summary.sha256);
    }
}

#[test]
fn a_dump_that_is_cut_off_anywhere_is_refused() {
    let text = written(&sample());
    for length in 0..text.len() {
        let error = read(&text.as_bytes()[..length]).unwrap_err();
        assert!(!matches!(error, DumpError::Newer(_)), "{length}: {error}");
    }
    let whole_lines = text.len() - text.lines().last().unwrap().len() - 1;
    assert!(matches!(read(&text.as_bytes()[..whole_lines]), Err(DumpError::Cut { .. })));
}

#[test]
fn lines_that_are_missing_doubled_swapped_or_of_another_dump_are_refused() {
    let text = written(&sample());
    let lines: Vec<&str> = text.lines().collect();
    let refused = |lines: Vec<&str>| assert!(read((lines.join("\n") + "\n").as_bytes()).is_err(), "{lines:#?}");
    for at in 0..lines.len() {
        refused(lines.iter().enumerate().filter(|(n, _)| *n != at).map(|(_, line)| *line).collect());
        refused(lines.iter().enumerate().flat_map(|(n, line)| vec![*line; if n == at { 2 } else { 1 }]).collect());
        for other in at + 1..lines.len() {
            let mut swapped = lines.clone();
            swapped.swap(at, other);
            if swapped != lines {
                refused(swapped);
            }
        }
    }
    let mut other = sample();
    other.truncate(2);
    let other = written(&other);
    refused(lines.iter().copied().take(lines.len() - 1).chain(other.lines().last()).collect());
    refused(lines.iter().copied().chain(["{}"]).collect());
    refused(lines.iter().copied().chain([""]).collect());
}

#[test]
fn wrong_numbers_of_records_are_refused_by_name() {
    let text = written(&sample());
    let wrong = text.replace("\"block\":2", "\"block\":3");
    assert_ne!(wrong, text);
    let error = read(wrong.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("numbers of records") && error.contains("line 24"), "{error}");
}

#[test]
fn a_newer_format_is_refused_with_what_to_do_and_anything_else_as_foreign() {
    let newer = "{\"confirmd_state\":{\"format\":2,\"shape\":[]},\"more\":1}\n";
    let error = read(newer.as_bytes()).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, DumpError::Newer(2)) && text.contains("format 2") && text.contains("format 1"), "{text}");
    for foreign in ["", "\n", "hello\n", "{}\n", "[1]\n", "\u{0}\u{0}"] {
        assert!(matches!(read(foreign.as_bytes()), Err(DumpError::Foreign(_))), "{foreign:?}");
    }
}

#[test]
fn a_store_whose_records_are_out_of_order_is_not_written() {
    let mut lines = Vec::new();
    let mut writer = DumpWriter::begin(head(), &mut lines);
    assert!(writer.push(&sample()[1], &mut lines).is_err());
    let mut writer = DumpWriter::begin(head(), &mut lines);
    writer.push(&sample()[0], &mut lines).unwrap();
    assert!(matches!(writer.push(&sample()[2], &mut lines), Err(StoreError::Refused { .. })), "a block without a chain");
    let open = sample().into_iter().find(|record| matches!(record, DumpRecord::Open(_))).unwrap();
    assert!(writer.push(&open, &mut lines).is_err(), "a delivery without a consumer");
}

proptest! {
    #[test]
    fn any_altered_byte_is_refused(at in any::<prop::sample::Index>(), flip in 1_u8..=255) {
        let mut text = written(&sample()).into_bytes();
        let at = at.index(text.len());
        text[at] ^= flip;
        prop_assert!(read(&text).is_err(), "byte {at} may be changed by {flip}");
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in prop::collection::vec(any::<u8>(), 0..400), cut in any::<prop::sample::Index>()) {
        drop(read(&text));
        let whole = written(&sample());
        let head = &whole.as_bytes()[..cut.index(whole.len())];
        drop(read(&[head, &text].concat()));
    }
}
