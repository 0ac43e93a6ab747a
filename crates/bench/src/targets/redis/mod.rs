//! The workloads in Redis commands, over RESP2 on a socket that stays open.
//!
//! A product is the hash `product:<pid>`: HSET and HGETALL. A section is a sorted set under its own
//! name: ZADD and ZREVRANGE. An HSET returns the number of new fields, which distinguishes an
//! insert from an overwrite, so both are checked.

mod records;
mod searches;

use super::endpoint::{Endpoint, Trust};
use super::reply::{Element, ReplyReader};
use super::socket::Socket;
use super::url::RedisUrl;
use super::{Connection, OperationError, Records, Searches, ServerDescription, Target};
use crate::byte_strings::ByteStrings;
use crate::records::product::{FIELD_NAMES, Product, UPDATED_FIELD_NAMES};
use anyhow::Context;
use async_trait::async_trait;

pub struct RedisTarget {
    url: RedisUrl,
    endpoint: Endpoint,
}

impl RedisTarget {
    pub fn new(url: &str, trust: &Trust) -> anyhow::Result<RedisTarget> {
        let url = RedisUrl::parse(url)?;
        let endpoint = Endpoint::resolve(&url.host, url.port, url.is_tls, trust)?;
        Ok(RedisTarget { url, endpoint })
    }

    async fn open(&self) -> anyhow::Result<RedisConnection> {
        let opened = RedisConnection::open(&self.url, &self.endpoint).await;
        opened.with_context(|| format!("cannot connect to {}", self.address()))
    }
}

#[async_trait(?Send)]
impl Target for RedisTarget {
    async fn connect(&self) -> anyhow::Result<Box<dyn Connection>> {
        let mut connection = self.open().await?;
        connection.request.start("PING", 0);
        connection.expect_simple().await?;
        Ok(Box::new(connection))
    }

    async fn connect_cold(&self) -> anyhow::Result<Box<dyn Connection>> {
        Ok(Box::new(self.open().await?))
    }

    fn address(&self) -> String {
        self.url.without_credentials()
    }

    fn is_loopback(&self) -> bool {
        self.endpoint.is_loopback()
    }
}

struct RedisConnection {
    replies: ReplyReader<Socket>,
    request: Request,
    /// The requests that open the connection, until they went out with the first request; and the
    /// number of their replies.
    greeting: Request,
    greeting_replies: usize,
}

impl RedisConnection {
    async fn open(url: &RedisUrl, endpoint: &Endpoint) -> anyhow::Result<RedisConnection> {
        let mut greeting = Request::default();
        if let Some(password) = &url.password {
            match url.user.is_empty() {
                true => greeting.next("AUTH", 1),
                false => greeting.next("AUTH", 2).argument(url.user.as_bytes()),
            }
            .argument(password.as_bytes());
        }
        if url.database != 0 {
            greeting.next("SELECT", 1).number(url.database.into());
        }
        Ok(RedisConnection {
            replies: ReplyReader::new(Socket::open(endpoint).await?),
            request: Request::default(),
            greeting,
            greeting_replies: usize::from(url.password.is_some()) + usize::from(url.database != 0),
        })
    }

    /// Sends the request and gives the first element of its reply; an error reply becomes
    /// `Refused`.
    async fn exchange(&mut self) -> Result<Element<'_>, OperationError> {
        self.send().await?;
        self.reply().await
    }

    async fn send(&mut self) -> Result<(), OperationError> {
        if self.greeting_replies > 0 {
            return self.send_with_greeting().await;
        }
        self.replies.source.send(&self.request.bytes).await.map_err(lost)
    }

    async fn send_with_greeting(&mut self) -> Result<(), OperationError> {
        let mut first = std::mem::take(&mut self.greeting).bytes;
        first.extend_from_slice(&self.request.bytes);
        self.replies.source.send(&first).await.map_err(lost)?;
        for _ in 0..std::mem::take(&mut self.greeting_replies) {
            match self.reply().await? {
                Element::Simple(_) => {}
                other => return Err(unexpected(other)),
            }
        }
        Ok(())
    }

    async fn reply(&mut self) -> Result<Element<'_>, OperationError> {
        match self.replies.next().await.map_err(lost)? {
            Element::Error(message) => Err(OperationError::Refused(String::from_utf8_lossy(message).into_owned())),
            element => Ok(element),
        }
    }

    async fn expect_simple(&mut self) -> Result<(), OperationError> {
        match self.exchange().await? {
            Element::Simple(_) => Ok(()),
            other => Err(unexpected(other)),
        }
    }

    async fn expect_integer(&mut self, expected: i64) -> Result<(), OperationError> {
        self.send().await?;
        self.integer_of_reply(expected).await
    }

    async fn integer_of_reply(&mut self, expected: i64) -> Result<(), OperationError> {
        match self.reply().await? {
            Element::Integer(number) if number == expected => Ok(()),
            Element::Integer(number) => Err(OperationError::Refused(format!("answered {number}, not {expected}"))),
            other => Err(unexpected(other)),
        }
    }

    /// Sends the request and passes each string of the returned array to `take`; returns their
    /// number.
    async fn each_string(&mut self, take: impl FnMut(&[u8])) -> Result<usize, OperationError> {
        self.send().await?;
        self.strings_of_reply(take).await
    }

    async fn strings_of_reply(&mut self, mut take: impl FnMut(&[u8])) -> Result<usize, OperationError> {
        let count = match self.reply().await? {
            Element::Array(count) => count,
            other => return Err(unexpected(other)),
        };
        for _ in 0..count {
            match self.replies.next().await.map_err(lost)? {
                Element::Bulk(string) => take(string),
                other => return Err(unexpected(other)),
            }
        }
        Ok(count)
    }

    async fn hset(&mut self, names: &[&str], product: &Product, new_fields: i64) -> Result<(), OperationError> {
        self.request
            .start("HSET", 1 + 2 * names.len())
            .product_key(product.pid());
        for (name, value) in names.iter().zip(product.values()) {
            self.request.argument(name.as_bytes()).argument(value);
        }
        self.expect_integer(new_fields).await
    }

    async fn zadd(&mut self, section: &str, score: u64, member: &[u8], new_members: i64) -> Result<(), OperationError> {
        self.request
            .start("ZADD", 3)
            .argument(section.as_bytes())
            .number(score)
            .argument(member);
        self.expect_integer(new_members).await
    }
}

#[async_trait(?Send)]
impl Connection for RedisConnection {
    async fn describe(&mut self) -> Result<ServerDescription, OperationError> {
        self.request.start("INFO", 1).argument(b"server");
        match self.exchange().await? {
            Element::Bulk(text) => Ok(description(&String::from_utf8_lossy(text))),
            other => Err(unexpected(other)),
        }
    }

    async fn is_empty(&mut self) -> Result<bool, OperationError> {
        self.request.start("DBSIZE", 0);
        match self.exchange().await? {
            Element::Integer(keys) => Ok(keys == 0),
            other => Err(unexpected(other)),
        }
    }

    async fn clear(&mut self) -> Result<(), OperationError> {
        self.request.start("FLUSHDB", 0);
        self.expect_simple().await
    }

    async fn read(&mut self, pid: u64) -> Result<(), OperationError> {
        self.request.start("HGETALL", 1).product_key(pid);
        let strings = self.each_string(|_| ()).await?;
        match strings == 2 * FIELD_NAMES.len() {
            true => Ok(()),
            false => Err(OperationError::Refused(format!(
                "product {pid} came with {} fields",
                strings / 2
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
        self.request
            .start("ZREVRANGE", 3)
            .argument(section.as_bytes())
            .number(0)
            .number(count as u64 - 1);
        self.each_string(|member| members.push(member)).await?;
        Ok(())
    }

    fn records(&mut self) -> &mut dyn Records {
        self
    }

    fn searches(&mut self) -> Result<&mut dyn Searches, OperationError> {
        Ok(self)
    }
}

/// The bytes of one command, in a buffer that is reused.
#[derive(Default)]
struct Request {
    bytes: Vec<u8>,
}

impl Request {
    /// `arguments` is how many follow the command's name.
    fn start(&mut self, command: &str, arguments: usize) -> &mut Request {
        self.bytes.clear();
        self.next(command, arguments)
    }

    /// Appends another command.
    fn next(&mut self, command: &str, arguments: usize) -> &mut Request {
        self.header(b'*', arguments + 1);
        self.argument(command.as_bytes())
    }

    fn argument(&mut self, argument: &[u8]) -> &mut Request {
        self.header(b'$', argument.len());
        self.bytes.extend_from_slice(argument);
        self.bytes.extend_from_slice(b"\r\n");
        self
    }

    fn number(&mut self, number: u64) -> &mut Request {
        self.argument(decimal(number, &mut [0; DIGITS_MAX]))
    }

    fn product_key(&mut self, pid: u64) -> &mut Request {
        self.numbered_key(b"product:", pid)
    }

    fn numbered_key(&mut self, prefix: &[u8], number: u64) -> &mut Request {
        let mut digits = [0; DIGITS_MAX];
        let digits = decimal(number, &mut digits);
        self.header(b'$', prefix.len() + digits.len());
        self.bytes.extend_from_slice(prefix);
        self.bytes.extend_from_slice(digits);
        self.bytes.extend_from_slice(b"\r\n");
        self
    }

    fn header(&mut self, kind: u8, count: usize) {
        self.bytes.push(kind);
        self.bytes
            .extend_from_slice(decimal(count as u64, &mut [0; DIGITS_MAX]));
        self.bytes.extend_from_slice(b"\r\n");
    }
}

const DIGITS_MAX: usize = 20;

/// `number` as text in the end of `digits`. The formatter of the standard library costs several
/// times as much, and a product needs this 26 times.
fn decimal(mut number: u64, digits: &mut [u8; DIGITS_MAX]) -> &[u8] {
    let mut start = DIGITS_MAX;
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &digits[start..];
        }
    }
}

/// Reads the `field:value` lines of `INFO server`.
fn description(text: &str) -> ServerDescription {
    let field = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(str::trim)
    };
    let redis_version = field("redis_version").unwrap_or("of unknown version");
    let version = match (field("quartet_version"), field("valkey_version")) {
        (Some(version), _) => format!("Quartet {version} (compatible with Redis {redis_version})"),
        (None, Some(version)) => format!("Valkey {version}"),
        (None, None) => format!("Redis {redis_version}"),
    };
    ServerDescription {
        version,
        pid: field("process_id").and_then(|pid| pid.parse().ok()),
        executable: field("executable").map(str::to_owned),
    }
}

fn lost(error: std::io::Error) -> OperationError {
    OperationError::Lost(error.to_string())
}

/// A reply of another kind than the command's. Its rest is unread, so the connection is given up.
fn unexpected(element: Element<'_>) -> OperationError {
    OperationError::Lost(format!("an unexpected reply: {element:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cold client sends its password and its first request in one write, before any reply.
    #[test]
    fn a_cold_client_sends_its_password_and_its_first_request_together() {
        use std::io::{Read, Write};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("redis://:secret@{}/3", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream
                .set_read_timeout(Some(std::time::Duration::from_secs(20)))
                .unwrap();
            let mut received = Vec::new();
            while !String::from_utf8_lossy(&received).contains("ZREVRANGE") {
                let mut bytes = [0; 1024];
                let count = stream.read(&mut bytes).unwrap();
                received.extend_from_slice(&bytes[..count]);
            }
            stream.write_all(b"+OK\r\n+OK\r\n*1\r\n$1\r\na\r\n").unwrap();
            String::from_utf8(received).unwrap()
        });
        let members = crate::measure::event_loop().unwrap().block_on(async {
            let target = RedisTarget::new(&url, &Trust::new(None).unwrap()).unwrap();
            let mut members = ByteStrings::default();
            let mut connection = target.connect_cold().await.unwrap();
            connection.top("World", 10, &mut members).await.unwrap();
            members.iter().map(<[u8]>::to_vec).collect::<Vec<_>>()
        });
        let received = server.join().unwrap();
        assert!(received.contains("AUTH") && received.contains("SELECT"), "{received}");
        assert_eq!(members, [b"a"]);
    }

    #[test]
    fn requests_are_arrays_of_strings() {
        let mut request = Request::default();
        request.start("HGETALL", 1).product_key(907);
        assert_eq!(request.bytes, b"*2\r\n$7\r\nHGETALL\r\n$11\r\nproduct:907\r\n");
        request
            .start("ZREVRANGE", 3)
            .argument(b"World")
            .number(0)
            .number(u64::MAX);
        let expected = b"*4\r\n$9\r\nZREVRANGE\r\n$5\r\nWorld\r\n$1\r\n0\r\n$20\r\n18446744073709551615\r\n";
        assert_eq!(request.bytes, expected);
    }

    #[test]
    fn a_server_is_known_by_its_own_version() {
        let redis = description("# Server\r\nredis_version:7.0.15\r\nprocess_id:42\r\nexecutable:/bin/r\r\n");
        assert_eq!((redis.version.as_str(), redis.pid), ("Redis 7.0.15", Some(42)));
        let quartet = description("redis_version:7.4.0\r\nquartet_version:0.1.0\r\n");
        assert_eq!(
            (quartet.version.as_str(), quartet.pid),
            ("Quartet 0.1.0 (compatible with Redis 7.4.0)", None)
        );
    }
}
