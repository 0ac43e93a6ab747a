//! The expression language: conditions, projections, key conditions and updates as typed trees.
//!
//! | file            | what it is                                                     |
//! |-----------------|----------------------------------------------------------------|
//! | `lexer`         | tokens                                                         |
//! | `parser`        | placeholders, tokens one by one, paths, the shared errors      |
//! | `path`          | document paths: reading, writing, projecting                   |
//! | `condition`     | conditions and their evaluation                                |
//! | `update`        | updates and their application                                  |
//! | `key_condition` | conditions on keys, taken apart                                |
//! | `reserved`      | the reserved words                                             |

pub mod condition;
pub mod key_condition;
mod lexer;
mod parser;
pub mod path;
mod reserved;
#[cfg(test)]
mod tests;
pub mod update;

use crate::wire::failure::Failure;

pub use condition::Condition;
pub use key_condition::{KeyTerm, KeyTest, terms as key_terms};
pub use parser::Placeholders;
use parser::{Fault, Parser};
pub use path::Path;
pub use update::Update;

/// Parses a condition. `expression` is its name in the request, such as "FilterExpression".
pub fn parse_condition(
    expression: &'static str,
    source: &str,
    placeholders: &mut Placeholders,
) -> Result<Condition, Failure> {
    condition::parse(&mut Parser::new(expression, source, placeholders)?)
}

/// Parses a key condition, to be taken apart by [`key_terms`] once all expressions are known to be
/// well formed.
pub fn parse_key_condition(source: &str, placeholders: &mut Placeholders) -> Result<Condition, Failure> {
    parse_condition("KeyConditionExpression", source, placeholders)
}

pub fn parse_update(source: &str, placeholders: &mut Placeholders) -> Result<Update, Failure> {
    update::parse(&mut Parser::new("UpdateExpression", source, placeholders)?)
}

pub fn parse_projection(source: &str, placeholders: &mut Placeholders) -> Result<Vec<Path>, Failure> {
    let mut parser = Parser::new("ProjectionExpression", source, placeholders)?;
    let mut paths = vec![parser.path()?];
    while parser.take_symbol(",") {
        paths.push(parser.path()?);
    }
    if let Some(text) = path::clash_text(&paths.iter().collect::<Vec<_>>()) {
        parser.fault(Fault::Clash, text);
    }
    parser.expect_end(&[&[Fault::Reserved], &[Fault::UndefinedName], &[Fault::Clash]])?;
    Ok(paths)
}
