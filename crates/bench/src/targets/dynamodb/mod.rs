//! The workloads in DynamoDB operations, signed, over HTTP/1.1 on a socket that stays open.
//!
//! A product is an item of the table `product` under its number `pid`: PutItem, GetItem
//! (consistent), UpdateItem. An article is an item of the table `news`, read through the published
//! index (section, view_count). Insert and overwrite carry conditions, so that both are what they
//! say.

mod http;
mod records;

use std::time::{Duration, Instant};

use anyhow::Context;
use async_trait::async_trait;
use quartet_sigv4::Credential;
use serde::Deserialize;

use self::http::HttpClient;
use super::endpoint::{Endpoint, Trust};
use super::http::Reply;
use super::{Connection, OperationError, Records, ServerDescription, Target};
use crate::byte_strings::ByteStrings;
use crate::records::product::{FIELD_NAMES, Product, UPDATED_FIELD_NAMES};

const PRODUCTS: &str = "product";
const NEWS: &str = "news";
const RECORDS: &str = "ycsb";
const NEWS_INDEX: &str = "section-view_count-index";
/// Time limit for the creation or deletion of a table.
const TABLE_TIMEOUT: Duration = Duration::from_secs(60);
/// The fields of a product that are numbers.
const NUMBERS: [&str; 6] = ["pid", "creation_time", "update_time", "count", "price", "seller_id"];

/// `dynamodb[s]://[access key:secret@]host:port[/region]`
pub struct DynamoDbTarget {
    credential: Credential,
    host: String,
    endpoint: Endpoint,
}

impl DynamoDbTarget {
    /// `location` is the part after the scheme.
    pub fn new(location: &str, is_tls: bool, trust: &Trust) -> anyhow::Result<DynamoDbTarget> {
        let (authority, region) = location.split_once('/').unwrap_or((location, ""));
        let (credentials, host) = authority.rsplit_once('@').unwrap_or(("bench:bench", authority));
        let (access_key, secret) = credentials
            .split_once(':')
            .context("credentials are access key:secret")?;
        Ok(DynamoDbTarget {
            credential: Credential {
                access_key: access_key.to_owned(),
                secret: secret.to_owned(),
                session_token: None,
                region: if region.is_empty() { "us-east-1" } else { region }.to_owned(),
            },
            host: host.to_owned(),
            endpoint: Endpoint::of_authority(host, is_tls, trust)?,
        })
    }

    async fn open(&self) -> anyhow::Result<DynamoDbConnection> {
        let client = HttpClient::open(&self.endpoint, &self.host, self.credential.clone()).await;
        Ok(DynamoDbConnection {
            client: client.with_context(|| format!("cannot connect to {}", self.address()))?,
            body: String::new(),
        })
    }
}

#[async_trait(?Send)]
impl Target for DynamoDbTarget {
    async fn connect(&self) -> anyhow::Result<Box<dyn Connection>> {
        let mut connection = self.open().await?;
        connection.make_tables().await?;
        Ok(Box::new(connection))
    }

    async fn connect_cold(&self) -> anyhow::Result<Box<dyn Connection>> {
        Ok(Box::new(self.open().await?))
    }

    fn address(&self) -> String {
        let scheme = if self.endpoint.tls.is_some() {
            "dynamodbs"
        } else {
            "dynamodb"
        };
        format!("{scheme}://{}/{}", self.host, self.credential.region)
    }

    fn is_loopback(&self) -> bool {
        self.endpoint.is_loopback()
    }
}

struct DynamoDbConnection {
    client: HttpClient,
    /// The request's JSON, reused.
    body: String,
}

impl DynamoDbConnection {
    async fn ask(&mut self, operation: &str) -> Result<Reply<'_>, OperationError> {
        self.client.ask(operation, &self.body).await
    }

    async fn expect_ok(&mut self, operation: &str) -> Result<(), OperationError> {
        self.ask(operation).await?.ok().map(|_| ())
    }

    /// Creates the tables unless they exist.
    async fn make_tables(&mut self) -> Result<(), OperationError> {
        let products = format!(
            r#"{{"TableName":"{PRODUCTS}","BillingMode":"PAY_PER_REQUEST","KeySchema":[{{"AttributeName":"pid","KeyType":"HASH"}}],
            "AttributeDefinitions":[{{"AttributeName":"pid","AttributeType":"N"}}]}}"#
        );
        let news = format!(
            r#"{{"TableName":"{NEWS}","BillingMode":"PAY_PER_REQUEST","KeySchema":[{{"AttributeName":"id","KeyType":"HASH"}}],
            "AttributeDefinitions":[{{"AttributeName":"id","AttributeType":"S"}},{{"AttributeName":"section","AttributeType":"S"}},
            {{"AttributeName":"view_count","AttributeType":"N"}}],"GlobalSecondaryIndexes":[{{"IndexName":"{NEWS_INDEX}",
            "KeySchema":[{{"AttributeName":"section","KeyType":"HASH"}},{{"AttributeName":"view_count","KeyType":"RANGE"}}],
            "Projection":{{"ProjectionType":"ALL"}}}}]}}"#
        );
        for (name, table) in [(PRODUCTS, products), (NEWS, news), (RECORDS, records::table())] {
            self.body = table;
            let reply = self.ask("CreateTable").await?;
            if reply.status != 200 && !reply.body.contains("ResourceInUseException") {
                reply.ok()?;
            }
            self.wait_until(name, |described| described.contains("\"TableStatus\":\"ACTIVE\""))
                .await?;
        }
        Ok(())
    }

    /// Polls a table's description until it has the required state: the service and some of its
    /// emulators create and delete tables asynchronously.
    async fn wait_until(&mut self, table: &str, is_reached: impl Fn(&str) -> bool) -> Result<(), OperationError> {
        let started = Instant::now();
        loop {
            self.start(table);
            self.body.push('}');
            let reply = self.ask("DescribeTable").await?;
            if is_reached(reply.body) {
                return Ok(());
            }
            if started.elapsed() > TABLE_TIMEOUT {
                return Err(OperationError::Refused(format!(
                    "the table {table} stays {}",
                    reply.body
                )));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn start(&mut self, table: &str) {
        self.body.clear();
        self.body.push_str("{\"TableName\":\"");
        self.body.push_str(table);
        self.body.push('"');
    }

    /// Appends `"name":{"S":"value"}`.
    fn attribute(&mut self, name: &str, is_number: bool, value: &[u8]) {
        self.body.push('"');
        self.body.push_str(name);
        self.body.push_str(if is_number { "\":{\"N\":" } else { "\":{\"S\":" });
        // The workloads' texts are UTF-8.
        let text = String::from_utf8_lossy(value);
        self.body.push_str(&serde_json::Value::from(text.as_ref()).to_string());
        self.body.push('}');
    }

    async fn put_product(&mut self, product: &Product, condition: &str) -> Result<(), OperationError> {
        self.start(PRODUCTS);
        self.body.push_str(",\"Item\":{");
        for (index, (name, value)) in FIELD_NAMES.iter().zip(product.values()).enumerate() {
            if index > 0 {
                self.body.push(',');
            }
            self.attribute(name, NUMBERS.contains(name), value);
        }
        self.body.push_str("},\"ConditionExpression\":\"");
        self.body.push_str(condition);
        self.body.push_str("\"}");
        self.expect_ok("PutItem").await
    }

    async fn put_article(&mut self, section: &str, score: u64, member: &[u8]) -> Result<(), OperationError> {
        let id = article_id(member)?;
        self.start(NEWS);
        self.body.push_str(",\"Item\":{");
        self.attribute("id", false, id.as_bytes());
        self.body.push(',');
        self.attribute("section", false, section.as_bytes());
        self.body.push(',');
        self.attribute("view_count", true, score.to_string().as_bytes());
        self.body.push(',');
        self.attribute("article", false, member);
        self.body.push_str("}}");
        self.expect_ok("PutItem").await
    }
}

fn article_id(member: &[u8]) -> Result<String, OperationError> {
    #[derive(Deserialize)]
    struct Identified {
        id: String,
    }
    let parsed: Result<Identified, _> = serde_json::from_slice(member);
    parsed
        .map(|article| article.id)
        .map_err(|error| OperationError::Refused(error.to_string()))
}

/// The part of a page of articles that is looked at.
#[derive(Deserialize)]
struct Page {
    #[serde(rename = "Items")]
    items: Vec<PageItem>,
}

#[derive(Deserialize)]
struct PageItem {
    article: PageText,
}

#[derive(Deserialize)]
struct PageText {
    #[serde(rename = "S")]
    text: String,
}

#[async_trait(?Send)]
impl Connection for DynamoDbConnection {
    async fn describe(&mut self) -> Result<ServerDescription, OperationError> {
        Ok(ServerDescription {
            version: "DynamoDB API".into(),
            pid: None,
            executable: None,
        })
    }

    async fn is_empty(&mut self) -> Result<bool, OperationError> {
        for table in [PRODUCTS, NEWS, RECORDS] {
            self.start(table);
            self.body.push_str(",\"Select\":\"COUNT\",\"Limit\":1}");
            if !self.ask("Scan").await?.ok()?.contains("\"Count\":0") {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn clear(&mut self) -> Result<(), OperationError> {
        for table in [PRODUCTS, NEWS, RECORDS] {
            self.start(table);
            self.body.push('}');
            self.expect_ok("DeleteTable").await?;
            self.wait_until(table, |described| described.contains("ResourceNotFoundException"))
                .await?;
        }
        self.make_tables().await
    }

    async fn read(&mut self, pid: u64) -> Result<(), OperationError> {
        self.start(PRODUCTS);
        self.body.push_str(",\"ConsistentRead\":true,\"Key\":{");
        self.attribute("pid", true, pid.to_string().as_bytes());
        self.body.push_str("}}");
        let body = self.ask("GetItem").await?.ok()?;
        // Each field opens an object, and so do the item and the reply.
        let fields = body.matches("{\"").count().saturating_sub(2);
        match fields == FIELD_NAMES.len() {
            true => Ok(()),
            false => Err(OperationError::Refused(format!(
                "product {pid} came with {fields} fields"
            ))),
        }
    }

    async fn insert(&mut self, product: &Product) -> Result<(), OperationError> {
        self.put_product(product, "attribute_not_exists(pid)").await
    }

    async fn overwrite(&mut self, product: &Product) -> Result<(), OperationError> {
        self.put_product(product, "attribute_exists(pid)").await
    }

    async fn update(&mut self, product: &Product) -> Result<(), OperationError> {
        self.start(PRODUCTS);
        self.body.push_str(",\"Key\":{");
        self.attribute("pid", true, product.pid().to_string().as_bytes());
        self.body.push_str(
            "},\"UpdateExpression\":\"SET update_time = :0, #c = :1, price = :2\",\"ConditionExpression\":\"attribute_exists(pid)\",\
             \"ExpressionAttributeNames\":{\"#c\":\"count\"},\"ExpressionAttributeValues\":{",
        );
        for (index, (name, value)) in [":0", ":1", ":2"].into_iter().zip(product.values()).enumerate() {
            debug_assert_eq!(UPDATED_FIELD_NAMES, ["update_time", "count", "price"]);
            if index > 0 {
                self.body.push(',');
            }
            self.attribute(name, true, value);
        }
        self.body.push_str("}}");
        self.expect_ok("UpdateItem").await
    }

    async fn add_article(&mut self, section: &str, score: u64, member: &[u8]) -> Result<(), OperationError> {
        self.put_article(section, score, member).await
    }

    async fn rescore(&mut self, _section: &str, score: u64, member: &[u8]) -> Result<(), OperationError> {
        let id = article_id(member)?;
        self.start(NEWS);
        self.body.push_str(",\"Key\":{");
        self.attribute("id", false, id.as_bytes());
        self.body
            .push_str("},\"UpdateExpression\":\"SET view_count = :r\",\"ExpressionAttributeValues\":{");
        self.attribute(":r", true, score.to_string().as_bytes());
        self.body.push_str("}}");
        self.expect_ok("UpdateItem").await
    }

    async fn top(&mut self, section: &str, count: usize, members: &mut ByteStrings) -> Result<(), OperationError> {
        members.clear();
        self.start(NEWS);
        self.body.push_str(&format!(
            ",\"IndexName\":\"{NEWS_INDEX}\",\"Limit\":{count},\"ScanIndexForward\":false,\
             \"KeyConditionExpression\":\"#s = :s\",\"ExpressionAttributeNames\":{{\"#s\":\"section\"}},\
             \"ExpressionAttributeValues\":{{"
        ));
        self.attribute(":s", false, section.as_bytes());
        self.body.push_str("}}");
        let body = self.ask("Query").await?.ok()?;
        let page: Page = serde_json::from_str(body).map_err(|error| OperationError::Refused(error.to_string()))?;
        page.items
            .iter()
            .for_each(|item| members.push(item.article.text.as_bytes()));
        Ok(())
    }

    fn records(&mut self) -> &mut dyn Records {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_understood() {
        let trust = Trust::new(None).unwrap();
        let target = DynamoDbTarget::new("key:secret@127.0.0.1:8000/eu-west-1", false, &trust).unwrap();
        let credential = &target.credential;
        assert_eq!(
            (credential.access_key.as_str(), credential.secret.as_str()),
            ("key", "secret")
        );
        assert_eq!(target.address(), "dynamodb://127.0.0.1:8000/eu-west-1");
        for bad in ["127.0.0.1", "127.0.0.1:x", "key@127.0.0.1:1"] {
            assert!(DynamoDbTarget::new(bad, false, &trust).is_err(), "{bad}");
        }
    }
}
