//! The running binary, asked as anybody could ask it: cursors, queries and lists that were altered.

use crate::dev::{self, CUSTOMER, OTHER, node, pay};
use crate::instance::{Instance, done, folder, stdout};
use confirmd_api::Cursor;
use confirmd_hostile::{Alteration, JsonAlteration, cases};
use confirmd_testkit::FakeEvm;
use fastrand::Rng;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

/// Two consumers, one of which nobody listens for: there are deposits, events and dead letters to list.
fn config(node: &FakeEvm) -> String {
    let chain = format!(
        "confirmations = {{ default = 1 }}\nwatch = [{{ address = '{CUSTOMER}', reference = 'customer-42' }}, {{ address = '{OTHER}' }}]"
    );
    let sinks = format!("[sinks.files]\nkind = 'file'\npath = 'events.jsonl'\n{}", dev::ledger("[]"));
    dev::config(node, "requests_per_second = 1000000", &chain, &sinks)
}

/// Ends the instance with the test, whatever becomes of it.
struct Running {
    pid: u32,
    /// Reads the log to its end, so that it never fills up.
    reading: Option<std::thread::JoinHandle<Instance>>,
}

impl Running {
    fn new(mut instance: Instance) -> Self {
        let pid = instance.child.id();
        let read = move || {
            instance.until("stopped");
            instance
        };
        Self { pid, reading: Some(std::thread::spawn(read)) }
    }

    fn signal(&self, name: &str) {
        let sent = std::process::Command::new("kill").args([name, &self.pid.to_string()]).status();
        assert!(sent.is_ok());
    }

    fn terminate(mut self) -> Option<i32> {
        self.signal("-TERM");
        let mut instance = self.reading.take().unwrap().join().expect("it panicked or ended early");
        instance.child.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.reading.is_some() {
            self.signal("-KILL");
        }
    }
}

/// Asks over one connection as long as the other side keeps it.
struct Asker {
    host: String,
    stream: Option<BufReader<TcpStream>>,
}

impl Asker {
    fn new(dir: &Path) -> Self {
        let file = std::fs::read_to_string(dir.join("state/api-address")).unwrap();
        Self { host: file.lines().next().unwrap().to_owned(), stream: None }
    }

    fn stream(&mut self) -> &mut BufReader<TcpStream> {
        let host = &self.host;
        self.stream.get_or_insert_with(|| {
            let stream = TcpStream::connect(host).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            BufReader::new(stream)
        })
    }

    /// Status, whether it is a problem, and the body.
    fn ask(&mut self, method: &str, target: &str, kind: &str, body: &[u8]) -> (u16, bool, Vec<u8>) {
        let mut request = format!("{method} {target} HTTP/1.1\r\nHost: {}\r\n", self.host);
        if method != "GET" {
            request.push_str(&format!("X-Confirmd-Request: 1\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n", body.len()));
        }
        request.push_str("\r\n");
        let stream = self.stream();
        stream.get_mut().write_all(&[request.as_bytes(), body].concat()).unwrap();
        let (mut status, mut length, mut problem, mut closes) = (0, 0, false, false);
        for number in 0.. {
            let mut line = String::new();
            stream.read_line(&mut line).unwrap_or_else(|error| panic!("{method} {target} has no answer: {error}"));
            assert!(!line.is_empty(), "{method} {target} has no answer: the connection was closed");
            let line = line.trim_end().to_ascii_lowercase();
            match line.split_once(": ") {
                _ if line.is_empty() => break,
                None if number == 0 => status = line.split(' ').nth(1).unwrap().parse().unwrap(),
                Some(("content-length", text)) => length = text.parse().unwrap(),
                Some(("content-type", text)) => problem = text == "application/problem+json",
                Some(("connection", "close")) => closes = true,
                _ => {}
            }
        }
        let mut answer = vec![0; length];
        stream.read_exact(&mut answer).unwrap();
        if closes {
            self.stream = None;
        }
        (status, problem, answer)
    }

    fn get(&mut self, target: &str) -> Value {
        let (status, _, body) = self.ask("GET", target, "", &[]);
        assert_eq!(status, 200, "{target}: {}", String::from_utf8_lossy(&body));
        serde_json::from_slice(&body).unwrap()
    }

    /// Answered, or refused as what the asker did wrong.
    fn judged(&mut self, method: &str, target: &str, kind: &str, body: &[u8]) -> u16 {
        let (status, problem, answer) = self.ask(method, target, kind, body);
        let told = || format!("{method} {target} {}: {}", String::from_utf8_lossy(body), String::from_utf8_lossy(&answer));
        assert!((200..500).contains(&status), "{status} {}", told());
        if status >= 400 {
            assert!(problem, "{status} is no problem+json: {}", told());
            let answer: Value = serde_json::from_slice(&answer).unwrap();
            let named = answer["type"].as_str().is_some_and(|name| name.starts_with("urn:confirmd:"));
            assert!(named && answer["status"] == status && !answer["detail"].as_str().unwrap().is_empty(), "{answer}");
        }
        status
    }
}

/// As it stands in a query: every byte that is no letter or digit is escaped.
fn escaped(bytes: &[u8]) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric();
    bytes.iter().map(|byte| if plain(byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// Numbers at the edges of what formats hold.
const EDGES: [u64; 8] =
    [0, 1, i64::MAX.unsigned_abs(), i64::MAX.unsigned_abs() + 1, u64::MAX, u64::MAX - 1, 0xffff_ffff, 1 << 53];

/// Puts an edge in place of every number, by chance.
fn with_edges(value: &mut Value, rng: &mut Rng) {
    match value {
        Value::Number(number) if rng.bool() => *number = EDGES[rng.usize(..EDGES.len())].into(),
        Value::Array(items) => items.iter_mut().for_each(|item| with_edges(item, rng)),
        Value::Object(fields) => fields.values_mut().for_each(|field| with_edges(field, rng)),
        _ => {}
    }
}

/// Another value in place of one that was right.
fn altered(right: &str, rng: &mut Rng) -> Vec<u8> {
    let place = Cursor::new(right).place::<Value>().ok();
    match (place, rng.u8(..4)) {
        // Whoever makes the checksum, too, has any place believed.
        (Some(mut place), 0) => {
            JsonAlteration::apply(&mut place, rng);
            Cursor::of(&place).as_str().into()
        }
        (Some(mut place), 1 | 2) => {
            with_edges(&mut place, rng);
            Cursor::of(&place).as_str().into()
        }
        (None, 0) => EDGES[rng.usize(..EDGES.len())].to_string().into_bytes(),
        _ => Alteration::random(rng, right.len()).apply(right.as_bytes()),
    }
}

/// A path, and what may stand in its query with a right value each.
type Question = (String, Vec<(&'static str, String)>);

fn questions(asker: &mut Asker) -> Vec<Question> {
    let mut next = |path: &str| asker.get(path)["next"].as_str().map(str::to_owned);
    let cursors = ["deposits", "deliveries", "addresses", "events"].map(|list| next(&format!("/v1/{list}?limit=1")).unwrap());
    let [deposits, deliveries, addresses, events] = cursors;
    let first = asker.get("/v1/deliveries?limit=1")["items"][0].clone();
    let of = |name: &str| first[name].as_str().unwrap().to_owned();
    let (event, tx) = (of("event"), of("tx_id"));
    let text = |name, value: &str| (name, value.to_owned());
    let deposit_query = vec![
        ("after", deposits),
        text("limit", "1"),
        text("chain", "dev"),
        text("address", CUSTOMER),
        text("reference", "customer-42"),
        text("state", "confirmed"),
        ("tx_id", tx.clone()),
        text("asset", "ETH"),
        text("seen_from", "2020-01-01T00:00:00Z"),
        text("seen_before", "2099-01-01T00:00:00Z"),
    ];
    let delivery_query = vec![
        ("after", deliveries),
        text("limit", "1"),
        text("consumer", "ledger"),
        text("state", "dead"),
        ("event", event.clone()),
    ];
    let address_query = vec![
        ("after", addresses),
        text("limit", "1"),
        text("chain", "dev"),
        text("address", CUSTOMER),
        text("reference", "customer-42"),
    ];
    vec![
        ("/v1/deposits".to_owned(), deposit_query),
        ("/v1/deliveries".to_owned(), delivery_query),
        ("/v1/addresses".to_owned(), address_query),
        ("/v1/events".to_owned(), vec![("after", events), text("limit", "1"), text("wait", "0")]),
        ("/v1/dead-letters".to_owned(), vec![text("consumer", "ledger")]),
        (format!("/v1/deliveries/{event}"), vec![]),
        (format!("/v1/chains/dev/deposits/{tx}/0"), vec![]),
        (format!("/v1/chains/dev/transactions/{tx}/explanation"), vec![text("height", "9"), text("address", CUSTOMER)]),
    ]
}

/// A question with one or two things wrong in it.
fn target((path, query): &Question, rng: &mut Rng) -> String {
    let mut target = path.clone();
    if query.is_empty() || rng.u8(..8) == 0 {
        let parts: Vec<&str> = path.split('/').collect();
        let at = rng.usize(2..parts.len());
        let part = escaped(&altered(parts[at], rng));
        target = [&parts[..at], &[part.as_str()], &parts[at + 1..]].concat().join("/");
    }
    let wrong = rng.usize(..query.len().max(1));
    for (number, (name, value)) in query.iter().enumerate() {
        let value = match number == wrong || rng.u8(..8) == 0 {
            // A wait that was altered might last.
            true if *name != "wait" => altered(value, rng),
            _ if rng.bool() => continue,
            _ => value.clone().into_bytes(),
        };
        target.push(if target.contains('?') { '&' } else { '?' });
        target.push_str(&format!("{name}={}", escaped(&value)));
    }
    target
}

async fn started() -> (FakeEvm, tempfile::TempDir, Running, Asker) {
    let node = node(31_337).await;
    let dir = folder(&config(&node));
    std::fs::write(dir.path().join("secret"), "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=").unwrap();
    let mut instance = Instance::start(dir.path(), &["run", "--init"]);
    instance.until("following");
    (1..=3).for_each(|wei| pay(&node, CUSTOMER, wei));
    node.mine(1);
    (0..3).for_each(|_| instance.until("dead letter"));
    let asker = Asker::new(dir.path());
    (node, dir, Running::new(instance), asker)
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_daemon_altered_cursors_and_queries_are_answered_or_refused_and_nothing_ends() {
    let (_node, dir, running, mut asker) = started().await;
    let questions = questions(&mut asker);
    let mut rng = Rng::with_seed(21);
    let (mut answered, mut refused) = (0u32, 0u32);
    for _ in 0..cases(3_000) {
        let target = target(&questions[rng.usize(..questions.len())], &mut rng);
        match asker.judged("GET", &target, "", &[]) {
            ..400 => answered += 1,
            _ => refused += 1,
        }
    }
    assert!(answered.min(refused) > cases(3_000) / 10, "{answered} answered, {refused} refused");
    assert_eq!(asker.get("/v1/events?limit=10")["events"].as_array().unwrap().len(), 3);
    drop(asker);
    assert_eq!(running.terminate(), Some(0));
    let verified = done(dir.path(), &["state", "verify"]);
    assert!(verified.status.success(), "the state is not what it was: {}", stdout(&verified));
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_daemon_altered_bodies_and_lists_are_taken_whole_or_refused_and_nothing_ends() {
    let (_node, dir, running, mut asker) = started().await;
    let mut rng = Rng::with_seed(22);
    let list = format!(
        "{{\"chain\":\"dev\",\"address\":\"{OTHER}\",\"reference\":\"customer-7\"}}\n{{\"chain\":\"dev\",\"address\":\"{CUSTOMER}\"}}\n"
    );
    let event = asker.get("/v1/deliveries?limit=1")["items"][0]["event"].clone();
    let after = asker.get("/v1/events?limit=1")["next"].clone();
    let bodies = [
        ("POST", "/v1/addresses", json!({"entries": [{"chain": "dev", "address": OTHER, "reference": "customer-7"}]})),
        ("DELETE", "/v1/addresses", json!({"chain": "dev", "addresses": ["0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB"]})),
        ("POST", "/v1/consumers/ledger/requeue", json!({"events": [event], "all_dead": false, "per_second": null})),
        ("POST", "/v1/consumers/ledger/replay", json!({"from": "2020-01-01T00:00:00Z", "per_second": 5})),
        ("POST", "/v1/consumers/files/pause", json!({"why": "migration"})),
        ("PUT", "/v1/cursors/reader", json!({"after": after})),
        ("POST", "/v1/chains/dev/resume/preview", json!({"accept_reorg": "0xab", "revert_settled": false})),
    ];
    for _ in 0..cases(600) {
        let (method, path, body) = &bodies[rng.usize(..bodies.len())];
        let mut body = body.clone();
        with_edges(&mut body, &mut rng);
        JsonAlteration::apply(&mut body, &mut rng);
        asker.judged(method, path, "application/json", body.to_string().as_bytes());
        let mut list = list.clone().into_bytes();
        for _ in 0..rng.usize(1..4) {
            list = Alteration::random(&mut rng, list.len()).apply(&list);
        }
        asker.judged("POST", "/v1/addresses/import", "application/x-ndjson", &list);
        std::fs::write(dir.path().join("list"), &list).unwrap();
    }
    // The last list by the command, which takes another form, too.
    let imported = done(dir.path(), &["watch", "import", "list"]);
    assert!(matches!(imported.status.code(), Some(0 | 1)), "{imported:?}");
    assert_eq!(asker.get("/v1/status")["running"], true);
    drop(asker);
    assert_eq!(running.terminate(), Some(0));
}
