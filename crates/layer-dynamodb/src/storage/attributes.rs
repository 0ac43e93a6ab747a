//! AttributeDefinitions, KeySchema and Projection: what tables and indexes are made of.

use std::collections::HashSet;

use crate::storage::key::{KeyPart, KeyType};
use crate::storage::table::{Capacity, Index, Projection, Table};
use crate::wire::failure::Failure;
use crate::wire::json::{Json, Writer};

/// Most attributes of either kind in the key of a global index.
const KEY_PARTS_MAX: usize = 4;
const NON_KEY_ATTRIBUTES_MAX: usize = 100;

/// The attributes that keys may use, with their types.
pub struct Definitions {
    pub parts: Vec<KeyPart>,
}

impl Definitions {
    pub fn parse(request: &Json<'_>) -> Result<Definitions, Failure> {
        let mut definitions = Definitions { parts: Vec::new() };
        for json in request.get("AttributeDefinitions").map_or(&[][..], Json::elements) {
            let text = |name| json.get(name).and_then(Json::text).unwrap_or_default();
            let part = KeyPart {
                name: text("AttributeName").to_owned(),
                kind: KeyType::parse(text("AttributeType")).expect("the shape allows S, N and B"),
            };
            if definitions.find(&part.name).is_some() {
                return Err(duplicated(&part.name));
            }
            definitions.parts.push(part);
        }
        Ok(definitions)
    }

    pub fn find(&self, name: &str) -> Option<&KeyPart> {
        self.parts.iter().find(|part| part.name == name)
    }

    /// Adds the definitions of an update, which must agree with those in force.
    pub fn extend(&mut self, other: &Definitions) -> Result<(), Failure> {
        for part in &other.parts {
            match self.find(&part.name) {
                None => self.parts.push(part.clone()),
                Some(present) if present == part => {}
                Some(present) => {
                    return Err(Failure::invalid(format!(
                        "Attributes cannot be redefined. Please check that your attribute has the same type as previously \
                         defined. Existing schema: {}:{} New schema: {}:{}",
                        present.name,
                        present.kind.name(),
                        part.name,
                        part.kind.name()
                    )));
                }
            }
        }
        Ok(())
    }

    fn names(&self) -> String {
        let names: Vec<&str> = self.parts.iter().map(|part| part.name.as_str()).collect();
        names.join(", ")
    }

    /// The hash and the range attribute of a table.
    pub fn table_keys(&self, request: &Json<'_>) -> Result<(KeyPart, Option<KeyPart>), Failure> {
        let elements = request.get("KeySchema").map_or(&[][..], Json::elements);
        if elements.len() > self.parts.len() {
            return Err(Failure::validation(
                "Invalid KeySchema: Some index key attribute have no definition",
            ));
        }
        let (mut hash, mut range) = self.keys(request, 1)?;
        Ok((hash.remove(0), range.pop()))
    }

    /// Hash and range attributes of a KeySchema with at most `parts_max` of each.
    fn keys(&self, json: &Json<'_>, parts_max: usize) -> Result<(Vec<KeyPart>, Vec<KeyPart>), Failure> {
        let elements = json.get("KeySchema").map_or(&[][..], Json::elements);
        let parts = self.defined(elements)?;
        for (position, part) in parts.iter().enumerate() {
            if parts[..position].iter().any(|other| other.name == part.name) {
                return Err(match parts_max {
                    1 => same_name(),
                    _ => duplicated(&part.name),
                });
            }
        }
        let (mut hash, mut range) = (Vec::new(), Vec::new());
        for (element, part) in elements.iter().zip(parts) {
            let is_hash = element.get("KeyType").and_then(Json::text) == Some("HASH");
            if hash.is_empty() && !is_hash {
                return Err(Failure::validation(
                    "Invalid KeySchema: The first KeySchemaElement is not a HASH key type",
                ));
            }
            if is_hash && (hash.len() == parts_max || !range.is_empty()) {
                return Err(match (parts_max, range.is_empty()) {
                    (1, _) => {
                        Failure::validation("Invalid KeySchema: The second KeySchemaElement is not a RANGE key type")
                    }
                    (_, true) => too_many_keys("HASH"),
                    (_, false) => {
                        Failure::invalid("All HASH key attributes must precede RANGE key attributes in the KeySchema")
                    }
                });
            }
            if !is_hash && range.len() == parts_max {
                return Err(too_many_keys("RANGE"));
            }
            if is_hash { &mut hash } else { &mut range }.push(part);
        }
        Ok((hash, range))
    }

    /// The definitions of the attributes that a KeySchema names.
    fn defined(&self, elements: &[Json<'_>]) -> Result<Vec<KeyPart>, Failure> {
        let names = elements
            .iter()
            .filter_map(|element| element.get("AttributeName")?.text());
        let names: Vec<&str> = names.collect();
        let parts: Option<Vec<KeyPart>> = names.iter().map(|name| self.find(name).cloned()).collect();
        parts.ok_or_else(|| {
            Failure::invalid(format!(
                "Some index key attributes are not defined in AttributeDefinitions. Keys: [{}], AttributeDefinitions: [{}]",
                names.join(", "),
                self.names()
            ))
        })
    }

    /// Refuses definitions that no key uses. `used` are the attributes of all keys and search
    /// schemas.
    pub fn check_all_used(&self, used: &HashSet<&str>, has_indexes: bool) -> Result<(), Failure> {
        let names = self.parts.iter().map(|part| part.name.as_str());
        let (used, unused): (Vec<&str>, Vec<&str>) = names.partition(|name| used.contains(name));
        if unused.is_empty() {
            return Ok(());
        }
        if !has_indexes {
            return Err(Failure::invalid(
                "Number of attributes in KeySchema does not exactly match number of attributes defined in AttributeDefinitions",
            ));
        }
        Err(Failure::invalid(format!(
            "Some AttributeDefinitions are not used. AttributeDefinitions: [{}], keys used: [{}]",
            self.names(),
            used.join(", ")
        )))
    }

    /// Those used by a key of `table`.
    pub fn only_used(self, table: &Table) -> Vec<KeyPart> {
        let in_index = |part: &KeyPart| table.index_keys().any(|key| key == part);
        let used = self
            .parts
            .into_iter()
            .filter(|part| table.is_key(&part.name) || in_index(part));
        used.collect()
    }
}

fn too_many_keys(kind: &str) -> Failure {
    Failure::invalid(format!(
        "The KeySchema exceeds the maximum allowed number of {kind} key attributes"
    ))
}

fn duplicated(name: &str) -> Failure {
    Failure::validation(format!("Attribute Name is duplicated: {name}"))
}

fn same_name() -> Failure {
    Failure::validation("Both the Hash Key and the Range Key element in the KeySchema have the same name")
}

/// Reads an index; its number and capacity are the caller's. `table_hash` is given for a local one.
pub fn index_from(json: &Json<'_>, definitions: &Definitions, table_hash: Option<&KeyPart>) -> Result<Index, Failure> {
    let parts_max = if table_hash.is_none() { KEY_PARTS_MAX } else { 1 };
    let (hash, range) = definitions.keys(json, parts_max)?;
    let name = json.get("IndexName").and_then(Json::text).unwrap_or_default();
    if let Some(table_hash) = table_hash {
        check_local_keys(name, &hash[0], &range, table_hash)?;
    }
    Ok(Index {
        id: 0,
        name: name.to_owned(),
        global: table_hash.is_none(),
        projection: parse_projection(json)?,
        hash,
        range,
        filling: false,
        capacity: Capacity::default(),
        warm_throughput: None,
        on_demand_maximum: None,
    })
}

fn check_local_keys(name: &str, hash: &KeyPart, range: &[KeyPart], table_hash: &KeyPart) -> Result<(), Failure> {
    if range.is_empty() {
        return Err(Failure::invalid(format!(
            "Index KeySchema does not have a range key for index: {name}"
        )));
    }
    if hash != table_hash {
        return Err(Failure::invalid(format!(
            "Index KeySchema does not have the same leading hash key as table KeySchema for index: {name}. \
             index hash key: {}, table hash key: {}",
            hash.name, table_hash.name
        )));
    }
    Ok(())
}

pub fn parse_projection(json: &Json<'_>) -> Result<Projection, Failure> {
    let projection = json.get("Projection").unwrap_or(&Json::Null);
    let kind = projection.get("ProjectionType").and_then(Json::text);
    let names = projection.get("NonKeyAttributes").map(Json::elements);
    let refuse_names = |kind: &str| match names {
        None => Ok(()),
        Some(_) => Err(Failure::invalid(format!(
            "ProjectionType is {kind}, but NonKeyAttributes is specified"
        ))),
    };
    match (kind, names) {
        (Some("ALL"), _) => refuse_names("ALL").map(|()| Projection::All),
        (Some("KEYS_ONLY"), _) => refuse_names("KEYS_ONLY").map(|()| Projection::KeysOnly),
        (Some(_), Some(names)) => {
            let names: Vec<String> = names.iter().filter_map(Json::text).map(str::to_owned).collect();
            if names.len() > NON_KEY_ATTRIBUTES_MAX {
                return Err(Failure::invalid("Too many NonKeyAttributes"));
            }
            let repeated = names
                .iter()
                .enumerate()
                .find(|(position, name)| names[..*position].contains(name));
            match repeated {
                Some((_, name)) => Err(Failure::invalid(format!(
                    "Duplicate element in NonKeyAttributes: {name}"
                ))),
                None => Ok(Projection::Include(names)),
            }
        }
        (Some(kind), None) => Err(Failure::invalid(format!(
            "ProjectionType is {kind}, but NonKeyAttributes is not specified"
        ))),
        (None, _) => Err(Failure::invalid("Unknown ProjectionType: null")),
    }
}

/// Writes the Projection of an index.
pub fn write_projection(writer: &mut Writer, projection: &Projection) {
    writer.nested("Projection", |writer| {
        writer.member("ProjectionType", projection.name());
        let names = projection.names();
        if !names.is_empty() {
            writer.list("NonKeyAttributes", names, |writer, name| writer.string(name));
        }
    });
}

/// Writes the KeySchema of a table or an index.
pub fn write_key_schema(writer: &mut Writer, hash: &[KeyPart], range: &[KeyPart]) {
    let hash = hash.iter().map(|part| (part, "HASH"));
    let parts = hash.chain(range.iter().map(|part| (part, "RANGE")));
    writer.list("KeySchema", parts, |writer, (part, kind)| {
        writer.open(b'{');
        writer.member("AttributeName", &part.name);
        writer.member("KeyType", kind);
        writer.close(b'}');
    });
}
