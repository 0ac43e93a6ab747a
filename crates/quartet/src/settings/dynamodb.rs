//! Options of DynamoDB's layer.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use quartet_server::{AccessKeys, DynamoDbSettings};
use serde::{Deserialize, Serialize};

use super::values::{listen, named_places, one_of, read_secret};

#[derive(Args, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct DynamoDbOptions {
    /// Address of the DynamoDB protocol, or "off" [default: 127.0.0.1:8000]
    #[arg(long, env = "QUARTET_LISTEN_DYNAMODB")]
    listen_dynamodb: Option<String>,
    /// DynamoDB's access keys, as ID:SECRET, with commas between [default: made at the first start;
    /// with --dev any]
    #[arg(long, env = "QUARTET_DYNAMODB_ACCESS_KEYS", hide_env_values = true)]
    dynamodb_access_keys: Option<String>,
    /// File that holds DynamoDB's access keys
    #[arg(long, env = "QUARTET_DYNAMODB_ACCESS_KEYS_FILE")]
    dynamodb_access_keys_file: Option<PathBuf>,
    /// Whether DynamoDB's tables may consume no more than their provisioned units or maxima: on or
    /// off [default: on, with --dev off]
    #[arg(long, env = "QUARTET_DYNAMODB_THROTTLING", value_parser = ["on", "off"])]
    dynamodb_throttling: Option<String>,
    /// Whether each AWS region that a request is signed for has DynamoDB tables of its own:
    /// separate or shared [default: shared]
    #[arg(long, env = "QUARTET_DYNAMODB_REGIONS", value_parser = ["separate", "shared"])]
    dynamodb_regions: Option<String>,
    /// Buckets of DynamoDB's exports and imports, as NAME=FOLDER or NAME=s3://BUCKET/PREFIX, with
    /// commas between [default: none]
    #[arg(long, env = "QUARTET_DYNAMODB_BUCKETS")]
    dynamodb_buckets: Option<String>,
    /// Maximum bytes in each of these buckets, of any writer: an export beyond it fails [default:
    /// no limit]
    #[arg(long, env = "QUARTET_DYNAMODB_BUCKET_BYTES_MAX", value_parser = clap::value_parser!(u64).range(1..))]
    dynamodb_bucket_bytes_max: Option<u64>,
}

impl DynamoDbOptions {
    pub fn validated(&self, is_dev: bool) -> Result<DynamoDbSettings> {
        one_of("dynamodb-throttling", &self.dynamodb_throttling, &["on", "off"])?;
        one_of("dynamodb-regions", &self.dynamodb_regions, &["separate", "shared"])?;
        Ok(DynamoDbSettings {
            listen: listen("listen-dynamodb", &self.listen_dynamodb, "127.0.0.1:8000")?,
            access_keys: self.access_keys(is_dev)?,
            throttling: self.dynamodb_throttling.as_deref().map_or(!is_dev, |word| word == "on"),
            regions_are_separate: self.dynamodb_regions.as_deref() == Some("separate"),
            buckets: named_places("dynamodb-buckets", self.dynamodb_buckets.as_deref())?,
            bucket_bytes_max: self.dynamodb_bucket_bytes_max,
        })
    }

    fn access_keys(&self, is_dev: bool) -> Result<AccessKeys> {
        match self.dynamodb_access_keys.as_deref() {
            Some(text) => Ok(AccessKeys::Given(access_keys(text)?)),
            None if is_dev => Ok(AccessKeys::Any),
            None => Ok(AccessKeys::Kept),
        }
    }

    pub fn read_secrets(&mut self) -> Result<()> {
        read_secret(
            "dynamodb-access-keys",
            &mut self.dynamodb_access_keys,
            &self.dynamodb_access_keys_file,
        )
    }
}

fn access_keys(text: &str) -> Result<Vec<(String, String)>> {
    let pairs = text.split(',').map(|pair| match pair.trim().split_once(':') {
        Some((id, secret)) if !id.is_empty() && !secret.is_empty() => Ok((id.to_owned(), secret.to_owned())),
        _ => anyhow::bail!("dynamodb-access-keys: an access key is ID:SECRET"),
    });
    pairs.collect()
}
