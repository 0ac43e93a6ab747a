//! Tokens made here with keys made here, and each way in which one may be wrong.

use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};

use super::*;

struct Issuer {
    key: EcdsaKeyPair,
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes)
}

impl Issuer {
    fn new() -> Issuer {
        let random = SystemRandom::new();
        let bytes = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, bytes.as_ref(), &random).unwrap();
        Issuer { key }
    }

    fn key_set(&self, extra: &str) -> KeySet {
        let point = self.key.public_key().as_ref();
        let (x, y) = (encode(&point[1..33]), encode(&point[33..]));
        let document = format!(r#"{{"keys":[{{"kty":"EC","crv":"P-256","kid":"one","x":"{x}","y":"{y}"{extra}}}]}}"#);
        KeySet::parse(document.as_bytes()).unwrap()
    }

    fn token(&self, header: &str, claims: &str) -> String {
        let signed = format!("{}.{}", encode(header), encode(claims));
        let signature = self.key.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", encode(signature))
    }
}

const HEADER: &str = r#"{"alg":"ES256","kid":"one"}"#;

#[test]
fn a_token_signed_by_the_key_is_believed() {
    let issuer = Issuer::new();
    let text = issuer.token(HEADER, r#"{"iss":"me","aud":["other","db:7"],"exp":200}"#);
    assert!(is_token(&text));
    let token = Token::parse(&text).unwrap();
    assert!(issuer.key_set("").verify(&token));
    assert_eq!(token.issuer().as_deref(), Some("me"));
    assert_eq!(token.audience("db:").as_deref(), Some("db:7"));
    let unnamed = Token::parse(&issuer.token(r#"{"alg":"ES256"}"#, "{}")).unwrap();
    assert!(issuer.key_set("").verify(&unnamed));
}

#[test]
fn a_token_signed_by_another_key_is_not() {
    let issuer = Issuer::new();
    let good = issuer.token(HEADER, r#"{"sub":"a"}"#);
    let (signed, signature) = good.rsplit_once('.').unwrap();
    let other_claims = format!("{}.{}.{signature}", encode(HEADER), encode(r#"{"sub":"b"}"#));
    let unsigned = format!("{signed}.");
    let none = format!("{}.{}.", encode(r#"{"alg":"none","kid":"one"}"#), encode("{}"));
    let shared = issuer.token(r#"{"alg":"HS256","kid":"one"}"#, "{}");
    let as_rsa = issuer.token(r#"{"alg":"RS256","kid":"one"}"#, "{}");
    let other_key = issuer.token(r#"{"alg":"ES256","kid":"two"}"#, "{}");
    let stranger = Issuer::new().token(HEADER, "{}");
    let keys = issuer.key_set("");
    for text in [other_claims, unsigned, none, shared, as_rsa, other_key, stranger] {
        let token = Token::parse(&text);
        assert!(!token.is_some_and(|token| keys.verify(&token)), "{text}");
    }
    let encrypts = issuer.key_set(r#","use":"enc""#);
    assert!(!encrypts.verify(&Token::parse(&good).unwrap()));
}

#[test]
fn a_malformed_token_counts_as_none() {
    let header = encode(HEADER);
    let critical = encode(r#"{"alg":"ES256","crit":["b64"]}"#);
    let long = "a".repeat(TOKEN_BYTES_MAX + 1);
    let bodies = [
        "ey.".to_owned(),
        "ey..".into(),
        format!("{header}.e30"),
        format!("{header}.e30.!"),
        format!("{header}.W10.AA"),
        format!("{critical}.e30.AA"),
        format!("{header}.{}.AA", encode("[".repeat(1000))),
        format!("{header}.{long}.AA"),
    ];
    for body in bodies {
        assert!(Token::parse(&body).is_none(), "{body}");
    }
    for document in ["", "[]", "{}", r#"{"keys":7}"#] {
        assert!(KeySet::parse(document.as_bytes()).is_none(), "{document}");
    }
    let useless =
        r#"{"keys":[7,{},{"kty":"oct","k":"AA"},{"kty":"RSA","n":"!","e":"AQAB"},{"kty":"EC","crv":"P-384"}]}"#;
    assert!(KeySet::parse(useless.as_bytes()).unwrap().keys.is_empty());
}

#[test]
fn a_token_has_its_time() {
    let issuer = Issuer::new();
    let is_current = |claims: &str| {
        Token::parse(&issuer.token(HEADER, claims))
            .unwrap()
            .is_current(100_000_000)
    };
    for current in ["{}", r#"{"exp":101}"#, r#"{"exp":100.5}"#, r#"{"nbf":99,"exp":101}"#] {
        assert!(is_current(current), "{current}");
    }
    for not in [
        r#"{"exp":100}"#,
        r#"{"nbf":100}"#,
        r#"{"exp":"never"}"#,
        r#"{"exp":null}"#,
        r#"{"nbf":[]}"#,
    ] {
        assert!(!is_current(not), "{not}");
    }
}

#[test]
fn several_audiences_of_ours_are_none() {
    let issuer = Issuer::new();
    let token = Token::parse(&issuer.token(HEADER, r#"{"aud":["db:1","db:2"]}"#)).unwrap();
    assert_eq!(token.audience("db:"), None);
}

#[test]
fn keys_are_fetched_when_due_and_kept_when_not() {
    use std::sync::atomic::{AtomicU64, Ordering};
    let issuer = Arc::new(Issuer::new());
    let fetched = Arc::new(AtomicU64::new(0));
    let (count, point) = (fetched.clone(), issuer.key.public_key().as_ref().to_vec());
    let mut sets = keys::KeySets::default();
    sets.fetch = Some(Box::new(move |uri| {
        count.fetch_add(1, Ordering::Relaxed);
        let (x, y) = (encode(&point[1..33]), encode(&point[33..]));
        let set = format!(r#"{{"keys":[{{"kty":"EC","crv":"P-256","kid":"one","x":"{x}","y":"{y}"}}]}}"#);
        match uri {
            "good" => Ok(set.into_bytes()),
            _ => Err("unreachable".into()),
        }
    }));
    let (good, bad): (Arc<str>, Arc<str>) = ("good".into(), "bad".into());
    let token = Token::parse(&issuer.token(HEADER, "{}")).unwrap();
    let unknown = Token::parse(&issuer.token(r#"{"alg":"ES256","kid":"two"}"#, "{}")).unwrap();
    let second = 1_000_000;
    let ask = |uri: &Arc<str>, token: &Token, now: u64| {
        if !sets.are_ready(uri, token, now) {
            sets.make_ready(uri, token, now);
        }
        (sets.known(uri).verify(token), fetched.load(Ordering::Relaxed))
    };
    assert_eq!(ask(&good, &token, second), (true, 1));
    assert_eq!(ask(&good, &token, 60 * second), (true, 1));
    assert_eq!(ask(&good, &unknown, 60 * second), (false, 2));
    assert_eq!(ask(&good, &unknown, 60 * second + 400_000), (false, 2));
    assert_eq!(ask(&good, &token, 700 * second), (true, 3));
    assert_eq!(ask(&bad, &token, second), (false, 4));
    assert_eq!(ask(&bad, &token, second + 400_000), (false, 4));
    assert_eq!(ask(&bad, &token, second + 600_000), (false, 5));
}
