//! The workloads in FQL v4 over HTTP/1.1, as they were published.
//!
//! A product is a document found through a unique index on its pid. An article is a document under
//! the number that its id hashes to; the page reads the index (section; view_count falling, ref)
//! and gets each document, as the published query does. The four instances of a calvin transaction
//! are four creations in one query.

mod records;

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;

use anyhow::Context;
use async_trait::async_trait;
use serde::Deserialize;

use super::endpoint::{Endpoint, Trust};
use super::http::{HttpSocket, Reply};
use super::{Connection, OperationError, Records, ServerDescription, Target};
use crate::byte_strings::ByteStrings;
use crate::records::calvin;
use crate::records::product::{FIELD_NAMES, Product, UPDATED_FIELD_NAMES};

/// The fields of a product that are numbers.
const NUMBERS: [&str; 6] = ["pid", "creation_time", "update_time", "count", "price", "seller_id"];

/// Number of fields of a document besides its data:
/// `{"resource":{"ref":{"@ref":{"id":…,"collection":{"@ref":{"id":…,"collection":{"@ref":{"id":…}}}}}},"ts":…,"data":…}}`.
const DOCUMENT_FIELDS: usize = 12;

const COLLECTIONS: [&str; 4] = ["product", "news", "ycsb", "calvin"];

/// The indexes by which the workloads find their documents: name, terms, and the rest of each
/// definition.
const INDEXES: [(&str, &str, &str); 6] = [
    (
        "product_by_pid",
        "product",
        r#""unique":true,"terms":[{"object":{"field":["data","pid"]}}]"#,
    ),
    (
        "section_by_view_count",
        "news",
        r#""serialized":false,"terms":[{"object":{"field":["data","section"]}}],
           "values":[{"object":{"field":["data","view_count"],"reverse":true}},{"object":{"field":["ref"]}}]"#,
    ),
    (
        "calvin_by_a",
        "calvin",
        r#""terms":[{"object":{"field":["data","a"]}}]"#,
    ),
    (
        "calvin_by_b",
        "calvin",
        r#""terms":[{"object":{"field":["data","b"]}}]"#,
    ),
    (
        "calvin_by_c",
        "calvin",
        r#""terms":[{"object":{"field":["data","c"]}}]"#,
    ),
    (
        "calvin_by_d",
        "calvin",
        r#""terms":[{"object":{"field":["data","d"]}}]"#,
    ),
];

/// `fauna[s]://[secret@]host:port`
pub struct FaunaTarget {
    secret: String,
    host: String,
    endpoint: Endpoint,
}

impl FaunaTarget {
    /// `location` is the part after the scheme.
    pub fn new(location: &str, is_tls: bool, trust: &Trust) -> anyhow::Result<FaunaTarget> {
        let location = location.trim_end_matches('/');
        let (secret, host) = location.rsplit_once('@').unwrap_or(("secret", location));
        Ok(FaunaTarget {
            secret: secret.to_owned(),
            host: host.to_owned(),
            endpoint: Endpoint::of_authority(host, is_tls, trust)?,
        })
    }

    async fn open(&self) -> anyhow::Result<FaunaConnection> {
        let socket = HttpSocket::open(&self.endpoint).await;
        Ok(FaunaConnection {
            socket: socket.with_context(|| format!("cannot connect to {}", self.address()))?,
            host: self.host.clone(),
            secret: self.secret.clone(),
            query: String::new(),
            request: Vec::new(),
        })
    }
}

#[async_trait(?Send)]
impl Target for FaunaTarget {
    async fn connect(&self) -> anyhow::Result<Box<dyn Connection>> {
        let mut connection = self.open().await?;
        connection.make_schema().await?;
        Ok(Box::new(connection))
    }

    async fn connect_cold(&self) -> anyhow::Result<Box<dyn Connection>> {
        Ok(Box::new(self.open().await?))
    }

    fn address(&self) -> String {
        let scheme = if self.endpoint.tls.is_some() { "faunas" } else { "fauna" };
        format!("{scheme}://{}", self.host)
    }

    fn is_loopback(&self) -> bool {
        self.endpoint.is_loopback()
    }
}

struct FaunaConnection {
    socket: HttpSocket,
    host: String,
    secret: String,
    /// The query's JSON, reused.
    query: String,
    request: Vec<u8>,
}

impl FaunaConnection {
    async fn ask(&mut self) -> Result<Reply<'_>, OperationError> {
        self.request.clear();
        let written = write!(
            self.request,
            "POST / HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\nx-faunadb-api-version: 4\r\n\
             content-type: application/json; charset=utf-8\r\ncontent-length: {}\r\n\r\n{}",
            self.host,
            self.secret,
            self.query.len(),
            self.query
        );
        written.expect("memory takes what is written");
        self.socket.exchange(&self.request).await
    }

    async fn run(&mut self, query: &str) -> Result<&str, OperationError> {
        self.query.clear();
        self.query.push_str(query);
        self.ask().await?.ok()
    }

    /// Creates the collections and indexes unless the last of them exists. One query each: an index
    /// requires a collection of an earlier query.
    async fn make_schema(&mut self) -> Result<(), OperationError> {
        let (last, ..) = INDEXES[INDEXES.len() - 1];
        if self
            .run(&format!(r#"{{"exists":{{"index":"{last}"}}}}"#))
            .await?
            .contains("true")
        {
            return Ok(());
        }
        for name in COLLECTIONS {
            self.make("collection", name, "").await?;
        }
        for (name, source, fields) in INDEXES {
            self.make(
                "index",
                name,
                &format!(r#","source":{{"collection":"{source}"}},{fields}"#),
            )
            .await?;
        }
        Ok(())
    }

    /// Makes a collection or an index; another connection may be doing so.
    async fn make(&mut self, kind: &str, name: &str, fields: &str) -> Result<(), OperationError> {
        self.query = format!(r#"{{"create_{kind}":{{"object":{{"name":"{name}"{fields}}}}}}}"#);
        let reply = self.ask().await?;
        if !reply.body.contains("instance already exists") {
            reply.ok()?;
        }
        Ok(())
    }

    /// Appends `{"object":{"data":{"object":{…}}}}`.
    fn data<'f>(&mut self, fields: impl Iterator<Item = (&'f str, bool, &'f [u8])>) {
        self.query.push_str(r#"{"object":{"data":{"object":{"#);
        for (index, (name, is_number, value)) in fields.enumerate() {
            if index > 0 {
                self.query.push(',');
            }
            self.query.push('"');
            self.query.push_str(name);
            self.query.push_str("\":");
            // The workloads' texts are UTF-8.
            let text = String::from_utf8_lossy(value);
            match is_number {
                true => self.query.push_str(&text),
                false => push_string(&text, &mut self.query),
            }
        }
        self.query.push_str("}}}}");
    }

    /// Starts a write of the product that has this pid.
    fn start_write(&mut self, function: &str, pid: u64) {
        self.query = format!(
            r#"{{"{function}":{{"select":"ref","from":{{"get":{{"match":{{"index":"product_by_pid"}},"terms":{pid}}}}}}},"params":"#
        );
    }

    async fn finish(&mut self) -> Result<(), OperationError> {
        self.query.push('}');
        self.ask().await?.ok().map(|_| ())
    }

    fn product(&mut self, product: &Product) {
        let fields = FIELD_NAMES.iter().zip(product.values());
        self.data(fields.map(|(name, value)| (*name, NUMBERS.contains(name), value)));
    }
}

/// Appends a string of JSON.
fn push_string(text: &str, out: &mut String) {
    if text.bytes().any(|byte| byte < b' ' || matches!(byte, b'"' | b'\\')) {
        return out.push_str(&serde_json::Value::from(text).to_string());
    }
    out.push('"');
    out.push_str(text);
    out.push('"');
}

/// The total number of fields in the objects of a reply. None of the workloads' texts looks like
/// the end of a name.
fn fields(body: &str) -> usize {
    // Without a branch, so that the compiler takes many bytes at once.
    let pairs = body.as_bytes().iter().zip(body.as_bytes().iter().skip(1));
    pairs
        .map(|(quote, colon)| usize::from((*quote == b'"') & (*colon == b':')))
        .sum()
}

/// The ref of an article: its id, hashed to a document's number.
fn article(member: &[u8]) -> Result<String, OperationError> {
    #[derive(Deserialize)]
    struct Identified {
        id: String,
    }
    let parsed: Result<Identified, _> = serde_json::from_slice(member);
    let id = parsed.map_err(|error| OperationError::Refused(error.to_string()))?.id;
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    Ok(format!(
        r#"{{"ref":{{"collection":"news"}},"id":"{}"}}"#,
        hasher.finish() >> 1
    ))
}

/// The part of a page of articles that is looked at.
#[derive(Deserialize)]
struct Answer<'r> {
    #[serde(borrow)]
    resource: Page<'r>,
}

#[derive(Deserialize)]
struct Page<'r> {
    #[serde(borrow)]
    data: Vec<Document<'r>>,
}

#[derive(Deserialize)]
struct Document<'r> {
    #[serde(borrow)]
    data: Article<'r>,
}

#[derive(Deserialize)]
struct Article<'r> {
    #[serde(borrow)]
    article: Cow<'r, str>,
}

#[async_trait(?Send)]
impl Connection for FaunaConnection {
    async fn describe(&mut self) -> Result<ServerDescription, OperationError> {
        Ok(ServerDescription {
            version: "FaunaDB API".into(),
            pid: None,
            executable: None,
        })
    }

    async fn is_empty(&mut self) -> Result<bool, OperationError> {
        let is_empty = COLLECTIONS.map(|name| format!(r#"{{"is_empty":{{"documents":{{"collection":"{name}"}}}}}}"#));
        let body = self.run(&format!(r#"{{"and":[{}]}}"#, is_empty.join(","))).await?;
        Ok(body.contains("true"))
    }

    async fn clear(&mut self) -> Result<(), OperationError> {
        for name in COLLECTIONS {
            self.run(&format!(r#"{{"delete":{{"collection":"{name}"}}}}"#)).await?;
        }
        self.make_schema().await
    }

    async fn read(&mut self, pid: u64) -> Result<(), OperationError> {
        let body = self
            .run(&format!(
                r#"{{"get":{{"match":{{"index":"product_by_pid"}},"terms":{pid}}}}}"#
            ))
            .await?;
        let fields = fields(body).saturating_sub(DOCUMENT_FIELDS);
        match fields == FIELD_NAMES.len() {
            true => Ok(()),
            false => Err(OperationError::Refused(format!(
                "product {pid} came with {fields} fields"
            ))),
        }
    }

    async fn insert(&mut self, product: &Product) -> Result<(), OperationError> {
        self.query = r#"{"create":{"collection":"product"},"params":"#.to_owned();
        self.product(product);
        self.finish().await
    }

    async fn overwrite(&mut self, product: &Product) -> Result<(), OperationError> {
        self.start_write("replace", product.pid());
        self.product(product);
        self.finish().await
    }

    async fn update(&mut self, product: &Product) -> Result<(), OperationError> {
        self.start_write("update", product.pid());
        let fields = UPDATED_FIELD_NAMES.iter().zip(product.values());
        self.data(fields.map(|(name, value)| (*name, true, value)));
        self.finish().await
    }

    async fn add_article(&mut self, section: &str, score: u64, member: &[u8]) -> Result<(), OperationError> {
        self.query = format!(r#"{{"create":{},"params":"#, article(member)?);
        let score = score.to_string();
        let fields = [
            ("section", false, section.as_bytes()),
            ("view_count", true, score.as_bytes()),
            ("article", false, member),
        ];
        self.data(fields.into_iter());
        self.finish().await
    }

    async fn rescore(&mut self, _section: &str, score: u64, member: &[u8]) -> Result<(), OperationError> {
        self.query = format!(r#"{{"update":{},"params":"#, article(member)?);
        self.data([("view_count", true, score.to_string().as_bytes())].into_iter());
        self.finish().await
    }

    async fn top(&mut self, section: &str, count: usize, members: &mut ByteStrings) -> Result<(), OperationError> {
        members.clear();
        let section = serde_json::Value::from(section);
        let body = self
            .run(&format!(
                r#"{{"map":{{"lambda":["view_count","X"],"expr":{{"get":{{"var":"X"}}}}}},"collection":{{"paginate":
            {{"match":{{"index":"section_by_view_count"}},"terms":{section}}},"size":{count}}}}}"#
            ))
            .await?;
        let answer: Answer = serde_json::from_str(body).map_err(|error| OperationError::Refused(error.to_string()))?;
        let articles = answer.resource.data.iter();
        articles.for_each(|document| members.push(document.data.article.as_bytes()));
        Ok(())
    }

    fn records(&mut self) -> &mut dyn Records {
        self
    }

    async fn insert_instances(&mut self, strings: &ByteStrings) -> Result<(), OperationError> {
        let mut strings = strings.iter();
        self.query.clear();
        for index in 0..calvin::INSTANCES {
            self.query.push_str(if index == 0 { r#"{"do":["# } else { "," });
            self.query.push_str(r#"{"create":{"collection":"calvin"},"params":"#);
            let fields = calvin::FIELD_NAMES.iter().zip(&mut strings);
            self.data(fields.map(|(name, value)| (*name, false, value)));
            self.query.push('}');
        }
        self.query.push(']');
        self.finish().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_understood() {
        let trust = Trust::new(None).unwrap();
        let target = FaunaTarget::new("fnABC@127.0.0.1:8443", true, &trust).unwrap();
        assert_eq!(
            (target.secret.as_str(), target.address().as_str()),
            ("fnABC", "faunas://127.0.0.1:8443")
        );
        for bad in ["127.0.0.1", "127.0.0.1:x", ""] {
            assert!(FaunaTarget::new(bad, false, &trust).is_err(), "{bad}");
        }
    }
}
