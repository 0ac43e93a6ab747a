//! HTTP/1.1 on a blocking socket that stays open: one request, one reply, buffers reused.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::OperationError;

const REPLY_TIMEOUT: Duration = Duration::from_secs(60);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

pub struct HttpSocket {
    stream: TcpStream,
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
            200 | 201 => Ok(self.body),
            status => Err(OperationError::Refused(format!("{status} {}", self.body))),
        }
    }
}

impl HttpSocket {
    pub fn open(address: &SocketAddr) -> std::io::Result<HttpSocket> {
        let stream = TcpStream::connect_timeout(address, CONNECT_TIMEOUT)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
        stream.set_write_timeout(Some(REPLY_TIMEOUT))?;
        Ok(HttpSocket {
            stream,
            reply: Vec::new(),
        })
    }

    /// Sends a whole request and reads the whole reply.
    pub fn exchange(&mut self, request: &[u8]) -> Result<Reply<'_>, OperationError> {
        self.stream.write_all(request).map_err(lost)?;
        self.read_reply()
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

fn lost(error: std::io::Error) -> OperationError {
    OperationError::Lost(error.to_string())
}
