//! `quartet import` and `quartet export` of DynamoDB's items, FaunaDB's documents, and keys with
//! values.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use quartet_interchange::dynamodb::{self, Credential, Export, From, To};
use quartet_interchange::{Error, Journal, TrustedRoots, fauna, keyvalue};

use super::observe::{Observed, RecordArguments};
use crate::admin_api::ServerRoots;

const REJECTED: u8 = 2;

/// Runs one import under its journal, which goes when all has arrived.
fn under_journal(
    arguments: &RecordArguments,
    from: &str,
    to: &str,
    copy: impl FnOnce(&mut Journal, &mut Observed) -> quartet_interchange::Result<()>,
) -> Result<ExitCode> {
    let mut journal = Journal::open(&arguments.journal, from, to)?;
    let mut observed = Observed::new(arguments.rejected.as_deref(), arguments.rejected_max)?;
    let had_begun = journal.goes_on();
    let copied = copy(&mut journal, &mut observed);
    observed.end();
    match copied {
        Ok(()) => {}
        // Nothing was written, so there is nothing to resume.
        Err(error @ Error::NotEmpty(_)) if !had_begun => {
            journal.finish()?;
            return Err(error.into());
        }
        Err(error) => return Err(error.into()),
    }
    journal.finish()?;
    println!("brought {} records; rejected {}", observed.done, observed.rejected);
    Ok(match observed.rejected {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(REJECTED),
    })
}

fn exported(count: u64, observed: &Observed, to: &Path) {
    observed.end();
    println!("wrote {count} records to {}", to.display());
}

#[derive(Args)]
pub struct DynamoDbArguments {
    /// The folder, or s3://BUCKET/PREFIX, that holds an export's manifest-summary.json (credentials
    /// and endpoint from the AWS_ variables), or the URL of a live DynamoDB, with --table and the
    /// AWS_ variables
    #[arg(long)]
    from: String,
    /// Table of a live source
    #[arg(long)]
    table: Option<String>,
    /// Name of the table that gets the items [default: that of --table]
    #[arg(long)]
    into: Option<String>,
    /// URL of the server that gets them
    #[arg(long, default_value = "http://127.0.0.1:8000")]
    to: String,
    /// Access key of the target database
    #[arg(
        long,
        env = "QUARTET_IMPORT_ACCESS_KEY",
        hide_env_values = true,
        default_value = "any"
    )]
    to_access_key: String,
    /// Its secret
    #[arg(
        long,
        env = "QUARTET_IMPORT_SECRET_KEY",
        hide_env_values = true,
        default_value = "any"
    )]
    to_secret_key: String,
    /// File with the answer of DescribeTable, from which the table is made if it is not there
    /// [default: the export's table.json, or the live table's description]
    #[arg(long)]
    schema: Option<PathBuf>,
    /// Number of readers of a live table at once
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    segments: u32,
    #[command(flatten)]
    trust: ServerRoots,
    #[command(flatten)]
    records: RecordArguments,
}

pub fn import_dynamodb(arguments: &DynamoDbArguments) -> Result<ExitCode> {
    let roots = arguments.trust.read()?;
    let target = dynamodb::Client::new(&arguments.to, target_credential(arguments), &roots)?;
    let is_live = arguments.from.starts_with("http://") || arguments.from.starts_with("https://");
    let name = arguments.into.as_deref().or(arguments.table.as_deref());
    let name = name.context("--into names the table that gets the items")?;
    let schema = arguments.schema.as_deref().map(read_schema).transpose()?;
    let to = To {
        client: &target,
        name,
        merges: arguments.records.merge,
    };
    let journal_to = format!("{} {name}", arguments.to);
    if is_live {
        let table = arguments
            .table
            .as_deref()
            .context("--table names the table of a live source")?;
        let source = dynamodb::Client::new(&arguments.from, credential_of_environment(), &TrustedRoots::Public)?;
        let from = From::Table {
            client: &source,
            name: table,
            segments: arguments.segments,
        };
        let journal_from = format!("{} {table}, {} segments", arguments.from, arguments.segments);
        return under_journal(&arguments.records, &journal_from, &journal_to, |journal, observed| {
            dynamodb::import(&from, &to, schema.as_ref(), journal, observed)
        });
    }
    let export = Export::open(&arguments.from)?;
    under_journal(&arguments.records, &arguments.from, &journal_to, |journal, observed| {
        dynamodb::import(&From::Export(&export), &to, schema.as_ref(), journal, observed)
    })
}

fn read_schema(path: &Path) -> Result<serde_json::Value> {
    let text = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    let mut value: serde_json::Value =
        serde_json::from_slice(&text).with_context(|| format!("reading {}", path.display()))?;
    Ok(match value.get("Table").is_some() {
        true => value["Table"].take(),
        false => value,
    })
}

fn target_credential(arguments: &DynamoDbArguments) -> Credential {
    Credential {
        access_key: arguments.to_access_key.clone(),
        secret: arguments.to_secret_key.clone(),
        session_token: None,
        region: region(),
    }
}

fn region() -> String {
    let variable = |name| std::env::var(name).ok().filter(|text: &String| !text.is_empty());
    variable("AWS_REGION")
        .or_else(|| variable("AWS_DEFAULT_REGION"))
        .unwrap_or_else(|| "us-east-1".into())
}

/// As the tools of AWS find it.
fn credential_of_environment() -> Credential {
    let variable = |name| std::env::var(name).ok().filter(|text: &String| !text.is_empty());
    Credential {
        access_key: variable("AWS_ACCESS_KEY_ID").unwrap_or_else(|| "any".into()),
        secret: variable("AWS_SECRET_ACCESS_KEY").unwrap_or_else(|| "any".into()),
        session_token: variable("AWS_SESSION_TOKEN"),
        region: region(),
    }
}

#[derive(Args)]
pub struct ExportDynamoDbArguments {
    /// URL of the server; the credential is read from the AWS_ variables
    #[arg(long, default_value = "http://127.0.0.1:8000")]
    from: String,
    #[arg(long)]
    table: String,
    /// Folder, or s3://BUCKET/PREFIX, that gets the files
    #[arg(long)]
    to: String,
    #[command(flatten)]
    trust: ServerRoots,
}

pub fn export_dynamodb(arguments: &ExportDynamoDbArguments) -> Result<()> {
    let mut observed = Observed::new(None, 0)?;
    let client = dynamodb::Client::new(&arguments.from, credential_of_environment(), &arguments.trust.read()?)?;
    let count = dynamodb::export(&client, &arguments.table, &arguments.to, &mut observed)?;
    exported(count, &observed, Path::new(&arguments.to));
    Ok(())
}

#[derive(Args)]
pub struct FaunaArguments {
    /// Folder with a file for each collection, NAME.json, a document a line; what `quartet export
    /// fauna` has written; or a snapshot export of the service, NAME/NAME_00_000000.jsonl
    #[arg(long)]
    from: PathBuf,
    /// URL of the server that gets them
    #[arg(long, default_value = "http://127.0.0.1:8443")]
    to: String,
    /// Secret of the target database
    #[arg(
        long,
        env = "QUARTET_IMPORT_SECRET",
        hide_env_values = true,
        default_value = "secret"
    )]
    secret: String,
    #[command(flatten)]
    trust: ServerRoots,
    #[command(flatten)]
    records: RecordArguments,
}

pub fn import_fauna(arguments: &FaunaArguments) -> Result<ExitCode> {
    let client = fauna::Client::new(&arguments.to, &arguments.secret, &arguments.trust.read()?)?;
    let from = arguments.from.display().to_string();
    under_journal(&arguments.records, &from, &arguments.to, |journal, observed| {
        fauna::import(&arguments.from, &client, arguments.records.merge, journal, observed)
    })
}

#[derive(Args)]
pub struct ExportFaunaArguments {
    /// URL of the server
    #[arg(long, default_value = "http://127.0.0.1:8443")]
    from: String,
    /// Secret of the database
    #[arg(
        long,
        env = "QUARTET_EXPORT_SECRET",
        hide_env_values = true,
        default_value = "secret"
    )]
    secret: String,
    /// A collection; several may be named [default: all]
    #[arg(long)]
    collection: Vec<String>,
    /// Folder that gets a file for each, and with all of them what else the database has
    #[arg(long)]
    to: PathBuf,
    #[command(flatten)]
    trust: ServerRoots,
}

pub fn export_fauna(arguments: &ExportFaunaArguments) -> Result<()> {
    let mut observed = Observed::new(None, 0)?;
    let client = fauna::Client::new(&arguments.from, &arguments.secret, &arguments.trust.read()?)?;
    let count = fauna::export(&client, &arguments.to, &arguments.collection, &mut observed)?;
    exported(count, &observed, &arguments.to);
    Ok(())
}

#[derive(Args)]
pub struct KeyValueImportArguments {
    /// File with a {"key": "...", "value": "..."} a line, both in base64
    #[arg(long)]
    from: PathBuf,
    /// Cluster file of the server [default: $FDB_CLUSTER_FILE, ./fdb.cluster,
    /// /etc/foundationdb/fdb.cluster]
    #[arg(long)]
    cluster_file: Option<PathBuf>,
    #[command(flatten)]
    records: RecordArguments,
}

pub fn import_keyvalue(arguments: &KeyValueImportArguments) -> Result<ExitCode> {
    let client = keyvalue::Client::open(arguments.cluster_file.as_deref())?;
    let from = arguments.from.display().to_string();
    under_journal(&arguments.records, &from, &client.name(), |journal, observed| {
        keyvalue::import(&arguments.from, &client, arguments.records.merge, journal, observed)
    })
}

#[derive(Args)]
pub struct KeyValueExportArguments {
    /// Cluster file of the server [default: $FDB_CLUSTER_FILE, ./fdb.cluster,
    /// /etc/foundationdb/fdb.cluster]
    #[arg(long)]
    cluster_file: Option<PathBuf>,
    /// The file; an existing file is replaced when the new file is whole
    #[arg(long)]
    to: PathBuf,
}

pub fn export_keyvalue(arguments: &KeyValueExportArguments) -> Result<()> {
    let mut observed = Observed::new(None, 0)?;
    let client = keyvalue::Client::open(arguments.cluster_file.as_deref())?;
    let count = keyvalue::export(&client, &arguments.to, &mut observed)?;
    exported(count, &observed, &arguments.to);
    Ok(())
}
