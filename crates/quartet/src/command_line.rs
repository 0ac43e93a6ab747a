//! The command line as shells complete it and as `man` shows it, generated from its definition.

use std::io::{self, Write};

use clap::{Command, ValueEnum};
use clap_complete::Shell;
use clap_mangen::Man;

const NAME: &str = "quartet";

#[derive(Clone, Copy, ValueEnum)]
pub enum KnownShell {
    Bash,
    Zsh,
    Fish,
}

/// Writes completions for a shell to standard output.
pub fn completions(mut command: Command, shell: KnownShell) {
    let shell = match shell {
        KnownShell::Bash => Shell::Bash,
        KnownShell::Zsh => Shell::Zsh,
        KnownShell::Fish => Shell::Fish,
    };
    clap_complete::generate(shell, &mut command, NAME, &mut io::stdout());
}

/// Writes the manual page of the command, or of one of its subcommands, to standard output. Pages
/// are named as git's are: quartet-export-redis.
pub fn manual(mut command: Command, words: &[String]) -> anyhow::Result<()> {
    command.build();
    let mut page = &command;
    for word in words {
        let subcommand = page.get_subcommands().find(|subcommand| subcommand.get_name() == word);
        page = subcommand.ok_or_else(|| anyhow::anyhow!("there is no command {}", words.join(" ")))?;
    }
    let mut text = Vec::new();
    Man::new(page.clone()).render(&mut text)?;
    Ok(io::stdout().write_all(&text)?)
}
