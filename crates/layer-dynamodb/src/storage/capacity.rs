//! Capacity units that requests consume, and their form in replies ("Provisioned capacity mode",
//! "Capacity units").

use std::collections::BTreeMap;

use crate::wire::json::{Json, Writer};

const READ_UNIT_BYTES: usize = 4096;
const WRITE_UNIT_BYTES: usize = 1024;

/// The detail in which a reply reports the consumption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    None,
    Total,
    Indexes,
}

impl Report {
    pub fn read(request: &Json<'_>) -> Report {
        match request.get("ReturnConsumedCapacity").and_then(Json::text) {
            Some("TOTAL") => Report::Total,
            Some("INDEXES") => Report::Indexes,
            _ => Report::None,
        }
    }
}

/// Units of reading `bytes` together; an empty read costs the same as the first byte.
pub fn read_units(bytes: usize, consistent: bool) -> f64 {
    let units = bytes.div_ceil(READ_UNIT_BYTES).max(1) as f64;
    if consistent { units } else { units / 2.0 }
}

/// Units of writing an item or an index entry.
pub fn write_units(bytes: usize) -> f64 {
    bytes.div_ceil(WRITE_UNIT_BYTES).max(1) as f64
}

/// The consumption of one table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Consumed {
    pub table: f64,
    pub local: BTreeMap<String, f64>,
    pub global: BTreeMap<String, f64>,
    /// Bytes written to vector indexes, which are no units.
    pub vectors: BTreeMap<String, f64>,
}

/// Whether a transaction's units are also reported as read or as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Plain,
    Read,
    Write,
}

impl Consumed {
    pub fn of_table(units: f64) -> Consumed {
        Consumed {
            table: units,
            ..Consumed::default()
        }
    }

    pub fn of_index(name: &str, global: bool, units: f64) -> Consumed {
        let mut consumed = Consumed::default();
        let indexes = if global {
            &mut consumed.global
        } else {
            &mut consumed.local
        };
        indexes.insert(name.to_owned(), units);
        consumed
    }

    pub fn add(&mut self, other: &Consumed) {
        self.table += other.table;
        for (indexes, other_units) in [
            (&mut self.local, &other.local),
            (&mut self.global, &other.global),
            (&mut self.vectors, &other.vectors),
        ] {
            for (name, units) in other_units {
                *indexes.entry(name.clone()).or_default() += units;
            }
        }
    }

    /// The same as a part of a transaction, which costs the table twice, and indexes what they cost
    /// anyway.
    pub fn in_transaction(mut self) -> Consumed {
        self.table *= 2.0;
        self
    }

    fn total(&self) -> f64 {
        self.table + self.local.values().sum::<f64>() + self.global.values().sum::<f64>()
    }

    /// Writes the one object of a reply; `table` is the name the request gave.
    pub fn write(&self, writer: &mut Writer, table: &str, report: Report, kind: Kind) {
        let units = |writer: &mut Writer, units: f64| {
            writer.name("CapacityUnits").raw(format_args!("{units:?}"));
            match kind {
                Kind::Plain => {}
                Kind::Read => writer.name("ReadCapacityUnits").raw(format_args!("{units:?}")),
                Kind::Write => writer.name("WriteCapacityUnits").raw(format_args!("{units:?}")),
            }
        };
        writer.open(b'{');
        writer.member("TableName", table);
        units(writer, self.total());
        if report == Report::Indexes {
            writer.nested("Table", |writer| units(writer, self.table));
            for (name, indexes) in [
                ("LocalSecondaryIndexes", &self.local),
                ("GlobalSecondaryIndexes", &self.global),
            ] {
                if !indexes.is_empty() {
                    writer.nested(name, |writer| {
                        for (index, index_units) in indexes {
                            writer.nested(index, |writer| units(writer, *index_units));
                        }
                    });
                }
            }
            if !self.vectors.is_empty() {
                writer.nested("VectorIndexes", |writer| {
                    for (index, bytes) in &self.vectors {
                        writer.nested(index, |writer| {
                            writer.name("VectorWriteRequestBytes").raw(format_args!("{bytes:?}"));
                        });
                    }
                });
            }
        }
        writer.close(b'}');
    }

    /// The member of a reply to a request about one table, if requested.
    pub fn write_member(&self, writer: &mut Writer, table: &str, report: Report) {
        if report != Report::None {
            writer.name("ConsumedCapacity");
            self.write(writer, table, report, Kind::Plain);
        }
    }
}

/// The member of a reply to a request about several tables, if requested.
pub fn write_list(writer: &mut Writer, consumed: &BTreeMap<String, Consumed>, report: Report, kind: Kind) {
    if report != Report::None {
        writer.list("ConsumedCapacity", consumed, |writer, (table, consumed)| {
            consumed.write(writer, table, report, kind);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::json::json_text;

    #[test]
    fn units_are_rounded_up() {
        assert_eq!(
            (read_units(0, false), read_units(4096, true), read_units(4097, true)),
            (0.5, 1.0, 2.0)
        );
        assert_eq!((write_units(0), write_units(1024), write_units(1025)), (1.0, 1.0, 2.0));
    }

    #[test]
    fn indexes_are_listed_on_request() {
        let mut consumed = Consumed::of_table(1.0);
        consumed.add(&Consumed::of_index("g", true, 2.0));
        let written = |report| json_text(Writer::object(|writer| consumed.write_member(writer, "t", report)));
        assert_eq!(written(Report::None), "{}");
        assert_eq!(
            written(Report::Total),
            r#"{"ConsumedCapacity":{"TableName":"t","CapacityUnits":3.0}}"#
        );
        assert_eq!(
            written(Report::Indexes),
            r#"{"ConsumedCapacity":{"TableName":"t","CapacityUnits":3.0,"Table":{"CapacityUnits":1.0},"GlobalSecondaryIndexes":{"g":{"CapacityUnits":2.0}}}}"#
        );
    }
}
