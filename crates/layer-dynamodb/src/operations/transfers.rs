//! The common parts of exports and imports: buckets, a queue, and lists.
//!
//! A request adds its work to a queue of rows and is answered immediately; [`DynamoDb::transfer`]
//! does the work, one transfer after another, on a thread that may wait for files. The progress is
//! a row too, so it continues after a restart.

use std::io;
use std::ops::ControlFlow;

use quartet_engine::Transaction;
use quartet_model::{KeyRange, hexadecimal};
use serde::Serialize;
use serde::de::DeserializeOwned;
use xxhash_rust::xxh3::xxh3_64;

use crate::storage::catalog::{next_number, table_name};
use crate::storage::key::kept_name;
use crate::storage::table::Table;
use crate::wire::failure::{Exception, Failure};
use crate::wire::json::{Json, Writer};
use crate::{DynamoDb, Outcome, storage::key};

/// Most transfers of one database that wait or are in progress.
const AT_ONCE: u64 = 50;
/// Transfers that are looked through for one of the same token, and that one page of a list looks
/// at.
const LOOKED_AT_MAX: usize = 1000;
/// Time for which the service lists a transfer.
const KEPT_MILLISECONDS: u64 = 90 * 24 * 3600 * 1000;
/// Old transfers that a new one removes.
const REMOVED_AT_ONCE: usize = 10;
const PAGE_MAX: usize = 25;
const REASON_CHARACTERS_MAX: usize = 300;

/// The progress of a transfer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
pub enum Status {
    InProgress,
    Completed,
    /// A code and a text.
    Failed(String, String),
}

impl Status {
    pub fn name(&self) -> &'static str {
        match self {
            Status::InProgress => "IN_PROGRESS",
            Status::Completed => "COMPLETED",
            Status::Failed(..) => "FAILED",
        }
    }

    /// Returns the status for a bucket's failure.
    pub fn of_bucket(error: &io::Error) -> Status {
        let code = match error.kind() {
            io::ErrorKind::NotFound => "S3NoSuchKey",
            io::ErrorKind::PermissionDenied => "S3AccessDenied",
            io::ErrorKind::InvalidData => "InvalidData",
            io::ErrorKind::QuotaExceeded => "LimitExceededException",
            _ => "S3Error",
        };
        let reason = error.to_string().chars().take(REASON_CHARACTERS_MAX).collect();
        Status::Failed(code.into(), reason)
    }

    pub fn write(&self, writer: &mut Writer, member: &str) {
        writer.member(member, self.name());
        if let Status::Failed(code, text) = self {
            writer.member("FailureCode", code);
            writer.member("FailureMessage", text);
        }
    }
}

/// An export or an import, as it is kept.
pub trait Transfer: Serialize + DeserializeOwned {
    /// The letter of its rows.
    const LETTER: u8;
    /// Between the table and its number in an ARN.
    const KIND: &'static str;
    const NAMES: Names;

    fn id(&self) -> &str;
    fn table(&self) -> &Table;
    fn token(&self) -> Option<&str>;
    fn status(&self) -> &Status;
}

/// The words of requests and answers about exports or imports.
pub struct Names {
    pub kind: &'static str,
    pub arn: &'static str,
    pub status: &'static str,
    /// The member that limits a page of a list.
    pub page_size: &'static str,
    /// The member that has the elements of a list.
    pub list: &'static str,
    pub not_found: Exception,
}

pub fn arn<T: Transfer>(layer: &DynamoDb, transfer: &T) -> String {
    format!(
        "{}/{}/{}",
        layer.table_arn(&transfer.table().name),
        T::KIND,
        transfer.id()
    )
}

/// Refuses a bucket that the operator has not named.
pub fn check_bucket(layer: &DynamoDb, bucket: &str) -> Result<(), Failure> {
    match layer.buckets.has(bucket) {
        true => Ok(()),
        false => Err(Failure::validation(format!(
            "The specified S3 bucket does not exist: {bucket}. Buckets are named by the server's setting dynamodb-buckets"
        ))),
    }
}

/// A name that no other transfer has: the time and eight digits, as the service gives them.
pub fn new_id(transaction: &mut Transaction<'_>) -> String {
    let digits = xxh3_64(&transaction.unique_id()) as u32;
    format!("{:014}-{digits:08x}", transaction.now_micros() / 1000)
}

/// The name under which a transfer of this region is kept, by the end of its ARN.
fn kept<T: Transfer>(layer: &DynamoDb, id: &str) -> Vec<u8> {
    key::transfer(T::LETTER, &kept_name(layer.own_region(), id))
}

/// The transfer that a client has started with this token.
pub fn of_token<T: Transfer>(layer: &DynamoDb, transaction: &mut Transaction<'_>, token: Option<&str>) -> Option<T> {
    let token = token?;
    let mut existing = None;
    scan::<T>(layer, transaction, None, true, &mut |transfer| {
        if transfer.token() == Some(token) {
            existing = Some(transfer);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    existing
}

/// Visits transfers of this region after `after`, or backwards from the newest. True if it ended
/// before it had seen all.
fn scan<T: Transfer>(
    layer: &DynamoDb,
    transaction: &mut Transaction<'_>,
    after: Option<&str>,
    reverse: bool,
    visit: &mut dyn FnMut(T) -> ControlFlow<()>,
) -> bool {
    let prefix = kept::<T>(layer, "");
    // Names that start with digits are followed by other regions', below the regions' names.
    let end = [prefix.as_slice(), b":"].concat();
    let start = after.map_or(prefix.clone(), |id| KeyRange::point(&kept::<T>(layer, id)).end);
    let mut looked_at = 0;
    let mut ended = false;
    transaction.scan(&start, &end, reverse, &mut |row| {
        looked_at += 1;
        let transfer = serde_json::from_slice(row.value()).expect("a stored transfer");
        ended = visit(transfer).is_break() || looked_at == LOOKED_AT_MAX;
        match ended {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    ended
}

/// Puts a transfer into the queue; its number is what the queue calls it.
pub fn enqueue<T: Transfer>(
    layer: &DynamoDb,
    transaction: &mut Transaction<'_>,
    make: impl FnOnce(&mut Transaction<'_>, u32) -> Result<T, Failure>,
) -> Result<T, Failure> {
    if transaction.count(b"Q", b"R") >= AT_ONCE {
        let text = format!("Subscriber limit exceeded: Only {AT_ONCE} exports and imports are allowed simultaneously");
        return Err(Failure::new(Exception::LimitExceeded, text));
    }
    let number = next_number(transaction);
    let transfer = make(transaction, number)?;
    forget_old::<T>(layer, transaction);
    let row_key = kept::<T>(layer, transfer.id());
    store(transaction, &row_key, &transfer);
    transaction.set(&key::queued(number), &row_key);
    Ok(transfer)
}

fn forget_old<T: Transfer>(layer: &DynamoDb, transaction: &mut Transaction<'_>) {
    let before = (transaction.now_micros() / 1000).saturating_sub(KEPT_MILLISECONDS);
    let (start, end) = (kept::<T>(layer, ""), kept::<T>(layer, &format!("{before:014}")));
    let mut old = Vec::new();
    transaction.scan(&start, &end, false, &mut |row| {
        old.push(Transaction::layer_key(row).to_vec());
        match old.len() < REMOVED_AT_ONCE {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    });
    for row_key in old {
        transaction.clear(&row_key);
    }
}

pub fn store<T: Transfer>(transaction: &mut Transaction<'_>, row_key: &[u8], transfer: &T) {
    transaction.set(row_key, &serde_json::to_vec(transfer).expect("JSON"));
}

/// Answers with the transfer that a request names.
pub fn describe<T: Transfer>(
    layer: &DynamoDb,
    request: &Json<'_>,
    description: impl FnOnce(&DynamoDb, &T) -> Vec<u8>,
) -> Outcome {
    let arn = request.get(T::NAMES.arn).and_then(Json::text).unwrap_or_default();
    let execute = |transaction: &mut Transaction<'_>, (): &()| {
        let not_found = || Failure::new(T::NAMES.not_found, format!("{} not found: {arn}", T::NAMES.kind));
        named::<T>(layer, transaction, arn).ok_or_else(not_found)
    };
    layer.respond_to_read(Ok(()), execute, |(), transfer| description(layer, &transfer))
}

/// The transfer that an ARN names.
fn named<T: Transfer>(layer: &DynamoDb, transaction: &mut Transaction<'_>, arn: &str) -> Option<T> {
    let (table, id) = arn.split_once(&format!("/{}/", T::KIND))?;
    let id = Some(id).filter(|id| layer.is_of_this_region(arn) && !id.contains('/'))?;
    let transfer: T = load(transaction, &kept::<T>(layer, id))?;
    table
        .ends_with(&format!("/{}", transfer.table().name))
        .then_some(transfer)
}

fn load<T: Transfer>(transaction: &mut Transaction<'_>, row_key: &[u8]) -> Option<T> {
    let row = transaction.get(row_key)?;
    Some(serde_json::from_slice(row.value()).expect("a stored transfer"))
}

/// Answers with a page of a list. `write_rest` writes the members of an element that follow its ARN
/// and its status.
pub fn list<T: Transfer>(layer: &DynamoDb, request: &Json<'_>, write_rest: impl Fn(&T, &mut Writer)) -> Outcome {
    let text = |member| request.get(member).and_then(Json::text);
    let table = text("TableArn").map(table_name);
    let limit = request.get(T::NAMES.page_size).and_then(Json::integer);
    let execute =
        |transaction: &mut Transaction<'_>, (): &()| Ok(page::<T>(layer, transaction, table, limit, text("NextToken")));
    layer.respond_to_read(Ok(()), execute, |(), (transfers, next)| {
        Writer::object(|writer| {
            writer.list(T::NAMES.list, &transfers, |writer, transfer| {
                writer.open(b'{');
                writer.member(T::NAMES.arn, &arn(layer, transfer));
                writer.member(T::NAMES.status, transfer.status().name());
                write_rest(transfer, writer);
                writer.close(b'}');
            });
            if let Some(next) = &next {
                writer.member("NextToken", next);
            }
        })
    })
}

/// A page of a list, of one table or of all, and the start of the next page.
pub fn page<T: Transfer>(
    layer: &DynamoDb,
    transaction: &mut Transaction<'_>,
    table: Option<&str>,
    limit: Option<i64>,
    after: Option<&str>,
) -> (Vec<T>, Option<String>) {
    let limit = limit.map_or(PAGE_MAX, |limit| limit as usize);
    let after = after.map(id_of_page_token);
    let (mut listed, mut last) = (Vec::new(), String::new());
    let has_more = scan::<T>(layer, transaction, after.as_deref(), false, &mut |transfer| {
        transfer.id().clone_into(&mut last);
        if table.is_none_or(|table| transfer.table().name == table) {
            listed.push(transfer);
        }
        match listed.len() < limit {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    });
    (listed, has_more.then(|| page_token(&last)))
}

/// SDKs check that tokens are at least 112 hexadecimal digits.
fn page_token(id: &str) -> String {
    format!("{:0<112}", hexadecimal(id.as_bytes()))
}

fn id_of_page_token(token: &str) -> String {
    let pairs = token.as_bytes().chunks_exact(2);
    let bytes = pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap_or_default(), 16).unwrap_or(0));
    bytes.take_while(|byte| *byte != 0).map(char::from).collect()
}

/// A text of a request that is stored, if it is given.
pub fn kept_text(request: &Json<'_>, member: &str) -> Option<String> {
    request.get(member).and_then(Json::text).map(str::to_owned)
}

impl DynamoDb {
    /// Runs `body` as a transaction, and answers when what it saw and did is durable.
    pub(crate) fn settle<R>(&self, body: impl FnOnce(&mut Transaction<'_>) -> R) -> io::Result<R> {
        self.execute_durably(|transaction| Ok(body(transaction)))
            .map_err(|failure| io::Error::other(failure.message))
    }

    pub(crate) fn transfer_at<T: Transfer>(&self, row_key: &[u8]) -> io::Result<Option<T>> {
        self.settle(|transaction| load(transaction, row_key))
    }
}
