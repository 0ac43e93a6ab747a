//! The compiled schema of one database: its collections, indexes, functions and roles.
//!
//! A transaction works with the schema as it was when the transaction began (observed: a collection
//! cannot be used in the query that creates it). Compiled schemas are kept until the database's
//! schema stamp changes; every transaction reads the stamp, so none can commit against a schema
//! that has changed.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::language::value::native_of;
use crate::language::value::{Closure, Fields, Names, Native, Ref, Target, Value};
use crate::storage::rows::{self, DatabaseNumber, Key, View};

#[derive(Debug, Default)]
pub struct Schema {
    pub database: u64,
    /// The bytes of the stamp row it was compiled from.
    pub stamp: Vec<u8>,
    /// By kind.
    numbers: [FxHashMap<Arc<str>, u64>; Native::ALL.len()],
    names: FxHashMap<(Native, u64), Arc<str>>,
    collections: FxHashMap<u64, Arc<Collection>>,
    /// The indexes over each collection, including built-in ones and those still being built.
    indexes_over: FxHashMap<u64, Vec<Arc<Index>>>,
    indexes: FxHashMap<u64, Arc<Index>>,
    functions: FxHashMap<u64, Arc<UserFunction>>,
    pub roles: Vec<Arc<Role>>,
    pub providers: Vec<Arc<AccessProvider>>,
}

#[derive(Debug)]
pub struct Collection {
    pub number: u64,
    pub name: Arc<str>,
    /// `None`: unlimited.
    pub history_days: Option<i64>,
    pub ttl_days: Option<i64>,
}

#[derive(Debug)]
pub struct Index {
    pub number: u64,
    pub name: Arc<str>,
    pub sources: Vec<Source>,
    pub terms: Vec<Component>,
    pub values: Vec<Component>,
    pub unique: bool,
    pub serialized: bool,
    pub active: bool,
}

impl Index {
    /// Returns the source for a collection's documents; a named one goes before all of them.
    pub fn source_of(&self, collection: u64) -> Option<&Source> {
        let named = self.sources.iter().find(|source| source.collection == Some(collection));
        let all = || {
            let is_users = native_of(collection).is_none();
            self.sources
                .iter()
                .find(|source| source.collection.is_none() && is_users)
        };
        named.or_else(all)
    }

    pub fn covers(&self, collection: u64) -> bool {
        self.source_of(collection).is_some()
    }
}

#[derive(Debug)]
pub struct Source {
    /// `None`: all collections of users.
    pub collection: Option<u64>,
    pub bindings: Vec<(Arc<str>, Arc<Closure>)>,
}

/// A term or a value of an index.
#[derive(Debug)]
pub struct Component {
    pub extract: Extract,
    pub casefold: bool,
    pub reverse: bool,
}

#[derive(Debug)]
pub enum Extract {
    Field(Vec<Value>),
    Binding(Arc<str>),
}

#[derive(Debug)]
pub struct UserFunction {
    pub name: Arc<str>,
    pub body: Arc<Closure>,
    pub role: Option<Value>,
}

#[derive(Debug)]
pub struct Role {
    pub name: Arc<str>,
    /// By the resource that they are about.
    pub privileges: Privileges,
    pub membership: Vec<Membership>,
}

/// The grants of a role by resource: its actions in the order in which the role lists them.
pub type Privileges = HashMap<Ref, Grants>;

/// Actions with the grant of each.
type Grants = Vec<(Arc<str>, Grant)>;

#[derive(Debug)]
pub enum Grant {
    Always,
    If(Arc<Closure>),
}

#[derive(Debug)]
pub struct Membership {
    pub resource: Ref,
    pub predicate: Option<Arc<Closure>>,
}

#[derive(Debug)]
pub struct AccessProvider {
    pub name: Arc<str>,
    pub issuer: Arc<str>,
    pub jwks_uri: Arc<str>,
    pub audience: Arc<str>,
    /// Roles with the predicates under which they are given.
    pub roles: Vec<(Value, Option<Arc<Closure>>)>,
}

impl Names for Schema {
    fn number(&self, kind: Native, name: &str) -> Option<u64> {
        self.numbers[kind as usize].get(name).copied()
    }

    fn name(&self, kind: Native, number: u64) -> Option<Arc<str>> {
        self.names.get(&(kind, number)).cloned()
    }
}

impl Schema {
    pub fn database(&self) -> DatabaseNumber {
        DatabaseNumber(self.database)
    }

    pub fn collection(&self, name: &str) -> Option<&Arc<Collection>> {
        self.collections.get(&self.number(Native::Collections, name)?)
    }

    pub fn collection_of(&self, number: u64) -> Option<&Arc<Collection>> {
        self.collections.get(&number)
    }

    pub fn index(&self, name: &str) -> Option<&Arc<Index>> {
        self.indexes.get(&self.number(Native::Indexes, name)?)
    }

    pub fn index_of(&self, number: u64) -> Option<&Arc<Index>> {
        self.indexes.get(&number)
    }

    /// The indexes over a collection, those still being built too.
    pub fn indexes_over(&self, collection: u64) -> &[Arc<Index>] {
        self.indexes_over.get(&collection).map_or(&[], Vec::as_slice)
    }

    /// The numbers of the collections with indexes, in ascending order.
    pub fn indexed_collections(&self) -> Vec<u64> {
        let mut numbers: Vec<u64> = self.indexes_over.keys().copied().collect();
        numbers.sort_unstable();
        numbers
    }

    pub fn function(&self, name: &str) -> Option<&Arc<UserFunction>> {
        self.functions.get(&self.number(Native::Functions, name)?)
    }

    pub fn role(&self, name: &str) -> Option<&Arc<Role>> {
        self.roles.iter().find(|role| &*role.name == name)
    }

    pub fn collections(&self) -> impl Iterator<Item = &Arc<Collection>> {
        self.collections.values()
    }

    /// Compiles what the rows say.
    pub fn load(view: &mut View<'_>, database: DatabaseNumber, stamp: Vec<u8>) -> Schema {
        let mut schema = Schema {
            database: database.0,
            stamp,
            ..Schema::default()
        };
        schema.load_names(view);
        schema.load_indexes(view);
        schema.load_collections(view);
        schema.lay_indexes_over_collections();
        schema.load_functions(view);
        schema.load_roles(view);
        schema.load_providers(view);
        schema
    }

    fn load_names(&mut self, view: &mut View<'_>) {
        for native in Native::ALL.into_iter().filter(|native| native.has_names()) {
            let prefix = rows::name(self.database(), native as u8, "");
            let skip = prefix.0.len();
            view.snapshot_scan(&prefix.0, &prefix.end(), false, &mut |key, value| {
                let name: Arc<str> = String::from_utf8_lossy(&key[skip..]).into();
                let number = rows::number_at(value, 0);
                self.numbers[native as usize].insert(name.clone(), number);
                self.names.insert((native, number), name);
                ControlFlow::Continue(())
            });
        }
    }

    /// The documents of a schema collection, in the order of their numbers.
    fn documents(&self, view: &mut View<'_>, native: Native) -> Vec<(u64, Arc<Fields>)> {
        let prefix = Key::of(self.database(), b'D').number(native as u64);
        let skip = prefix.0.len();
        let mut documents = Vec::new();
        view.snapshot_scan(&prefix.0, &prefix.end(), false, &mut |key, value| {
            let (_, fields) = rows::decode_version(value, self);
            documents.push((rows::number_at(key, skip), fields));
            ControlFlow::Continue(())
        });
        documents
    }

    fn name_of(&self, native: Native, number: u64) -> Arc<str> {
        self.name(native, number).unwrap_or_else(|| "".into())
    }

    fn load_indexes(&mut self, view: &mut View<'_>) {
        for (number, fields) in self.documents(view, Native::Indexes) {
            let name = self.name_of(Native::Indexes, number);
            let index = self.compile_index(number, name, &fields);
            self.indexes.insert(number, Arc::new(index));
        }
    }

    pub fn compile_index(&self, number: u64, name: Arc<str>, fields: &Fields) -> Index {
        Index {
            number,
            name,
            sources: sources_of(fields.get("source"), self),
            terms: components(fields.get("terms")),
            values: components(fields.get("values")),
            unique: matches!(fields.get("unique"), Some(Value::Bool(true))),
            serialized: !matches!(fields.get("serialized"), Some(Value::Bool(false))),
            active: matches!(fields.get("active"), Some(Value::Bool(true))),
        }
    }

    fn load_collections(&mut self, view: &mut View<'_>) {
        for (number, fields) in self.documents(view, Native::Collections) {
            let days = |key| match fields.get(key) {
                Some(Value::Int(days)) => Some(*days),
                _ => None,
            };
            let collection = Collection {
                number,
                name: self.name_of(Native::Collections, number),
                history_days: days("history_days"),
                ttl_days: days("ttl_days"),
            };
            self.collections.insert(number, Arc::new(collection));
        }
    }

    fn lay_indexes_over_collections(&mut self) {
        let natives = Native::ALL.into_iter().map(|native| native as u64);
        for collection in self.collections.keys().copied().chain(natives) {
            let covering = self.indexes.values().filter(|index| index.covers(collection));
            let mut covering: Vec<Arc<Index>> = covering.cloned().collect();
            covering.sort_by_key(|index| index.number);
            if !covering.is_empty() {
                self.indexes_over.insert(collection, covering);
            }
        }
    }

    fn load_functions(&mut self, view: &mut View<'_>) {
        for (number, fields) in self.documents(view, Native::Functions) {
            let Some(Value::Query(body)) = fields.get("body") else {
                continue;
            };
            let function = UserFunction {
                name: self.name_of(Native::Functions, number),
                body: body.clone(),
                role: fields.get("role").cloned(),
            };
            self.functions.insert(number, Arc::new(function));
        }
    }

    fn load_roles(&mut self, view: &mut View<'_>) {
        for (number, fields) in self.documents(view, Native::Roles) {
            let name = self.name_of(Native::Roles, number);
            let objects = |key| {
                fields
                    .get(key)
                    .map_or(&[][..], Value::one_or_many)
                    .iter()
                    .filter_map(Value::as_object)
            };
            let mut privileges = Privileges::new();
            for (resource, actions) in objects("privileges").filter_map(|fields| privilege(fields)) {
                privileges.entry(resource).or_default().extend(actions);
            }
            self.roles.push(Arc::new(Role {
                name,
                privileges,
                membership: objects("membership").filter_map(|fields| membership(fields)).collect(),
            }));
        }
    }

    fn load_providers(&mut self, view: &mut View<'_>) {
        for (_, fields) in self.documents(view, Native::AccessProviders) {
            let text = |key| fields.string(key).cloned().unwrap_or_else(|| "".into());
            let roles = fields.get("roles").map_or(&[][..], Value::one_or_many).iter();
            let provider = AccessProvider {
                name: text("name"),
                issuer: text("issuer"),
                jwks_uri: text("jwks_uri"),
                audience: text("audience"),
                roles: roles.filter_map(provider_role).collect(),
            };
            self.providers.push(Arc::new(provider));
        }
    }
}

/// The sources of an index: each a collection, all of them, or an object of one or several with
/// what is computed of them.
fn sources_of(value: Option<&Value>, names: &Schema) -> Vec<Source> {
    let sources = value.map_or(&[][..], Value::one_or_many).iter();
    sources.flat_map(|source| source_of(source, names)).collect()
}

fn source_of(value: &Value, names: &Schema) -> Vec<Source> {
    let bare = |collection| Source {
        collection,
        bindings: Vec::new(),
    };
    match value {
        Value::String(_) => vec![bare(None)],
        Value::Ref(reference) => match &reference.target {
            Target::Native(native) => vec![bare(Some(*native as u64))],
            Target::Named(Native::Collections, name) => {
                let number = names.number(Native::Collections, name);
                number.map(|number| bare(Some(number))).into_iter().collect()
            }
            _ => Vec::new(),
        },
        Value::Object(fields) => {
            let collections = fields.get("class").or_else(|| fields.get("collection"));
            let mut sources = sources_of(collections, names);
            let bindings = fields.get("fields").and_then(Value::as_object);
            let bindings: Vec<(Arc<str>, Arc<Closure>)> = bindings
                .iter()
                .flat_map(|bindings| bindings.entries.iter())
                .filter_map(|(name, value)| match value {
                    Value::Query(closure) => Some((name.clone(), closure.clone())),
                    _ => None,
                })
                .collect();
            sources.iter_mut().for_each(|source| source.bindings = bindings.clone());
            sources
        }
        _ => Vec::new(),
    }
}

fn components(value: Option<&Value>) -> Vec<Component> {
    let objects = value
        .map_or(&[][..], Value::one_or_many)
        .iter()
        .filter_map(Value::as_object);
    objects.filter_map(|fields| component(fields)).collect()
}

fn component(fields: &Fields) -> Option<Component> {
    let extract = match (fields.string("binding"), fields.get("field")) {
        (Some(binding), _) => Extract::Binding(binding.clone()),
        (None, Some(path)) => Extract::Field(path.one_or_many().to_vec()),
        (None, None) => return None,
    };
    Some(Component {
        extract,
        casefold: fields
            .string("transform")
            .is_some_and(|transform| &**transform == "casefold"),
        reverse: matches!(fields.get("reverse"), Some(Value::Bool(true))),
    })
}

fn privilege(fields: &Fields) -> Option<(Ref, Grants)> {
    let Some(Value::Ref(resource)) = fields.get("resource") else {
        return None;
    };
    let actions = fields.get("actions").and_then(Value::as_object);
    let actions = actions.iter().flat_map(|actions| actions.entries.iter());
    let actions = actions.filter_map(|(action, grant)| {
        let grant = match grant {
            Value::Bool(true) => Grant::Always,
            Value::Query(closure) => Grant::If(closure.clone()),
            _ => return None,
        };
        Some((action.clone(), grant))
    });
    Some((resource.clone(), actions.collect()))
}

fn predicate(fields: &Fields) -> Option<Arc<Closure>> {
    match fields.get("predicate") {
        Some(Value::Query(closure)) => Some(closure.clone()),
        _ => None,
    }
}

fn membership(fields: &Fields) -> Option<Membership> {
    match fields.get("resource") {
        Some(Value::Ref(resource)) => Some(Membership {
            resource: resource.clone(),
            predicate: predicate(fields),
        }),
        _ => None,
    }
}

fn provider_role(value: &Value) -> Option<(Value, Option<Arc<Closure>>)> {
    match value {
        Value::Object(fields) => Some((fields.get("role")?.clone(), predicate(fields))),
        role => Some((role.clone(), None)),
    }
}

/// The kind and the name of a ref's target, for messages about its absence.
pub fn describe(reference: &Ref) -> (&'static str, Arc<str>) {
    match &reference.target {
        Target::Document(collection, _) => ("collection", collection.clone()),
        Target::Named(native, name) => (native.singular(), name.clone()),
        Target::Numbered(native, _) => (native.singular(), reference.id()),
        Target::Native(native) => ("collection", native.name().into()),
    }
}
