//! `quartet admin`: logical databases of a running server, through its admin API
//! (`docs/databases.md`); and new keys for a stopped one.
//!
//! One request, one answer, printed as received. It decides nothing itself: names, quotas and
//! refusals are the server's. Only `reset-key` asks no server: it is for those who have lost the
//! key that a server asks for, and own the data directory.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use quartet_env::RealDisk;
use quartet_server::credentials::{hand_in_access_key, hand_in_root_key};
use serde_json::{Map, Value, json};

use crate::admin_api::{Server, exchange};
use crate::settings::DEFAULT_DATA;

#[derive(Args)]
pub struct AdminArguments {
    #[command(flatten)]
    server: Server,
    #[command(subcommand)]
    request: Request,
}

#[derive(Subcommand)]
enum Request {
    /// All databases and what they have used
    List,
    /// One database and what it has used
    Show { name: String },
    /// Makes a database; prints its credentials, this once
    Create {
        name: String,
        #[command(flatten)]
        decisions: Decisions,
    },
    /// Changes what is given
    Change {
        name: String,
        #[command(flatten)]
        decisions: Decisions,
    },
    /// Deletes a database and all that it holds
    Delete {
        name: String,
        /// Deletes without asking
        #[arg(long)]
        yes: bool,
    },
    /// Replaces all credentials of a database with new ones
    RenewCredentials { name: String },
    /// Moves a database to another partition under load, and waits for the end of the move
    Move {
        name: String,
        /// The number of the partition
        #[arg(long, required_unless_present = "cancel")]
        to: Option<u32>,
        /// Cancels a running move, so that the database stays in its partition
        #[arg(long, conflicts_with = "to")]
        cancel: bool,
    },
    /// Size, load, queue and databases of each partition, and moves between them
    Partitions {
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
    /// Makes a new root key for a data directory that no server uses, and prints it, this once; the
    /// old one is valid no longer
    ResetKey {
        /// Directory that holds the log and the checkpoints
        #[arg(long, env = "QUARTET_DATA", default_value = DEFAULT_DATA)]
        data: PathBuf,
        /// Makes a new access key for DynamoDB instead
        #[arg(long)]
        dynamodb: bool,
    },
}

#[derive(Args)]
struct Decisions {
    /// When a write is acknowledged: always, interval, none
    #[arg(long)]
    durability: Option<String>,
    /// Consistency of reads: strong, session, eventual
    #[arg(long)]
    consistency: Option<String>,
    /// Whether old Redis keys make room where there is none, instead of writes being refused
    #[arg(long)]
    eviction: Option<bool>,
    /// A quota, as NAME=NUMBER, or NAME= to end it; may be given several times
    #[arg(long = "quota", value_name = "NAME=NUMBER", value_parser = quota)]
    quotas: Vec<(String, Value)>,
}

const DATABASES: &str = "/admin/v1/databases";
const PARTITIONS: &str = "/admin/v1/partitions";

pub fn admin(arguments: AdminArguments) -> Result<()> {
    if let Request::ResetKey { data, dynamodb } = &arguments.request {
        return reset_key(data, *dynamodb);
    }
    if let Request::Delete { name, yes: false } = &arguments.request {
        ask_before_deleting(name)?;
    }
    let (method, path, body) = arguments.request.parts();
    let (status, answer) = match &arguments.request {
        Request::Move { to: Some(_), .. } => begin_move(&arguments.server, &path, &body)?,
        _ => exchange(&arguments.server, method, &path, &body)?,
    };
    if !(200..300).contains(&status) {
        bail!("the server answers {status}: {}", answer.trim());
    }
    let Ok(answer) = serde_json::from_str::<Value>(&answer) else {
        return Ok(());
    };
    match arguments.request {
        Request::Partitions { json: false } => print_partitions(&answer),
        Request::Move { name, .. } => await_move(&arguments.server, &name, &answer)?,
        _ => println!("{answer:#}"),
    }
    Ok(())
}

/// Everything that the database holds is gone afterwards, so its name is to be typed again.
fn ask_before_deleting(name: &str) -> Result<()> {
    if !std::io::stdin().is_terminal() {
        bail!("deleting {name} deletes all that it holds: say so with --yes");
    }
    eprint!("This deletes {name} and all that it holds. Type its name to go on: ");
    let mut typed = String::new();
    std::io::stdin().read_line(&mut typed)?;
    match typed.trim() == name {
        true => Ok(()),
        false => bail!("{name} stays"),
    }
}

/// How long a move is requested again from a server that is not ready for it. The homes of a
/// cluster's partitions gather at one node first, one after the other.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(60);
const SERVICE_UNAVAILABLE: u16 = 503;

/// Requests a move, repeatedly while the server is not ready for one. Returns status and body of
/// the last answer.
fn begin_move(server: &Server, path: &str, body: &str) -> Result<(u16, String)> {
    let (until, mut was_told) = (Instant::now() + BEGIN_TIMEOUT, false);
    loop {
        let answer = exchange(server, "POST", path, body);
        match &answer {
            Ok((SERVICE_UNAVAILABLE, answer)) if !was_told => {
                println!("not yet: {}", answer.trim());
                was_told = true;
            }
            Ok((SERVICE_UNAVAILABLE, _)) => {}
            // A node that becomes home of all ends connections.
            Err(_) if was_told => {}
            _ => return answer,
        }
        if Instant::now() >= until {
            return answer;
        }
        std::thread::sleep(MOVE_LOOK);
    }
}

/// Polling interval of a move's progress.
const MOVE_LOOK: Duration = Duration::from_millis(200);

/// Waits for the end of a move and prints its progress.
fn await_move(server: &Server, name: &str, status: &Value) -> Result<()> {
    if status["is_there"] == true {
        println!("{name} is in partition {}", status["to"]);
        return Ok(());
    }
    let mut printed = String::new();
    loop {
        let (status, answer) = exchange(server, "GET", PARTITIONS, "")?;
        if status != 200 {
            bail!("the server answers {status}: {}", answer.trim());
        }
        let described: Value = serde_json::from_str(&answer)?;
        let mut moves = described["moves"].as_array().into_iter().flatten();
        let mine = moves.find(|entry| entry["database"] == name);
        let mine = mine.with_context(|| format!("the server was restarted, or {name} was deleted"))?;
        let line = describe_move(mine);
        if line != printed {
            println!("{line}");
            printed = line;
        }
        match mine["phase"].as_str() {
            Some("moved") => return Ok(()),
            Some("failed") => bail!(
                "{name} stays where it is: {}",
                mine["error"].as_str().unwrap_or_default()
            ),
            _ => std::thread::sleep(MOVE_LOOK),
        }
    }
}

fn describe_move(entry: &Value) -> String {
    let number = |name: &str| entry[name].as_u64().unwrap_or_default();
    let pause = match number("held_micros") {
        0 => String::new(),
        micros => format!(", clients held for {:.1} ms", micros as f64 / 1000.0),
    };
    format!(
        "{} from partition {} to {}: {}, {} of {} rows copied, {} bytes, {} transactions followed{pause}",
        entry["database"].as_str().unwrap_or_default(),
        number("from"),
        number("to"),
        entry["phase"].as_str().unwrap_or_default(),
        number("rows_copied"),
        number("rows"),
        number("bytes_copied"),
        number("transactions_followed"),
    )
}

/// A line for each.
fn print_partitions(described: &Value) {
    for partition in described["partitions"].as_array().into_iter().flatten() {
        let number = |name: &str| partition[name].as_u64().unwrap_or_default();
        let names = partition["databases"].as_array().into_iter().flatten();
        let names: Vec<&str> = names.filter_map(Value::as_str).collect();
        let home = match partition["term"].as_u64() {
            Some(term) => format!("term {term} at {}, ", partition["home"].as_str().unwrap_or("no node")),
            None => String::new(),
        };
        println!(
            "partition {:<4}{home}{} bytes of rows, {} of log, {} transactions, {} syncs, {} bytes not flushed{}: {}",
            number("partition"),
            number("stored_bytes"),
            number("log_bytes"),
            number("transactions"),
            number("log_syncs"),
            number("unflushed_bytes"),
            if partition["writers_wait"] == true {
                ", writers wait"
            } else {
                ""
            },
            names.join(", "),
        );
    }
    for entry in described["moves"].as_array().into_iter().flatten() {
        println!("{}", describe_move(entry));
    }
}

/// Creates a key that the next start adopts. The lock of the directory is held meanwhile, so that
/// no server keeps running with the old key.
fn reset_key(data: &Path, is_dynamodb: bool) -> Result<()> {
    if !data.is_dir() {
        bail!("there is no directory {}", data.display());
    }
    let _disk = RealDisk::open(data).with_context(|| format!("opening {}", data.display()))?;
    if is_dynamodb {
        let (id, secret) = hand_in_access_key(data)?;
        println!("DynamoDB access key {id}, secret, shown this once: {secret}");
    } else {
        println!("root key, shown this once: {}", hand_in_root_key(data)?);
    }
    Ok(())
}

impl Request {
    /// Method, path and body.
    fn parts(&self) -> (&'static str, String, String) {
        let none = String::new;
        match self {
            Request::List => ("GET", DATABASES.into(), none()),
            Request::Show { name } => ("GET", format!("{DATABASES}/{name}"), none()),
            Request::Create { name, decisions } => {
                let mut body = decisions.body();
                body.insert("name".into(), json!(name));
                ("POST", DATABASES.into(), Value::Object(body).to_string())
            }
            Request::Change { name, decisions } => {
                let body = Value::Object(decisions.body()).to_string();
                ("PATCH", format!("{DATABASES}/{name}"), body)
            }
            Request::Delete { name, .. } => ("DELETE", format!("{DATABASES}/{name}"), none()),
            Request::RenewCredentials { name } => ("POST", format!("{DATABASES}/{name}/credentials"), none()),
            Request::Move { name, to: Some(to), .. } => (
                "POST",
                format!("{DATABASES}/{name}/move"),
                json!({ "to": to }).to_string(),
            ),
            Request::Move { name, to: None, .. } => ("DELETE", format!("{DATABASES}/{name}/move"), none()),
            Request::Partitions { .. } => ("GET", PARTITIONS.into(), none()),
            Request::ResetKey { .. } => unreachable!("asks no server"),
        }
    }
}

impl Decisions {
    fn body(&self) -> Map<String, Value> {
        let quotas: Map<String, Value> = self.quotas.iter().cloned().collect();
        let fields = [
            ("durability", self.durability.as_ref().map(|text| json!(text))),
            ("consistency", self.consistency.as_ref().map(|text| json!(text))),
            ("eviction", self.eviction.map(|evicts| json!(evicts))),
            ("quotas", (!quotas.is_empty()).then_some(Value::Object(quotas))),
        ];
        let fields = fields
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?)));
        fields.collect()
    }
}

fn quota(text: &str) -> Result<(String, Value), String> {
    let (name, number) = text.split_once('=').ok_or("a quota is NAME=NUMBER")?;
    let value = match number {
        "" => Value::Null,
        number => json!(number.parse::<u64>().map_err(|error| format!("{number}: {error}"))?),
    };
    Ok((name.to_owned(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_reset_only_while_no_server_runs() {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path();
        let files = || std::fs::read_dir(data).unwrap().map(|file| file.unwrap().file_name());
        let is_there = |name: &str| files().any(|file| file == name);
        let server = RealDisk::open(data).unwrap();
        assert!(reset_key(data, false).is_err() && !is_there("root-key.sha256"));
        drop(server);
        reset_key(data, false).unwrap();
        assert!(is_there("root-key.sha256") && !is_there("dynamodb-access-key"));
        reset_key(data, true).unwrap();
        assert!(is_there("dynamodb-access-key"));
        assert!(reset_key(&data.join("nowhere"), false).is_err());
    }

    #[test]
    fn only_given_options_are_requested() {
        let decisions = Decisions {
            durability: Some("none".into()),
            consistency: None,
            eviction: None,
            quotas: vec![quota("connections=5").unwrap(), quota("stored_bytes=").unwrap()],
        };
        let name = "shop".to_owned();
        let (method, path, body) = Request::Change { name, decisions }.parts();
        assert_eq!((method, path.as_str()), ("PATCH", "/admin/v1/databases/shop"));
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(
            body,
            json!({"durability": "none", "quotas": {"connections": 5, "stored_bytes": null}})
        );
        assert!(quota("connections").is_err() && quota("connections=many").is_err());
    }
}
