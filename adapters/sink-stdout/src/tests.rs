#![allow(clippy::unwrap_used, clippy::indexing_slicing)]
use crate::{KIND, LineSink, StdoutConfig};
use confirmd_core::{
    ChainId, ConsumerName, Delivery, DepositKey, Epoch, EventId, EventKind, Position, Sequence, Sink, SinkContext, SinkErrorKind,
    TxId,
};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use tokio::io::{AsyncReadExt, AsyncWrite};

fn delivery(n: u32) -> Delivery {
    let chain = ChainId::new("eip155:1").unwrap();
    let key = DepositKey { tx_id: TxId::new(format!("0x{n:064x}")).unwrap(), output_index: n };
    let event = EventId::derive(&chain, &key, Epoch(1_790_000_000), Sequence(1));
    let body = format!(r#"{{"id":"{event}","type":"deposit.confirmed","amount":"{n}"}}"#);
    Delivery {
        position: Position(n.into()),
        event,
        chain,
        key,
        sequence: Sequence(1),
        kind: EventKind::Confirmed,
        attempt: 1,
        body: body.into_bytes().into(),
        trace: None,
    }
}

fn lines(batch: &[Delivery]) -> Vec<u8> {
    batch.iter().flat_map(|d| d.body.iter().copied().chain([b'\n'])).collect()
}

/// Takes `room` bytes, then fails like a closed pipe; `room` can be raised from outside.
#[derive(Debug, Clone, Default)]
struct Pipe {
    state: Arc<Mutex<(Vec<u8>, usize)>>,
}

impl Pipe {
    fn with_room(room: usize) -> Self {
        Self { state: Arc::new(Mutex::new((Vec::new(), room))) }
    }

    fn make_room(&self) {
        self.state.lock().unwrap().1 = usize::MAX;
    }

    fn content(&self) -> Vec<u8> {
        self.state.lock().unwrap().0.clone()
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.state.lock().unwrap();
        let taken = bytes.len().min(state.1 - state.0.len().min(state.1));
        if taken == 0 {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        state.0.extend_from_slice(&bytes[..taken]);
        Poll::Ready(Ok(taken))
    }
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn sink<W>(writer: W) -> LineSink<W> {
    LineSink::new(writer, &StdoutConfig::default()).unwrap()
}

#[tokio::test]
async fn k1_a_check_writes_nothing() {
    let pipe = Pipe::with_room(usize::MAX);
    sink(pipe.clone()).check().await.unwrap();
    assert!(pipe.content().is_empty());
}

#[tokio::test]
async fn k2_k4_a_batch_is_written_in_order_as_its_frozen_bytes_one_line_each() {
    let pipe = Pipe::with_room(usize::MAX);
    let batch: Vec<_> = (0..10).map(delivery).collect();
    let sink = sink(pipe.clone());
    sink.deliver(&batch).await.unwrap();
    assert_eq!(pipe.content(), lines(&batch));
    let again = Delivery { attempt: 2, ..batch[3].clone() };
    sink.deliver(std::slice::from_ref(&again)).await.unwrap();
    assert!(pipe.content().ends_with(&lines(&batch[3..4])), "another attempt has the same bytes");
}

#[tokio::test]
async fn k3_a_pipe_that_closes_in_the_middle_of_a_line_accepts_the_lines_before_it() {
    let batch: Vec<_> = (0..5).map(delivery).collect();
    let pipe = Pipe::with_room(lines(&batch[..3]).len() + 7);
    let error = sink(pipe).deliver(&batch).await.unwrap_err();
    assert_eq!(error.accepted, 3);
    assert_eq!(error.error.kind, SinkErrorKind::Transient { retry_after: None });
    assert!(error.error.to_string().contains("reader has closed"), "{error}");
}

#[tokio::test]
async fn k3_the_line_after_a_torn_one_is_whole() {
    let batch: Vec<_> = (0..2).map(delivery).collect();
    let pipe = Pipe::with_room(10);
    let sink = sink(pipe.clone());
    sink.deliver(&batch).await.unwrap_err();
    pipe.make_room();
    sink.deliver(&batch).await.unwrap();
    let content = String::from_utf8(pipe.content()).unwrap();
    let whole: Vec<serde_json::Value> = content.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert_eq!(whole.len(), 2, "{content}");
    assert_eq!(content.lines().count(), 3, "{content}");
}

#[tokio::test(start_paused = true)]
async fn k6_k9_a_reader_that_stopped_reading_ends_at_the_deadline_as_transient() {
    let batch: Vec<_> = (0..3).map(delivery).collect();
    let (near, mut far) = tokio::io::duplex(lines(&batch[..1]).len() + 5);
    let sink = sink(near);
    let started = tokio::time::Instant::now();
    let error = sink.deliver(&batch).await.unwrap_err();
    assert_eq!(started.elapsed(), std::time::Duration::from_secs(15));
    assert_eq!(error.accepted, 1);
    assert_eq!(error.error.kind, SinkErrorKind::Transient { retry_after: None });

    let reader = tokio::spawn(async move {
        let mut read = Vec::new();
        far.read_to_end(&mut read).await.unwrap();
        read
    });
    sink.deliver(&batch[1..]).await.unwrap();
    drop(sink);
    let read = reader.await.unwrap();
    assert!(read.ends_with(&lines(&batch[1..])), "the events behind the torn line arrive whole");
}

#[tokio::test]
async fn d15_a_body_that_is_no_single_line_is_rejected_and_those_before_it_stand() {
    let pipe = Pipe::with_room(usize::MAX);
    let mut batch: Vec<_> = (0..3).map(delivery).collect();
    batch[1].body = b"{\n}".to_vec().into();
    let error = sink(pipe.clone()).deliver(&batch).await.unwrap_err();
    assert_eq!((error.accepted, error.error.kind), (1, SinkErrorKind::Rejected { retry_after: None }));
    assert_eq!(pipe.content(), lines(&batch[..1]));
}

#[tokio::test]
async fn the_example_builds_and_unknown_keys_or_a_time_out_of_zero_are_refused_by_name() {
    let build = |text: &str| {
        let mut table: toml::Table = text.parse().unwrap();
        table.remove("kind");
        (KIND.build)(SinkContext { consumer: ConsumerName::new("out").unwrap() }, table)
    };
    build(KIND.example.strip_prefix("[sinks.lines]").unwrap()).unwrap();
    assert!(build("tiemout = '1s'").unwrap_err().to_string().contains("tiemout"));
    assert_eq!(build("timeout = '0s'").unwrap_err().key, "timeout");
}
