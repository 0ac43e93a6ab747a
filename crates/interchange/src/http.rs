//! One request over HTTP, one answer; repeated while the server cannot be reached or requests a
//! later attempt.

use std::io::{ErrorKind, Read};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::roots::TrustedRoots;

/// One request may take so long.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Time after which an unreachable server counts as stopped.
const ABSENCE_MAX: Duration = Duration::from_secs(30);
const RETRY: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(2);
const BODY_BYTES_MAX: u64 = 256 << 20;

pub struct Http {
    agent: ureq::Agent,
    url: String,
}

/// Headers and body.
pub type Request = (Vec<(&'static str, String)>, String);

pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
}

impl Http {
    pub fn new(url: &str, roots: &TrustedRoots) -> Http {
        Http {
            agent: roots.agent(TIMEOUT),
            url: format!("{}/", url.trim_end_matches('/')),
        }
    }

    /// Errors: the server accepts no connection. A server that stops later is waited for, but at
    /// the start of a copy the address is more likely to be wrong.
    pub fn check_reachable(&self) -> Result<(), Error> {
        match self.agent.get(&self.url).call() {
            Err(ureq::Error::Io(error)) if error.kind() == ErrorKind::ConnectionRefused => {
                Err(self.unreachable(&error))
            }
            Err(error @ (ureq::Error::HostNotFound | ureq::Error::BadUri(_))) => Err(self.unreachable(&error)),
            _ => Ok(()),
        }
    }

    fn unreachable(&self, description: &dyn std::fmt::Display) -> Error {
        Error::Unreachable {
            url: self.url.clone(),
            what: description.to_string(),
        }
    }

    /// Host and port, as the header has them.
    pub fn host(&self) -> &str {
        let address = self
            .url
            .split_once("://")
            .map_or(self.url.as_str(), |(_, address)| address);
        address.split('/').next().unwrap_or_default()
    }

    /// `request` returns the headers and the body of each attempt. `wants_patience`: the request
    /// must be repeated.
    pub fn ask(
        &self,
        path: &str,
        request: &dyn Fn() -> Request,
        wants_patience: &dyn Fn(&Answer) -> bool,
    ) -> Result<Answer, String> {
        let (since, mut pause) = (Instant::now(), RETRY);
        loop {
            let (headers, body) = request();
            let answer = self.once(path, headers, body);
            let is_over = since.elapsed() > ABSENCE_MAX;
            match answer {
                Ok(answer) if is_over || !wants_patience(&answer) => return Ok(answer),
                Err(text) if is_over => return Err(text),
                _ => {}
            }
            std::thread::sleep(pause);
            pause = (2 * pause).min(RETRY_MAX);
        }
    }

    fn once(&self, path: &str, headers: Vec<(&'static str, String)>, body: String) -> Result<Answer, String> {
        let mut request = self.agent.post(format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let response = request.send(body).map_err(|error| error.to_string())?;
        let status = response.status().as_u16();
        let mut body = Vec::new();
        let reader = response.into_body().into_reader();
        let read = reader.take(BODY_BYTES_MAX).read_to_end(&mut body);
        read.map_err(|error| error.to_string())?;
        Ok(Answer { status, body })
    }
}
