//! The HTTP side and its knobs.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use tokio::sync::watch;

use super::event::WireEvent;
use super::ledger::Ledger;
use super::operational::OperationalRequest;
use super::signature::{self, Key};
use super::spoilt::SpoiltBody;
use crate::http::{LoopbackServer, close_connection};

/// How far `webhook-timestamp` may be from the receiver's clock, where it has one.
const TOLERANCE_S: u64 = 300;
/// The types of operational events begin so.
const OPERATIONAL: &str = "operations.";

/// A clock: Unix seconds.
pub type Now = Arc<dyn Fn() -> u64 + Send + Sync>;

/// How to start a [`Receiver`].
#[derive(Clone)]
pub struct ReceiverOptions {
    /// `whsec_` and base64; requests signed with any of them are accepted.
    pub secrets: Vec<String>,
    /// Judges `webhook-timestamp`, 5 minutes either way. None: it is not judged.
    pub now: Option<Now>,
}

impl fmt::Debug for ReceiverOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReceiverOptions").field("secrets", &self.secrets.len()).finish_non_exhaustive()
    }
}

/// What the receiver does with a request. Only those that say so touch the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Behaviour {
    /// Apply it and answer 204.
    Apply,
    /// Answer with this status and no body.
    Status(u16),
    /// Answer with this status, header (lower-case name) and body.
    Answer {
        /// The status.
        status: u16,
        /// For example `("retry-after", "7")` or `("location", "/elsewhere")`.
        header: Option<(&'static str, String)>,
        /// The body.
        body: Vec<u8>,
    },
    /// Apply it, then answer with this status: the customer crashed after the commit.
    ApplyThen(u16),
    /// Apply it and answer 204 after this time.
    Delay(Duration),
    /// Apply it and never answer: the connection was lost without a word after the commit.
    ApplyThenHang,
    /// Apply it, answer 200 and go on answering for ever.
    ApplyThenFlood,
    /// Answer 200 with the beginning of a body, then close the connection.
    BreakOff,
    /// Never answer.
    Hang,
    /// Close the connection without an answer.
    Close,
}

/// One request.
#[derive(Debug, Clone)]
pub struct Received {
    /// The order of arrival, from 0.
    pub number: usize,
    /// `webhook-id`, empty when it is missing.
    pub id: String,
    /// All headers.
    pub headers: HeaderMap,
    /// The raw body.
    pub body: Vec<u8>,
    /// The event, or why the request was refused with 401 (signature) or 400 (body).
    pub event: Result<WireEvent, String>,
    /// The status that was answered; None while it hangs or was closed.
    pub answered: Option<u16>,
    /// Whether the ledger was given the event (which may ignore it).
    pub applied: bool,
}

/// What a request holds.
enum Message {
    Deposit(Box<WireEvent>),
    Operational(Value),
}

/// Where a request is written down.
#[derive(Clone, Copy)]
enum Entry {
    Request(usize),
    Operational(usize),
}

#[derive(Default)]
struct Books {
    requests: Vec<Received>,
    operational: Vec<OperationalRequest>,
    takes_operational: bool,
    ledger: Ledger,
    next: VecDeque<Behaviour>,
    always: Option<Behaviour>,
}

struct Shared {
    keys: Vec<Key>,
    now: Option<Now>,
    books: Mutex<Books>,
    changed: watch::Sender<u64>,
    flooded: Arc<AtomicU64>,
}

/// A running receiver. Clones steer the same one.
#[derive(Clone)]
pub struct Receiver {
    shared: Arc<Shared>,
    server: Arc<LoopbackServer>,
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("address", &self.server.address()).finish_non_exhaustive()
    }
}

impl Receiver {
    /// Starts with an empty ledger.
    ///
    /// # Errors
    /// When a secret has not the form `whsec_` + base64, or no port is free.
    pub async fn start(options: ReceiverOptions) -> io::Result<Self> {
        let shared = Shared::new(options)?;
        let server = LoopbackServer::start(router(&shared)).await?;
        Ok(Self { shared, server: Arc::new(server) })
    }

    /// A receiver without a socket: whoever calls it brings its requests to [`app`](Self::app).
    ///
    /// # Errors
    /// When a secret has not the form `whsec_` + base64.
    pub fn detached(options: ReceiverOptions) -> io::Result<Self> {
        let shared = Shared::new(options)?;
        let server = LoopbackServer::detached(router(&shared));
        Ok(Self { shared, server: Arc::new(server) })
    }

    /// What answers its requests.
    pub fn app(&self) -> Router {
        self.server.app()
    }

    /// `http://127.0.0.1:port/hooks`; every path is served.
    pub fn url(&self) -> String {
        format!("http://{}/hooks", self.server.address())
    }

    /// The next `count` requests are met this way, after those that were told before.
    pub fn next(&self, count: u32, behaviour: Behaviour) {
        self.books().next.extend((0..count).map(|_| behaviour.clone()));
    }

    /// Every request without a `next` is met this way from now on. At first: `Apply`.
    pub fn always(&self, behaviour: Behaviour) {
        self.books().always = Some(behaviour);
    }

    /// Forgets everything told by `next` and `always`.
    pub fn behave(&self) {
        let mut books = self.books();
        books.next.clear();
        books.always = None;
    }

    /// A copy of the ledger.
    pub fn ledger(&self) -> Ledger {
        self.books().ledger.clone()
    }

    /// A copy of every request, in the order of arrival.
    pub fn requests(&self) -> Vec<Received> {
        self.books().requests.clone()
    }

    /// Takes operational events from now on, into a list of their own. A receiver of deposits refuses them with 400: they
    /// must not get there.
    pub fn take_operational(&self) {
        self.books().takes_operational = true;
    }

    /// A copy of every request with an operational event, in the order of arrival.
    pub fn operational(&self) -> Vec<OperationalRequest> {
        self.books().operational.clone()
    }

    /// As [`wait_for`](Self::wait_for), over the requests with operational events.
    pub async fn wait_for_operational(&self, holds: impl Fn(&[OperationalRequest]) -> bool) {
        self.wait_until(|books| holds(&books.operational)).await;
    }

    /// Bytes of answers without end that were taken by the other side or its system's buffers.
    pub fn flooded(&self) -> u64 {
        self.shared.flooded.load(Ordering::Relaxed)
    }

    /// Returns as soon as the predicate holds over ledger and requests; it is asked again after
    /// every request and every answer. Wrap it in `tokio::time::timeout` for a limit.
    pub async fn wait_for(&self, holds: impl Fn(&Ledger, &[Received]) -> bool) {
        self.wait_until(|books| holds(&books.ledger, &books.requests)).await;
    }

    async fn wait_until(&self, holds: impl Fn(&Books) -> bool) {
        let mut changed = self.shared.changed.subscribe();
        loop {
            if holds(&self.books()) {
                return;
            }
            if changed.changed().await.is_err() {
                return;
            }
        }
    }

    /// Closes all connections and refuses new ones; the port stays ours.
    ///
    /// # Errors
    /// When the port can't be kept.
    pub async fn down(&self) -> io::Result<()> {
        self.server.stop().await
    }

    /// Listens again on the same port.
    ///
    /// # Errors
    /// When the port was lost.
    pub async fn up(&self) -> io::Result<()> {
        self.server.restart().await
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.shared.books()
    }
}

fn router(shared: &Arc<Shared>) -> Router {
    Router::new().fallback(receive).with_state(Arc::clone(shared))
}

impl Shared {
    fn new(options: ReceiverOptions) -> io::Result<Arc<Self>> {
        let keys = options.secrets.iter().map(|secret| {
            Key::parse(secret).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "a secret is not whsec_ + base64"))
        });
        Ok(Arc::new(Self {
            keys: keys.collect::<io::Result<_>>()?,
            now: options.now,
            books: Mutex::default(),
            changed: watch::Sender::new(0),
            flooded: Arc::default(),
        }))
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        self.changed.send_modify(|version| *version += 1);
    }

    /// The event, or the status and reason of the refusal.
    fn read(&self, headers: &HeaderMap, body: &[u8]) -> Result<Message, (StatusCode, String)> {
        let refuse = |why| (StatusCode::UNAUTHORIZED, why);
        let signed = signature::verify(&self.keys, headers, body).map_err(refuse)?;
        if let Some(now) = &self.now
            && now().abs_diff(signed.timestamp) > TOLERANCE_S
        {
            return Err(refuse(format!("webhook-timestamp {} is off", signed.timestamp)));
        }
        let wrong = |why| (StatusCode::BAD_REQUEST, why);
        let unreadable = |error| wrong(format!("the body: {error}"));
        let is_operational =
            |event: &Value| event.get("type").and_then(Value::as_str).is_some_and(|kind| kind.starts_with(OPERATIONAL));
        let (message, id) = match serde_json::from_slice::<Value>(body).map_err(unreadable)? {
            event if self.books().takes_operational && is_operational(&event) => {
                let id = event.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
                (Message::Operational(event), id)
            }
            _ => {
                let event: WireEvent = serde_json::from_slice(body).map_err(unreadable)?;
                let id = event.id.clone();
                (Message::Deposit(Box::new(event)), id)
            }
        };
        if id != signed.id {
            return Err(wrong(format!("the body's id {id} is not webhook-id {}", signed.id)));
        }
        Ok(message)
    }

    /// Writes the request down; gives its place and what is to be done with it.
    fn record(&self, headers: HeaderMap, body: &Bytes, read: &Result<Message, (StatusCode, String)>) -> (Entry, Behaviour) {
        let mut books = self.books();
        let id = headers.get("webhook-id").and_then(|id| id.to_str().ok()).unwrap_or_default();
        let (id, body, number) = (id.to_owned(), body.to_vec(), books.requests.len());
        let event = match read {
            Ok(Message::Operational(event)) => {
                let (event, entry) = (event.clone(), Entry::Operational(books.operational.len()));
                books.operational.push(OperationalRequest { id, headers, body, event, answered: None });
                return (entry, books.told());
            }
            Ok(Message::Deposit(event)) => {
                books.ledger.judge(event, &body);
                Ok((**event).clone())
            }
            Err((_, why)) => {
                books.ledger.problem(format!("request {number}: {why}"));
                Err(why.clone())
            }
        };
        books.requests.push(Received { number, id, headers, body, event, answered: None, applied: false });
        (Entry::Request(number), books.told())
    }

    /// Gives a deposit's event to the ledger.
    fn apply(&self, entry: Entry, message: &Message) {
        let (Entry::Request(number), Message::Deposit(event)) = (entry, message) else { return };
        let mut books = self.books();
        books.ledger.apply(event);
        if let Some(request) = books.requests.get_mut(number) {
            request.applied = true;
        }
    }

    /// Writes the answer down, right before it is sent.
    fn answer(&self, entry: Entry, message: &Message, response: Response) -> Response {
        let mut books = self.books();
        if let (true, Message::Deposit(event)) = (response.status().is_success(), message) {
            books.ledger.acknowledge(event);
        }
        books.answered(entry, response.status());
        drop(books);
        self.wake();
        response
    }
}

impl Books {
    /// What is to be done with the request that has come in.
    fn told(&mut self) -> Behaviour {
        self.next.pop_front().or_else(|| self.always.clone()).unwrap_or(Behaviour::Apply)
    }

    fn answered(&mut self, entry: Entry, status: StatusCode) {
        let answered = match entry {
            Entry::Request(number) => self.requests.get_mut(number).map(|request| &mut request.answered),
            Entry::Operational(number) => self.operational.get_mut(number).map(|request| &mut request.answered),
        };
        if let Some(answered) = answered {
            *answered = Some(status.as_u16());
        }
    }
}

async fn receive(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    let read = shared.read(&headers, &body);
    let (entry, behaviour) = shared.record(headers, &body, &read);
    let event = match read {
        Ok(event) => event,
        Err((status, why)) => {
            shared.books().answered(entry, status);
            shared.wake();
            return (status, why).into_response();
        }
    };
    shared.wake();
    match behaviour {
        Behaviour::Apply => {
            shared.apply(entry, &event);
            shared.answer(entry, &event, StatusCode::NO_CONTENT.into_response())
        }
        Behaviour::ApplyThen(code) => {
            shared.apply(entry, &event);
            shared.answer(entry, &event, status(code).into_response())
        }
        Behaviour::Delay(time) => {
            tokio::time::sleep(time).await;
            shared.apply(entry, &event);
            shared.answer(entry, &event, StatusCode::NO_CONTENT.into_response())
        }
        Behaviour::Status(code) => shared.answer(entry, &event, status(code).into_response()),
        Behaviour::Answer { status: code, header: extra, body } => {
            let mut response = (status(code), body).into_response();
            if let Some((name, value)) = extra
                && let Ok(value) = header::HeaderValue::try_from(value)
            {
                response.headers_mut().insert(name, value);
            }
            shared.answer(entry, &event, response)
        }
        Behaviour::ApplyThenHang => {
            shared.apply(entry, &event);
            shared.wake();
            std::future::pending().await
        }
        Behaviour::ApplyThenFlood => {
            shared.apply(entry, &event);
            let flood = SpoiltBody::without_end(Arc::clone(&shared.flooded));
            shared.answer(entry, &event, Response::new(Body::new(flood)))
        }
        Behaviour::BreakOff => Response::new(Body::new(SpoiltBody::broken_off())),
        Behaviour::Hang => std::future::pending().await,
        Behaviour::Close => close_connection(),
    }
}

fn status(code: u16) -> StatusCode {
    StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}
