//! `quartet kv`: a shell on the key-value layer, familiar to users of `fdbcli`.
//!
//! | file      | what it is                                        |
//! |-----------|---------------------------------------------------|
//! | `session` | the state of the shell and what its commands do   |
//! | `tokens`  | how lines are read, and keys and values printed   |
//! | `options` | the options of transactions, by name              |
//! | `help`    | the table of commands                             |

mod help;
mod options;
mod session;
mod tokens;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use quartet_client::{Cluster, Database, ErrorCode, TlsSettings};
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use tokio::runtime::{Builder, Handle};

use self::session::{Ended, Session};
use crate::cluster_file;
use crate::settings::DEFAULT_DATA;

const PROMPT: &str = "kv> ";

#[derive(Args)]
pub struct KeyValueArguments {
    /// Cluster file [default: ./fdb.cluster, /etc/foundationdb/fdb.cluster,
    /// ./quartet-data/fdb.cluster]
    #[arg(short = 'C', long, env = "FDB_CLUSTER_FILE")]
    cluster_file: Option<OsString>,
    /// Runs these commands, separated by semicolons, and exits: with 0 if all succeeded, otherwise
    /// with 1
    #[arg(long)]
    exec: Option<String>,
    /// Seconds after which --exec gives up; 0: never
    #[arg(long, requires = "exec", default_value_t = 0)]
    timeout: u64,
}

pub fn run(arguments: KeyValueArguments) -> Result<ExitCode> {
    let cluster = match find_cluster(arguments.cluster_file.as_deref().map(Path::new)) {
        Ok(cluster) => cluster,
        Err(code) => {
            eprintln!("ERROR: {code}");
            return Ok(ExitCode::FAILURE);
        }
    };
    // The connection is served on a thread of its own, also while the user thinks.
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
    let database = Database::open_on(cluster, TlsSettings::default(), handle.clone());
    let (mut output, mut errors) = (io::stdout(), io::stderr());
    let session = Session::new(database, &mut output, &mut errors);
    let ended = match &arguments.exec {
        Some(commands) => execute(session, commands, arguments.timeout, &handle),
        None => interact(session, &handle),
    };
    ended.context("writing to standard output").or_else(ended_by_reader)
}

/// Finds the cluster file in the places of FoundationDB's clients, or else in the data directory of
/// a local server.
fn find_cluster(named: Option<&Path>) -> Result<Cluster, ErrorCode> {
    let named = named.filter(|path| !path.as_os_str().is_empty());
    match Cluster::read(named) {
        Err(ErrorCode::NO_CLUSTER_FILE) if named.is_none() => Cluster::read(Some(&cluster_file::path(DEFAULT_DATA))),
        read => read,
    }
}

/// The reader of the output may stop reading, as `head` does.
fn ended_by_reader(error: anyhow::Error) -> Result<ExitCode> {
    let is_closed = error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
    if is_closed { Ok(ExitCode::SUCCESS) } else { Err(error) }
}

fn execute(mut session: Session<'_>, commands: &str, timeout_seconds: u64, handle: &Handle) -> Result<ExitCode> {
    let line = session.line(commands);
    let ended = handle.block_on(async {
        match timeout_seconds {
            0 => Ok(line.await),
            seconds => tokio::time::timeout(Duration::from_secs(seconds), line).await,
        }
    });
    let Ok(ended) = ended else {
        eprintln!("Specified timeout reached -- exiting...");
        return Ok(ExitCode::FAILURE);
    };
    Ok(match ended? {
        Ended::Badly => ExitCode::FAILURE,
        Ended::Well | Ended::Exit => ExitCode::SUCCESS,
    })
}

fn interact(mut session: Session<'_>, handle: &Handle) -> Result<ExitCode> {
    let mut editor = DefaultEditor::new()?;
    loop {
        let line = match editor.readline(PROMPT) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => {
                println!();
                return Ok(ExitCode::SUCCESS);
            }
            Err(error) => return Err(error.into()),
        };
        if !line.trim().is_empty() {
            editor.add_history_entry(&line)?;
        }
        let ended = handle.block_on(async {
            tokio::select! {
                ended = session.line(&line) => ended,
                // Requests in progress are given up; a commit may still happen.
                interrupted = tokio::signal::ctrl_c() => interrupted.map(|()| Ended::Badly),
            }
        })?;
        if ended == Ended::Exit {
            return Ok(ExitCode::SUCCESS);
        }
        io::stdout().flush()?;
    }
}
