//! Which parts a change touches: `--since REF`.

use std::path::Path;

use anyhow::{Result, bail};

use super::parts::{PARTS, Part};
use super::run::command;

/// The parts that cover a file that differs from `reference`, committed or not. A file that no part
/// covers by name touches all parts.
pub fn touched(root: &Path, reference: &str) -> Result<Vec<&'static Part>> {
    let mut files = git(root, &["diff", "--name-only", reference])?;
    files.extend(git(root, &["ls-files", "--others", "--exclude-standard"])?);
    Ok(covering(&files))
}

fn git(root: &Path, arguments: &[&str]) -> Result<Vec<String>> {
    let output = command(root, "git").args(arguments).output()?;
    if !output.status.success() {
        bail!(
            "git {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().map(str::to_owned).collect())
}

fn covering(files: &[String]) -> Vec<&'static Part> {
    let touches_all = files
        .iter()
        .any(|file| !PARTS.iter().any(|part| covers_by_name(part, file)));
    let is_touched = |part: &&Part| {
        let is_named = files.iter().any(|file| covers_by_name(part, file));
        !files.is_empty() && (touches_all || is_named || part.covers.is_empty())
    };
    PARTS.iter().filter(is_touched).collect()
}

/// A part without a list runs for any change, so it says nothing about one file.
fn covers_by_name(part: &Part, file: &str) -> bool {
    part.covers.iter().copied().flatten().any(|place| {
        let subpath = file.strip_prefix("crates/").and_then(|file| file.strip_prefix(place));
        subpath
            .or_else(|| file.strip_prefix(place))
            .is_some_and(|subpath| subpath.is_empty() || subpath.starts_with('/'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(files: &[&str]) -> Vec<&'static str> {
        let files: Vec<String> = files.iter().map(|&file| file.to_owned()).collect();
        covering(&files).iter().map(|part| part.name).collect()
    }

    #[test]
    fn a_crate_touches_the_parts_of_its_layer_and_no_others() {
        let touched = names(&["crates/layer-fauna/src/lib.rs"]);
        assert!(touched.contains(&"fauna-node") && touched.contains(&"unit") && touched.contains(&"tidy"));
        assert!(!touched.contains(&"dynamodb-java"), "{touched:?}");
    }

    #[test]
    fn a_crate_is_not_taken_for_one_with_a_longer_name() {
        let touched = names(&["crates/log-etcd/src/lib.rs"]);
        assert!(touched.contains(&"etcd") && !touched.contains(&"crash"), "{touched:?}");
    }

    #[test]
    fn a_file_that_no_part_names_touches_all_and_no_file_touches_none() {
        assert_eq!(names(&["Cargo.lock"]).len(), PARTS.len());
        assert!(names(&[]).is_empty());
    }
}
