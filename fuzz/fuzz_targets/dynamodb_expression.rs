//! Any text in any of the expression grammars: a tree or an error, never a panic or an overflowing
//! stack; and what is well formed is evaluated. The first byte picks the grammar; an update on a
//! first line of its own makes the item.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quartet_layer_dynamodb::wire::expression::path::project;
use quartet_layer_dynamodb::wire::expression::{
    Placeholders, key_terms, parse_condition, parse_key_condition, parse_projection, parse_update,
};
use quartet_layer_dynamodb::wire::json::Json;

const PLACEHOLDERS: &str = r##"{"X":"","ExpressionAttributeNames":{"#a":"a","#b":"b.c"},
    "ExpressionAttributeValues":{":n":{"N":"1"},":s":{"S":"x"},":l":{"L":[{"N":"-0.5"}]},":t":{"SS":["a"]},":u":{"NS":["1","2"]},
    ":m":{"M":{"a":{"M":{"b":{"L":[{"S":"y"}]}}}}},":b":{"B":"AAE="},":z":{"NULL":true},":f":{"BOOL":false}}}"##;

fuzz_target!(|data: &[u8]| {
    let Some((&choice, text)) = data.split_first() else {
        return;
    };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let json = Json::parse(PLACEHOLDERS.as_bytes()).unwrap();
    let mut placeholders = Placeholders::read(&json).unwrap();
    let (first, source) = text.split_once('\n').unwrap_or(("", text));
    let mut item = Default::default();
    if let Ok(update) = parse_update(first, &mut placeholders) {
        let _ = update.apply(&mut item);
    }
    match choice % 4 {
        0 => {
            if let Ok(condition) = parse_condition("ConditionExpression", source, &mut placeholders) {
                condition.holds(&item);
            }
        }
        1 => drop(parse_key_condition(source, &mut placeholders).and_then(key_terms)),
        2 => {
            if let Ok(paths) = parse_projection(source, &mut placeholders) {
                let projected = project(&item, &paths);
                assert!(projected.len() <= item.len());
            }
        }
        _ => {
            if let Ok(update) = parse_update(source, &mut placeholders) {
                let _ = update.apply(&mut item);
            }
        }
    }
});
