//! The filter of an export: which items it holds, and which parts of them.
//!
//! An incremental export filters each change by the newest image of its item, the old one if it was
//! deleted (developer guide, "Filtering a table export").

use crate::storage::source::Source;
use crate::storage::table::Table;
use crate::wire::expression::path::project;
use crate::wire::expression::{
    Condition, KeyTerm, Path, Placeholders, key_terms, parse_condition, parse_key_condition, parse_projection,
};
use crate::wire::failure::Failure;
use crate::wire::json::Json;
use crate::wire::value::Item;

pub struct ExportFilter {
    keys: Option<Vec<KeyTerm>>,
    filter: Option<Condition>,
    projection: Option<Vec<Path>>,
}

impl ExportFilter {
    /// Reads a FilterSpecification.
    pub fn parse(specification: &Json<'_>) -> Result<ExportFilter, Failure> {
        let text = |name| specification.get(name).and_then(Json::text);
        let expressions = ["FilterExpression", "KeyConditionExpression", "ProjectionExpression"];
        Placeholders::check_allowed(specification, &expressions)?;
        let mut placeholders = Placeholders::read(specification)?;
        let keys = text("KeyConditionExpression").map(|source| parse_key_condition(source, &mut placeholders));
        let keys = keys.transpose()?;
        let filter = text("FilterExpression");
        let filter = filter.map(|source| parse_condition("FilterExpression", source, &mut placeholders));
        let filter = filter.transpose()?;
        let projection = text("ProjectionExpression").map(|source| parse_projection(source, &mut placeholders));
        let projection = projection.transpose()?;
        placeholders.check_all_used()?;
        Ok(ExportFilter {
            keys: keys.map(key_terms).transpose()?,
            filter,
            projection,
        })
    }

    /// Verifies it against the keys of the table, as a Query is verified.
    pub fn check(&self, table: &Table) -> Result<(), Failure> {
        let Some(keys) = &self.keys else { return Ok(()) };
        let source = Source { table, index: None };
        source.check_query(keys, None)?;
        let mut paths = Vec::new();
        if let Some(filter) = &self.filter {
            filter.paths(&mut paths);
        }
        match paths
            .iter()
            .find(|path| source.keys().any(|part| part.name == path.root))
        {
            None => Ok(()),
            Some(path) => Err(Failure::validation(format!(
                "Filter Expression can only contain non-primary key attributes: Primary key attribute: {}",
                path.root
            ))),
        }
    }

    pub fn admits(&self, item: &Item) -> bool {
        let has_keys = self.keys.iter().flatten().all(|term| {
            let value = item.get(&term.attribute);
            value.is_some_and(|value| term.test.holds(value))
        });
        has_keys && self.filter.as_ref().is_none_or(|filter| filter.holds(item))
    }

    /// The parts of an item that are exported.
    pub fn shown(&self, item: Item) -> Item {
        match &self.projection {
            Some(paths) => project(&item, paths),
            None => item,
        }
    }
}
