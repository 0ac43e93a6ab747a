//! The state of the shell and what its commands do. Output and texts of errors are those of
//! `fdbcli`.

use std::io::{self, Write};

use anyhow::Result;
use quartet_client::{Database, ErrorCode, RangeOptions, Rows, Selector, Transaction};
use serde_json::Value;

use super::help::{self, Entry};
use super::options::{self, Options};
use super::tokens::{Malformed, Words, commands, printable, typed};

/// Default number of keys that a range shows.
const LIMIT: usize = 25;
/// A limit has at most this many digits.
const LIMIT_DIGITS: usize = 9;

pub struct Session<'o> {
    database: Database,
    may_write: bool,
    /// For later transactions.
    options: Options,
    open: Option<Open>,
    output: &'o mut dyn Write,
    errors: &'o mut dyn Write,
}

/// A transaction from `begin` to `commit` or `rollback`.
struct Open {
    transaction: Transaction,
    options: Options,
}

/// How a line ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Well,
    Badly,
    /// The user wants to leave.
    Exit,
}

/// Why a command did nothing.
enum Failed {
    Database(ErrorCode),
    /// Said to the user in words.
    Said(String),
    /// The command was not given as its table says.
    Usage,
    Output(io::Error),
}

impl From<ErrorCode> for Failed {
    fn from(code: ErrorCode) -> Failed {
        Failed::Database(code)
    }
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Failed {
        Failed::Output(error)
    }
}

fn said<T>(text: impl Into<String>) -> Result<T, Failed> {
    Err(Failed::Said(text.into()))
}

impl<'o> Session<'o> {
    pub fn new(database: Database, output: &'o mut dyn Write, errors: &'o mut dyn Write) -> Session<'o> {
        Session {
            database,
            may_write: false,
            options: Options::default(),
            open: None,
            output,
            errors,
        }
    }

    /// Runs the commands of a line, up to the first that fails. An error is one of the output.
    pub async fn line(&mut self, line: &str) -> io::Result<Ended> {
        let commands = match commands(line) {
            Ok(commands) => commands,
            Err(malformed) => {
                let why = match malformed {
                    Malformed::Escape => "malformed escape sequence",
                    Malformed::OpenQuote => "unterminated quote",
                };
                writeln!(self.errors, "ERROR: Command failed to completely parse: {why}.")?;
                return Ok(Ended::Badly);
            }
        };
        let are_many = commands.len() > 1;
        let mut ended = Ended::Well;
        for words in &commands {
            if ended == Ended::Badly {
                let text = "WARNING: the previous command failed, the remaining commands will not be executed.";
                writeln!(self.output, "{text}")?;
                break;
            }
            if are_many {
                writeln!(self.output, ">>> {}", typed(words))?;
            }
            ended = self.command(words).await?;
            if ended == Ended::Exit {
                break;
            }
        }
        self.output.flush()?;
        Ok(ended)
    }

    async fn command(&mut self, words: &Words) -> io::Result<Ended> {
        let Some(entry) = help::find(&words[0]) else {
            let name = printable(&words[0]);
            writeln!(self.errors, "ERROR: Unknown command `{name}'. Try `help'?")?;
            return Ok(Ended::Badly);
        };
        if matches!(entry.name, "exit" | "quit") {
            return Ok(Ended::Exit);
        }
        match self.run(entry, &words[1..]).await {
            Ok(()) => return Ok(Ended::Well),
            Err(Failed::Output(error)) => return Err(error),
            Err(Failed::Usage) => writeln!(self.errors, "Usage: {}", entry.usage)?,
            Err(Failed::Said(text)) => writeln!(self.errors, "ERROR: {text}")?,
            Err(Failed::Database(code)) => {
                writeln!(self.errors, "ERROR: {code}")?;
                if self.open.take().is_some() {
                    writeln!(self.output, "Rolling back current transaction")?;
                }
            }
        }
        Ok(Ended::Badly)
    }

    async fn run(&mut self, entry: &Entry, arguments: &[Vec<u8>]) -> Result<(), Failed> {
        let writes = matches!(entry.name, "set" | "clear" | "clearrange");
        if writes && !self.may_write {
            return said("writemode must be enabled to set or clear keys in the database.");
        }
        if !entry.arguments.contains(&arguments.len()) {
            return Err(Failed::Usage);
        }
        match entry.name {
            "begin" => self.begin(),
            "commit" => self.commit().await,
            "reset" => self.reset(),
            "rollback" => self.rollback(),
            "get" => self.get(&arguments[0]).await,
            "getrange" => self.range(arguments, true).await,
            "getrangekeys" => self.range(arguments, false).await,
            "getversion" => self.version().await,
            "set" => {
                self.write(|transaction| transaction.set(&arguments[0], &arguments[1]))
                    .await
            }
            "clear" => self.write(|transaction| transaction.clear(&arguments[0])).await,
            "clearrange" => {
                self.write(|transaction| transaction.clear_range(&arguments[0], &arguments[1]))
                    .await
            }
            "writemode" => self.write_mode(&arguments[0]),
            "option" => self.option(arguments),
            "status" => self.status(arguments.first()).await,
            _ => self.help(arguments.first()),
        }
    }

    // ---- transactions

    /// The open transaction, or one for this command only.
    fn transaction(&self) -> Result<Transaction, ErrorCode> {
        match &self.open {
            Some(open) => Ok(open.transaction.clone()),
            None => self.fresh(),
        }
    }

    fn fresh(&self) -> Result<Transaction, ErrorCode> {
        let transaction = self.database.begin();
        self.options
            .iter()
            .try_for_each(|option| transaction.set_option(option))?;
        Ok(transaction)
    }

    fn opened(&mut self) -> Result<&mut Open, Failed> {
        match &mut self.open {
            Some(open) => Ok(open),
            None => said("No active transaction"),
        }
    }

    fn begin(&mut self) -> Result<(), Failed> {
        if self.open.is_some() {
            return said("Already in transaction");
        }
        self.open = Some(Open {
            transaction: self.fresh()?,
            options: self.options.clone(),
        });
        Ok(writeln!(self.output, "Transaction started")?)
    }

    async fn commit(&mut self) -> Result<(), Failed> {
        let transaction = self.opened()?.transaction.clone();
        self.commit_one(&transaction).await?;
        self.open = None;
        Ok(())
    }

    async fn commit_one(&mut self, transaction: &Transaction) -> Result<(), Failed> {
        transaction.commit().await?;
        match transaction.committed_version() {
            -1 => writeln!(self.output, "Nothing to commit")?,
            version => writeln!(self.output, "Committed ({version})")?,
        }
        Ok(())
    }

    fn reset(&mut self) -> Result<(), Failed> {
        let transaction = self.opened()?.transaction.clone();
        transaction.reset();
        for option in self.options.iter() {
            transaction.set_option(option)?;
        }
        let options = self.options.clone();
        self.opened()?.options = options;
        Ok(writeln!(self.output, "Transaction reset")?)
    }

    fn rollback(&mut self) -> Result<(), Failed> {
        self.opened()?;
        self.open = None;
        Ok(writeln!(self.output, "Transaction rolled back")?)
    }

    // ---- reads and writes

    async fn get(&mut self, key: &[u8]) -> Result<(), Failed> {
        let value = self.transaction()?.get(key, false).await?;
        let key = printable(key);
        match value {
            Some(value) => writeln!(self.output, "`{key}' is `{}'", printable(&value))?,
            None => writeln!(self.output, "`{key}': not found")?,
        }
        Ok(())
    }

    async fn range(&mut self, arguments: &[Vec<u8>], with_values: bool) -> Result<(), Failed> {
        let begin = &arguments[0];
        let end = match arguments.get(1) {
            Some(end) => end.clone(),
            None => end_of_prefix(begin)?,
        };
        let limit = match arguments.get(2) {
            Some(text) => limit(text).map_or_else(|| said("bad limit"), Ok)?,
            None => LIMIT,
        };
        let transaction = self.transaction()?;
        let rows = rows_of(&transaction, begin, &end, limit).await?;
        writeln!(self.output, "\nRange limited to {limit} keys")?;
        for (key, value) in rows {
            match with_values {
                true => writeln!(self.output, "`{}' is `{}'", printable(&key), printable(&value))?,
                false => writeln!(self.output, "`{}'", printable(&key))?,
            }
        }
        Ok(writeln!(self.output)?)
    }

    async fn version(&mut self) -> Result<(), Failed> {
        let version = self.transaction()?.get_read_version().await?;
        Ok(writeln!(self.output, "{version}")?)
    }

    async fn write(&mut self, write: impl Fn(&Transaction)) -> Result<(), Failed> {
        let transaction = self.transaction()?;
        write(&transaction);
        match self.open {
            Some(_) => Ok(()),
            None => self.commit_one(&transaction).await,
        }
    }

    // ---- settings

    fn write_mode(&mut self, state: &[u8]) -> Result<(), Failed> {
        self.may_write = match state {
            b"on" => true,
            b"off" => false,
            _ => return Err(Failed::Usage),
        };
        Ok(())
    }

    fn option(&mut self, arguments: &[Vec<u8>]) -> Result<(), Failed> {
        let text = |word: &Vec<u8>| String::from_utf8_lossy(word).into_owned();
        match arguments {
            [] => self.show_options(),
            [_] => Err(Failed::Usage),
            [state, name, argument @ ..] => {
                let argument = argument.first().map(text);
                match state.as_slice() {
                    b"on" => self.option_on(&text(name), argument.as_deref()),
                    b"off" => self.option_off(&text(name), argument.is_some()),
                    other => said(format!(
                        "Invalid option state `{}': option must be turned `on' or `off'",
                        printable(other)
                    )),
                }
            }
        }
    }

    fn show_options(&mut self) -> Result<(), Failed> {
        let options = self.open.as_ref().map_or(&self.options, |open| &open.options);
        if options.is_empty() {
            return Ok(writeln!(self.errors, "There are no options enabled")?);
        }
        writeln!(self.output, "\nCurrently enabled options:\n")?;
        for line in options.lines() {
            writeln!(self.output, "{line}")?;
        }
        Ok(writeln!(self.output)?)
    }

    fn option_on(&mut self, name: &str, argument: Option<&str>) -> Result<(), Failed> {
        let whose = match &mut self.open {
            Some(open) => {
                let option = open.options.switch_on(name, argument).map_err(Failed::Said)?;
                if let Err(code) = open.transaction.set_option(option) {
                    return said(code.to_string());
                }
                "current transaction"
            }
            None => {
                self.options.switch_on(name, argument).map_err(Failed::Said)?;
                "all transactions"
            }
        };
        Ok(writeln!(self.output, "Option enabled for {whose}")?)
    }

    fn option_off(&mut self, name: &str, has_argument: bool) -> Result<(), Failed> {
        if self.open.is_some() {
            return said("Cannot turn option off when using a transaction created with `begin'");
        }
        if has_argument {
            return said("Cannot specify option argument when turning option off");
        }
        self.options.switch_off(name).map_err(Failed::Said)?;
        Ok(writeln!(self.output, "Option disabled for all transactions")?)
    }

    async fn status(&mut self, style: Option<&Vec<u8>>) -> Result<(), Failed> {
        // There may be no connection yet; a version waits for one.
        self.database.begin().get_read_version().await?;
        let status: Value =
            serde_json::from_str(&self.database.status().await?).map_err(|_| ErrorCode::INTERNAL_ERROR)?;
        match style.map(Vec::as_slice) {
            Some(b"json") => Ok(writeln!(self.output, "{status:#}")?),
            Some(b"minimal") => Ok(writeln!(self.output, "The database is available.")?),
            None | Some(b"details") => self.show_status(&status),
            Some(_) => Err(Failed::Usage),
        }
    }

    fn show_status(&mut self, status: &Value) -> Result<(), Failed> {
        let cluster = self.database.cluster();
        let path = cluster.path.as_ref().map(|path| path.display().to_string());
        let cell = |pointer: &str| status.pointer(pointer).map(Value::to_string).unwrap_or_default();
        let lines = [
            ("Cluster file", path.unwrap_or_default()),
            ("Server", cluster.addresses.join(",")),
            ("Database", "available".to_owned()),
            ("Bytes of keys and values", cell("/cluster/data/total_kv_size_bytes")),
            ("Clients", cell("/cluster/clients/count")),
            (
                "Committed since the start",
                cell("/cluster/workload/transactions/committed/counter"),
            ),
            (
                "Conflicts since the start",
                cell("/cluster/workload/transactions/conflicted/counter"),
            ),
        ];
        for (name, value) in lines {
            writeln!(self.output, "{name:<26} - {value}")?;
        }
        Ok(())
    }

    fn help(&mut self, topic: Option<&Vec<u8>>) -> Result<(), Failed> {
        match topic.map(Vec::as_slice) {
            None => writeln!(self.output, "{}", help::overview())?,
            Some(b"escaping") => writeln!(self.output, "{}", help::ESCAPING)?,
            Some(b"options") => {
                for line in options::help() {
                    writeln!(self.output, "{line}")?;
                }
            }
            Some(name) => match help::find(name) {
                Some(entry) => writeln!(self.output, "{}", entry.explanation())?,
                None => writeln!(self.output, "I don't know anything about `{}'", printable(name))?,
            },
        }
        Ok(())
    }
}

async fn rows_of(
    transaction: &Transaction,
    begin: &[u8],
    end: &[u8],
    limit: usize,
) -> Result<Vec<(Vec<u8>, Vec<u8>)>, ErrorCode> {
    if begin > end {
        return Err(ErrorCode::INVERTED_RANGE);
    }
    let options = RangeOptions {
        rows_max: limit,
        ..RangeOptions::default()
    };
    let (begin, end) = (
        Selector::first_greater_or_equal(begin),
        Selector::first_greater_or_equal(end),
    );
    let Rows { rows, .. } = transaction.get_range(&begin, &end, options, false).await?;
    Ok(rows)
}

/// The first key without the prefix `prefix`; the end of the accessible keys for an empty one.
fn end_of_prefix(prefix: &[u8]) -> Result<Vec<u8>, ErrorCode> {
    let Some(last) = prefix.iter().rposition(|byte| *byte != 0xff) else {
        return match prefix {
            b"" => Ok(b"\xff".to_vec()),
            b"\xff" => Ok(b"\xff\xff".to_vec()),
            _ => Err(ErrorCode::KEY_OUTSIDE_LEGAL_RANGE),
        };
    };
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Ok(end)
}

fn limit(text: &[u8]) -> Option<usize> {
    if text.len() > LIMIT_DIGITS || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_prefix() {
        let end = |prefix: &[u8]| end_of_prefix(prefix).unwrap();
        assert_eq!(end(b""), b"\xff");
        assert_eq!(end(b"a"), b"b");
        assert_eq!(end(b"a\xff\xff"), b"b");
        assert_eq!(end(b"\xff"), b"\xff\xff");
        assert!(end_of_prefix(b"\xff\xff").is_err());
    }

    #[test]
    fn limits() {
        assert_eq!(limit(b"10"), Some(10));
        for text in ["", "-1", "1234567890", "many"] {
            assert_eq!(limit(text.as_bytes()), None, "{text}");
        }
    }
}
