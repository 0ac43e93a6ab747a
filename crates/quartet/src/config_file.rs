//! The table `redis` of the configuration file: parameters of Redis' CONFIG, which CONFIG REWRITE
//! changes.
//!
//! ```text
//!   durability = "interval"     # everything outside of the table stays as it is, comments and order included
//!   [redis]
//!   maxmemory = 104857600       # a comment behind a value stays
//! ```

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use toml_edit::{DocumentMut, Item, Table, Value};

use quartet_server::credentials::file::replace_with_mode;

const TABLE: &str = "redis";

/// A parameter's value in the file's form.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub enum ParameterValue {
    Text(String),
    Number(i64),
    Switch(bool),
}

impl ParameterValue {
    /// As CONFIG SET takes it.
    pub fn text(&self) -> String {
        match self {
            ParameterValue::Text(text) => text.clone(),
            ParameterValue::Number(number) => number.to_string(),
            ParameterValue::Switch(true) => "yes".into(),
            ParameterValue::Switch(false) => "no".into(),
        }
    }
}

/// The credentials that this server presents to its source.
const CREDENTIAL: [&str; 2] = ["masteruser", "masterauth"];
const OWNER_ONLY: u32 = 0o700;

/// Sets parameters in the file. It is replaced atomically, and keeps its permissions; a file with a
/// credential is readable only to its owner.
pub fn write_parameters(path: &Path, parameters: &[(&'static str, String)]) -> Result<(), String> {
    let write = || -> io::Result<()> {
        // A link stays one.
        let path = fs::canonicalize(path)?;
        let text = with_parameters(&fs::read_to_string(&path)?, parameters).map_err(io::Error::other)?;
        let mode = fs::metadata(&path)?.permissions().mode() & 0o777;
        let is_secret = |(name, text): &(&str, String)| CREDENTIAL.contains(name) && !text.is_empty();
        let mode = match parameters.iter().any(is_secret) {
            true => mode & OWNER_ONLY,
            false => mode,
        };
        replace_with_mode(&path, &text, mode)
    };
    write().map_err(|error| error.to_string())
}

fn with_parameters(text: &str, parameters: &[(&'static str, String)]) -> Result<String, String> {
    let mut document: DocumentMut = text.parse().map_err(|error| format!("{error}"))?;
    if parameters.is_empty() {
        return Ok(document.to_string());
    }
    let table = document.entry(TABLE).or_insert_with(|| Item::Table(Table::new()));
    let table = table.as_table_like_mut().ok_or("redis is no table")?;
    for (name, text) in parameters {
        let mut value = match text.parse::<i64>() {
            Ok(number) if number.to_string() == *text => Value::from(number),
            // A password of digits may have leading zeros.
            _ => Value::from(text.as_str()),
        };
        match table.get_mut(name).and_then(Item::as_value_mut) {
            Some(old) => {
                *value.decor_mut() = old.decor().clone();
                *old = value;
            }
            None => drop(table.insert(name, Item::Value(value))),
        }
    }
    Ok(document.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: &str, parameters: &[(&'static str, &str)], after: &str) {
        let parameters: Vec<_> = parameters
            .iter()
            .map(|(name, text)| (*name, text.to_string()))
            .collect();
        assert_eq!(with_parameters(before, &parameters).unwrap(), after);
    }

    #[test]
    fn everything_else_is_unchanged() {
        check("# mine\ndata = 'd'  # here\n", &[], "# mine\ndata = 'd'  # here\n");
        check(
            "# mine\ndata = 'd'  # here\n",
            &[("maxmemory", "100"), ("timeout", "0")],
            "# mine\ndata = 'd'  # here\n\n[redis]\nmaxmemory = 100\ntimeout = 0\n",
        );
        check(
            "[redis]\n# why\nmaxmemory = \"1mb\" # small\nhz = 10\n",
            &[("maxmemory", "2"), ("save", ""), ("activedefrag", "no")],
            "[redis]\n# why\nmaxmemory = 2 # small\nhz = 10\nsave = \"\"\nactivedefrag = \"no\"\n",
        );
        check("redis = { hz = 10 }\n", &[("hz", "20")], "redis = { hz = 20 }\n");
        check("redis.hz = 10\n", &[("hz", "20")], "redis.hz = 20\n");
        assert!(with_parameters("redis = 1", &[("hz", "1".into())]).is_err());
        assert!(with_parameters("[", &[]).is_err());
    }

    #[test]
    fn a_password_is_kept_to_the_letter_and_from_others() {
        check("", &[("masterauth", "0123")], "[redis]\nmasterauth = \"0123\"\n");
        check("", &[("masterauth", "+5")], "[redis]\nmasterauth = \"+5\"\n");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("quartet.toml");
        let mode = || fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        write_parameters(&file, &[("masterauth", String::new()), ("hz", "20".into())]).unwrap();
        assert_eq!(mode(), 0o644, "there is no secret in it");
        write_parameters(&file, &[("masterauth", "hidden".into())]).unwrap();
        assert_eq!(mode(), 0o600);
        write_parameters(&file, &[("masterauth", String::new())]).unwrap();
        assert_eq!(mode(), 0o600, "nobody is let in again");
    }

    #[test]
    fn the_file_keeps_its_permissions_and_a_link_stays_one() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("real.toml"), folder.path().join("link.toml"));
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write_parameters(&link, &[("hz", "20".into())]).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "[redis]\nhz = 20\n");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        assert!(write_parameters(&folder.path().join("gone.toml"), &[]).is_err());
    }
}
