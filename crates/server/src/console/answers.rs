//! Answers of the console itself, in JSON.

use serde_json::Value;

use crate::http::{Answer, Credential};

pub const OK: u16 = 200;
pub const NO_CONTENT: u16 = 204;
pub const BAD_REQUEST: u16 = 400;
pub const UNAUTHORIZED: u16 = 401;
pub const FORBIDDEN: u16 = 403;
pub const NOT_FOUND: u16 = 404;
pub const METHOD_NOT_ALLOWED: u16 = 405;
pub const TOO_MANY_REQUESTS: u16 = 429;
pub const SERVICE_UNAVAILABLE: u16 = 503;

pub fn whole(status: u16, body: &Value) -> Answer {
    let mut answer = Answer::settled(status, body.to_string());
    answer.headers = vec![
        ("content-type", "application/json".into()),
        ("cache-control", "no-store".into()),
    ];
    answer.credential = match status {
        OK => Credential::Right,
        _ => Credential::Absent,
    };
    answer
}
