//! Signed requests on a socket that stays open.

use std::io::Write;

use quartet_sigv4::{Credential, Signer};

use crate::targets::OperationError;
use crate::targets::endpoint::Endpoint;
use crate::targets::http::{HttpSocket, Reply};

pub struct HttpClient {
    socket: HttpSocket,
    signer: Signer,
    /// The host and port that requests name.
    host: String,
    request: Vec<u8>,
}

impl HttpClient {
    pub async fn open(endpoint: &Endpoint, host: &str, credential: Credential) -> std::io::Result<HttpClient> {
        Ok(HttpClient {
            socket: HttpSocket::open(endpoint).await?,
            signer: Signer::new(credential),
            host: host.to_owned(),
            request: Vec::new(),
        })
    }

    pub async fn ask(&mut self, operation: &str, body: &str) -> Result<Reply<'_>, OperationError> {
        self.write_request(operation, body);
        self.socket.exchange(&self.request).await
    }

    fn write_request(&mut self, operation: &str, body: &str) {
        self.request.clear();
        self.request.extend_from_slice(b"POST / HTTP/1.1\r\n");
        for (name, value) in self.signer.headers(&self.host, operation, body) {
            for part in [name, ": ", &value, "\r\n"] {
                self.request.extend_from_slice(part.as_bytes());
            }
        }
        let written = write!(self.request, "content-length: {}\r\n\r\n{body}", body.len());
        written.expect("memory takes what is written");
    }
}
