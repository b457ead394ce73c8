//! Both signatures, judged by code that is not ours and by values made elsewhere.

use super::peer::{Answer, Peer};
use super::setup::{SECRET, SECRET_OLD, build, config, delivery, file, sink};
use crate::WebhookConfig;
use crate::signing::SigningKeys;
use confirmd_core::{EventId, SecretSource, Sink};
use standardwebhooks::Webhook;

fn rotating(url: &str) -> WebhookConfig {
    WebhookConfig { secret_previous: Some(SecretSource::File(file(SECRET_OLD))), ..config(url) }
}

#[test]
fn the_signatures_equal_those_of_another_implementation() {
    let id = EventId::new("evt_c20545c8d0d9d80e68fea40910c0f10f").unwrap();
    let keys = SigningKeys::read(&rotating("https://a.example")).unwrap();
    let signatures = keys.sign(&id, 1_767_225_600, br#"{"amount":"1"}"#);
    // Computed with Python's hmac over the bytes 0..32 and 32..64.
    assert_eq!(
        signatures.standard,
        "v1,/muXq4ZS5UsqqbZNzP8oBBQWTzdm9fs0i6AduN/CBew= v1,CZnvHX4K44SrLpzLR5c/wrKq0vGdm8NGYbKngMwlpU0="
    );
    assert_eq!(
        signatures.plain,
        "sha256=aaacd3be967614056d6b56da70ace537bfa1fe8d5a8bb8532f3e478c657a9d33,sha256=615e594a5e52791d594c8c58f4ccfb000076015d753e5c6b9a1df2d35785204f"
    );
}

#[tokio::test]
async fn the_standard_library_for_standard_webhooks_accepts_a_request_and_refuses_a_changed_one() {
    let peer = Peer::start(vec![Answer::status(204)]).await;
    sink(&config(&peer.url())).deliver(&[delivery(1)]).await.unwrap();
    let seen = &peer.seen()[0];
    Webhook::new(SECRET).unwrap().verify(&seen.body, &seen.headers).unwrap();
    assert!(Webhook::new(SECRET_OLD).unwrap().verify(&seen.body, &seen.headers).is_err());
    let mut changed = seen.body.clone();
    changed[10] ^= 1;
    assert!(Webhook::new(SECRET).unwrap().verify(&changed, &seen.headers).is_err());
}

#[tokio::test]
async fn d13_while_rotating_every_attempt_carries_both_signatures_and_a_retry_uses_the_secrets_of_its_own_time() {
    let peer = Peer::start(vec![Answer::status(500), Answer::status(500), Answer::status(204)]).await;
    let before = WebhookConfig { secret: SecretSource::File(file(SECRET_OLD)), ..config(&peer.url()) };
    for config in [before, rotating(&peer.url()), config(&peer.url())] {
        let _ = sink(&config).deliver(&[delivery(1)]).await;
    }
    let accepts = |secret: &str| -> Vec<bool> {
        let webhook = Webhook::new(secret).unwrap();
        peer.seen().iter().map(|seen| webhook.verify(&seen.body, &seen.headers).is_ok()).collect()
    };
    assert_eq!(accepts(SECRET_OLD), [true, true, false]);
    assert_eq!(accepts(SECRET), [false, true, true]);
    let plain: Vec<_> = peer.seen().iter().map(|s| s.headers["x-confirmd-signature"].to_str().unwrap().to_owned()).collect();
    assert_eq!(plain[1], format!("{},{}", plain[2], plain[0]), "newest first");
}

#[test]
fn k8_a_secret_of_a_wrong_form_is_refused_at_the_start_without_showing_it() {
    for wrong in [
        "hunter2hunter2hunter2hunter2hunter2",
        "whsec_hunter2!hunter2!hunter2!hunter2!",
        "whsec_",
        "whsec_aHVudGVyMg==",
        &format!("whsec_{}", "hunter22".repeat(16)),
        "WHSEC_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
    ] {
        let error = build(&format!("url = 'https://a.example'\nsecret = {{ file = {:?} }}", file(wrong))).unwrap_err();
        assert_eq!(error.key, "secret");
        let text = error.to_string();
        assert!(text.contains("whsec_ and"), "{text}");
        assert!(!text.contains("hunter2") && !text.contains("aHVudGVy") && !text.contains("AAECAwQF"), "{text}");
    }
    let unpadded = SECRET.trim_end_matches('=');
    build(&format!("url = 'https://a.example'\nsecret = {{ file = {:?} }}", file(unpadded))).unwrap();
}
