//! One request over HTTP, one answer; asked again while the other side cannot be reached or asks
//! for patience.

use std::io::Read;
use std::time::{Duration, Instant};

/// One request may take so long.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Time after which an unreachable server counts as gone.
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
    pub fn new(url: &str) -> Http {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .http_status_as_error(false)
            .proxy(None)
            .build();
        Http {
            agent: config.into(),
            url: format!("{}/", url.trim_end_matches('/')),
        }
    }

    /// Host and port, as the header has them.
    pub fn host(&self) -> &str {
        let rest = self.url.split_once("://").map_or(self.url.as_str(), |(_, rest)| rest);
        rest.split('/').next().unwrap_or_default()
    }

    /// `request` gives headers and body anew for each attempt. `wants_patience`: the answer is to
    /// be asked for again.
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
        let mut asked = self.agent.post(format!("{}{path}", self.url));
        for (name, value) in headers {
            asked = asked.header(name, value);
        }
        let response = asked.send(body).map_err(|error| error.to_string())?;
        let status = response.status().as_u16();
        let mut body = Vec::new();
        let reader = response.into_body().into_reader();
        let read = reader.take(BODY_BYTES_MAX).read_to_end(&mut body);
        read.map_err(|error| error.to_string())?;
        Ok(Answer { status, body })
    }
}
