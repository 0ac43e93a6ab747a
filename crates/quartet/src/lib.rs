//! The `quartet` command. A library, so that the program of the test of rolling upgrades has it
//! too.

mod admin;
mod admin_api;
mod allocator;
mod backup;
mod bench;
mod check;
mod cluster;
mod cluster_file;
mod command_line;
mod config_file;
mod convert;
mod healthcheck;
mod import;
mod keyvalue_shell;
mod new_credentials;
mod notify;
mod operator_key;
mod rebuild;
mod reload;
mod repair;
mod repair_report;
mod restore;
mod restore_into;
mod sample;
mod serve;
mod settings;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use rustix::fs::Mode;

#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;

/// One strictly serializable, durable database that existing clients already know how to talk to.
#[derive(Parser)]
#[command(name = "quartet", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs the server until SIGTERM or SIGINT.
    Serve(Box<settings::ServeArguments>),
    /// Checks whether a data directory is sound, reports its contents, and compares all indexes and
    /// counts with the data. Exits with 0: sound, 1: damaged, 2: not checked.
    Check(check::CheckArguments),
    /// Brings a data directory from one engine to the other, while no server uses it.
    Convert(convert::ConvertArguments),
    /// Brings what another database holds to a running server
    Import(import::ImportArguments),
    /// Writes what a running server holds to a file that others read
    Export(import::ExportArguments),
    /// Takes a backup of a running server: all rows the first time, what is new afterwards; with
    /// --follow until it is stopped.
    Backup(backup::BackupArguments),
    /// Makes a data directory out of a backup, as of any version that it covers; with --into,
    /// another database of a running server or cluster.
    Restore(restore::RestoreArguments),
    /// Makes, changes, lists and deletes the logical databases of a running server.
    Admin(admin::AdminArguments),
    /// Shows the nodes of a cluster, hands the home over, removes a node, or starts a new log.
    Cluster(cluster::ClusterArguments),
    /// Prints a configuration file, or the list of metrics.
    #[command(subcommand)]
    Config(sample::ConfigCommand),
    /// Exits with 0 if the server on this machine is ready.
    Healthcheck(healthcheck::HealthcheckArguments),
    /// Runs a published benchmark against a target, or against an embedded server.
    Bench(quartet_bench::BenchArguments),
    /// Reads and writes keys of the key-value layer, interactively or with --exec; its commands are
    /// those of fdbcli.
    Kv(keyvalue_shell::KeyValueArguments),
    /// Prints completions of this command line for a shell.
    Completions {
        #[arg(value_enum)]
        shell: command_line::KnownShell,
    },
    /// Prints the manual page of this command, or of one of its commands.
    Manual {
        /// The words of the command, such as `export redis`
        command: Vec<String>,
    },
}

/// Executes the command line of this process.
pub fn main() -> ExitCode {
    run().unwrap_or_else(|error| {
        // On one line, and without a backtrace even if the environment requests one: the operator
        // has to mend it, not us.
        eprintln!("Error: {error:#}");
        ExitCode::FAILURE
    })
}

fn run() -> anyhow::Result<ExitCode> {
    // Data, backups, exports and reports are private to their owner and may contain credentials.
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    match Arguments::parse().command {
        Command::Serve(arguments) => serve::serve(*arguments)?,
        Command::Check(arguments) => return Ok(repair::check_or_repair(&arguments)),
        Command::Convert(arguments) => convert::convert(&arguments)?,
        Command::Import(arguments) => return import::import(arguments),
        Command::Export(arguments) => import::export(&arguments)?,
        Command::Backup(arguments) => backup::backup(&arguments)?,
        Command::Restore(arguments) => restore::restore(&arguments)?,
        Command::Admin(arguments) => admin::admin(arguments)?,
        Command::Cluster(arguments) => cluster::cluster(&arguments)?,
        Command::Config(command) => sample::config(&command),
        Command::Healthcheck(arguments) => healthcheck::healthcheck(&arguments)?,
        Command::Bench(arguments) => quartet_bench::run(arguments, &bench::start_embedded, &bench::open_in_process)?,
        Command::Kv(arguments) => return keyvalue_shell::run(arguments),
        Command::Completions { shell } => command_line::completions(Arguments::command(), shell),
        Command::Manual { command } => command_line::manual(Arguments::command(), &command)?,
    }
    Ok(ExitCode::SUCCESS)
}
