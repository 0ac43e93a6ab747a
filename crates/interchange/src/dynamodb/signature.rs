//! Signature Version 4, as DynamoDB wants its requests.
//!
//! Source: the AWS General Reference, "Signature Version 4 signing process".

use hmac::{Hmac, Mac};
use quartet_model::hexadecimal;
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

const DATE: &[BorrowedFormatItem<'_>] = format_description!("[year][month][day]T[hour][minute][second]Z");
const CONTENT_TYPE: &str = "application/x-amz-json-1.0";

/// The caller's credential, and the region.
#[derive(Clone)]
pub struct Credential {
    pub access_key: String,
    pub secret: String,
    /// The session token of temporary credentials.
    pub session_token: Option<String>,
    pub region: String,
}

impl Credential {
    /// The headers of a request, by the clock of this machine.
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
        headers.extend(self.session_token.clone().map(|token| ("x-amz-security-token", token)));
        headers.push(("x-amz-target", format!("DynamoDB_20120810.{operation}")));
        let signed: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
        let signed = signed.join(";");
        let lines: String = headers
            .iter()
            .map(|(name, value)| format!("{name}:{value}\n"))
            .collect();
        let canonical = format!("POST\n/\n\n{lines}\n{signed}\n{}", hexadecimal(&Sha256::digest(body)));
        let (day, region) = (&date[..8], &self.region);
        let scope = format!("{day}/{region}/dynamodb/aws4_request");
        let digest = hexadecimal(&Sha256::digest(canonical));
        let to_sign = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{digest}");
        let mut key = format!("AWS4{}", self.secret).into_bytes();
        for part in [day, region.as_str(), "dynamodb", "aws4_request"] {
            key = authentic(&key, part);
        }
        let signature = hexadecimal(&authentic(&key, &to_sign));
        let credential = format!("{}/{scope}", self.access_key);
        let authorization =
            format!("AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={signed}, Signature={signature}");
        headers.push(("authorization", authorization));
        headers
    }
}

fn authentic(key: &[u8], text: &str) -> Vec<u8> {
    let signer = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length");
    signer.chain_update(text).finalize().into_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_token_is_signed_with_the_rest() {
        let credential = Credential {
            access_key: "key".into(),
            secret: "secret".into(),
            session_token: Some("token".into()),
            region: "eu-west-1".into(),
        };
        let headers = credential.headers_at("20240101T000000Z", "h", "Scan", "{}");
        let (_, authorization) = headers.last().unwrap();
        assert!(authorization.contains("Credential=key/20240101/eu-west-1/dynamodb/aws4_request"));
        assert!(authorization.contains("host;x-amz-date;x-amz-security-token;x-amz-target"));
    }
}
