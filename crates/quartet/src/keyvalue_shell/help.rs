//! The commands of the shell and what they do, in one table.

pub struct Entry {
    pub name: &'static str,
    pub usage: &'static str,
    /// The number of words that may follow the name.
    pub arguments: std::ops::RangeInclusive<usize>,
    pub summary: &'static str,
    pub details: &'static str,
}

pub const TABLE: &[Entry] = &[
    entry(
        "begin",
        "begin",
        0..=0,
        "begin a transaction",
        "Until `commit' or `rollback', all commands are part of it. Without it, each command is a transaction of its own.",
    ),
    entry(
        "clear",
        "clear <KEY>",
        1..=1,
        "clear a key",
        "Succeeds whether the key exists or not.",
    ),
    entry(
        "clearrange",
        "clearrange <BEGINKEY> <ENDKEY>",
        2..=2,
        "clear a range of keys",
        "Clears the keys from BEGINKEY on that are less than ENDKEY.",
    ),
    entry(
        "commit",
        "commit",
        0..=0,
        "commit the transaction",
        "Prints the version at which it was committed.",
    ),
    entry("exit", "exit", 0..=0, "leave the shell", ""),
    entry("get", "get <KEY>", 1..=1, "print the value of a key", ""),
    entry(
        "getrange",
        "getrange <BEGINKEY> [ENDKEY] [LIMIT]",
        1..=3,
        "print keys and values of a range",
        "Prints keys from BEGINKEY on that are less than ENDKEY; without ENDKEY, keys with the prefix BEGINKEY. LIMIT is 25 if it is not given.",
    ),
    entry(
        "getrangekeys",
        "getrangekeys <BEGINKEY> [ENDKEY] [LIMIT]",
        1..=3,
        "print keys of a range",
        "As `getrange', without the values.",
    ),
    entry("getversion", "getversion", 0..=0, "print the current read version", ""),
    entry(
        "help",
        "help [<topic>]",
        0..=1,
        "explain a command, `escaping' or `options'",
        "",
    ),
    entry(
        "option",
        "option <STATE> <OPTION> <ARG>",
        0..=3,
        "switch transaction options on or off",
        "STATE is `on' or `off'. In a transaction, options apply to it, and cannot be switched off; otherwise they apply to all later transactions. Without arguments, prints the options that are on.",
    ),
    entry("quit", "quit", 0..=0, "leave the shell", ""),
    entry(
        "reset",
        "reset",
        0..=0,
        "forget what the transaction has done",
        "The transaction continues as if it had just started.",
    ),
    entry(
        "rollback",
        "rollback",
        0..=0,
        "end the transaction without a commit",
        "",
    ),
    entry("set", "set <KEY> <VALUE>", 2..=2, "set the value of a key", ""),
    entry(
        "status",
        "status [minimal|details|json]",
        0..=1,
        "tell how the database does",
        "",
    ),
    entry(
        "writemode",
        "writemode <on|off>",
        1..=1,
        "allow or forbid commands that write",
        "They are forbidden at first, to prevent writes by mistake.",
    ),
];

const fn entry(
    name: &'static str,
    usage: &'static str,
    arguments: std::ops::RangeInclusive<usize>,
    summary: &'static str,
    details: &'static str,
) -> Entry {
    Entry {
        name,
        usage,
        arguments,
        summary,
        details,
    }
}

pub const ESCAPING: &str = r#"
Blanks separate words, and `;' separates commands. A word may stand in quotation
marks ("hello world"); a blank, a semicolon, a quotation mark or a backslash may
also follow a backslash (hello\ world).

Any byte can be written as \xNN, with two hexadecimal digits, or as \u00NN.
Keys and values are printed in the same way: as they are if that is possible,
otherwise as \xNN.
"#;

pub fn find(name: &[u8]) -> Option<&'static Entry> {
    TABLE.iter().find(|entry| entry.name.as_bytes() == name)
}

pub fn overview() -> String {
    let lines = TABLE
        .iter()
        .map(|entry| format!(" {}:\n      {}\n", entry.name, entry.summary));
    let lines: String = lines.collect();
    format!(
        "\nList of commands:\n\n{lines}\nFor information on a specific command, type `help <command>'.\nFor information on escaping keys \
         and values, type `help escaping'.\nFor information on available options, type `help options'.\n"
    )
}

impl Entry {
    pub fn explanation(&self) -> String {
        let mut text = format!("\n{}\n\n{}.\n", self.usage, capitalized(self.summary));
        if !self.details.is_empty() {
            text.push_str(&format!("\n{}\n", self.details));
        }
        text
    }
}

fn capitalized(text: &str) -> String {
    let (first, tail) = text.split_at(text.len().min(1));
    first.to_uppercase() + tail
}
