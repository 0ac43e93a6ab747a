//! Any text in any of the expression grammars: a tree or an error, never a panic or an overflowing stack.
//! The first byte picks the grammar.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quartet_layer_dynamodb::expression::{
    Placeholders, key_terms, parse_condition, parse_key_condition, parse_projection, parse_update,
};
use quartet_layer_dynamodb::json::Json;

const PLACEHOLDERS: &str = r##"{"X":"","ExpressionAttributeNames":{"#a":"a","#b":"b.c"},
    "ExpressionAttributeValues":{":n":{"N":"1"},":s":{"S":"x"},":l":{"L":[]},":t":{"SS":["a"]}}}"##;

fuzz_target!(|data: &[u8]| {
    let Some((&choice, source)) = data.split_first() else { return };
    let Ok(source) = std::str::from_utf8(source) else { return };
    let json = Json::parse(PLACEHOLDERS.as_bytes()).unwrap();
    let mut placeholders = Placeholders::read(&json).unwrap();
    match choice % 4 {
        0 => {
            if let Ok(condition) = parse_condition("ConditionExpression", source, &mut placeholders) {
                condition.holds(&Default::default());
            }
        }
        1 => drop(parse_key_condition(source, &mut placeholders).and_then(key_terms)),
        2 => drop(parse_projection(source, &mut placeholders)),
        _ => {
            if let Ok(update) = parse_update(source, &mut placeholders) {
                drop(update.apply(&mut Default::default()));
            }
        }
    }
});
