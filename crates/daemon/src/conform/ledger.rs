//! The operator's own view of a deposit, over HTTP: the shape is documented in `docs/consumers.md`.

use anyhow::{Context as _, bail};
use confirmd_core::Amount;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::{StatusCode, Uri};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde::Deserialize;
use std::time::Duration;

/// An answer is one number.
const ANSWER_BYTES_MAX: usize = 16 * 1024;
const LIMIT: Duration = Duration::from_secs(15);

/// `--ledger`: where deposits can be looked up. Shows its host only.
#[derive(Clone)]
pub(crate) struct LedgerUrl(Uri);

impl std::fmt::Debug for LedgerUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LedgerUrl({})", self.host())
    }
}

impl std::str::FromStr for LedgerUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let uri: Uri = text.parse().map_err(|error| format!("not a URL ({error}); write https://host/path"))?;
        match (uri.scheme_str(), uri.host()) {
            (Some("http" | "https"), Some(_)) => Ok(Self(uri)),
            _ => Err("not a URL; write https://host/path".to_owned()),
        }
    }
}

/// Of the made-up names of a test chain only `:` is special in a query.
fn escaped(text: &str) -> String {
    text.replace(':', "%3A")
}

impl LedgerUrl {
    fn host(&self) -> &str {
        self.0.host().unwrap_or_default()
    }

    fn of(&self, (chain, tx_id, output_index): (&str, &str, u32)) -> anyhow::Result<Uri> {
        let given = self.0.to_string();
        let separator = if self.0.query().is_some() { '&' } else { '?' };
        let text = format!("{given}{separator}chain={}&tx_id={tx_id}&output_index={output_index}", escaped(chain));
        text.parse().context("put the deposit's key behind the ledger's URL")
    }

    /// What is credited for a deposit now, in base units; zero if the ledger knows nothing of it.
    pub(super) async fn credited(&self, key: (&str, &str, u32)) -> anyhow::Result<Amount> {
        let asked = tokio::time::timeout(LIMIT, self.ask(key)).await;
        let asked = asked.map_err(|_| anyhow::anyhow!("no answer within {LIMIT:?}")).and_then(|answer| answer);
        asked.with_context(|| format!("ask the ledger at {}", self.host()))
    }

    async fn ask(&self, key: (&str, &str, u32)) -> anyhow::Result<Amount> {
        #[derive(Deserialize)]
        struct Answer {
            credited: Amount,
        }
        let tls = HttpsConnectorBuilder::new().with_provider_and_webpki_roots(rustls::crypto::ring::default_provider())?;
        let client: Client<_, Empty<Bytes>> =
            Client::builder(TokioExecutor::new()).build(tls.https_or_http().enable_http1().build());
        // The client's own error repeats the URL, which may hold a key.
        let response = client.get(self.of(key)?).await.map_err(|error| {
            let why = std::error::Error::source(&error).map(ToString::to_string);
            anyhow::anyhow!("no answer: {}", why.unwrap_or_else(|| "the connection failed".to_owned()))
        })?;
        let status = response.status();
        if status == StatusCode::NOT_FOUND {
            return Ok(Amount::ZERO);
        }
        if status != StatusCode::OK {
            bail!("it answers {}; 200 or 404 is right", status.as_u16());
        }
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| anyhow::anyhow!("its answer can't be read: {error}"))?.to_bytes();
        let answer: Answer =
            serde_json::from_slice(&body).context("its answer is not {\"credited\": \"DECIMAL\"}, base units as a string")?;
        Ok(answer.credited)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_key_goes_behind_the_url_and_the_url_is_not_shown() {
        let ledger: LedgerUrl = "https://books.example/deposits?key=hunter2".parse().unwrap();
        let uri = ledger.of(("test:conform-1", "00ab", 3)).unwrap().to_string();
        assert_eq!(uri, "https://books.example/deposits?key=hunter2&chain=test%3Aconform-1&tx_id=00ab&output_index=3");
        assert_eq!(format!("{ledger:?}"), "LedgerUrl(books.example)");
        "ftp://books.example".parse::<LedgerUrl>().unwrap_err();
        "books.example".parse::<LedgerUrl>().unwrap_err();
    }
}
