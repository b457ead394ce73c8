//! Faults that look the same on every node.

use super::SECRET;
use confirmd_testkit::conform::source::Act;
use e2e::{FaultProxy, RequestFault, with_result};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Further answers than any source asks for.
pub(super) const MANY: u32 = 1_000;

pub(super) fn method(call: &Value) -> &str {
    call["method"].as_str().unwrap_or_default()
}

fn status(status: u16, body: &str) -> RequestFault {
    RequestFault::Status { status, retry_after: None, body: body.to_owned() }
}

/// The first so many replies of each of these methods become this.
pub(super) fn replace(proxy: &FaultProxy, methods: &[&'static str], answers: u32, with: &Value) {
    for name in methods.iter().copied() {
        let (left, with) = (AtomicU32::new(answers), with.clone());
        proxy.after(move |call, reply| {
            let take = |left: u32| left.checked_sub(1);
            if method(call) == name && left.fetch_update(Relaxed, Relaxed, take).is_ok() {
                with_result(reply, with.clone());
            }
        });
    }
}

/// Does the act if it is one of these; `telling` are the methods that tell of headers, blocks or payments.
pub(super) fn act(proxy: &FaultProxy, act: &Act, telling: &[&'static str]) -> bool {
    match act {
        Act::Throttle { wish } => {
            let fault = RequestFault::Status { status: 429, retry_after: Some(*wish), body: "Too Many Requests".into() };
            proxy.fault(fault, MANY);
        }
        Act::Hang { requests } => proxy.fault(RequestFault::Silence, *requests),
        Act::WarmUp => proxy.fault(status(503, "the node is starting"), MANY),
        Act::RefuseCredentials => proxy.fault(status(401, ""), MANY),
        Act::RepeatSecret => proxy.fault(status(500, &format!("no project {SECRET}")), MANY),
        Act::Garble { answers } => replace(proxy, telling, *answers, &json!("garbled")),
        Act::Reorder => proxy.reverse(),
        _ => return false,
    }
    true
}
