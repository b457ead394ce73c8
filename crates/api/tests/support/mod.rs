//! An operator that remembers, and requests byte by byte.
#![allow(dead_code)]

use async_trait::async_trait;
use confirmd_api::server::{self, ServerOptions};
use confirmd_api::view::*;
use confirmd_api::{Cursor, DumpStream, Operator, OperatorError, Page};
use confirmd_core::{ChainId, ChainName, ConsumerName, CursorName, EventId, Height, Position};
use futures::StreamExt as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Remembers what it was asked and answers with what shows that it arrived.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) asked: Mutex<Vec<String>>,
    pub(crate) alarm: Option<String>,
}

impl Recorder {
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    fn note(&self, what: impl std::fmt::Debug) {
        self.asked.lock().unwrap().push(format!("{what:?}"));
    }
}

#[async_trait]
impl Operator for Recorder {
    async fn status(&self) -> Result<Status, OperatorError> {
        let chain = ChainView {
            name: ChainName::new("btc").unwrap(),
            chain: ChainId::new("eip155:1").unwrap(),
            phase: Phase::Following,
            detail: None,
            halt: None,
            lag_blocks: None,
            catch_up: None,
            alarm: self.alarm.clone(),
            tip: None,
            source_tip: None,
            floor: Some(Height(7)),
            pending: 1,
            reported: 2,
            watched: 3,
            last_reorg: None,
            rescans: vec![],
            requests: None,
            updated_at: None,
        };
        Ok(Status {
            version: "1".into(),
            revision: "abc".into(),
            running: true,
            started_at: None,
            state: "state".into(),
            epoch: 5,
            chains: vec![chain],
            consumers: vec![],
            configuration: None,
        })
    }
    async fn chain(&self, chain: &ChainName) -> Result<ChainDetail, OperatorError> {
        self.note(chain);
        let chain = self.status().await?.chains.remove(0);
        Ok(ChainDetail { chain, lag_seconds: Some(3), reorgs: vec![], endpoints: vec![], endpoints_error: None, connections: 1 })
    }
    async fn preview(&self, chain: &ChainName, request: ResumeRequest) -> Result<ResumeView, OperatorError> {
        self.note((chain, request));
        Ok(ResumeView::default())
    }
    async fn deposit(&self, chain: &ChainName, tx_id: &str, output_index: u32) -> Result<DepositLife, OperatorError> {
        self.note((chain, tx_id, output_index));
        Err(OperatorError::not_found("nothing is here"))
    }
    async fn explain(&self, chain: &ChainName, tx_id: &str, query: &ExplainQuery) -> Result<Explanation, OperatorError> {
        self.note((chain, query));
        Ok(Explanation { tx_id: tx_id.into(), ..Explanation::default() })
    }
    async fn events(&self, query: &EventsQuery) -> Result<EventsPage, OperatorError> {
        self.note(query);
        if query.cursor.is_some() {
            return Err(OperatorError::new(confirmd_api::ErrorKind::Expired, "the cursor has expired"));
        }
        let event = serde_json::value::RawValue::from_string("{\"id\":\"evt_1\",  \"amount\":\"5\"}".into()).unwrap();
        let events = if query.after.is_none() { vec![event] } else { std::future::pending().await };
        Ok(EventsPage { events, next: Cursor::new("next"), gap: 0, places: vec![Cursor::new("next")] })
    }
    async fn cursors(&self) -> Result<Vec<CursorView>, OperatorError> {
        Ok(vec![])
    }
    async fn put_cursor(&self, name: &CursorName, put: PutCursor) -> Result<CursorView, OperatorError> {
        self.note((name, &put));
        Ok(CursorView { name: name.clone(), after: Cursor::new("a"), used_at: "now".into(), expired: false })
    }
    async fn remove_cursor(&self, name: &CursorName) -> Result<(), OperatorError> {
        self.note(name);
        Ok(())
    }
    async fn dead_letters(&self, query: &DeadQuery) -> Result<Vec<DeadGroup>, OperatorError> {
        self.note(query);
        Ok(vec![])
    }
    async fn replay(&self, consumer: &ConsumerName, request: Replay) -> Result<Counted, OperatorError> {
        self.note((consumer, &request));
        Ok(Counted { count: 2 })
    }
    async fn test_event(&self, consumer: &ConsumerName) -> Result<TestResult, OperatorError> {
        self.note(consumer);
        Err(OperatorError::not_found("nothing is here"))
    }
    async fn watched(&self, query: &WatchQuery) -> Result<Page<Watched>, OperatorError> {
        self.note(query);
        Ok(Page { items: vec![], next: Some(Cursor::of(&("btc", 5))) })
    }
    async fn watch_add(&self, entries: Vec<WatchRequest>) -> Result<Vec<WatchAdded>, OperatorError> {
        self.note(&entries);
        let count = u64::try_from(entries.len()).unwrap();
        Ok(entries
            .first()
            .map(|e| WatchAdded { chain: e.chain.clone(), count, from_height: Height(9), rescan: None, relabelled: vec![] })
            .into_iter()
            .collect())
    }
    async fn watch_remove(&self, chain: &ChainName, addresses: Vec<String>) -> Result<Counted, OperatorError> {
        self.note((chain, &addresses));
        Ok(Counted { count: 1 })
    }
    async fn deposits(&self, query: &DepositQuery) -> Result<Page<DepositView>, OperatorError> {
        self.note(query);
        Ok(Page { items: vec![], next: None })
    }
    async fn deliveries(&self, query: &DeliveryQuery) -> Result<Page<DeliveryView>, OperatorError> {
        self.note(query);
        Ok(Page { items: vec![], next: None })
    }
    async fn delivery(&self, event: &EventId) -> Result<DeliveryDetail, OperatorError> {
        Err(OperatorError::not_found(format!("no event {event}")))
    }
    async fn requeue(&self, consumer: &ConsumerName, request: Requeue) -> Result<Counted, OperatorError> {
        self.note((consumer, &request));
        Ok(Counted { count: 4 })
    }
    async fn skip(&self, consumer: &ConsumerName, event: &EventId) -> Result<(), OperatorError> {
        self.note((consumer, event));
        Ok(())
    }
    async fn consumers(&self) -> Result<Vec<ConsumerView>, OperatorError> {
        Ok(vec![])
    }
    async fn pause(&self, consumer: &ConsumerName, why: Option<String>) -> Result<ConsumerView, OperatorError> {
        self.note((consumer, &why));
        Ok(ConsumerView {
            name: consumer.clone(),
            kind: None,
            paused: why,
            cursor: Position(1),
            waiting: 0,
            retrying: 0,
            dead: 0,
            blocked: 0,
        })
    }
    async fn rename(&self, _: &ConsumerName, _: &ConsumerName) -> Result<(), OperatorError> {
        Err(OperatorError::failed("never over HTTP"))
    }
    async fn purge(&self, _: &ConsumerName) -> Result<Counted, OperatorError> {
        Err(OperatorError::failed("never over HTTP"))
    }
    async fn reload(&self) -> Result<Reloaded, OperatorError> {
        self.note("reload");
        Ok(Reloaded::default())
    }
    async fn export(&self) -> Result<DumpStream, OperatorError> {
        self.note("export");
        let second = match &self.alarm {
            None => Ok("{\"end\":1}\n".into()),
            Some(why) => Err(OperatorError::failed(why.clone())),
        };
        Ok(futures::stream::iter([Ok("{\"line\":1}\n".into()), second]).boxed())
    }

    async fn rescans(&self, chain: &ChainName) -> Result<Vec<RescanView>, OperatorError> {
        self.note(chain);
        Ok(vec![])
    }
    async fn rescan(&self, chain: &ChainName, request: RescanRequest) -> Result<RescanView, OperatorError> {
        self.note((chain, request));
        Err(OperatorError::conflict("nothing to read"))
    }
    async fn order_rescan(&self, chain: &ChainName, id: u64, order: RescanOrder) -> Result<RescanView, OperatorError> {
        self.note((chain, id, order));
        Err(OperatorError::conflict("no such rescan"))
    }
    async fn coverage(&self, chain: &ChainName, query: &CoverageQuery) -> Result<Coverage, OperatorError> {
        self.note((chain, query));
        Ok(Coverage::default())
    }

    async fn resume(&self, chain: &ChainName, request: ResumeRequest) -> Result<ResumeView, OperatorError> {
        self.note((chain, request));
        Err(OperatorError::conflict("not halted"))
    }
}

/// On a free port of the loopback interface.
pub(crate) async fn started() -> SocketAddr {
    serve(ServerOptions::new("127.0.0.1:0".parse().unwrap()), Arc::default()).await
}

pub(crate) async fn serve(options: ServerOptions, operator: Arc<Recorder>) -> SocketAddr {
    let bound = server::bind(options).await.unwrap();
    let address = bound.address();
    tokio::spawn(bound.serve(operator, "run-1", std::future::pending()));
    address
}

/// The head of a request, with everything a change needs.
pub(crate) fn head(method: &str, path: &str, host: SocketAddr, more: &str) -> String {
    let change = if method == "GET" { "" } else { "\r\nX-Confirmd-Request: 1\r\nContent-Type: application/json" };
    format!("{method} {path} HTTP/1.1\r\nHost: {host}{change}{more}")
}

pub(crate) fn status_of(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("no status in {answer:?}"))
}

/// Sends these bytes on a new connection and reads to its end.
pub(crate) async fn raw(address: SocketAddr, head: &str, body: &str) -> String {
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let text = format!("{head}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}
