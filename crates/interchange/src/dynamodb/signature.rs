//! Signature Version 4, as DynamoDB wants its requests.
//!
//! Source: the AWS General Reference, "Signature Version 4 signing process".

use std::time::{SystemTime, UNIX_EPOCH};

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

const CONTENT_TYPE: &str = "application/x-amz-json-1.0";

/// Who asks, and where.
#[derive(Clone)]
pub struct Credential {
    pub access_key: String,
    pub secret: String,
    /// Of temporary credentials.
    pub session_token: Option<String>,
    pub region: String,
}

impl Credential {
    /// The headers of a request, by the clock of this machine.
    pub fn headers(&self, host: &str, operation: &str, body: &str) -> Vec<(&'static str, String)> {
        let seconds = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |time| time.as_secs());
        self.headers_at(&date_of(seconds), host, operation, body)
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

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `yyyymmddThhmmssZ`, by eras of 400 years that begin in March.
fn date_of(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date_of(0), "19700101T000000Z");
        assert_eq!(date_of(951_782_399), "20000228T235959Z");
        assert_eq!(date_of(951_868_799), "20000229T235959Z");
        assert_eq!(date_of(1_735_689_599), "20241231T235959Z");
    }

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
