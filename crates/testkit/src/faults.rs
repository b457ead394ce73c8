//! Faults of a node's transport, and the record of what it was asked.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::json_rpc::RpcError;

/// What to do with one HTTP request instead of answering it.
#[derive(Debug, Clone)]
pub(crate) enum HttpFault {
    Status {
        status: u16,
        retry_after: Option<String>,
        body: String,
    },
    /// Every call of the request gets this error, in the node's dialect.
    Rpc(RpcError),
    Hang,
    Close,
}

/// How a batch answer is spoilt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchFault {
    /// The replies come in reverse order (which is allowed).
    Reversed,
    /// The last reply is missing.
    LastMissing,
    /// The second reply carries the first one's id.
    DuplicateId,
}

type Hook = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    queue: VecDeque<HttpFault>,
    answers: Vec<(String, u32, Result<Value, RpcError>)>,
    hooks: Vec<(String, u32, Hook)>,
    disabled: BTreeSet<String>,
    batches: VecDeque<BatchFault>,
    batch_limit: Option<usize>,
    calls: BTreeMap<String, u64>,
    requests: u64,
}

/// The knobs. HTTP faults queue up: each spoils one request, in the order they were added.
#[derive(Default)]
pub struct Faults {
    state: Mutex<State>,
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Faults")
            .field("queued", &state.queue.len())
            .field("disabled", &state.disabled)
            .field("requests", &state.requests)
            .finish_non_exhaustive()
    }
}

impl Faults {
    /// The next `count` requests get 429 with this `Retry-After` (seconds or an HTTP date).
    pub fn rate_limit(&self, count: u32, retry_after: &str) {
        let retry_after = Some(retry_after.to_owned());
        let body = "Too Many Requests".to_owned();
        self.queue(count, &HttpFault::Status { status: 429, retry_after, body });
    }

    /// The next `count` requests get this status and body.
    pub fn fail_next(&self, count: u32, status: u16, body: &str) {
        let body = body.to_owned();
        self.queue(count, &HttpFault::Status { status, retry_after: None, body });
    }

    /// Every call of the next `count` requests gets this JSON-RPC error.
    pub fn rpc_error_next(&self, count: u32, code: i64, message: &str) {
        self.queue(count, &HttpFault::Rpc(RpcError::new(code, message)));
    }

    /// The next `count` requests are never answered; their connections stay open.
    pub fn hang_next(&self, count: u32) {
        self.queue(count, &HttpFault::Hang);
    }

    /// The connections of the next `count` requests are closed without an answer.
    pub fn close_next(&self, count: u32) {
        self.queue(count, &HttpFault::Close);
    }

    /// The next `count` calls of `method` get this answer instead of the true one.
    pub fn answer_next(&self, method: &str, count: u32, answer: Result<Value, RpcError>) {
        if count > 0 {
            self.lock().answers.push((method.to_owned(), count, answer));
        }
    }

    /// Runs `action` just before a call of `method` is answered, after `skip` further calls of it:
    /// the way to change the chain between two reads of one tick.
    pub fn before(&self, method: &str, skip: u32, action: impl FnOnce() + Send + 'static) {
        self.lock().hooks.push((method.to_owned(), skip, Box::new(action)));
    }

    /// From now on `method` does not exist (-32601).
    pub fn disable(&self, method: &str) {
        self.lock().disabled.insert(method.to_owned());
    }

    /// Undoes [`disable`](Self::disable).
    pub fn enable(&self, method: &str) {
        self.lock().disabled.remove(method);
    }

    /// The next `count` batches are answered this way.
    pub fn batch_fault_next(&self, count: u32, fault: BatchFault) {
        self.lock().batches.extend((0..count).map(|_| fault));
    }

    /// Batches of more calls are answered by one error object (code -32600). None: no limit.
    pub fn batch_limit(&self, calls_max: Option<usize>) {
        self.lock().batch_limit = calls_max;
    }

    /// Takes back everything above; keeps the counts.
    pub fn clear(&self) {
        let mut state = self.lock();
        let (calls, requests) = (std::mem::take(&mut state.calls), state.requests);
        *state = State { calls, requests, ..State::default() };
    }

    /// How often `method` was called, calls in batches and failed ones included.
    pub fn calls(&self, method: &str) -> u64 {
        self.lock().calls.get(method).copied().unwrap_or(0)
    }

    /// How many HTTP requests came in.
    pub fn requests(&self) -> u64 {
        self.lock().requests
    }

    pub(crate) fn next_http(&self) -> Option<HttpFault> {
        let mut state = self.lock();
        state.requests += 1;
        state.queue.pop_front()
    }

    pub(crate) fn next_batch(&self, calls: usize) -> Result<Option<BatchFault>, RpcError> {
        let mut state = self.lock();
        match state.batch_limit {
            Some(limit) if calls > limit => Err(RpcError::new(-32600, &format!("batch of {calls} is over the limit of {limit}"))),
            _ => Ok(state.batches.pop_front()),
        }
    }

    /// Counts the call, runs what was to run before it, and gives the answer to give instead.
    pub(crate) fn before_call(&self, method: &str) -> Option<Result<Value, RpcError>> {
        let (hook, answer) = {
            let mut state = self.lock();
            *state.calls.entry(method.to_owned()).or_default() += 1;
            (take_hook(&mut state.hooks, method), take_answer(&mut state, method))
        };
        if let Some(hook) = hook {
            hook();
        }
        answer
    }

    fn queue(&self, count: u32, fault: &HttpFault) {
        self.lock().queue.extend((0..count).map(|_| fault.clone()));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn take_hook(hooks: &mut Vec<(String, u32, Hook)>, method: &str) -> Option<Hook> {
    let place = hooks.iter().position(|(name, skip, _)| name == method && *skip == 0);
    let due = place.map(|place| hooks.remove(place).2);
    for (name, skip, _) in hooks.iter_mut() {
        if name == method {
            *skip = skip.saturating_sub(1);
        }
    }
    due
}

fn take_answer(state: &mut State, method: &str) -> Option<Result<Value, RpcError>> {
    if state.disabled.contains(method) {
        let message = format!("the method {method} does not exist/is not available");
        return Some(Err(RpcError::new(-32601, &message)));
    }
    let place = state.answers.iter().position(|(name, _, _)| name == method)?;
    let (_, left, answer) = state.answers.get_mut(place)?;
    *left -= 1;
    let (answer, used_up) = (answer.clone(), *left == 0);
    if used_up {
        drop(state.answers.remove(place));
    }
    Some(answer)
}
