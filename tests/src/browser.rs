//! A real browser without a window, driven over WebDriver.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use base64::Engine as _;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Method, Request};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::nodes::Needs;
use crate::port::Port;
use crate::process::Process;
use crate::scratch::scratch_dir;
use crate::support::SOON;

/// Nothing tells of what a page shows; it is looked at.
const LOOK: Duration = Duration::from_millis(40);
/// A browser that was asked to end gets this long.
const END: Duration = Duration::from_secs(5);
/// What WebDriver calls an element in JSON.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// How a browser is started.
#[derive(Debug, Clone, Copy)]
pub struct BrowserOptions {
    /// Whether pages may run scripts.
    pub javascript: bool,
    /// Pixels: width and height of the page's area.
    pub size: (u32, u32),
}

impl Default for BrowserOptions {
    fn default() -> Self {
        Self { javascript: true, size: (1180, 860) }
    }
}

/// One browser with one tab and a profile of its own. Ends when dropped.
#[derive(Debug)]
pub struct Browser {
    _driver: Process,
    /// The browser's own process, once the driver has named it.
    pid: Option<u64>,
    session: String,
    client: Client<HttpConnector, Full<Bytes>>,
    _profile: TempDir,
    _port: Port,
}

impl Browser {
    /// Starts driver and browser.
    pub async fn start(options: BrowserOptions) -> Result<Self> {
        let program = Needs::Browser.path().context("no browser: run tests/browser/install")?;
        let (port, profile) = (Port::free()?, scratch_dir()?);
        let mut command = Command::new(program);
        command.arg(format!("--port={}", port.number())).env("HOME", profile.path());
        let driver = Process::spawn_logged("chromedriver", &mut command, &profile.path().join("driver.log"))?;
        let client = Client::builder(TokioExecutor::new()).build_http();
        let base = format!("http://127.0.0.1:{}", port.number());
        let mut browser = Self { _driver: driver, pid: None, session: base.clone(), client, _profile: profile, _port: port };
        browser
            .until("the driver", async || {
                Ok(browser.get("/status").await.is_ok_and(|status| status.get("ready") == Some(&Value::Bool(true))))
            })
            .await?;

        let (width, height) = options.size;
        let profile = format!("--user-data-dir={}", browser._profile.path().join("profile").display());
        // A sandbox of its own can't be had as root; everything it opens is ours and on loopback.
        let args = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--lang=en",
            &profile,
        ];
        let scripts = if options.javascript { 1 } else { 2 };
        let chrome = json!({
            "args": args,
            "mobileEmulation": { "deviceMetrics": { "width": width, "height": height, "pixelRatio": 1, "touch": false, "mobile": width < 600 } },
            "prefs": { "profile.managed_default_content_settings.javascript": scripts },
        });
        let wanted = json!({ "capabilities": { "alwaysMatch": { "goog:chromeOptions": chrome, "goog:loggingPrefs": { "browser": "ALL" } } } });
        let made = browser.post("/session", wanted).await.context("start the browser")?;
        let id = made.get("sessionId").and_then(Value::as_str).with_context(|| format!("no session in {made}"))?;
        browser.session = format!("{base}/session/{id}");
        browser.pid = made.pointer("/capabilities/goog:processID").and_then(Value::as_u64);
        ensure!(browser.pid.is_some(), "the driver does not name the browser's process: {made}");
        Ok(browser)
    }

    async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> Result<Value> {
        let uri = format!("{}{path}", self.session);
        let body = body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()));
        let request = Request::builder().method(method).uri(&uri).header("content-type", "application/json");
        let answer = self.client.request(request.body(Full::new(body))?).await.with_context(|| format!("ask {uri}"))?;
        let status = answer.status();
        let bytes = answer.into_body().collect().await?.to_bytes();
        let mut answer: Value = serde_json::from_slice(&bytes).with_context(|| format!("{path} answers {bytes:?}"))?;
        let value = answer.get_mut("value").map(Value::take).unwrap_or_default();
        ensure!(status.is_success(), "{path}: {value}");
        Ok(value)
    }

    async fn get(&self, path: &str) -> Result<Value> {
        self.ask(Method::GET, path, None).await
    }

    async fn post(&self, path: &str, body: Value) -> Result<Value> {
        self.ask(Method::POST, path, Some(body)).await
    }

    /// Waits until something holds; the error shows the page's text.
    async fn until(&self, what: &str, holds: impl AsyncFn() -> Result<bool>) -> Result<()> {
        let start = tokio::time::Instant::now();
        loop {
            let held = holds().await;
            if matches!(held, Ok(true)) {
                return Ok(());
            }
            if start.elapsed() > SOON {
                let (text, address) = (self.text("body").await.unwrap_or_default(), self.address().await.unwrap_or_default());
                bail!("{what} did not come within {SOON:?} ({held:?}); {address} shows:\n{text}");
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Opens a page and waits until it is loaded.
    pub async fn open(&self, url: &str) -> Result<()> {
        self.post("/url", json!({ "url": url })).await.map(drop)
    }

    /// Where it is.
    pub async fn address(&self) -> Result<String> {
        Ok(self.get("/url").await?.as_str().unwrap_or_default().to_owned())
    }

    async fn find(&self, using: &str, value: &str) -> Result<String> {
        let found = self.post("/element", json!({ "using": using, "value": value })).await?;
        let id = found.get(ELEMENT).and_then(Value::as_str).with_context(|| format!("no element in {found}"))?;
        Ok(id.to_owned())
    }

    /// The text a person sees within the first element of a selector.
    pub async fn text(&self, css: &str) -> Result<String> {
        let element = self.find("css selector", css).await?;
        Ok(self.get(&format!("/element/{element}/text")).await?.as_str().unwrap_or_default().to_owned())
    }

    /// Whether anything matches a selector.
    pub async fn has(&self, css: &str) -> Result<bool> {
        let found = self.post("/elements", json!({ "using": "css selector", "value": css })).await?;
        Ok(found.as_array().is_some_and(|found| !found.is_empty()))
    }

    /// Waits until the page shows a text.
    pub async fn until_shown(&self, text: &str) -> Result<()> {
        self.until(text, async || Ok(self.text("body").await?.contains(text))).await
    }

    /// Waits until the page does not show a text any more.
    pub async fn until_gone(&self, text: &str) -> Result<()> {
        self.until(&format!("the end of {text}"), async || Ok(!self.text("body").await?.contains(text))).await
    }

    /// Waits until something matches a selector.
    pub async fn until_drawn(&self, css: &str) -> Result<()> {
        self.until(css, async || self.has(css).await).await
    }

    /// Clicks the first element of a selector.
    pub async fn click(&self, css: &str) -> Result<()> {
        self.click_on("css selector", css).await
    }

    /// Clicks the link or button whose whole text or label this is.
    pub async fn press(&self, text: &str) -> Result<()> {
        let quoted = format!("\"{text}\"");
        let path = format!("//*[self::a or self::button or self::summary][normalize-space()={quoted} or @aria-label={quoted}]");
        self.click_on("xpath", &path).await
    }

    /// Where the page was made fresh between finding and clicking, the fresh one is clicked, as a person would.
    async fn click_on(&self, using: &str, value: &str) -> Result<()> {
        let mut left = 5;
        loop {
            let element = self.find(using, value).await?;
            match self.post(&format!("/element/{element}/click"), json!({})).await {
                Err(error) if left > 0 && error.to_string().contains("stale element reference") => left -= 1,
                clicked => return clicked.map(drop),
            }
        }
    }

    /// Types into the first element of a selector; `\n` is the Enter key.
    pub async fn fill(&self, css: &str, text: &str) -> Result<()> {
        let element = self.find("css selector", css).await?;
        let keys = text.replace('\n', "\u{E007}");
        self.post(&format!("/element/{element}/value"), json!({ "text": keys })).await.map(drop)
    }

    /// Presses and releases one key, wherever the focus is: `\u{E004}` is Tab, `\u{E007}` Enter.
    pub async fn key(&self, key: char) -> Result<()> {
        let actions = json!([{ "type": "keyDown", "value": key.to_string() }, { "type": "keyUp", "value": key.to_string() }]);
        self.post("/actions", json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": actions }] })).await.map(drop)
    }

    /// Runs the body of a function in the page; what it returns.
    pub async fn run(&self, script: &str) -> Result<Value> {
        self.post("/execute/sync", json!({ "script": script, "args": [] })).await
    }

    /// Prefers the dark or the light scheme from now on.
    pub async fn prefer_dark(&self, dark: bool) -> Result<()> {
        let value = if dark { "dark" } else { "light" };
        let params = json!({ "features": [{ "name": "prefers-color-scheme", "value": value }] });
        self.post("/goog/cdp/execute", json!({ "cmd": "Emulation.setEmulatedMedia", "params": params })).await.map(drop)
    }

    /// What the browser complained about since it was last asked: blocked resources, errors in scripts.
    pub async fn complaints(&self) -> Result<Vec<String>> {
        let log = self.post("/se/log", json!({ "type": "browser" })).await?;
        let entries = log.as_array().cloned().unwrap_or_default();
        let severe = entries.iter().filter(|entry| ["SEVERE", "WARNING"].contains(&entry["level"].as_str().unwrap_or_default()));
        Ok(severe.map(|entry| entry["message"].as_str().unwrap_or_default().to_owned()).collect())
    }

    /// What is seen now, as PNG.
    pub async fn screenshot(&self) -> Result<Vec<u8>> {
        let text = self.get("/screenshot").await?;
        let text = text.as_str().context("no picture")?;
        base64::engine::general_purpose::STANDARD.decode(text).map_err(|error| anyhow!("the picture is not base64: {error}"))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver leaves its browser behind. Asked to end, a browser takes its children along and leaves its profile alone.
        let Some(pid) = self.pid else { return };
        let send = |signal: &str| drop(Command::new("sh").args(["-c", &format!("kill -{signal} {pid}")]).status());
        send("TERM");
        // What has ended and was not waited for has no command line.
        let runs = || std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty());
        let start = std::time::Instant::now();
        while runs() && start.elapsed() < END {
            std::thread::sleep(LOOK);
        }
        if runs() {
            send("KILL");
        }
    }
}
