//! DescribeContributorInsights, UpdateContributorInsights and ListContributorInsights.
//!
//! Settings are kept with the table and shown, so that programs which set them up find them as they
//! left them. Nothing is computed from them: the service draws its graphs in CloudWatch, which is
//! not here.

use quartet_engine::Transaction;

use crate::storage::catalog::table_name;
use crate::storage::table::{Insights, Table};
use crate::wire::failure::{Exception, Failure};
use crate::wire::json::{Json, Writer, write_seconds};
use crate::{DynamoDb, Outcome};

const MODE: &str = "ACCESSED_AND_THROTTLED_KEYS";
/// Tables that one page of a list looks at, and what it holds.
const TABLES_PAGE: usize = 1000;
const PAGE_MAX: usize = 100;

fn text<'j>(request: &'j Json<'_>, member: &str) -> &'j str {
    request.get(member).and_then(Json::text).unwrap_or_default()
}

fn check_index(table: &Table, index: &str) -> Result<(), Failure> {
    match index.is_empty() || table.index(index).is_some_and(|index| index.global) {
        true => Ok(()),
        false => Err(Failure::new(
            Exception::ResourceNotFound,
            format!("Requested resource not found: Index: {index} not found"),
        )),
    }
}

pub fn describe(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let index = text(request, "IndexName");
    let execute = |transaction: &mut Transaction<'_>, (): &()| {
        let table = layer.described_table(transaction, text(request, "TableName"))?;
        check_index(&table, index)?;
        Ok(table)
    };
    layer.respond_to_read(Ok(()), execute, |(), table| {
        Writer::object(|writer| {
            let insights = table.insights.get(index);
            let status = insights.map_or("DISABLED", Insights::status);
            write(writer, &table.name, index, status, insights);
            if let Some(insights) = insights {
                write_seconds(writer, "LastUpdateDateTime", insights.updated_micros);
            }
        })
    })
}

fn write(writer: &mut Writer, table: &str, index: &str, status: &str, insights: Option<&Insights>) {
    writer.member("TableName", table);
    if !index.is_empty() {
        writer.member("IndexName", index);
    }
    writer.member("ContributorInsightsStatus", status);
    if let Some(insights) = insights {
        writer.member("ContributorInsightsMode", &insights.mode);
    }
}

pub fn update(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let index = text(request, "IndexName");
    let enabled = text(request, "ContributorInsightsAction") == "ENABLE";
    let execute = |transaction: &mut Transaction<'_>, (): &()| {
        let table = layer.changeable_table(transaction, text(request, "TableName"))?;
        check_index(&table, index)?;
        let mut table = Table::clone(&table);
        let present = table.insights.get(index).map(|insights| insights.mode.clone());
        let mode = request.get("ContributorInsightsMode").and_then(Json::text);
        let insights = Insights {
            enabled,
            mode: mode.map(str::to_owned).or(present).unwrap_or_else(|| MODE.to_owned()),
            updated_micros: transaction.now_micros(),
        };
        table.insights.insert(index.to_owned(), insights);
        layer.store_table(transaction, &table);
        Ok(table)
    };
    layer.respond(Ok(()), execute, |(), table| {
        let status = if enabled { "ENABLING" } else { "DISABLING" };
        Writer::object(|writer| write(writer, &table.name, index, status, table.insights.get(index)))
    })
}

/// Lists the settings ever made, table by table: a page holds all of a table or nothing.
pub fn list(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let limit = request.get("MaxResults").and_then(Json::integer);
    let limit = limit
        .filter(|limit| *limit > 0)
        .map_or(PAGE_MAX, |limit| limit as usize);
    let execute = |transaction: &mut Transaction<'_>, (): &()| {
        let table = text(request, "TableName");
        if !table.is_empty() {
            let name = table_name(layer.check_region(table)?);
            return Ok((layer.find_table(transaction, name).into_iter().collect(), None));
        }
        let start = request.get("NextToken").and_then(Json::text);
        let names = layer.table_names(transaction, start, TABLES_PAGE);
        let (mut tables, mut count, mut next) = (Vec::new(), 0, None);
        for (position, name) in names.iter().enumerate() {
            let Some(table) = layer.find_table(transaction, name) else {
                continue;
            };
            count += table.insights.len();
            tables.push(table);
            if count >= limit || position + 1 == TABLES_PAGE {
                next = Some(name.clone()).filter(|_| position + 1 < names.len() || names.len() == TABLES_PAGE);
                break;
            }
        }
        Ok((tables, next))
    };
    layer.respond_to_read(Ok(()), execute, |(), (tables, next): (Vec<_>, Option<String>)| {
        let all = tables.iter().flat_map(|table| {
            let insights = table.insights.iter();
            insights.map(|(index, insights)| (&table.name, index, insights))
        });
        Writer::object(|writer| {
            writer.list(
                "ContributorInsightsSummaries",
                all,
                |writer, (table, index, insights)| {
                    writer.open(b'{');
                    write(writer, table, index, insights.status(), Some(insights));
                    writer.close(b'}');
                },
            );
            if let Some(next) = &next {
                writer.member("NextToken", next);
            }
        })
    })
}
