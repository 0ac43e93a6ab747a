//! Redis over REST: commands as JSON arrays, posted over HTTP/1.1 on a socket that stays open.
//!
//! Keys and members are those of the Redis target. It does not support YCSB, whose binding uses
//! Redis directly.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::Write as _;

use anyhow::Context;
use async_trait::async_trait;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::endpoint::{Endpoint, Trust};
use super::http::HttpSocket;
use super::{Connection, OperationError, Records, ServerDescription, Target};
use crate::byte_strings::ByteStrings;
use crate::records::product::{FIELD_NAMES, Product, UPDATED_FIELD_NAMES};
use crate::records::ycsb::Record;

/// `rest[s]://[token@]host:port`
pub struct RestTarget {
    token: String,
    host: String,
    endpoint: Endpoint,
}

impl RestTarget {
    /// `location` is the part after the scheme.
    pub fn new(location: &str, is_tls: bool, trust: &Trust) -> anyhow::Result<RestTarget> {
        let location = location.trim_end_matches('/');
        let (token, host) = location.rsplit_once('@').unwrap_or(("token", location));
        Ok(RestTarget {
            token: token.to_owned(),
            host: host.to_owned(),
            endpoint: Endpoint::of_authority(host, is_tls, trust)?,
        })
    }

    async fn open(&self) -> anyhow::Result<RestConnection> {
        let socket = HttpSocket::open(&self.endpoint).await;
        Ok(RestConnection {
            socket: socket.with_context(|| format!("cannot connect to {}", self.address()))?,
            host: self.host.clone(),
            token: self.token.clone(),
            command: String::new(),
            request: Vec::new(),
        })
    }
}

#[async_trait(?Send)]
impl Target for RestTarget {
    async fn connect(&self) -> anyhow::Result<Box<dyn Connection>> {
        let mut connection = self.open().await?;
        connection.command(&["PING"]);
        connection.ask::<String>().await?;
        Ok(Box::new(connection))
    }

    async fn connect_cold(&self) -> anyhow::Result<Box<dyn Connection>> {
        Ok(Box::new(self.open().await?))
    }

    fn address(&self) -> String {
        let scheme = if self.endpoint.tls.is_some() { "rests" } else { "rest" };
        format!("{scheme}://{}", self.host)
    }

    fn is_loopback(&self) -> bool {
        self.endpoint.is_loopback()
    }
}

struct RestConnection {
    socket: HttpSocket,
    host: String,
    token: String,
    /// The command's JSON, without the bracket at its end; reused.
    command: String,
    request: Vec<u8>,
}

#[derive(Deserialize)]
struct Answer<T> {
    result: T,
}

#[derive(Deserialize)]
struct Text<'r>(#[serde(borrow)] Cow<'r, str>);

impl RestConnection {
    fn command(&mut self, words: &[&str]) {
        self.command.clear();
        words.iter().for_each(|word| self.argument(word));
    }

    fn argument(&mut self, word: &str) {
        self.command.push(if self.command.is_empty() { '[' } else { ',' });
        let _ = write!(self.command, "{}", serde_json::Value::from(word));
    }

    async fn exchange(&mut self) -> Result<&str, OperationError> {
        self.command.push(']');
        self.request.clear();
        let written = write!(
            self.request,
            "POST / HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{}",
            self.host,
            self.token,
            self.command.len(),
            self.command
        );
        written.expect("memory takes what is written");
        self.socket.exchange(&self.request).await?.ok()
    }

    async fn ask<T: DeserializeOwned>(&mut self) -> Result<T, OperationError> {
        let answer: Answer<T> = parsed(self.exchange().await?)?;
        Ok(answer.result)
    }

    async fn expect(&mut self, expected: i64) -> Result<(), OperationError> {
        match self.ask::<i64>().await? {
            number if number == expected => Ok(()),
            number => Err(OperationError::Refused(format!("answered {number}, not {expected}"))),
        }
    }

    async fn hset(&mut self, names: &[&str], product: &Product, new_fields: i64) -> Result<(), OperationError> {
        self.command(&["HSET", &format!("product:{}", product.pid())]);
        for (name, value) in names.iter().zip(product.values()) {
            self.argument(name);
            // The workloads' texts are UTF-8.
            self.argument(&String::from_utf8_lossy(value));
        }
        self.expect(new_fields).await
    }

    async fn zadd(&mut self, section: &str, score: u64, member: &[u8], new_members: i64) -> Result<(), OperationError> {
        self.command(&["ZADD", section, &score.to_string(), &String::from_utf8_lossy(member)]);
        self.expect(new_members).await
    }
}

fn parsed<'r, T: Deserialize<'r>>(body: &'r str) -> Result<T, OperationError> {
    serde_json::from_str(body).map_err(|error| OperationError::Refused(format!("{error} in {body}")))
}

#[async_trait(?Send)]
impl Connection for RestConnection {
    async fn describe(&mut self) -> Result<ServerDescription, OperationError> {
        Ok(ServerDescription {
            version: "Redis over REST".into(),
            pid: None,
            executable: None,
        })
    }

    async fn is_empty(&mut self) -> Result<bool, OperationError> {
        self.command(&["DBSIZE"]);
        Ok(self.ask::<u64>().await? == 0)
    }

    async fn clear(&mut self) -> Result<(), OperationError> {
        self.command(&["FLUSHDB"]);
        self.ask::<String>().await.map(|_| ())
    }

    async fn read(&mut self, pid: u64) -> Result<(), OperationError> {
        self.command(&["HGETALL", &format!("product:{pid}")]);
        let answer: Answer<Vec<Text>> = parsed(self.exchange().await?)?;
        let fields = answer.result.len() / 2;
        match fields == FIELD_NAMES.len() {
            true => Ok(()),
            false => Err(OperationError::Refused(format!(
                "product {pid} came with {fields} fields"
            ))),
        }
    }

    async fn insert(&mut self, product: &Product) -> Result<(), OperationError> {
        self.hset(&FIELD_NAMES, product, FIELD_NAMES.len() as i64).await
    }

    async fn overwrite(&mut self, product: &Product) -> Result<(), OperationError> {
        self.hset(&FIELD_NAMES, product, 0).await
    }

    async fn update(&mut self, product: &Product) -> Result<(), OperationError> {
        self.hset(&UPDATED_FIELD_NAMES, product, 0).await
    }

    async fn add_article(&mut self, section: &str, score: u64, member: &[u8]) -> Result<(), OperationError> {
        self.zadd(section, score, member, 1).await
    }

    async fn rescore(&mut self, section: &str, score: u64, member: &[u8]) -> Result<(), OperationError> {
        self.zadd(section, score, member, 0).await
    }

    async fn top(&mut self, section: &str, count: usize, members: &mut ByteStrings) -> Result<(), OperationError> {
        members.clear();
        self.command(&["ZREVRANGE", section, "0", &(count - 1).to_string()]);
        let answer: Answer<Vec<Text>> = parsed(self.exchange().await?)?;
        answer
            .result
            .iter()
            .for_each(|member| members.push(member.0.as_bytes()));
        Ok(())
    }

    fn records(&mut self) -> &mut dyn Records {
        self
    }
}

#[async_trait(?Send)]
impl Records for RestConnection {
    async fn insert_all(&mut self, _records: &[Record]) -> Result<(), OperationError> {
        Err(not_here())
    }

    async fn insert(&mut self, _record: &Record) -> Result<(), OperationError> {
        Err(not_here())
    }

    async fn read(&mut self, _key: u64) -> Result<(), OperationError> {
        Err(not_here())
    }

    async fn update(&mut self, _key: u64, _field: usize, _value: &[u8]) -> Result<(), OperationError> {
        Err(not_here())
    }

    async fn scan(&mut self, _key: u64, _count: usize) -> Result<(), OperationError> {
        Err(not_here())
    }
}

fn not_here() -> OperationError {
    OperationError::Lost("ycsb is run with redis://, dynamodb:// or fauna://, not over REST".to_owned())
}
