//! Schema objects of a database: collections, indexes, functions, roles and access providers,
//! databases below it, keys, tokens and passwords. A file for each kind, `definitions/KIND.json`,
//! an object a line as `Get` shows it.
//!
//! Named objects are created from their fields if the name is free; keys, tokens and passwords keep
//! their numbers and their hashes, so that secrets remain valid.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use super::Client;
use super::documents::created_or_updated;
use super::json::Json;
use super::records::Records;
use super::values::{Form, Reader, schema_reference};
use crate::error::{Error, Result, target};
use crate::lines::shown;
use crate::observer::Observer;
use crate::whole_file::WholeFile;

/// A kind of schema object, and the function that makes one.
struct Kind {
    name: &'static str,
    create: &'static str,
}

/// Named kinds, each after the kinds that it refers to; a function's role is set after the creation
/// of the roles.
const NAMED: [Kind; 6] = [
    Kind {
        name: "databases",
        create: "create_database",
    },
    Kind {
        name: "collections",
        create: "create_collection",
    },
    Kind {
        name: "functions",
        create: "create_function",
    },
    Kind {
        name: "indexes",
        create: "create_index",
    },
    Kind {
        name: "roles",
        create: "create_role",
    },
    Kind {
        name: "access_providers",
        create: "create_access_provider",
    },
];
/// Kinds whose objects have numbers. They are imported after the documents that they belong to.
const NUMBERED: [&str; 3] = ["credentials", "tokens", "keys"];

/// Fields that the server makes.
const MADE: [&str; 6] = ["ref", "ts", "active", "global_id", "audience", "secret"];

/// Makes what has a name and is not there.
pub fn import_named(folder: &Path, client: &Client, observer: &mut dyn Observer) -> Result<()> {
    let mut roles_of_functions = Vec::new();
    for kind in &NAMED {
        import_kind(folder, kind.name, client, observer, &mut |definition| {
            let name = definition
                .field("name")
                .and_then(Json::as_text)
                .ok_or("it has no name")?;
            let reference = schema_reference(kind.name, name);
            let mut fields = fields_of(definition)?;
            if kind.name == "functions"
                && let Some(at) = fields.iter().position(|(name, _)| name == "role")
            {
                let role = Json::Object(vec![fields.remove(at)]);
                roles_of_functions.push((reference.clone(), Json::object([("object", role)])));
            }
            let object = Json::object([("object", Json::Object(fields))]);
            Ok(Json::object([
                ("if", Json::object([("exists", reference)])),
                ("then", Json::NULL),
                ("else", Json::object([(kind.create, object)])),
            ]))
        })?;
    }
    for (reference, role) in roles_of_functions {
        let update = Json::object([("update", reference.clone()), ("params", role)]);
        bring(client, &update, reference.to_string().as_bytes(), observer)?;
    }
    Ok(())
}

/// Makes what proves callers.
pub fn import_numbered(folder: &Path, client: &Client, observer: &mut dyn Observer) -> Result<()> {
    for kind in NUMBERED {
        import_kind(folder, kind, client, observer, &mut |definition| {
            let id = definition.at(&["ref", "@ref", "id"]).and_then(Json::as_text);
            let id = id.ok_or("it has no ref")?;
            Ok(created_or_updated(kind, id, fields_of(definition)?))
        })?;
    }
    Ok(())
}

type ToQuery<'a> = dyn FnMut(&Json) -> std::result::Result<Json, String> + 'a;

fn import_kind(
    folder: &Path,
    kind: &str,
    client: &Client,
    observer: &mut dyn Observer,
    query: &mut ToQuery<'_>,
) -> Result<()> {
    let path = folder.join(format!("{kind}.json"));
    if !path.exists() {
        return Ok(());
    }
    observer.phase(&format!("defining {kind}"), None);
    let mut records = Records::open(&path)?;
    while let Some(line) = records.read()? {
        let definition = Json::parse(&line).ok_or_else(|| "it is no JSON".to_owned());
        match definition.and_then(|definition| query(&definition)) {
            Ok(query) => bring(client, &query, &line, observer)?,
            Err(reason) => observer.reject(&shown(&line), &reason)?,
        }
    }
    Ok(())
}

fn bring(client: &Client, query: &Json, line: &[u8], observer: &mut dyn Observer) -> Result<()> {
    match client.query(query) {
        Ok(_) => Ok(()),
        Err(refused) if refused.is_of_content() => observer.reject(&shown(line), &refused.text),
        Err(refused) => Err(target(refused.text)),
    }
}

fn fields_of(definition: &Json) -> std::result::Result<Vec<(String, Json)>, String> {
    let Json::Object(fields) = definition else {
        return Err("it is no JSON object".into());
    };
    let reader = Reader {
        form: Form::Wire,
        collections: &Default::default(),
    };
    let fields = fields.iter().filter(|(name, _)| !MADE.contains(&name.as_str()));
    let fields = fields.map(|(name, value)| Ok((name.clone(), reader.expression(value)?)));
    fields.collect()
}

/// Writes the schema objects of all kinds, as of a moment. Returns the days of history of each
/// collection; `None` is all days.
pub fn export(
    client: &Client,
    folder: &Path,
    moment: i64,
    observer: &mut dyn Observer,
) -> Result<BTreeMap<String, Option<i64>>> {
    super::create_folder(folder)?;
    let mut days = BTreeMap::new();
    for kind in NAMED.iter().map(|kind| kind.name).chain(NUMBERED) {
        observer.phase(&format!("exporting {kind}"), None);
        let (mut file, _) = WholeFile::begin(&folder.join(format!("{kind}.json"))).map_err(target)?;
        let set = serde_json::json!({ kind: null });
        let mut write = |definition: &Json| {
            if kind == "collections"
                && let Some(name) = definition.field("name").and_then(Json::as_text)
            {
                let history = definition.field("history_days");
                days.insert(name.to_owned(), history.and_then(|days| days.to_string().parse().ok()));
            }
            writeln!(file.file(), "{definition}").map_err(target)
        };
        match client.each_of(&set, moment, &mut write) {
            Ok(_) => file.finish().map_err(target)?,
            // Keys are an administrator's.
            Err(Error::Source(text)) if text.contains("permission denied") => {
                observer.phase(&format!("{kind} are left out: the secret may not read them"), None);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(days)
}
