//! Documents in hashes below an index of FT.CREATE; vectors in hashes below another, or in a set of
//! VADD.

use async_trait::async_trait;

use super::{RedisConnection, lost, unexpected};
use crate::records::search::{Condition, Document, Vectors, word};
use crate::targets::reply::Element;
use crate::targets::{OperationError, Searches};

const DOCUMENTS: &str = "documents";
const DOCUMENT_PREFIX: &str = "document:";
const VECTORS: &str = "vectors";
const VECTOR_PREFIX: &str = "vector:";
const SET: &[u8] = b"vectors";

impl RedisConnection {
    /// Starts a request of these words.
    fn start_words(&mut self, words: &[&[u8]]) {
        self.request.bytes.clear();
        self.next_words(words);
    }

    fn next_words(&mut self, words: &[&[u8]]) {
        self.request.header(b'*', words.len());
        words.iter().for_each(|word| _ = self.request.argument(word));
    }

    async fn do_text(&mut self, request: &str) -> Result<(), OperationError> {
        let words: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        self.start_words(&words);
        self.expect_simple().await
    }

    /// Sends the request, whose reply is a list of a total and the hits. Passes each string at its
    /// top level to `take`; returns the total.
    async fn found(&mut self, mut take: impl FnMut(&[u8])) -> Result<u64, OperationError> {
        let mut remaining = match self.exchange().await? {
            Element::Array(count @ 1..) => count - 1,
            other => return Err(unexpected(other)),
        };
        let total = match self.replies.next().await.map_err(lost)? {
            Element::Integer(total) => total as u64,
            other => return Err(unexpected(other)),
        };
        while remaining > 0 {
            remaining -= 1;
            match self.replies.next().await.map_err(lost)? {
                Element::Bulk(string) => take(string),
                Element::Array(count) => self.pass_over(count).await?,
                other => return Err(unexpected(other)),
            }
        }
        Ok(total)
    }

    /// Reads `count` elements with all that they hold.
    async fn pass_over(&mut self, count: usize) -> Result<(), OperationError> {
        let mut remaining = count;
        while remaining > 0 {
            remaining -= 1;
            if let Element::Array(count) = self.replies.next().await.map_err(lost)? {
                remaining += count;
            }
        }
        Ok(())
    }
}

#[async_trait(?Send)]
impl Searches for RedisConnection {
    async fn index_documents(&mut self) -> Result<(), OperationError> {
        self.do_text(&format!(
            "FT.CREATE {DOCUMENTS} PREFIX 1 {DOCUMENT_PREFIX} SCHEMA text TEXT tag TAG number NUMERIC"
        ))
        .await
    }

    async fn index_vectors(&mut self, dimensions: usize) -> Result<(), OperationError> {
        self.do_text(&format!(
            "FT.CREATE {VECTORS} PREFIX 1 {VECTOR_PREFIX} SCHEMA v VECTOR HNSW 6 TYPE FLOAT32 DIM {dimensions} \
             DISTANCE_METRIC COSINE"
        ))
        .await
    }

    async fn add_documents(&mut self, documents: &[Document]) -> Result<(), OperationError> {
        self.request.bytes.clear();
        for document in documents {
            let key = format!("{DOCUMENT_PREFIX}{}", document.number);
            let (text, tag) = (document.text(), format!("t{}", document.tag));
            self.next_words(&[
                b"HSET",
                key.as_bytes(),
                b"text",
                text.as_bytes(),
                b"tag",
                tag.as_bytes(),
                b"number",
                document.value.to_string().as_bytes(),
            ]);
        }
        self.send().await?;
        for _ in documents {
            self.integer_of_reply(3).await?;
        }
        Ok(())
    }

    async fn total(&mut self, condition: Condition) -> Result<u64, OperationError> {
        let query = match condition {
            Condition::Tag(tag) => format!("@tag:{{t{tag}}}"),
            Condition::Numbers(least, most) => format!("@number:[{least} {most}]"),
            Condition::Word(rank) => word(rank),
        };
        self.start_words(&[
            b"FT.SEARCH",
            DOCUMENTS.as_bytes(),
            query.as_bytes(),
            b"LIMIT",
            b"0",
            b"10",
            b"DIALECT",
            b"2",
        ]);
        self.found(|_| ()).await
    }

    async fn add_vectors(&mut self, kind: Vectors, first: u64, vectors: &[Vec<u8>]) -> Result<(), OperationError> {
        self.request.bytes.clear();
        for (number, vector) in (first..).zip(vectors) {
            match kind {
                Vectors::Indexed => {
                    let key = format!("{VECTOR_PREFIX}{number}");
                    self.next_words(&[b"HSET", key.as_bytes(), b"v", vector]);
                }
                Vectors::Set => {
                    let name = number.to_string();
                    self.next_words(&[b"VADD", SET, b"FP32", vector, name.as_bytes()]);
                }
            }
        }
        self.send().await?;
        for _ in vectors {
            self.integer_of_reply(1).await?;
        }
        Ok(())
    }

    async fn nearest(
        &mut self,
        kind: Vectors,
        vector: &[u8],
        count: usize,
        candidates: Option<u64>,
        numbers: &mut Vec<u64>,
    ) -> Result<(), OperationError> {
        numbers.clear();
        let number_of = |name: &[u8]| std::str::from_utf8(name).ok()?.parse::<u64>().ok();
        let count = count.to_string();
        match kind {
            Vectors::Indexed => {
                let option = candidates.map_or_else(String::new, |count| format!(" EF_RUNTIME {count}"));
                let query = format!("*=>[KNN {count} @v $q{option} AS d]");
                let options = [
                    "NOCONTENT",
                    "SORTBY",
                    "d",
                    "LIMIT",
                    "0",
                    &count,
                    "DIALECT",
                    "2",
                    "PARAMS",
                    "2",
                    "q",
                ];
                let mut words = vec![&b"FT.SEARCH"[..], VECTORS.as_bytes(), query.as_bytes()];
                words.extend(options.iter().map(|word| word.as_bytes()));
                words.push(vector);
                self.start_words(&words);
                let prefix = VECTOR_PREFIX.as_bytes();
                self.found(|key| numbers.extend(key.strip_prefix(prefix).and_then(number_of)))
                    .await?;
            }
            Vectors::Set => {
                let option = candidates.map(|count| count.to_string());
                let mut words = vec![&b"VSIM"[..], SET, b"FP32", vector, b"COUNT", count.as_bytes()];
                if let Some(candidates) = &option {
                    words.extend([&b"EF"[..], candidates.as_bytes()]);
                }
                self.start_words(&words);
                self.each_string(|name| numbers.extend(number_of(name))).await?;
            }
        }
        Ok(())
    }
}
