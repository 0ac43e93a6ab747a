//! Signature Version 4, as DynamoDB wants its requests.
//!
//! A signer keeps the key of the day, so a request costs two hashes and one HMAC. No I/O.
//!
//! Source: the AWS General Reference, "Signature Version 4 signing process".

#![forbid(unsafe_code)]
#![warn(missing_docs)]

use hmac::{Hmac, Mac};
use parking_lot::Mutex;
use quartet_model::hexadecimal;
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

/// The name of the algorithm, as requests give it.
pub const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// The service that DynamoDB's signatures are for.
pub const SERVICE: &str = "dynamodb";
/// The last part of every scope.
const TERMINATOR: &str = "aws4_request";
const CONTENT_TYPE: &str = "application/x-amz-json-1.0";
const DATE: &[BorrowedFormatItem<'_>] = format_description!("[year][month][day]T[hour][minute][second]Z");

/// An HMAC with the key of one secret, day, region and service.
pub type SigningKey = Hmac<Sha256>;

/// The caller's credential, and the region.
#[derive(Clone)]
pub struct Credential {
    /// The name of the key.
    pub access_key: String,
    /// The secret that belongs to it.
    pub secret: String,
    /// The session token of temporary credentials.
    pub session_token: Option<String>,
    /// The region that requests are for.
    pub region: String,
}

/// Signs requests with one credential.
pub struct Signer {
    credential: Credential,
    service: &'static str,
    /// The newest day of a request, as `yyyymmdd`, and its key.
    newest: Mutex<Option<(String, SigningKey)>>,
}

impl Signer {
    /// Returns a signer of requests to DynamoDB.
    pub fn new(credential: Credential) -> Signer {
        Signer {
            credential,
            service: SERVICE,
            newest: Mutex::default(),
        }
    }

    /// Returns the headers of a POST to `/`, signed by the clock of this machine.
    pub fn headers(&self, host: &str, operation: &str, body: &str) -> Vec<(&'static str, String)> {
        let date = OffsetDateTime::now_utc().format(DATE).expect("years of four digits");
        self.headers_at(&date, host, operation, body)
    }

    fn headers_at(&self, date: &str, host: &str, operation: &str, body: &str) -> Vec<(&'static str, String)> {
        let mut headers = vec![
            ("content-type", CONTENT_TYPE.to_owned()),
            ("host", host.to_owned()),
            ("x-amz-date", date.to_owned()),
        ];
        let token = self.credential.session_token.clone();
        headers.extend(token.map(|token| ("x-amz-security-token", token)));
        headers.push(("x-amz-target", format!("DynamoDB_20120810.{operation}")));
        headers.push(("authorization", self.authorization(date, &headers, body)));
        headers
    }

    /// Returns the value of the header `authorization`; `headers` are in the order of their names.
    fn authorization(&self, date: &str, headers: &[(&'static str, String)], body: &str) -> String {
        let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
        let signed = names.join(";");
        let mut canonical = String::from("POST\n/\n\n");
        for (name, value) in headers {
            canonical.extend([name, ":", value, "\n"]);
        }
        canonical.extend(["\n", &signed, "\n", &hexadecimal(&Sha256::digest(body))]);
        let day = &date[..8];
        let scope = format!("{day}/{}/{}/{TERMINATOR}", self.credential.region, self.service);
        let digest = hexadecimal(&Sha256::digest(canonical));
        let to_sign = format!("{ALGORITHM}\n{date}\n{scope}\n{digest}");
        let signature = hexadecimal(&self.key(day).chain_update(to_sign).finalize().into_bytes());
        let credential = &self.credential.access_key;
        format!("{ALGORITHM} Credential={credential}/{scope}, SignedHeaders={signed}, Signature={signature}")
    }

    fn key(&self, day: &str) -> SigningKey {
        let mut newest = self.newest.lock();
        if let Some((_, key)) = newest.as_ref().filter(|(cached_day, _)| cached_day == day) {
            return key.clone();
        }
        let key = signing_key(&self.credential.secret, day, &self.credential.region, self.service);
        *newest = Some((day.to_owned(), key.clone()));
        key
    }
}

/// Derives the key of a secret for a day (`yyyymmdd`), a region and a service.
pub fn signing_key(secret: &str, day: &str, region: &str, service: &str) -> SigningKey {
    let first = keyed(format!("AWS4{secret}").as_bytes());
    let parts = [day, region, service, TERMINATOR];
    parts.iter().fold(first, |key, part| {
        keyed(&key.chain_update(part).finalize().into_bytes())
    })
}

fn keyed(key: &[u8]) -> SigningKey {
    SigningKey::new_from_slice(key).expect("a key of any length")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credential(access_key: &str, secret: &str, region: &str) -> Credential {
        Credential {
            access_key: access_key.into(),
            secret: secret.into(),
            session_token: None,
            region: region.into(),
        }
    }

    /// "post-vanilla" of the AWS Signature Version 4 Test Suite.
    #[test]
    fn the_published_example_has_its_published_signature() {
        let credential = credential("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "us-east-1");
        let signer = Signer {
            service: "service",
            ..Signer::new(credential)
        };
        let date = "20150830T123600Z";
        let headers = [("host", "example.amazonaws.com".into()), ("x-amz-date", date.into())];
        assert_eq!(
            signer.authorization(date, &headers, ""),
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
             SignedHeaders=host;x-amz-date, \
             Signature=5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"
        );
    }

    #[test]
    fn a_session_token_is_signed_with_the_rest() {
        let credential = Credential {
            session_token: Some("token".into()),
            ..credential("key", "secret", "eu-west-1")
        };
        let headers = Signer::new(credential).headers_at("20240101T000000Z", "h", "Scan", "{}");
        let (_, authorization) = headers.last().unwrap();
        assert!(authorization.contains("Credential=key/20240101/eu-west-1/dynamodb/aws4_request"));
        assert!(authorization.contains("host;x-amz-date;x-amz-security-token;x-amz-target"));
    }

    /// A signer that outlives midnight signs like a signer created after it.
    #[test]
    fn a_new_day_has_its_own_key() {
        let credential = credential("key", "secret", "eu-west-1");
        let signer = Signer::new(credential.clone());
        for date in ["20240101T235959Z", "20240102T000000Z", "20240101T235959Z"] {
            assert_eq!(
                signer.headers_at(date, "h", "Scan", "{}"),
                Signer::new(credential.clone()).headers_at(date, "h", "Scan", "{}")
            );
        }
    }
}
