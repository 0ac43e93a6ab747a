//! The operations of a target, independent of its protocol.

use async_trait::async_trait;

use super::error::OperationError;
use crate::byte_strings::ByteStrings;
use crate::records::product::Product;
use crate::records::search::{Condition, Document, Vectors};
use crate::records::ycsb::Record;

/// A database that can be connected to any number of times.
#[async_trait(?Send)]
pub trait Target: Send + Sync {
    /// An open, authenticated connection that has already answered a request.
    async fn connect(&self) -> anyhow::Result<Box<dyn Connection>>;

    /// Opens a connection without any request, to be used for one: the credentials are sent
    /// together with that.
    async fn connect_cold(&self) -> anyhow::Result<Box<dyn Connection>>;

    /// The address, without credentials.
    fn address(&self) -> String;

    /// Returns true if it runs on this machine, so that its process can be looked at.
    fn is_loopback(&self) -> bool;
}

/// The operations that the workloads are made of. Each returns once the reply is complete and is
/// what was expected.
#[async_trait(?Send)]
pub trait Connection {
    /// The server's name and version.
    async fn describe(&mut self) -> Result<ServerDescription, OperationError>;

    async fn is_empty(&mut self) -> Result<bool, OperationError>;

    /// Removes everything from the logical database.
    async fn clear(&mut self) -> Result<(), OperationError>;

    /// Reads all fields of a product and checks them.
    async fn read(&mut self, pid: u64) -> Result<(), OperationError>;

    /// Stores a new product.
    async fn insert(&mut self, product: &Product) -> Result<(), OperationError>;

    /// Replaces all fields of an existing product.
    async fn overwrite(&mut self, product: &Product) -> Result<(), OperationError>;

    /// Replaces the `UPDATED_FIELD_NAMES` of an existing product.
    async fn update(&mut self, product: &Product) -> Result<(), OperationError>;

    async fn add_article(&mut self, section: &str, score: u64, member: &[u8]) -> Result<(), OperationError>;

    /// Sets a new score of an existing article.
    async fn rescore(&mut self, section: &str, score: u64, member: &[u8]) -> Result<(), OperationError>;

    /// The `count` members with the highest scores, best first; fewer if the section has fewer.
    async fn top(&mut self, section: &str, count: usize, members: &mut ByteStrings) -> Result<(), OperationError>;

    /// The operations of YCSB.
    fn records(&mut self) -> &mut dyn Records;

    /// The operations of search and vectors. Refused where the protocol has none.
    fn searches(&mut self) -> Result<&mut dyn Searches, OperationError> {
        let reason = "search needs the commands FT.* and V*: redis:// has them";
        Err(OperationError::Lost(reason.to_owned()))
    }

    /// Inserts the instances of the calvin benchmark as one transaction. Refused by targets without
    /// secondary indexes that commit with the indexed documents.
    async fn insert_instances(&mut self, _strings: &ByteStrings) -> Result<(), OperationError> {
        let reason = "calvin needs transactions over several documents and their indexes: fauna:// has them";
        Err(OperationError::Lost(reason.to_owned()))
    }
}

/// Searches for documents and vectors by their content.
#[async_trait(?Send)]
pub trait Searches {
    /// Makes the index of documents.
    async fn index_documents(&mut self) -> Result<(), OperationError>;

    /// Makes an index with a graph over vectors of `dimensions` components, by their angle.
    async fn index_vectors(&mut self, dimensions: usize) -> Result<(), OperationError>;

    /// Stores documents that are not there yet, in one go.
    async fn add_documents(&mut self, documents: &[Document]) -> Result<(), OperationError>;

    /// Reads the first ten documents that match. Returns how many do.
    async fn total(&mut self, condition: Condition) -> Result<u64, OperationError>;

    /// Stores vectors of the numbers from `first` on that are not there yet, in one go.
    async fn add_vectors(&mut self, kind: Vectors, first: u64, vectors: &[Vec<u8>]) -> Result<(), OperationError>;

    /// Replaces `numbers` with the nearest vectors, as many as requested, the nearest first.
    async fn nearest(
        &mut self,
        kind: Vectors,
        vector: &[u8],
        count: usize,
        candidates: Option<u64>,
        numbers: &mut Vec<u64>,
    ) -> Result<(), OperationError>;
}

/// Records of ten fields under their keys, in the order of the keys.
#[async_trait(?Send)]
pub trait Records {
    /// Stores records that are not there yet, in as few requests as the protocol allows.
    async fn insert_all(&mut self, records: &[Record]) -> Result<(), OperationError>;

    /// Stores a record that is not there yet.
    async fn insert(&mut self, record: &Record) -> Result<(), OperationError>;

    /// Reads all fields and checks them.
    async fn read(&mut self, key: u64) -> Result<(), OperationError>;

    /// Replaces one field of an existing record.
    async fn update(&mut self, key: u64, field: usize, value: &[u8]) -> Result<(), OperationError>;

    /// Reads all fields of `count` records from `key` on; fewer if there are fewer.
    async fn scan(&mut self, key: u64, count: usize) -> Result<(), OperationError>;

    /// Reads all fields, then replaces one.
    async fn read_modify_write(&mut self, key: u64, field: usize, value: &[u8]) -> Result<(), OperationError> {
        self.read(key).await?;
        self.update(key, field, value).await
    }
}

/// A server's description of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerDescription {
    /// Such as "Redis 7.0.15".
    pub version: String,
    /// As the server sees itself, which is another number than ours if it runs in a container.
    pub pid: Option<u32>,
    pub executable: Option<String>,
}
