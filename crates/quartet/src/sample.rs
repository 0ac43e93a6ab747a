//! `quartet config`: the configuration file with every setting, from the structs that they are
//! declared in, and the page of metrics, from their tables.

use std::any::TypeId;

use clap::{Arg, Args, Command, Subcommand};

use crate::settings::ServeArguments;

#[derive(Subcommand)]
pub enum ConfigCommand {
    /// Prints a configuration file that names every setting and changes none.
    Sample,
    /// Prints the metrics that a server has, as a page of Markdown.
    Metrics,
}

pub fn config(command: &ConfigCommand) {
    match command {
        ConfigCommand::Sample => print!("{}", sample()),
        ConfigCommand::Metrics => print!("{}", quartet_server::metrics_page()),
    }
}

/// Settings that are not allowed in the file.
const NOT_IN_FILE: &[&str] = &["config"];

const HEAD: &str = "\
# Settings of `quartet serve --config FILE`. Flags and environment variables of the same names win over this file.
# SIGHUP reads it again and says what is in force and what needs a restart.
";

const TABLE: &str = "
# Parameters of Redis' CONFIG for the default database; CONFIG REWRITE keeps them here.
# [redis]
# maxmemory = \"100mb\"
";

fn sample() -> String {
    let (mut entries, mut heading) = (String::new(), None);
    for argument in arguments() {
        if argument.get_help_heading() != heading.as_deref() {
            heading = argument.get_help_heading().map(str::to_owned);
            entries += &format!("\n## {}\n", heading.as_deref().unwrap_or_default());
        }
        entries += &format!("\n{}", entry(&argument));
    }
    format!("{HEAD}{entries}{TABLE}")
}

fn arguments() -> Vec<Arg> {
    let command = ServeArguments::augment_args(Command::new("serve"));
    let named = command.get_arguments().filter(|argument| argument.get_long().is_some());
    let in_file = named.filter(|argument| !NOT_IN_FILE.contains(&argument.get_long().unwrap_or_default()));
    in_file.cloned().collect()
}

/// The help as a comment, and the setting with its default, commented out. A default that is not a
/// value is only in the help.
fn entry(argument: &Arg) -> String {
    let name = argument.get_long().unwrap_or_default();
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let is_text = argument.get_value_parser().type_id() == TypeId::of::<String>();
    let default = match help.rsplit_once("[default: ") {
        Some((_, tail)) => literal(tail.trim_end_matches(']'), is_text),
        None if !argument.get_action().takes_values() => "false".into(),
        None => String::new(),
    };
    let help: String = help.lines().map(|line| format!("# {line}\n")).collect();
    format!("{help}#{name} = {default}\n")
}

/// A default as a value of TOML; nothing if it is said in words.
fn literal(default: &str, is_text: bool) -> String {
    const NO_VALUE: &[&str] = &["nowhere", "none"];
    match default {
        number
            if !is_text
                && number.starts_with(|first: char| first.is_ascii_digit())
                && number.parse::<f64>().is_ok() =>
        {
            number.into()
        }
        word if !word.contains([' ', ',', ';']) && !NO_VALUE.contains(&word) => format!("\"{word}\""),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_is_in_the_sample_and_it_changes_none() {
        let text = sample();
        let untouched: ServeArguments = toml::from_str(&text).unwrap();
        assert_eq!(untouched.differences(&ServeArguments::default()), Vec::<String>::new());
        for argument in arguments() {
            let name = argument.get_long().unwrap();
            assert!(text.contains(&format!("\n#{name} = ")), "{name}");
        }
    }

    /// Each default in the file is the default: with all of them in force, the validated settings
    /// are the same.
    #[test]
    fn the_defaults_in_the_sample_are_those_of_the_server() {
        let is_setting = |line: &&str| {
            line.starts_with('#') && !line.starts_with("# ") && !line.starts_with("##") && !line.ends_with(" = ")
        };
        let in_force: String = sample()
            .lines()
            .filter(is_setting)
            .map(|line| format!("{}\n", &line[1..]))
            .collect();
        assert!(in_force.lines().count() > 15, "{in_force}");
        let arguments: ServeArguments = toml::from_str(&in_force).unwrap();
        let validated = |settings: &ServeArguments| {
            let settings = settings.validated();
            format!("{:?}", settings.unwrap())
        };
        assert_eq!(validated(&arguments), validated(&ServeArguments::default()));
    }
}
