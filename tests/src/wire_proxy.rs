//! A TCP proxy in front of a PostgreSQL server that counts what the client says and cuts the connection where it is told to.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// What happens at the message that is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Both sides lose the connection; the server never sees the message.
    Before,
    /// The server gets the message; the client loses the connection and never sees the answer.
    After,
    /// The server never sees the message; the connection stays, and nothing goes through it any more.
    SilenceBefore,
    /// The server gets the message; nothing comes back any more.
    SilenceAfter,
}

/// Which message of the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum At {
    /// The n-th from now on, from 1, over all connections; once.
    Message(u64),
    /// The one that ends the n-th statement (a simple query, or the `Sync` behind a prepared one) from now on, from 1; once.
    Statement(u64),
    /// Every one that holds this text.
    Text(&'static str),
}

/// What is done at a cut, beside it.
type Deed = Arc<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct Plan {
    cut: Option<(At, Cut)>,
    deed: Option<Deed>,
    refuse: bool,
    messages: u64,
    statements: u64,
    /// After the cut no new connection is taken.
    down_after_cut: bool,
    cuts: u64,
}

/// A message that was sent is worked on for so long before the deed is done.
const WORKED_ON: Duration = Duration::from_millis(3);

/// A running proxy; it stops when it is dropped.
pub struct WireProxy {
    plan: Arc<Mutex<Plan>>,
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl fmt::Debug for WireProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WireProxy").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Drop for WireProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn lock(plan: &Mutex<Plan>) -> MutexGuard<'_, Plan> {
    plan.lock().unwrap_or_else(PoisonError::into_inner)
}

impl WireProxy {
    /// In front of a server on loopback.
    pub async fn start(server: u16) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("start the proxy")?;
        let address = listener.local_addr()?;
        let plan: Arc<Mutex<Plan>> = Arc::default();
        let accepting = tokio::spawn(accept(listener, server, Arc::clone(&plan)));
        Ok(Self { plan, address, accepting })
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// From now on, at that message; with `down`, no new connection is taken after the first cut.
    pub fn cut(&self, at: At, cut: Cut, down: bool) {
        *lock(&self.plan) = Plan { cut: Some((at, cut)), down_after_cut: down, ..Plan::default() };
    }

    /// As [`WireProxy::cut`], and does something there, such as killing the server: before the message is sent, or shortly after.
    pub fn cut_and(&self, at: At, cut: Cut, deed: impl Fn() + Send + Sync + 'static) {
        *lock(&self.plan) = Plan { cut: Some((at, cut)), deed: Some(Arc::new(deed)), ..Plan::default() };
    }

    /// New connections are closed at once; open ones at their next message.
    pub fn refuse(&self) {
        *lock(&self.plan) = Plan { refuse: true, ..Plan::default() };
    }

    /// Everything goes through. The count begins anew.
    pub fn repair(&self) {
        *lock(&self.plan) = Plan::default();
    }

    /// Messages of clients since the last change.
    pub fn messages(&self) -> u64 {
        lock(&self.plan).messages
    }

    /// How often it cut since the last change.
    pub fn cuts(&self) -> u64 {
        lock(&self.plan).cuts
    }
}

async fn accept(listener: TcpListener, server: u16, plan: Arc<Mutex<Plan>>) {
    let mut open = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let plan = Arc::clone(&plan);
        open.spawn(async move {
            if !lock(&plan).refuse
                && let Ok(to) = TcpStream::connect((Ipv4Addr::LOCALHOST, server)).await
            {
                pass(client, to, &plan).await;
            }
        });
        while open.try_join_next().is_some() {}
    }
}

async fn pass(client: TcpStream, server: TcpStream, plan: &Mutex<Plan>) {
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let silent = tokio::sync::watch::channel(false);
    let back = async {
        let mut buffer = vec![0; 16 * 1024];
        let mut hushed = silent.1.clone();
        loop {
            tokio::select! {
                biased;
                true = async { hushed.wait_for(|silent| *silent).await.is_ok() } => std::future::pending::<()>().await,
                read = from_server.read(&mut buffer) => {
                    let Ok(count @ 1..) = read else { return };
                    let Some(bytes) = buffer.get(..count) else { return };
                    if to_client.write_all(bytes).await.is_err() {
                        return;
                    }
                }
            }
        }
    };
    tokio::select! {
        () = forth(&mut from_client, &mut to_server, plan, &silent.0) => {}
        () = back => {}
    }
}

/// Message by message, until one is to be cut at or somebody hangs up.
async fn forth(from: &mut OwnedReadHalf, to: &mut OwnedWriteHalf, plan: &Mutex<Plan>, silent: &tokio::sync::watch::Sender<bool>) {
    let mut first = true;
    while let Ok(message) = read_message(from, first).await {
        first = false;
        let Some((cut, deed)) = decide(plan, &message) else {
            if to.write_all(&message).await.is_err() {
                return;
            }
            continue;
        };
        match cut {
            Cut::Before => {
                deed.iter().for_each(|deed| deed());
                return;
            }
            Cut::After => {
                // The client learns nothing of what comes back, and the server has read it by the time it sees the end.
                silent.send_replace(true);
                let _ = to.write_all(&message).await;
                if let Some(deed) = deed {
                    tokio::time::sleep(WORKED_ON).await;
                    deed();
                }
                let _ = to.shutdown().await;
                return;
            }
            Cut::SilenceBefore | Cut::SilenceAfter => {
                silent.send_replace(true);
                if cut == Cut::SilenceAfter {
                    let _ = to.write_all(&message).await;
                }
                // Held open until the client gives up.
                let mut rest = [0; 1024];
                while matches!(from.read(&mut rest).await, Ok(1..)) {}
                return;
            }
        }
    }
}

fn decide(plan: &Mutex<Plan>, message: &[u8]) -> Option<(Cut, Option<Deed>)> {
    let mut plan = lock(plan);
    if plan.refuse {
        return Some((Cut::Before, None));
    }
    plan.messages += 1;
    let ends_statement = matches!(message.first(), Some(b'S' | b'Q'));
    plan.statements += u64::from(ends_statement);
    let (at, cut) = plan.cut.clone()?;
    let meant = match &at {
        At::Message(number) => plan.messages == *number,
        At::Statement(number) => ends_statement && plan.statements == *number,
        At::Text(text) => message.windows(text.len()).any(|window| window == text.as_bytes()),
    };
    if !meant {
        return None;
    }
    plan.cuts += 1;
    if plan.down_after_cut {
        plan.refuse = true;
    }
    Some((cut, plan.deed.clone()))
}

/// One message of the client; the first has no type byte.
async fn read_message(from: &mut OwnedReadHalf, first: bool) -> std::io::Result<Vec<u8>> {
    let mut message = vec![0; if first { 4 } else { 5 }];
    from.read_exact(&mut message).await?;
    let length = message.last_chunk::<4>().map_or(4, |bytes| u32::from_be_bytes(*bytes));
    let head = message.len();
    let body = usize::try_from(length).unwrap_or(4).saturating_sub(4);
    message.resize(head + body, 0);
    from.read_exact(message.get_mut(head..).unwrap_or_default()).await?;
    Ok(message)
}
