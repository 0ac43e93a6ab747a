//! A small signing HTTP/1.1 client on a blocking socket: one request, one reply, buffers reused.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

use super::DynamoDbTarget;
use crate::target::OperationError;

const REPLY_TIMEOUT: Duration = Duration::from_secs(60);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const SIGNED_HEADERS: &str = "content-type;host;x-amz-date;x-amz-target";
const CONTENT_TYPE: &str = "application/x-amz-json-1.0";

type Signer = Hmac<Sha256>;

pub struct HttpClient {
    stream: TcpStream,
    host: String,
    access_key: String,
    secret: String,
    region: String,
    /// The day's signing key, and its day.
    signer: (String, Signer),
    request: Vec<u8>,
    reply: Vec<u8>,
}

pub struct Reply<'c> {
    pub status: u16,
    pub body: &'c str,
}

impl<'c> Reply<'c> {
    /// The body of a good reply.
    pub fn ok(self) -> Result<&'c str, OperationError> {
        match self.status {
            200 => Ok(self.body),
            status => Err(OperationError::Refused(format!("{status} {}", self.body))),
        }
    }
}

impl HttpClient {
    pub fn open(target: &DynamoDbTarget) -> std::io::Result<HttpClient> {
        let stream = TcpStream::connect_timeout(&target.address, CONNECT_TIMEOUT)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
        stream.set_write_timeout(Some(REPLY_TIMEOUT))?;
        Ok(HttpClient {
            stream,
            host: target.host.clone(),
            access_key: target.access_key.clone(),
            secret: target.secret.clone(),
            region: target.region.clone(),
            signer: (String::new(), signer(b"")),
            request: Vec::new(),
            reply: Vec::new(),
        })
    }

    pub fn ask(&mut self, operation: &str, body: &str) -> Result<Reply<'_>, OperationError> {
        self.write_request(operation, body);
        self.stream.write_all(&self.request).map_err(lost)?;
        self.read_reply()
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
            self.host,
            hexadecimal(&Sha256::digest(body))
        );
        let scope = format!("{day}/{}/dynamodb/aws4_request", self.region);
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
            self.host,
            body.len(),
            self.access_key,
            hexadecimal(&signed)
        );
        written.expect("memory takes what is written");
    }

    fn derive(&self, day: &str) -> Signer {
        let mut key = format!("AWS4{}", self.secret).into_bytes();
        for part in [day, &self.region, "dynamodb", "aws4_request"] {
            key = signer(&key).chain_update(part).finalize().into_bytes().to_vec();
        }
        signer(&key)
    }

    fn read_reply(&mut self) -> Result<Reply<'_>, OperationError> {
        self.reply.clear();
        let head_bytes = loop {
            if let Some(end) = self.reply.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
            self.read_more()?;
        };
        let head = String::from_utf8_lossy(&self.reply[..head_bytes]).into_owned();
        let status = head.get(9..12).and_then(|digits| digits.parse().ok());
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length")
                .then(|| value.trim().parse::<usize>().ok())?
        });
        let (Some(status), Some(length)) = (status, length) else {
            return Err(OperationError::Lost(format!("an unexpected reply: {head}")));
        };
        while self.reply.len() < head_bytes + length {
            self.read_more()?;
        }
        let body = std::str::from_utf8(&self.reply[head_bytes..]);
        let body = body.map_err(|error| OperationError::Lost(error.to_string()))?;
        Ok(Reply { status, body })
    }

    fn read_more(&mut self) -> Result<(), OperationError> {
        let start = self.reply.len();
        self.reply.resize(start + 16 * 1024, 0);
        let read = self.stream.read(&mut self.reply[start..]);
        let count = read.as_ref().copied().unwrap_or(0);
        self.reply.truncate(start + count);
        match read {
            Ok(0) => Err(OperationError::Lost("the server closed the connection".into())),
            Ok(_) => Ok(()),
            Err(error) => Err(lost(error)),
        }
    }
}

fn signer(key: &[u8]) -> Signer {
    Signer::new_from_slice(key).expect("a key of any length")
}

fn lost(error: std::io::Error) -> OperationError {
    OperationError::Lost(error.to_string())
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The present time as `yyyymmddThhmmssZ`, by eras of 400 years that begin in March.
fn now() -> String {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs());
    let (days, rest) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!(
        "{year:04}{month:02}{day:02}T{:02}{:02}{:02}Z",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}
