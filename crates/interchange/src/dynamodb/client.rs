//! The operations of DynamoDB that a copy needs, of any server that speaks its protocol.

use std::time::Duration;

use quartet_sigv4::{Credential, Signer};
use serde_json::{Value, json};

use crate::error::Error;
use crate::http::{Answer, Http};
use crate::roots::TrustedRoots;

/// Items of one BatchWriteItem.
pub const BATCH_ITEMS: usize = 25;
const LOOK: Duration = Duration::from_millis(100);
/// Errors that require a retry with backoff.
const PATIENCE: [&str; 5] = [
    "ProvisionedThroughputExceededException",
    "ThrottlingException",
    "RequestLimitExceeded",
    "InternalServerError",
    "ServiceUnavailable",
];

pub struct Client {
    http: Http,
    signer: Signer,
}

/// An error of the protocol, or of the way to it.
pub struct Refused {
    /// Without its namespace; empty if there was no answer.
    pub kind: String,
    pub text: String,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.kind.is_empty() {
            true => formatter.write_str(&self.text),
            false => write!(formatter, "{}: {}", self.kind, self.text),
        }
    }
}

impl Client {
    /// Errors: no server accepts connections at `url`.
    pub fn new(url: &str, credential: Credential, roots: &TrustedRoots) -> Result<Client, Error> {
        let http = Http::new(url, roots);
        http.check_reachable()?;
        Ok(Client {
            http,
            signer: Signer::new(credential),
        })
    }

    pub fn ask(&self, operation: &str, request: &Value) -> Result<Value, Refused> {
        let body = request.to_string();
        let signed = || {
            let headers = self.signer.headers(self.http.host(), operation, &body);
            (headers, body.clone())
        };
        let wants_patience =
            |answer: &Answer| answer.status != 200 && PATIENCE.contains(&refusal(answer).kind.as_str());
        let answer = self.http.ask("", &signed, &wants_patience);
        let answer = answer.map_err(|text| Refused {
            kind: String::new(),
            text,
        })?;
        if answer.status != 200 {
            return Err(refusal(&answer));
        }
        // Some operations answer nothing.
        if answer.body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&answer.body).map_err(|error| Refused {
            kind: String::new(),
            text: format!("{operation} answers what is no JSON: {error}"),
        })
    }

    /// The table's description; `None`: there is no such table.
    pub fn describe(&self, table: &str) -> Result<Option<Value>, Refused> {
        match self.ask("DescribeTable", &json!({ "TableName": table })) {
            Ok(mut answer) => Ok(Some(answer["Table"].take())),
            Err(refused) if refused.kind == "ResourceNotFoundException" => Ok(None),
            Err(refused) => Err(refused),
        }
    }

    /// Makes the table, and waits until it may be used.
    pub fn create(&self, request: &Value) -> Result<(), Refused> {
        self.ask("CreateTable", request)?;
        self.wait_until_active(request["TableName"].as_str().unwrap_or_default())
    }

    /// Waits until the table has applied what was changed of it.
    pub fn wait_until_active(&self, name: &str) -> Result<(), Refused> {
        while self
            .describe(name)?
            .is_none_or(|table| table["TableStatus"] != "ACTIVE")
        {
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Writes up to [`BATCH_ITEMS`] items. Items that the server leaves undone are sent again.
    pub fn put(&self, table: &str, items: &[Value]) -> Result<(), Refused> {
        let puts: Vec<Value> = items
            .iter()
            .map(|item| json!({ "PutRequest": { "Item": item } }))
            .collect();
        let mut request = json!({ "RequestItems": { table: puts } });
        loop {
            let mut answer = self.ask("BatchWriteItem", &request)?;
            let undone = answer["UnprocessedItems"].take();
            if undone.as_object().is_none_or(|undone| undone.is_empty()) {
                return Ok(());
            }
            request = json!({ "RequestItems": undone });
            std::thread::sleep(LOOK);
        }
    }
}

fn refusal(answer: &Answer) -> Refused {
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let kind = body["__type"].as_str().unwrap_or_default();
    let text = body["message"].as_str().or(body["Message"].as_str());
    Refused {
        kind: kind.rsplit(['#', '.']).next().unwrap_or_default().into(),
        text: text.map_or_else(|| format!("status {}", answer.status), str::to_owned),
    }
}

/// Builds a CreateTable request from a table's description, without the parts that its server has
/// added.
pub fn like(description: &Value, name: &str) -> Value {
    let mut request = json!({
        "TableName": name,
        "AttributeDefinitions": description["AttributeDefinitions"],
        "KeySchema": description["KeySchema"],
        "BillingMode": "PAY_PER_REQUEST",
    });
    for kind in ["GlobalSecondaryIndexes", "LocalSecondaryIndexes"] {
        let indexes: Vec<Value> = description[kind]
            .as_array()
            .into_iter()
            .flatten()
            .map(index_like)
            .collect();
        if !indexes.is_empty() {
            request[kind] = indexes.into();
        }
    }
    if description["StreamSpecification"]["StreamEnabled"] == true {
        request["StreamSpecification"] = description["StreamSpecification"].clone();
    }
    request
}

fn index_like(index: &Value) -> Value {
    json!({ "IndexName": index["IndexName"], "KeySchema": index["KeySchema"], "Projection": index["Projection"] })
}
