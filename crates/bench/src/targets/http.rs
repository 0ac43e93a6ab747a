//! HTTP/1.1 on a socket that stays open: one request, one reply, buffers reused.

use super::endpoint::Endpoint;
use super::error::OperationError;
use super::socket::{Socket, Source};

const READ_BYTES: usize = 8 * 1024;

pub struct HttpSocket {
    socket: Socket,
    /// The first `received` bytes have been received.
    reply: Vec<u8>,
    received: usize,
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
    pub async fn open(endpoint: &Endpoint) -> std::io::Result<HttpSocket> {
        Ok(HttpSocket {
            socket: Socket::open(endpoint).await?,
            reply: Vec::new(),
            received: 0,
        })
    }

    /// Sends a whole request and reads the whole reply.
    pub async fn exchange(&mut self, request: &[u8]) -> Result<Reply<'_>, OperationError> {
        self.socket.send(request).await.map_err(lost)?;
        self.read_reply().await
    }

    async fn read_reply(&mut self) -> Result<Reply<'_>, OperationError> {
        self.received = 0;
        let head_bytes = loop {
            // The end of a head may span two reads.
            let searched = self.received.saturating_sub(3);
            self.read_more().await?;
            let unsearched = &self.reply[searched..self.received];
            if let Some(end) = unsearched.windows(4).position(|window| window == b"\r\n\r\n") {
                break searched + end + 4;
            }
        };
        let head = &self.reply[..head_bytes];
        let (Some(status), Some(length)) = (status(head), content_length(head)) else {
            let head = String::from_utf8_lossy(head);
            return Err(OperationError::Lost(format!("an unexpected reply: {head}")));
        };
        while self.received < head_bytes + length {
            self.read_more().await?;
        }
        let body = std::str::from_utf8(&self.reply[head_bytes..self.received]);
        let body = body.map_err(|error| OperationError::Lost(error.to_string()))?;
        Ok(Reply { status, body })
    }

    async fn read_more(&mut self) -> Result<(), OperationError> {
        if self.reply.len() - self.received < READ_BYTES {
            self.reply.resize(self.received + 2 * READ_BYTES, 0);
        }
        let room = &mut self.reply[self.received..];
        self.received += self.socket.receive(room).await.map_err(lost)?;
        Ok(())
    }
}

fn status(head: &[u8]) -> Option<u16> {
    std::str::from_utf8(head.get(9..12)?).ok()?.parse().ok()
}

fn content_length(head: &[u8]) -> Option<usize> {
    const NAME: &[u8] = b"content-length:";
    let mut lines = head.split(|&byte| byte == b'\n');
    let line = lines.find(|line| {
        line.get(..NAME.len())
            .is_some_and(|name| name.eq_ignore_ascii_case(NAME))
    })?;
    std::str::from_utf8(&line[NAME.len()..]).ok()?.trim().parse().ok()
}

fn lost(error: std::io::Error) -> OperationError {
    OperationError::Lost(error.to_string())
}
