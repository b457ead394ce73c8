//! The control API's door: programs on this machine come in, pages in a browser don't.

use anyhow::{Context, Result, ensure};
use confirmd_testkit::{EvmOptions, FakeEvm};
use e2e::{COINS, ChainSection, Config, SOON, Service, SinkSection, node_trial};
use libtest_mimic::Trial;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        node_trial("ops::the_control_api_takes_no_request_that_a_web_page_could_send", &[], door),
        node_trial("ops::a_chain_says_how_much_its_node_is_asked_and_how_long_requests_waited_for_the_limit", &[], asked),
    ]
}

/// One request as it goes over the wire; the status and the body of the answer.
async fn ask(address: &str, request: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(request.replace('\n', "\r\n").as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).with_context(|| format!("not an answer: {answer}"))?;
    let status = status.parse().with_context(|| format!("no status in {answer}"))?;
    Ok((status, answer))
}

async fn door() -> Result<()> {
    let endpoint = "{ url = \"http://127.0.0.1:1\" }";
    let chain = ChainSection::bitcoin(COINS, "regtest", endpoint).confirmations("default = 1").reorg_depth(6);
    let config = Config::new().chain(chain).sink(SinkSection::of_kind("screen", "stdout"));
    let mut service = Service::start(&config).await?;
    let file = std::fs::read_to_string(service.instance().dir().join("state/api-address"))?;
    let address = file.lines().next().context("no address")?.to_owned();
    let port = address.rsplit_once(':').context("no port")?.1;
    let get = |host: &str| format!("GET /v1/status HTTP/1.1\nHost: {host}\nConnection: close\n\n");
    for host in [address.clone(), format!("localhost:{port}"), format!("[::1]:{port}")] {
        ensure!(ask(&address, &get(&host)).await?.0 == 200, "{host} is refused");
    }
    for host in [
        "evil.example".to_owned(),
        format!("evil.example:{port}"),
        "127.0.0.1:1".to_owned(),
        format!("127.0.0.1.nip.example:{port}"),
    ] {
        let (status, answer) = ask(&address, &get(&host)).await?;
        ensure!(status == 403 && answer.contains("Host header") && !answer.contains("\"chains\""), "{host}: {answer}");
    }

    let pause = |headers: &str| {
        format!(
            "POST /v1/consumers/screen/pause HTTP/1.1\nHost: {address}\n{headers}Content-Length: 2\nConnection: close\n\n{{}}"
        )
    };
    let (ours, json) = ("X-Confirmd-Request: 1\n", "Content-Type: application/json\n");
    for (headers, said) in [
        (json.to_owned(), "X-Confirmd-Request"),
        (ours.to_owned(), "application/json"),
        (format!("{ours}Content-Type: text/plain\n"), "application/json"),
        (format!("{ours}{json}Origin: https://evil.example\n"), "origin"),
        (format!("{ours}{json}Origin: null\n"), "origin"),
    ] {
        let (status, answer) = ask(&address, &pause(&headers)).await?;
        ensure!(status == 403 && answer.contains(said), "{headers}: {answer}");
    }
    let paused = |status: &Value| status["consumers"][0]["paused"].is_string();
    ensure!(!paused(&service.status().await?), "a refused request paused the consumer");
    // A browser asks before it sends what is not simple; it is not told that it may.
    let preflight = format!(
        "OPTIONS /v1/consumers/screen/pause HTTP/1.1\nHost: {address}\nOrigin: https://evil.example\nAccess-Control-Request-Method: POST\nConnection: close\n\n"
    );
    let (status, answer) = ask(&address, &preflight).await?;
    ensure!(status == 403 && !answer.to_lowercase().contains("access-control-allow"), "{answer}");

    ensure!(ask(&address, &pause(&format!("{ours}{json}"))).await?.0 == 200);
    ensure!(paused(&service.status().await?), "the consumer is not paused");
    service.terminate().await
}

async fn asked() -> Result<()> {
    let node = FakeEvm::start(EvmOptions { chain_id: 31_337, ..EvmOptions::default() }).await?;
    node.mine(12);
    // It would ask twenty times a second.
    let chain = ChainSection::evm("devnet", 31_337, &node.url()).line("limits = { requests_per_second = 5, attempts = 2 }");
    let chain = chain.confirmations("default = 1").reorg_depth(8);
    let config = Config::new().chain(chain).sink(SinkSection::of_kind("screen", "stdout"));
    let mut service = Service::start(&config).await?;
    let number = |requests: &Value, key: &str| requests[key].as_u64().unwrap_or_default();
    until_asked(&service, "a rate", |requests| number(requests, "per_minute") > 0).await?;
    let known = until_asked(&service, "a wait for the limit", |requests| number(requests, "waited_ms") > 0).await?;
    ensure!(number(&known, "answered") > 0 && number(&known, "failed") == 0 && number(&known, "throttled") == 0, "{known}");
    node.stop().await?;
    until_asked(&service, "a failure", |requests| number(requests, "failed") > 0).await?;
    service.terminate().await
}

/// Waits until what the chain's node was asked is as wanted, and returns it.
async fn until_asked(service: &Service, what: &str, holds: impl Fn(&Value) -> bool) -> Result<Value> {
    let start = tokio::time::Instant::now();
    loop {
        let (status, chain) = service.get("/v1/chains/devnet").await?;
        let requests = &chain["requests"];
        if status == 200 && holds(requests) {
            return Ok(requests.clone());
        }
        ensure!(start.elapsed() < SOON, "{what} did not come within {SOON:?}: {chain:#}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}
