//! How DynamoDB lays out an export of a table, as pure functions over bytes.
//!
//! ```text
//! manifest-summary.json    what was exported; written last, so an export without it is not finished
//! manifest-files.json      a line for each file: its name, its number of items, the MD5 of its bytes
//! data/NAME.json.gz        lines, each of one item
//! ```
//!
//! The layer writes such exports on a client's request, and `quartet export dynamodb` writes and
//! reads them from outside. No I/O, and no knowledge of items: a line is bytes.
//!
//! Source: the DynamoDB developer guide, "DynamoDB table export output format".

#![forbid(unsafe_code)]

use std::io::{self, Write};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use md5::{Digest, Md5};
use quartet_model::hexadecimal;
use serde::{Deserialize, Serialize};

/// Name of the manifest that describes the export.
pub const SUMMARY: &str = "manifest-summary.json";
/// Name of the manifest that lists the files.
pub const FILES: &str = "manifest-files.json";
/// A file ends with the line that makes it as long as this, compressed or not.
const FILE_BYTES: usize = 8 << 20;
const FILE_BYTES_BEFORE: usize = 128 << 20;

/// A file that is being filled.
pub struct DataFile {
    encoder: GzEncoder<Vec<u8>>,
    items: u64,
    bytes_before: usize,
}

impl Default for DataFile {
    fn default() -> DataFile {
        DataFile {
            encoder: GzEncoder::new(Vec::new(), Compression::default()),
            items: 0,
            bytes_before: 0,
        }
    }
}

impl DataFile {
    /// Appends a line, which ends in a line feed.
    pub fn add(&mut self, line: &[u8]) -> io::Result<()> {
        self.encoder.write_all(line)?;
        self.items += 1;
        self.bytes_before += line.len();
        Ok(())
    }

    /// Returns true if the next line belongs in another file.
    pub fn is_full(&self) -> bool {
        self.encoder.get_ref().len() >= FILE_BYTES || self.bytes_before >= FILE_BYTES_BEFORE
    }

    /// The bytes of the whole file, and the line of the manifest for the key that it is stored
    /// under.
    pub fn finish(self, key: String) -> io::Result<(Vec<u8>, FileLine)> {
        let bytes = self.encoder.finish()?;
        let line = FileLine {
            item_count: self.items,
            md5_checksum: Some(checksum(&bytes)),
            etag: Some(hexadecimal(&Md5::digest(&bytes))),
            data_file_s3_key: key,
        };
        Ok((bytes, line))
    }
}

/// A line of manifest-files.json.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileLine {
    /// Lines of the file.
    pub item_count: u64,
    /// MD5 of the file's bytes, in base64.
    pub md5_checksum: Option<String>,
    /// The object's tag in the bucket: the same, in hexadecimal digits.
    pub etag: Option<String>,
    /// The place of the file in the bucket.
    pub data_file_s3_key: String,
}

impl FileLine {
    /// True unless the manifest has another checksum for these bytes.
    pub fn describes(&self, bytes: &[u8]) -> bool {
        self.md5_checksum
            .as_ref()
            .is_none_or(|expected| *expected == checksum(bytes))
    }
}

/// The MD5 of bytes in base64, as manifests and the files beside them have it.
pub fn checksum(bytes: &[u8]) -> String {
    BASE64_STANDARD.encode(Md5::digest(bytes))
}

/// The contents of manifest-summary.json. Times are as in `2020-11-04T07:28:34.028Z`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Summary {
    /// Version of the form of the manifests.
    pub version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub export_arn: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_time: Option<String>,
    pub table_arn: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table_id: Option<String>,
    /// For a full export: the time of the exported state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub export_time: Option<String>,
    /// For an incremental export: its first moment, included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub export_from_time: Option<String>,
    /// For an incremental export: its end, excluded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub export_to_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub s3_bucket: Option<String>,
    pub s3_prefix: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub s3_sse_algorithm: Option<String>,
    pub s3_sse_kms_key_id: Option<String>,
    /// The place of manifest-files.json in the bucket.
    pub manifest_files_s3_key: String,
    pub billed_size_bytes: u64,
    pub item_count: u64,
    /// `DYNAMODB_JSON` or `ION`.
    pub output_format: Option<String>,
    /// For an incremental export: `NEW_IMAGE` or `NEW_AND_OLD_IMAGES`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_view: Option<String>,
    /// `FULL_EXPORT` or `INCREMENTAL_EXPORT`; absent in exports older than incremental exports.
    pub export_type: Option<String>,
}

/// `version` of full exports.
pub const FULL_VERSION: &str = "2020-06-30";
/// `version` of incremental exports.
pub const INCREMENTAL_VERSION: &str = "2023-08-01";

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::{DataFile, FILE_BYTES_BEFORE};

    #[test]
    fn a_file_is_what_its_line_says() {
        let mut file = DataFile::default();
        file.add(b"one\n").unwrap();
        file.add(b"two\n").unwrap();
        assert!(!file.is_full());
        let (bytes, line) = file.finish("data/x.json.gz".into()).unwrap();
        assert_eq!((line.item_count, line.data_file_s3_key.as_str()), (2, "data/x.json.gz"));
        assert!(line.describes(&bytes) && !line.describes(&bytes[1..]));
        let mut read = String::new();
        GzDecoder::new(bytes.as_slice()).read_to_string(&mut read).unwrap();
        assert_eq!(read, "one\ntwo\n");
    }

    #[test]
    fn a_file_is_full_also_where_its_lines_compress_well() {
        let mut file = DataFile {
            bytes_before: FILE_BYTES_BEFORE - 4,
            ..DataFile::default()
        };
        assert!(!file.is_full());
        file.add(b"one\n").unwrap();
        assert!(file.is_full());
    }
}
