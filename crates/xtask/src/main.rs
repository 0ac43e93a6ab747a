//! Chores of this repository that need more than one line of shell: `cargo xtask tidy`, `cargo
//! xtask test`, `cargo xtask counts`, `cargo xtask circles CRATE`.

mod arrows;
mod circles;
mod counts;
mod english;
mod links;
mod map;
mod modules;
mod parameters;
mod test;
mod tidy;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};

const USAGE: &str = "\
cargo xtask tidy            checks the map, circles of imports, tuple parameters, links, counts, and the English of comments and documents
cargo xtask test [PART...]  runs everything that must hold, or these parts; --since REF: those that a change touches; --list
cargo xtask counts          writes the counts into the documents that quote them
cargo xtask circles CRATE   shows the circles of a crate's files, and by which names each file leads to the next
cargo xtask circles CRATE/  shows those of its rooms: the folders below src, and the files beside them
cargo xtask english         shows how much of each crate's English is on the list of patterns
cargo xtask english NAME    lists the places of a crate, or of `documents`, with the words to use instead
cargo xtask english record  lowers the record to the present figures";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(root(), &arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(root: &Path, arguments: &[&str]) -> Result<()> {
    match arguments {
        ["tidy"] => tidy::tidy(root),
        ["test", options @ ..] => test::test(root, options),
        ["counts"] => counts::write(root),
        ["circles", name] => circles::show(root, name),
        ["english"] => english::summarize(root),
        ["english", "record"] => english::lower_record(root),
        ["english", name] => english::list(root, name),
        _ => bail!("{USAGE}"),
    }
}

/// The checkout that this program was built in.
fn root() -> &'static Path {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    crates
        .and_then(Path::parent)
        .expect("crates/xtask lies two folders deep")
}
