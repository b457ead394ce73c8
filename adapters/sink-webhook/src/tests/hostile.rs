//! Answers as a broken or spiteful receiver could give them.

use super::peer::{Answer, Peer};
use super::setup::{SECRET, delivery, hasty, sink};
use crate::answer::{excerpt, judge};
use confirmd_core::{Sink, SinkErrorKind, Timestamp};
use confirmd_hostile::{Alteration, assert_bounded, cases, config};
use fastrand::Rng;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use proptest::prelude::*;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);

proptest! {
    #![proptest_config(config(3_000))]

    #[test]
    fn hostile_webhook_every_status_with_any_retry_after_has_one_meaning_within_a_day(
        status in 100u16..1000, value in prop_oneof![prop::collection::vec(any::<u8>(), 0..40), "[0-9]{0,40}".prop_map(String::into_bytes)],
        now in any::<u64>(),
    ) {
        let mut headers = HeaderMap::new();
        if let Ok(value) = HeaderValue::from_bytes(&value) {
            headers.insert(header::RETRY_AFTER, value);
        }
        match judge(StatusCode::from_u16(status).unwrap(), &headers, Timestamp(now)) {
            None => prop_assert!((200..300).contains(&status)),
            Some(SinkErrorKind::Fatal) => prop_assert_eq!(status, 410),
            Some(SinkErrorKind::Transient { retry_after } | SinkErrorKind::Rejected { retry_after }) => {
                prop_assert!(retry_after.is_none_or(|wait| wait <= DAY));
            }
        }
    }

    #[test]
    fn hostile_webhook_an_excerpt_of_any_body_is_short_printable_and_hides_what_must_be_hidden(
        seed in any::<u64>(), pieces in 1usize..12,
    ) {
        let (secret, mut rng) = ("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX", Rng::with_seed(seed));
        let mut body = Vec::new();
        for _ in 0..pieces {
            match rng.u8(..5) {
                0 => body.extend_from_slice(secret.as_bytes()),
                1 => body.extend((0..rng.usize(..20)).map(|_| rng.u8(..))),
                2 => body.extend(vec![b' '; rng.usize(..4_200)]),
                3 => body.extend("é\u{7f}\r\n".repeat(rng.usize(..200)).as_bytes()),
                _ => body.extend((0..rng.usize(..400)).map(|_| rng.u8(b'!'..b'0'))),
            }
        }
        let shown = assert_bounded(body.len(), 16, 64 * 1024, || excerpt(&body, [secret].into_iter()));
        prop_assert!(shown.len() <= 303 && !shown.chars().any(char::is_control));
        prop_assert!(!shown.contains(&secret[..16]), "{}", shown);
    }
}

/// Spaces vanish from an excerpt, so that what was cut far behind its end can be pulled into it.
#[test]
fn hostile_webhook_a_secret_that_is_cut_in_half_behind_spaces_is_not_shown() {
    for shown in 1..SECRET.len() {
        let body = format!("no{}{SECRET}", " ".repeat(4096 - 2 - shown));
        let text = excerpt(body.as_bytes(), [SECRET].into_iter());
        assert_eq!(text, "no", "{shown} bytes of the secret stood before the cut");
    }
}

#[tokio::test]
async fn hostile_webhook_only_a_whole_answer_of_success_is_success() {
    let good = "HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n";
    for end in 0..good.len() {
        let peer = Peer::start(vec![Answer::Last(good[..end].into())]).await;
        let error = sink(&hasty(&peer.url())).deliver(&[delivery(1)]).await.unwrap_err();
        assert!(matches!(error.error.kind, SinkErrorKind::Transient { .. }), "{end}: {}", error.error);
    }
}

#[tokio::test]
async fn hostile_webhook_an_altered_refusal_is_never_success() {
    let bad = "HTTP/1.1 500 Oh\r\nretry-after: 7\r\ncontent-type: text/plain\r\ncontent-length: 4\r\n\r\nsore";
    for seed in 0..u64::from(cases(150)) {
        let mut rng = Rng::with_seed(seed);
        let mut bytes = bad.as_bytes().to_vec();
        for _ in 0..rng.usize(1..4) {
            bytes = Alteration::random(&mut rng, bytes.len()).apply(&bytes);
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let peer = Peer::start(vec![Answer::Last(text.clone())]).await;
        let accepted = sink(&hasty(&peer.url())).deliver(&[delivery(1)]).await.is_ok();
        assert!(!accepted || text.starts_with("HTTP/1.1 2") || text.starts_with("HTTP/1.0 2"), "seed {seed}: {text:?}");
    }
}
