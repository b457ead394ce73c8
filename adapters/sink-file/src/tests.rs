#![allow(clippy::unwrap_used, clippy::indexing_slicing)]
use crate::{FileConfig, FileSink, KIND, tail};
use confirmd_core::{
    Amount, Asset, AssetId, BlockHash, BlockRef, ChainId, ChainName, ConsumerName, Delivery, DepositKey, Epoch, Event, EventId,
    HumanDuration, Payment, Position, Sequence, Sink, SinkContext, SinkErrorKind, Timestamp, Transfer, TxId,
};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

fn delivery(n: u32) -> Delivery {
    let chain = ChainId::new("eip155:1").unwrap();
    let key = DepositKey { tx_id: TxId::new(format!("0x{n:064x}")).unwrap(), output_index: n };
    let asset = Asset { id: AssetId::new("eip155:1/slip44:60").unwrap(), symbol: "ETH".into(), decimals: 18 };
    let event = Event {
        id: EventId::derive(&chain, &key, Epoch(1_790_000_000), Sequence(1)),
        chain,
        chain_name: ChainName::new("ethereum").unwrap(),
        epoch: Epoch(1_790_000_000),
        sequence: Sequence(1),
        transfer: Transfer {
            key,
            payment: Payment {
                address: confirmd_core::Address::new([0xbb], "0xBB"),
                asset: asset.id.clone(),
                amount: Amount::MAX,
                memo: Some("two\nlines".into()),
            },
            block: BlockRef { height: confirmd_core::Height(7), hash: BlockHash::new("0xdd").unwrap() },
            block_time: None,
            position: 0,
            from: None,
            maturity: None,
        },
        asset,
        reference: None,
        confirmations: 20,
        decided_at: Timestamp::from_seconds(1_767_225_600),
        notice: None,
    };
    let body = event.to_body().into();
    Delivery::new(Position(n.into()), event, body, 1)
}

fn lines(batch: &[Delivery]) -> Vec<u8> {
    batch.iter().flat_map(|d| d.body.iter().copied().chain([b'\n'])).collect()
}

fn sink(path: &Path) -> FileSink {
    FileSink::new(&FileConfig { path: path.to_owned(), timeout: HumanDuration(Duration::from_secs(15)) }).unwrap()
}

struct Dir(tempfile::TempDir);

impl Dir {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
    fn path(&self) -> std::path::PathBuf {
        self.0.path().join("deposits.jsonl")
    }
    fn read(&self) -> Vec<u8> {
        std::fs::read(self.path()).unwrap()
    }
}

#[test]
fn the_beginning_of_a_line_that_a_torn_tail_is_known_by_is_that_of_the_wire_format() {
    assert!(delivery(1).body.starts_with(tail::LINE_START));
}

#[tokio::test]
async fn k1_a_check_opens_the_file_and_writes_nothing() {
    let dir = Dir::new();
    sink(&dir.path()).check().await.unwrap();
    assert!(dir.read().is_empty());
}

#[tokio::test]
async fn k2_k4_batches_are_appended_in_order_as_their_frozen_bytes_also_by_the_next_process() {
    let dir = Dir::new();
    let batch: Vec<_> = (0..10).map(delivery).collect();
    {
        let sink = sink(&dir.path());
        sink.deliver(&batch[..4]).await.unwrap();
        sink.deliver(&batch[4..7]).await.unwrap();
    }
    sink(&dir.path()).deliver(&batch[7..]).await.unwrap();
    assert_eq!(dir.read(), lines(&batch));
    for line in String::from_utf8(dir.read()).unwrap().lines() {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(event["amount"], Amount::MAX.to_string(), "D17: amounts are text");
    }
}

#[tokio::test]
async fn k3_k10_a_torn_line_is_cut_at_the_next_open_and_its_event_follows_whole() {
    let dir = Dir::new();
    let batch: Vec<_> = (0..4).map(delivery).collect();
    let whole = lines(&batch[..2]);
    for torn_at in [1, 5, 40, batch[2].body.len()] {
        let mut content = whole.clone();
        content.extend_from_slice(&batch[2].body[..torn_at]);
        std::fs::write(dir.path(), content).unwrap();
        sink(&dir.path()).deliver(&batch[2..]).await.unwrap();
        assert_eq!(dir.read(), lines(&batch), "torn behind {torn_at} bytes");
    }
}

#[tokio::test]
async fn k3_a_line_torn_under_the_running_sink_does_not_corrupt_the_next() {
    let dir = Dir::new();
    let batch: Vec<_> = (0..2).map(delivery).collect();
    let sink = sink(&dir.path());
    sink.deliver(&batch[..1]).await.unwrap();
    std::fs::OpenOptions::new().append(true).open(dir.path()).unwrap().write_all(&batch[1].body[..30]).unwrap();
    sink.deliver(&batch[1..]).await.unwrap();
    assert_eq!(dir.read(), lines(&batch));
}

#[tokio::test]
async fn a_file_that_ends_in_somebody_elses_text_is_left_alone_and_the_consumer_pauses() {
    let dir = Dir::new();
    std::fs::write(dir.path(), "my own notes").unwrap();
    let error = sink(&dir.path()).check().await.unwrap_err();
    assert_eq!(error.kind, SinkErrorKind::Fatal);
    assert!(error.to_string().contains("name another file"), "{error}");
    let error = sink(&dir.path()).deliver(&[delivery(1)]).await.unwrap_err();
    assert_eq!((error.accepted, error.error.kind), (0, SinkErrorKind::Fatal));
    assert_eq!(dir.read(), b"my own notes");
}

#[tokio::test]
async fn a_file_rotated_or_removed_or_truncated_under_the_sink_is_opened_anew() {
    let dir = Dir::new();
    let batch: Vec<_> = (0..4).map(delivery).collect();
    let sink = sink(&dir.path());
    sink.deliver(&batch[..1]).await.unwrap();
    let rotated = dir.0.path().join("deposits.jsonl.1");
    std::fs::rename(dir.path(), &rotated).unwrap();
    sink.deliver(&batch[1..2]).await.unwrap();
    assert_eq!(std::fs::read(&rotated).unwrap(), lines(&batch[..1]));
    assert_eq!(dir.read(), lines(&batch[1..2]));

    std::fs::remove_file(dir.path()).unwrap();
    sink.deliver(&batch[2..3]).await.unwrap();
    assert_eq!(dir.read(), lines(&batch[2..3]));

    std::fs::File::options().write(true).open(dir.path()).unwrap().set_len(0).unwrap();
    sink.deliver(&batch[3..]).await.unwrap();
    assert_eq!(dir.read(), lines(&batch[3..]));
}

#[tokio::test]
async fn d15_a_body_that_is_no_single_line_is_rejected_and_those_before_it_are_on_disk() {
    let dir = Dir::new();
    let mut batch: Vec<_> = (0..4).map(delivery).collect();
    batch[2].body = b"{\n}".to_vec().into();
    let error = sink(&dir.path()).deliver(&batch).await.unwrap_err();
    assert_eq!((error.accepted, error.error.kind), (2, SinkErrorKind::Rejected { retry_after: None }));
    assert_eq!(dir.read(), lines(&batch[..2]));
    let error = sink(&dir.path()).deliver(&batch[2..]).await.unwrap_err();
    assert_eq!(error.accepted, 0);
}

#[tokio::test]
async fn a_missing_directory_is_a_mistake_at_the_start_and_transient_later() {
    let dir = Dir::new();
    let path = dir.0.path().join("missing").join("deposits.jsonl");
    let sink = sink(&path);
    let error = sink.check().await.unwrap_err();
    assert_eq!(error.kind, SinkErrorKind::Fatal);
    assert!(error.to_string().contains("create its directory"), "{error}");
    let error = sink.deliver(&[delivery(1)]).await.unwrap_err();
    assert_eq!((error.accepted, error.error.kind), (0, SinkErrorKind::Transient { retry_after: None }));
    std::fs::create_dir(dir.0.path().join("missing")).unwrap();
    sink.deliver(&[delivery(1)]).await.unwrap();
}

#[tokio::test]
async fn a_directory_and_a_file_of_another_writer_are_refused_at_the_start() {
    let dir = Dir::new();
    let error = sink(dir.0.path()).check().await.unwrap_err();
    assert_eq!(error.kind, SinkErrorKind::Fatal);
    assert!(error.to_string().contains("not a regular file"), "{error}");

    let first = sink(&dir.path());
    first.check().await.unwrap();
    let error = sink(&dir.path()).check().await.unwrap_err();
    assert_eq!(error.kind, SinkErrorKind::Fatal);
    assert!(error.to_string().contains("its own file"), "{error}");
}

#[test]
fn the_example_builds_and_mistakes_are_refused_by_name() {
    let build = |text: &str| {
        let mut table: toml::Table = text.parse().unwrap();
        table.remove("kind");
        (KIND.build)(SinkContext { consumer: ConsumerName::new("file").unwrap() }, table)
    };
    build(KIND.example.strip_prefix("[sinks.archive]").unwrap()).unwrap();
    assert!(build("").unwrap_err().to_string().contains("path"));
    assert!(build("path = 'a'\nrotate = 1").unwrap_err().to_string().contains("rotate"));
    assert_eq!(build("path = '..'").unwrap_err().key, "path");
    assert_eq!(build("path = '~/a.jsonl'").unwrap_err().key, "path");
    assert_eq!(build("path = 'a'\ntimeout = '0s'").unwrap_err().key, "timeout");
}
