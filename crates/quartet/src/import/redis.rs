//! `quartet import redis` and `quartet export redis`.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Subcommand};
use quartet_interchange::WholeFile;
use quartet_redis_copy::append_only::{self, Copied};
use quartet_redis_copy::connection::Connection;
use quartet_redis_copy::follow::{self, CopyOptions};
use quartet_redis_copy::link::{self, LinkStart};
use quartet_redis_copy::records::Records;
use quartet_redis_copy::verify::Verdict;
use quartet_redis_copy::{Address, Error, users};

use super::records;
use super::watch::Watch;
use crate::operator_key::read_secret;

const REJECTED: u8 = 2;
const DIFFERENT: u8 = 3;

#[derive(Args)]
pub struct RedisArguments {
    /// An RDB file, an append-only file, the folder of a Redis 7's append-only files, or
    /// redis://[USER:PASSWORD@]HOST[:PORT], rediss:// for TLS
    #[arg(long, env = "QUARTET_IMPORT_FROM", hide_env_values = true)]
    from: String,
    /// File that holds the password of a live source
    #[arg(long, env = "QUARTET_IMPORT_FROM_PASSWORD_FILE")]
    from_password_file: Option<PathBuf>,
    /// File of the certificates to trust in a live source over TLS, instead of the public roots
    #[arg(long, env = "QUARTET_IMPORT_FROM_TLS_ROOTS")]
    from_tls_roots: Option<PathBuf>,
    /// The target server, with the credential of the target database
    #[arg(
        long,
        env = "QUARTET_IMPORT_TO",
        hide_env_values = true,
        default_value = "redis://127.0.0.1:6379"
    )]
    to: Address,
    /// File that holds the password of the server that gets it
    #[arg(long, env = "QUARTET_IMPORT_TO_PASSWORD_FILE")]
    to_password_file: Option<PathBuf>,
    /// File of the certificates to trust in that server over TLS, instead of the public roots
    #[arg(long, env = "QUARTET_IMPORT_TO_TLS_ROOTS")]
    to_tls_roots: Option<PathBuf>,
    /// Continues with the writes of a live source until the line "cut over" is typed, which closes
    /// the source to writers and compares both sides
    #[arg(long)]
    follow: bool,
    /// Cuts over as soon as everything has arrived, without confirmation
    #[arg(long, requires = "follow")]
    cut_over: bool,
    /// Copies into a target that is not empty, and replaces keys of the same name
    #[arg(long)]
    merge: bool,
    /// File of users, as `quartet export redis --acl-file` and the aclfile of Redis have them; they
    /// are made once the keys have arrived
    #[arg(long)]
    acl_file: Option<PathBuf>,
    /// File that what was rejected is added to [default: standard error]
    #[arg(long)]
    rejected: Option<PathBuf>,
}

pub fn import(arguments: &RedisArguments) -> Result<ExitCode> {
    let to = arguments.to.clone();
    let to = with_files(
        to,
        arguments.to_password_file.as_deref(),
        arguments.to_tls_roots.as_deref(),
    )?;
    let mut target = Connection::open_target(&to)?;
    let mut watch = Watch::new(arguments.rejected.as_deref(), arguments.follow, arguments.cut_over)?;
    let outcome = if arguments.from.contains("://") {
        let from = arguments.from.parse().map_err(anyhow::Error::msg)?;
        let (password, roots) = (&arguments.from_password_file, &arguments.from_tls_roots);
        let source = with_files(from, password.as_deref(), roots.as_deref())?;
        let wishes = CopyOptions {
            follows: arguments.follow,
            merges: arguments.merge,
        };
        follow::copy(&source, &mut target, &mut watch, &wishes)
    } else if arguments.follow {
        bail!("only a live server can be followed");
    } else {
        append_only::copy(Path::new(&arguments.from), &mut target, &mut watch, arguments.merge)
            .map(|copied| (copied, None))
    };
    let users = match (&outcome, &arguments.acl_file) {
        (Ok(_), Some(file)) => {
            let lines = std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
            users::bring(&lines, &mut target, &mut watch)
        }
        _ => Ok(0),
    };
    watch.end();
    let rejected_users = users?;
    match outcome {
        Ok((mut copied, verdict)) => {
            copied.rejected += rejected_users;
            Ok(told(copied, verdict))
        }
        Err(Error::Stopped) => {
            println!("{}", Error::Stopped);
            Ok(ExitCode::FAILURE)
        }
        Err(error) => Err(error.into()),
    }
}

/// The address with what files say of it.
fn with_files(mut address: Address, password: Option<&Path>, roots: Option<&Path>) -> Result<Address> {
    if let Some(file) = password {
        ensure!(
            address.password.is_none(),
            "the address and {} both have a password",
            file.display()
        );
        address.password = Some(read_secret(file)?);
    }
    ensure!(
        roots.is_none() || address.tls.is_some(),
        "{address} is not one of TLS, rediss://"
    );
    address.trust(roots.map(Path::to_owned));
    Ok(address)
}

pub(super) fn told(copied: Copied, verdict: Option<Verdict>) -> ExitCode {
    println!(
        "brought {} keys and commands; rejected {}",
        copied.done, copied.rejected
    );
    match verdict {
        Some(verdict) if !verdict.is_equal() => {
            let Verdict { keys, differences } = verdict;
            println!(
                "compared {keys} keys: {differences} differ. The source accepts writes again; the same command continues"
            );
            return ExitCode::from(DIFFERENT);
        }
        Some(Verdict { keys, .. }) => {
            println!(
                "compared {keys} keys: no difference. The source takes no more writes; point your clients at the target"
            );
        }
        None => {}
    }
    match copied.rejected {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(REJECTED),
    }
}

#[derive(Args)]
pub struct ExportArguments {
    #[command(subcommand)]
    what: Export,
}

#[derive(Subcommand)]
enum Export {
    /// A table of DynamoDB, as files that ImportTable and `quartet import dynamodb` read
    Dynamodb(records::ExportDynamoDbArguments),
    /// The documents of FaunaDB's collections, as of one moment, as a file for each
    Fauna(records::ExportFaunaArguments),
    /// All keys and values of the key-value layer, as a file
    Keyvalue(records::KeyValueExportArguments),
    /// Everything that a server holds, at one version, as an RDB file
    Redis {
        /// The server
        #[arg(
            long,
            env = "QUARTET_EXPORT_FROM",
            hide_env_values = true,
            default_value = "redis://127.0.0.1:6379"
        )]
        from: Address,
        /// The file; an existing file is replaced when the new file is whole
        #[arg(long)]
        to: PathBuf,
        /// File that gets the users, as the aclfile of Redis has them
        #[arg(long)]
        acl_file: Option<PathBuf>,
    },
}

pub fn export(arguments: &ExportArguments) -> Result<()> {
    let (from, to) = match &arguments.what {
        Export::Redis { from, to, acl_file } => {
            if let Some(file) = acl_file {
                export_users(&mut Connection::open(from)?, file)?;
            }
            (from, to)
        }
        Export::Dynamodb(arguments) => return records::export_dynamodb(arguments),
        Export::Fauna(arguments) => return records::export_fauna(arguments),
        Export::Keyvalue(arguments) => return records::export_keyvalue(arguments),
    };
    let LinkStart::FirstCopy(first) = link::begin_records(from)? else {
        bail!("{from} did not start a copy");
    };
    let writing = || format!("writing {}", to.display());
    let (mut file, was_begun) = WholeFile::begin(to).with_context(writing)?;
    if was_begun {
        eprintln!("an earlier export was interrupted: it starts again");
    }
    let mut keys = 0;
    let bytes = {
        let copied = Copying {
            source: first,
            file: file.file(),
        };
        let mut records = Records::new("the copy", copied);
        loop {
            match records.read()? {
                quartet_redis_copy::records::Record::End => break records.offset(),
                quartet_redis_copy::records::Record::Key(_) => keys += 1,
                _ => {}
            }
        }
    };
    // Bytes beyond the records belong to the connection.
    file.file().set_len(bytes)?;
    file.finish().with_context(writing)?;
    println!("wrote {keys} keys, {bytes} bytes, to {}", to.display());
    Ok(())
}

fn export_users(server: &mut Connection, path: &Path) -> Result<()> {
    let writing = || format!("writing {}", path.display());
    let (mut file, _) = WholeFile::begin(path).with_context(writing)?;
    for line in users::list(server)? {
        writeln!(file.file(), "{line}").with_context(writing)?;
    }
    file.finish().with_context(writing)
}

/// Keeps what is read.
struct Copying<'f, R> {
    source: R,
    file: &'f mut File,
}

impl<R: Read> Read for Copying<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.file.write_all(&buffer[..count])?;
        Ok(count)
    }
}
