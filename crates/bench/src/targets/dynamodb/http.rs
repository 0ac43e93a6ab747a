//! Requests signed as DynamoDB wants them.

use std::io::Write;

use hmac::{Hmac, Mac};
use quartet_model::hexadecimal;
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

use crate::targets::OperationError;
use crate::targets::endpoint::Endpoint;
use crate::targets::http::{HttpSocket, Reply};

const DATE: &[BorrowedFormatItem<'_>] = format_description!("[year][month][day]T[hour][minute][second]Z");
const SIGNED_HEADERS: &str = "content-type;host;x-amz-date;x-amz-target";
const CONTENT_TYPE: &str = "application/x-amz-json-1.0";

type Signer = Hmac<Sha256>;

/// The account in whose name requests are signed, and the host and the region that they name.
#[derive(Clone)]
pub struct Signature {
    pub access_key: String,
    pub secret: String,
    pub host: String,
    pub region: String,
}

pub struct HttpClient {
    socket: HttpSocket,
    signature: Signature,
    /// The day's signing key, and its day.
    signer: (String, Signer),
    request: Vec<u8>,
}

impl HttpClient {
    pub async fn open(endpoint: &Endpoint, signature: Signature) -> std::io::Result<HttpClient> {
        Ok(HttpClient {
            socket: HttpSocket::open(endpoint).await?,
            signature,
            signer: (String::new(), signer(b"")),
            request: Vec::new(),
        })
    }

    pub async fn ask(&mut self, operation: &str, body: &str) -> Result<Reply<'_>, OperationError> {
        self.write_request(operation, body);
        self.socket.exchange(&self.request).await
    }

    fn write_request(&mut self, operation: &str, body: &str) {
        let date = now();
        let day = &date[..8];
        if self.signer.0 != day {
            self.signer = (day.to_owned(), self.derive(day));
        }
        let target = format!("DynamoDB_20120810.{operation}");
        let canonical = format!(
            "POST\n/\n\ncontent-type:{CONTENT_TYPE}\nhost:{}\nx-amz-date:{date}\nx-amz-target:{target}\n\n{SIGNED_HEADERS}\n{}",
            self.signature.host,
            hexadecimal(&Sha256::digest(body))
        );
        let scope = format!("{day}/{}/dynamodb/aws4_request", self.signature.region);
        let to_sign = format!(
            "AWS4-HMAC-SHA256\n{date}\n{scope}\n{}",
            hexadecimal(&Sha256::digest(canonical))
        );
        let signed = self.signer.1.clone().chain_update(to_sign).finalize().into_bytes();
        self.request.clear();
        let written = write!(
            self.request,
            "POST / HTTP/1.1\r\nhost: {}\r\ncontent-type: {CONTENT_TYPE}\r\ncontent-length: {}\r\nx-amz-date: {date}\r\n\
             x-amz-target: {target}\r\nauthorization: AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={SIGNED_HEADERS}, \
             Signature={}\r\n\r\n{body}",
            self.signature.host,
            body.len(),
            self.signature.access_key,
            hexadecimal(&signed)
        );
        written.expect("memory takes what is written");
    }

    fn derive(&self, day: &str) -> Signer {
        let mut key = format!("AWS4{}", self.signature.secret).into_bytes();
        for part in [day, &self.signature.region, "dynamodb", "aws4_request"] {
            key = signer(&key).chain_update(part).finalize().into_bytes().to_vec();
        }
        signer(&key)
    }
}

fn signer(key: &[u8]) -> Signer {
    Signer::new_from_slice(key).expect("a key of any length")
}

/// The present time as `yyyymmddThhmmssZ`.
fn now() -> String {
    OffsetDateTime::now_utc().format(DATE).expect("years of four digits")
}
