//! Answers, and the lack of one.

use super::peer::{Answer, Peer};
use super::setup::{SECRET, config, delivery, file, hasty, sink};
use crate::{UrlSource, WebhookConfig};
use confirmd_core::{DeliverError, SecretSource, Sink, SinkErrorKind};
use std::time::{Duration, Instant};

const TRANSIENT: SinkErrorKind = SinkErrorKind::Transient { retry_after: None };
const REJECTED: SinkErrorKind = SinkErrorKind::Rejected { retry_after: None };

async fn refusal(config: &WebhookConfig) -> DeliverError {
    let error = sink(config).deliver(&[delivery(1)]).await.unwrap_err();
    assert_eq!(error.accepted, 0);
    error
}

#[tokio::test]
async fn k6_statuses_are_transient_rejected_or_fatal_and_carry_the_status_and_what_was_said() {
    for (status, kind) in [(500, TRANSIENT), (429, TRANSIENT), (404, REJECTED), (401, REJECTED), (403, REJECTED)] {
        let peer = Peer::start(vec![Answer::with(status, "", "no such\r\nroute")]).await;
        let error = refusal(&config(&peer.url())).await.error;
        assert_eq!((error.kind, error.status), (kind, Some(status)));
        let text = error.to_string();
        assert!(text.contains(&format!("answered {status}")) && text.contains("no such route"), "{text}");
    }
}

#[tokio::test]
async fn k6_a_refused_or_broken_connection_is_transient_with_the_reason() {
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let closed = config(&format!("http://{address}/"));
    let error = refusal(&closed).await.error;
    assert_eq!((error.kind, error.status), (TRANSIENT, None));
    assert!(error.to_string().contains("refused"), "{error}");
    let error = sink(&closed).check().await.unwrap_err();
    assert_eq!(error.kind, TRANSIENT, "a receiver that is down must not stop the start");
    assert!(error.to_string().contains("refused"), "{error}");

    for bytes in ["", "HTTP/1.1 20", "SSH-2.0-OpenSSH_9\r\n", "\0\0\0\0\r\n\r\n"] {
        let peer = Peer::start(vec![Answer::Last(bytes.into())]).await;
        assert_eq!(refusal(&config(&peer.url())).await.error.kind, TRANSIENT, "{bytes:?}");
    }
}

#[tokio::test]
async fn k7_retry_after_is_passed_on() {
    let peer =
        Peer::start(vec![Answer::with(503, "retry-after: 7\r\n", ""), Answer::with(404, "retry-after: 90000\r\n", "")]).await;
    let retry_after = Some(Duration::from_secs(7));
    assert_eq!(refusal(&config(&peer.url())).await.error.kind, SinkErrorKind::Transient { retry_after });
    let retry_after = Some(Duration::from_secs(86_400));
    assert_eq!(refusal(&config(&peer.url())).await.error.kind, SinkErrorKind::Rejected { retry_after });
}

#[tokio::test]
async fn k8_e19_secrets_and_urls_appear_in_no_error_and_no_debug_output_even_if_the_receiver_repeats_them() {
    let said = format!("Cannot POST /hooks/T0KEN?key=Q1 with {SECRET} and hunter2, sorry");
    let peer = Peer::start(vec![Answer::with(500, "", &said)]).await;
    let url = format!("http://us3r:hunter2@{}/hooks/T0KEN?key=Q1", peer.address);
    let config = WebhookConfig { url: UrlSource::Kept(SecretSource::File(file(&url))), ..config("https://unused.example") };
    let error = refusal(&config).await;
    assert!(peer.seen()[0].headers["authorization"].to_str().unwrap().starts_with("Basic "));
    let shown = format!("{error} {error:?} {:?} {config:?}", sink(&config));
    for hidden in ["T0KEN", "Q1", SECRET, "hunter2", "us3r"] {
        assert!(!shown.contains(hidden), "{hidden} in {shown}");
    }
    assert!(shown.contains("sorry") && shown.contains(&peer.address.to_string()), "{shown}");
}

#[tokio::test]
async fn k9_silence_and_answers_that_never_end_end_at_the_total_deadline() {
    for (bytes, why) in [
        ("", "no answer"),
        ("HTTP/1.1 200 OK\r\n", "no answer"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc", "did not end"),
    ] {
        let mut peer = Peer::start(vec![Answer::Stall(bytes.into())]).await;
        let started = Instant::now();
        let error = refusal(&hasty(&peer.url())).await.error;
        assert_eq!(error.kind, TRANSIENT);
        assert!(error.to_string().contains(why) && error.to_string().contains("within 300ms"), "{error}");
        assert!(started.elapsed() >= Duration::from_millis(300) && started.elapsed() < Duration::from_secs(10));
        peer.closed(1).await;
    }
    // The status is known: it decides, though its body never ends.
    let peer = Peer::start(vec![Answer::Stall("HTTP/1.1 404 X\r\ncontent-length: 10\r\n\r\nabc".into())]).await;
    let error = refusal(&hasty(&peer.url())).await.error;
    assert_eq!((error.kind, error.status), (REJECTED, Some(404)));
}

#[tokio::test]
async fn k9_an_endless_answer_is_read_up_to_the_cap_and_the_connection_closed() {
    for status in [200, 500] {
        let mut peer = Peer::start(vec![Answer::Flood(format!("HTTP/1.1 {status} X\r\nconnection: close\r\n\r\n"))]).await;
        let result = sink(&config(&peer.url())).deliver(&[delivery(1)]).await;
        assert_eq!(result.is_ok(), status == 200);
        peer.closed(1).await;
        // What the peer could send beyond the cap sat in the system's socket buffers.
        assert!(peer.flooded() < 32 * 1024 * 1024, "{}", peer.flooded());
        if let Err(error) = result {
            assert!(error.to_string().len() < 600, "{error}");
        }
    }
    let endless_head = Peer::start(vec![Answer::Flood("HTTP/1.1 200 OK\r\nx: ".into())]).await;
    assert_eq!(refusal(&config(&endless_head.url())).await.error.kind, TRANSIENT);
}

#[tokio::test]
async fn k10_a_success_whose_answer_breaks_off_is_not_taken_for_accepted() {
    let peer = Peer::start(vec![Answer::Last("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc".into())]).await;
    let error = refusal(&config(&peer.url())).await.error;
    assert_eq!((error.kind, error.status), (TRANSIENT, Some(200)));
    assert!(error.to_string().contains("broke off"), "{error}");
}

#[tokio::test]
async fn d08_redirects_are_not_followed_wherever_they_lead() {
    let elsewhere = Peer::start(vec![Answer::status(200)]).await;
    for status in [301, 302, 303, 307, 308] {
        for location in [elsewhere.url(), "/other".into(), "http://169.254.169.254/latest".into()] {
            let peer = Peer::start(vec![Answer::with(status, &format!("location: {location}\r\n"), "")]).await;
            let error = refusal(&config(&peer.url())).await.error;
            assert_eq!((error.kind, error.status), (REJECTED, Some(status)));
            assert!(error.to_string().contains("not followed"), "{error}");
            assert_eq!(peer.seen().len(), 1);
        }
    }
    assert_eq!(elsewhere.opened(), 0);
}

#[tokio::test]
async fn d10_gone_pauses_the_consumer_and_every_success_is_one() {
    let peer = Peer::start(vec![Answer::status(410)]).await;
    let error = refusal(&config(&peer.url())).await.error;
    assert_eq!((error.kind, error.status), (SinkErrorKind::Fatal, Some(410)));
    assert!(error.to_string().contains("resume"), "{error}");
    for answer in [
        Answer::status(200),
        Answer::status(226),
        Answer::Stay("HTTP/1.1 204 No Content\r\n\r\n".into()),
        Answer::Stay("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n".into()),
        Answer::Stay("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".into()),
        Answer::Last("HTTP/1.0 200 OK\r\n\r\nuntil the end".into()),
    ] {
        let peer = Peer::start(vec![answer.clone()]).await;
        sink(&config(&peer.url())).deliver(&[delivery(1)]).await.unwrap_or_else(|error| panic!("{answer:?}: {error}"));
    }
}
