//! The transaction options of the shell: their names, which are FoundationDB's, and what they take.

use std::time::Duration;

use quartet_client::TransactionOption;

/// The source of an option's value.
enum Takes {
    Nothing(TransactionOption),
    /// A number not below −1, where −1 lifts the limit.
    Number(fn(i64) -> TransactionOption),
}

struct Entry {
    name: &'static str,
    takes: Takes,
    summary: &'static str,
}

/// Why an option cannot be set, as a sentence.
pub type Refused = String;

use Takes::{Nothing, Number};
use TransactionOption as Setting;

const TABLE: &[Entry] = &[
    entry(
        "access_system_keys",
        Nothing(Setting::AccessSystemKeys),
        "reads and writes reach keys from \\xff on",
    ),
    entry(
        "bypass_unreadable",
        Nothing(Setting::BypassUnreadable),
        "reads ignore versionstamps that are still to come",
    ),
    entry(
        "max_retry_delay",
        Number(max_retry_delay),
        "MILLISECONDS: longest pause before another attempt",
    ),
    entry(
        "next_write_no_write_conflict_range",
        Nothing(Setting::NextWriteNoWriteConflictRange),
        "the next write conflicts with no reads",
    ),
    entry(
        "read_lock_aware",
        Nothing(Setting::ReadLockAware),
        "the transaction may not write",
    ),
    entry(
        "read_system_keys",
        Nothing(Setting::ReadSystemKeys),
        "reads reach keys from \\xff on",
    ),
    entry(
        "read_your_writes_disable",
        Nothing(Setting::ReadYourWritesDisable),
        "reads do not see the transaction's own writes",
    ),
    entry(
        "report_conflicting_keys",
        Nothing(Setting::ReportConflictingKeys),
        "what a commit was refused for can be read at \\xff\\xff/transaction/conflicting_keys/",
    ),
    entry(
        "retry_limit",
        Number(retry_limit),
        "COUNT: most further attempts; -1 for no limit",
    ),
    entry(
        "size_limit",
        Number(size_limit),
        "BYTES: largest transaction that is committed",
    ),
    entry(
        "snapshot_ryw_disable",
        Nothing(Setting::SnapshotReadYourWritesDisable),
        "snapshot reads do not see the transaction's own writes",
    ),
    entry(
        "snapshot_ryw_enable",
        Nothing(Setting::SnapshotReadYourWritesEnable),
        "snapshot reads see the transaction's own writes",
    ),
    entry(
        "special_key_space_enable_writes",
        Nothing(Setting::SpecialKeySpaceEnableWrites),
        "writes reach computed keys",
    ),
    entry(
        "special_key_space_relaxed",
        Nothing(Setting::SpecialKeySpaceRelaxed),
        "ranges may span several modules of computed keys",
    ),
    entry(
        "timeout",
        Number(timeout),
        "MILLISECONDS: time after which the transaction fails; 0 for none",
    ),
    entry(
        "used_during_commit_protection_disable",
        Nothing(Setting::UsedDuringCommitProtectionDisable),
        "using a transaction while it commits does not fail the commit",
    ),
];

const fn entry(name: &'static str, takes: Takes, summary: &'static str) -> Entry {
    Entry { name, takes, summary }
}

fn timeout(milliseconds: i64) -> TransactionOption {
    let milliseconds = u64::try_from(milliseconds).ok().filter(|count| *count > 0);
    Setting::Timeout(milliseconds.map(Duration::from_millis))
}

fn max_retry_delay(milliseconds: i64) -> TransactionOption {
    Setting::MaxRetryDelay(Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0)))
}

fn retry_limit(count: i64) -> TransactionOption {
    Setting::RetryLimit(u32::try_from(count).ok())
}

fn size_limit(bytes: i64) -> TransactionOption {
    Setting::SizeLimit(usize::try_from(bytes).unwrap_or(0))
}

/// Options that were switched on, with their arguments as they were given, sorted by name.
#[derive(Clone, Debug, Default)]
pub struct Options(Vec<(&'static str, Option<String>, TransactionOption)>);

impl Options {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = TransactionOption> {
        self.0.iter().map(|(_, _, option)| *option)
    }

    /// One line for each.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(name, argument, _)| match argument {
            Some(argument) => format!("{name}: `{argument}'"),
            None => (*name).to_owned(),
        })
    }

    pub fn switch_on(&mut self, name: &str, argument: Option<&str>) -> Result<TransactionOption, Refused> {
        let entry = find(name)?;
        let option = match (&entry.takes, argument) {
            (Nothing(option), None) => *option,
            (Nothing(_), Some(_)) => return Err("option did not expect a parameter".to_owned()),
            (Number(_), None) => return Err("option expected a parameter".to_owned()),
            (Number(option), Some(text)) => option(number(text)?),
        };
        self.0.retain(|(listed, _, _)| *listed != entry.name);
        self.0.push((entry.name, argument.map(str::to_owned), option));
        self.0.sort_by_key(|(name, _, _)| *name);
        Ok(option)
    }

    pub fn switch_off(&mut self, name: &str) -> Result<(), Refused> {
        let entry = find(name)?;
        self.0.retain(|(listed, _, _)| *listed != entry.name);
        Ok(())
    }
}

fn find(name: &str) -> Result<&'static Entry, Refused> {
    let mut table = TABLE.iter();
    let entry = table.find(|entry| entry.name.eq_ignore_ascii_case(name));
    entry.ok_or_else(|| format!("invalid option '{name}'. Try `help options' for a list of available options."))
}

fn number(text: &str) -> Result<i64, Refused> {
    let number = text.parse().ok().filter(|number| *number >= -1);
    number.ok_or_else(|| format!("could not parse value `{text}' as an integer"))
}

/// One line for each option there is.
pub fn help() -> impl Iterator<Item = String> {
    TABLE.iter().map(|entry| format!("{} - {}", entry.name, entry.summary))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_by_name() {
        assert!(TABLE.is_sorted_by_key(|entry| entry.name));
    }

    #[test]
    fn options_are_switched_on_and_off() {
        let mut options = Options::default();
        let timeout = options.switch_on("TIMEOUT", Some("100"));
        assert_eq!(timeout, Ok(Setting::Timeout(Some(Duration::from_millis(100)))));
        assert_eq!(
            options.switch_on("retry_limit", Some("-1")),
            Ok(Setting::RetryLimit(None))
        );
        assert_eq!(
            options.lines().collect::<Vec<_>>(),
            ["retry_limit: `-1'", "timeout: `100'"]
        );
        options.switch_off("timeout").unwrap();
        assert_eq!(options.iter().collect::<Vec<_>>(), [Setting::RetryLimit(None)]);
    }

    #[test]
    fn wrong_names_and_arguments_are_refused() {
        for (name, argument) in [
            ("no_such_option", None),
            ("timeout", None),
            ("timeout", Some("soon")),
            ("timeout", Some("-2")),
            ("read_system_keys", Some("1")),
        ] {
            assert!(
                Options::default().switch_on(name, argument).is_err(),
                "{name} {argument:?}"
            );
        }
    }
}
