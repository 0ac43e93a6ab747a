//! Regular expressions in Java's syntax, which `java_pattern` rewrites. The engine gives up after a
//! fixed number of steps.

use fancy_regex::{Regex, RegexBuilder};

use super::java_pattern::rewritten;
use super::strings::{code_points, start_of};
use crate::evaluation::{Arguments, Evaluation};
use crate::language::error::{Errors, Result, Within};
use crate::language::value::Value;

const BACKTRACKS_MAX: usize = 100_000;
const RESULTS_MAX: i64 = 1024;
const RESULT_BYTES_MAX: usize = 16 << 20;
/// The memory that a pattern takes for each of its bytes while it is compiled.
const BYTES_OF_A_PATTERN_BYTE: usize = 256;
/// The bytes of one result, without its text.
const RESULT_BYTES: usize = 256;

fn compile(evaluation: &mut Evaluation<'_>, pattern: &str) -> Result<Regex> {
    evaluation.make(pattern.len() * BYTES_OF_A_PATTERN_BYTE)?;
    let built = rewritten(pattern).and_then(|rewritten| {
        RegexBuilder::new(&rewritten)
            .backtrack_limit(BACKTRACKS_MAX)
            .delegate_size_limit(4 << 20)
            .build()
            .ok()
    });
    built
        .ok_or_else(|| Errors::argument(format!("Search pattern /{pattern}/ is not a valid regular expression.")))
        .within("pattern")
}

fn too_complex(pattern: &str) -> Errors {
    let message = format!("Search pattern /{pattern}/ takes too many steps on this string.");
    Errors::argument(message).within(crate::language::error::Step::Key("pattern"))
}

pub fn contains(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let pattern = arguments.text(1);
    let result = compile(evaluation, pattern)?.is_match(arguments.text(0));
    result.map(Value::Bool).map_err(|_| too_complex(pattern))
}

pub fn find(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let (text, pattern) = (arguments.text(0), arguments.text(1));
    let regex = compile(evaluation, pattern)?;
    let start = start_of(text, arguments.integer(2));
    let limit = arguments.integer(3).unwrap_or(RESULTS_MAX).clamp(0, RESULTS_MAX);
    let mut matches = Vec::new();
    // The text starts at the given position: earlier text is not visible to look-behind.
    let before = code_points(&text[..start]);
    let text = &text[start..];
    let (mut at, mut counted, mut counted_to) = (0, before, 0);
    while matches.len() < limit as usize {
        let next = regex.find_from_pos(text, at).map_err(|_| too_complex(pattern))?;
        let Some(next) = next else { break };
        counted += code_points(&text[counted_to..next.start()]);
        counted_to = next.start();
        let length = code_points(next.as_str());
        // The original counts half of a last character that takes two units of UTF-16.
        let beyond = usize::from(
            next.as_str()
                .chars()
                .next_back()
                .is_some_and(|last| last.len_utf16() == 2),
        );
        evaluation.make(RESULT_BYTES + next.as_str().len())?;
        matches.push(Value::record([
            ("start", Value::Int(counted as i64)),
            ("end", Value::Int((counted + length.max(1) - 1 + beyond) as i64)),
            ("data", Value::string(next.as_str())),
        ]));
        at = match next.end() > next.start() {
            true => next.end(),
            false => next.end() + text[next.end()..].chars().next().map_or(1, char::len_utf8),
        };
        if at > text.len() {
            break;
        }
    }
    Ok(Value::array(matches))
}

pub fn replace(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let (text, pattern, with) = (arguments.text(0), arguments.text(1), arguments.text(2));
    let regex = compile(evaluation, pattern)?;
    let only_first = matches!(arguments.optional(3), Some(Value::Bool(true)));
    let mut out = String::new();
    let mut at = 0;
    for captures in regex.captures_iter(text).take(if only_first { 1 } else { usize::MAX }) {
        let captures = captures.map_err(|_| too_complex(pattern))?;
        let Some(whole) = captures.get(0) else { break };
        out.push_str(&text[at..whole.start()]);
        expand(with, &captures, &mut out).within("replace")?;
        at = whole.end();
        if out.len() > RESULT_BYTES_MAX {
            return Err(Errors::argument("Result string exceeds the size limit."));
        }
    }
    out.push_str(&text[at..]);
    evaluation.make(out.len())?;
    Ok(Value::string(out))
}

/// `$1` and `${name}` refer to groups; a backslash takes the next character literally.
fn expand(with: &str, captures: &fancy_regex::Captures<'_>, out: &mut String) -> Result<()> {
    let mut chars = with.chars().peekable();
    while let Some(c) = chars.next() {
        if out.len() > RESULT_BYTES_MAX {
            return Err(Errors::argument("Result string exceeds the size limit."));
        }
        match c {
            '\\' => out.extend(chars.next()),
            '$' if chars.peek() == Some(&'{') => {
                chars.next();
                let name: String = chars.by_ref().take_while(|c| *c != '}').collect();
                let group = captures
                    .name(&name)
                    .ok_or_else(|| Errors::argument(format!("No group with name {{{name}}}")))?;
                out.push_str(group.as_str());
            }
            '$' => {
                let mut number = None;
                while let Some(digit) = chars.peek().and_then(|c| c.to_digit(10)) {
                    let longer = number.unwrap_or(0) * 10 + digit as usize;
                    if number.is_some() && longer >= captures.len() {
                        break;
                    }
                    number = Some(longer);
                    chars.next();
                }
                match number {
                    Some(number) if number < captures.len() => {
                        out.push_str(captures.get(number).map_or("", |group| group.as_str()));
                    }
                    Some(number) => return Err(Errors::argument(format!("No group {number}"))),
                    None => return Err(Errors::argument("Illegal group reference")),
                }
            }
            c => out.push(c),
        }
    }
    Ok(())
}

pub fn escape(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let text = arguments.text(0);
    Ok(Value::string(format!("\\Q{}\\E", text.replace("\\E", "\\E\\\\E\\Q"))))
}
