//! The arguments of commands in COMMAND DOCS.
//!
//! `arguments.txt` has a line for each command with arguments, in this notation (a name, a kind,
//! and further attributes):
//!
//! ```text
//! set key:k value:s condition:o?@2.6.12(nx:t=NX xx:t=XX) get:t?=GET@6.2.0
//!
//! k key, s string, i integer, d double, p pattern, u Unix time, t word alone, o one of those in parentheses, b all of those
//! ? optional   * may be repeated   + repeated with its word   =WORD the word before it   #N the key specification   @ since
//! ! deprecated since   ~TEXT what help shows for it, if that is not the name
//! ```

use quartet_wire_resp::Reply;
use rustc_hash::FxHashMap;

/// The arguments of the layer's own commands.
pub const OWN: &str = include_str!("arguments.txt");

/// The arguments of commands, by their full names.
#[derive(Debug)]
pub struct ArgumentTable(FxHashMap<&'static str, Vec<Argument>>);

impl ArgumentTable {
    /// Reads the lines of texts in the notation above.
    pub fn read(texts: impl Iterator<Item = &'static str>) -> ArgumentTable {
        let commands = texts.flat_map(str::lines).map(|line| {
            let (command, mut notation) = line.split_once(' ').expect("a command and its arguments");
            let arguments = Argument::list(&mut notation);
            assert!(notation.is_empty(), "the arguments of {command} end before {notation}");
            (command, arguments)
        });
        ArgumentTable(commands.collect())
    }

    /// The arguments of a command; none for one that takes none.
    pub fn of(&self, command: &str) -> &[Argument] {
        self.0.get(command).map_or(&[], Vec::as_slice)
    }
}

#[derive(Debug, Default)]
pub struct Argument {
    name: &'static str,
    kind: &'static str,
    token: Option<&'static str>,
    since: Option<&'static str>,
    deprecated_since: Option<&'static str>,
    display_text: Option<&'static str>,
    key_specification: Option<i64>,
    flags: Vec<&'static str>,
    arguments: Vec<Argument>,
}

impl Argument {
    /// Reads arguments up to the end or a closing parenthesis.
    fn list(notation: &mut &'static str) -> Vec<Argument> {
        let mut arguments = vec![Argument::read(notation)];
        while let Some(behind) = notation.strip_prefix(' ') {
            *notation = behind;
            arguments.push(Argument::read(notation));
        }
        arguments
    }

    fn read(notation: &mut &'static str) -> Argument {
        let (name, behind) = notation.split_once(':').expect("a name and a kind");
        *notation = behind;
        let mut argument = Argument {
            name,
            ..Argument::default()
        };
        argument.kind = match take(notation, 1) {
            "k" => {
                argument.key_specification = Some(0);
                "key"
            }
            "s" => "string",
            "i" => "integer",
            "d" => "double",
            "p" => "pattern",
            "u" => "unix-time",
            "t" => "pure-token",
            "o" => "oneof",
            "b" => "block",
            other => panic!("there is no kind {other}"),
        };
        argument.read_marks(notation);
        argument
    }

    fn read_marks(&mut self, notation: &mut &'static str) {
        loop {
            match notation.chars().next() {
                Some('?') => self.flags.push("optional"),
                Some('*') => self.flags.push("multiple"),
                Some('+') => self.flags.push("multiple_token"),
                Some('=') => {
                    take(notation, 1);
                    self.token = Some(word(notation).trim_matches('"'));
                    continue;
                }
                Some('#') => {
                    take(notation, 1);
                    self.key_specification = word(notation).parse().ok();
                    continue;
                }
                Some('@') => {
                    take(notation, 1);
                    self.since = Some(word(notation));
                    continue;
                }
                Some('!') => {
                    take(notation, 1);
                    self.deprecated_since = Some(word(notation));
                    continue;
                }
                Some('~') => {
                    take(notation, 1);
                    self.display_text = Some(word(notation));
                    continue;
                }
                Some('(') => {
                    take(notation, 1);
                    self.arguments = Argument::list(notation);
                    assert_eq!(take(notation, 1), ")", "the parts of {}", self.name);
                    return;
                }
                _ => return,
            }
            take(notation, 1);
        }
    }

    pub fn write(&self, reply: &mut Reply<'_>) {
        let name = Some(self.name).filter(|_| self.arguments.is_empty());
        let texts = [
            ("name", Some(self.name)),
            ("type", Some(self.kind)),
            ("display_text", self.display_text.or(name)),
            ("token", self.token),
            ("since", self.since),
            ("deprecated_since", self.deprecated_since),
        ];
        let texts = texts.iter().filter_map(|(field, text)| Some((*field, (*text)?)));
        let options = [
            self.key_specification.is_some(),
            !self.flags.is_empty(),
            !self.arguments.is_empty(),
        ];
        reply.map(texts.clone().count() + options.iter().filter(|is_there| **is_there).count());
        for (field, text) in texts {
            reply.bulk(field.as_bytes());
            reply.bulk(text.as_bytes());
        }
        if let Some(index) = self.key_specification {
            reply.bulk(b"key_spec_index");
            reply.integer(index);
        }
        if !self.flags.is_empty() {
            reply.bulk(b"flags");
            reply.set(self.flags.len());
            self.flags.iter().for_each(|flag| reply.simple(flag));
        }
        if !self.arguments.is_empty() {
            reply.bulk(b"arguments");
            reply.array(self.arguments.len());
            self.arguments.iter().for_each(|argument| argument.write(reply));
        }
    }
}

fn take(notation: &mut &'static str, bytes: usize) -> &'static str {
    let (prefix, behind) = notation.split_at(bytes);
    *notation = behind;
    prefix
}

/// Up to the next mark. A word may be `=`, `*` or the like itself, so its first character is taken
/// as it is.
fn word(notation: &mut &'static str) -> &'static str {
    let first = notation.chars().next().map_or(0, char::len_utf8);
    let length = notation[first..]
        .find([' ', '(', ')', '#', '@', '!', '~'])
        .unwrap_or(notation.len() - first);
    take(notation, first + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_that_takes_arguments_has_them() {
        let (table, arguments) = (crate::commands::table(), ArgumentTable::read([OWN].into_iter()));
        for command in table.all() {
            let words = 1 + command.name.matches('|').count() as i32;
            let takes_any = command.subcommand_count == 0 && command.arity.abs() > words;
            assert!(!takes_any || !arguments.of(command.name).is_empty(), "{}", command.name);
        }
        for name in arguments.0.keys() {
            assert!(table.find(name.as_bytes()).is_some(), "{name}");
        }
    }

    #[test]
    fn the_notation_is_read() {
        let mut notation = "a:k#1!7.2.0~A b:s?*+=WORD@7.0.0(c:t== d:t=~ e:t=\"\")";
        let arguments = Argument::list(&mut notation);
        assert_eq!(notation, "");
        let [key, block] = arguments.as_slice() else {
            panic!("{arguments:?}");
        };
        assert_eq!((key.key_specification, key.kind), (Some(1), "key"));
        assert_eq!((key.deprecated_since, key.display_text), (Some("7.2.0"), Some("A")));
        assert_eq!(block.flags, ["optional", "multiple", "multiple_token"]);
        assert_eq!((block.token, block.since), (Some("WORD"), Some("7.0.0")));
        let tokens: Vec<_> = block.arguments.iter().map(|argument| argument.token).collect();
        assert_eq!(tokens, [Some("="), Some("~"), Some("")]);
    }
}
