//! The conditions of VSIM's FILTER: arithmetic, comparisons and logic over an element's attributes.
//!
//! ```text
//! .year >= 1980 and .year < 1990 and not (.genre in ["action", "comedy"])
//! ```
//!
//! Read into operands and operators in the order in which they are used, so neither reading nor
//! evaluating recurses. Grammar and meaning are those that Redis 8.2 was seen to have; that `not`
//! may follow `not` is from a later one. A condition on a member that an element lacks is false.

use std::borrow::Cow;

use memchr::memmem;

use super::attributes::{Value, members};

/// Longest condition, in bytes.
pub const TEXT_BYTES_MAX: usize = 64 << 10;
/// Most operands and operators of a condition, those of lists included.
const TOKENS_MAX: usize = 4096;
/// Longest run of letters and signs that is looked at for one operator or `null`, one byte more
/// than the longest of them has.
const WORD_BYTES_MAX: usize = 5;
/// Longest number, in characters.
const NUMBER_BYTES_MAX: usize = 255;

/// A condition that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    steps: Vec<Step>,
    /// The members that the steps name, each once, in byte order.
    names: Vec<Vec<u8>>,
}

/// Why a condition could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Where reading ended, in bytes from its start: the start itself if all of it was read.
    At(usize),
    /// It has more than [`TEXT_BYTES_MAX`].
    TooLong,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Value(Value),
    /// The position of its name among the filter's names.
    Member(usize),
    Operator(Operator),
}

/// A token of the lexer.
enum Token {
    Value(Value),
    Member(Vec<u8>),
    Operator(Operator),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Open,
    Close,
    Not,
    Power,
    Times,
    Divided,
    Remainder,
    Plus,
    Minus,
    Above,
    AtLeast,
    Below,
    AtMost,
    Equal,
    Different,
    In,
    And,
    Or,
}

#[rustfmt::skip]
const OPERATORS: &[(&str, Operator)] = &[
    ("(", Operator::Open), (")", Operator::Close), ("!", Operator::Not), ("not", Operator::Not),
    ("**", Operator::Power), ("*", Operator::Times), ("/", Operator::Divided), ("%", Operator::Remainder),
    ("+", Operator::Plus), ("-", Operator::Minus), (">", Operator::Above), (">=", Operator::AtLeast),
    ("<", Operator::Below), ("<=", Operator::AtMost), ("==", Operator::Equal), ("!=", Operator::Different),
    ("in", Operator::In), ("and", Operator::And), ("&&", Operator::And), ("or", Operator::Or),
    ("||", Operator::Or),
];

impl Operator {
    /// Operators of higher precedence are evaluated first.
    fn precedence(self) -> u8 {
        match self {
            Operator::Open | Operator::Close => 7,
            Operator::Not => 6,
            Operator::Power => 5,
            Operator::Times | Operator::Divided | Operator::Remainder => 4,
            Operator::Plus | Operator::Minus => 3,
            Operator::And => 1,
            Operator::Or => 0,
            _ => 2,
        }
    }

    fn operands(self) -> usize {
        if self == Operator::Not { 1 } else { 2 }
    }

    /// Returns true if the right one of two that bind equally is done first.
    fn is_right_first(self) -> bool {
        matches!(self, Operator::Power | Operator::Not)
    }
}

impl Filter {
    /// Reads a condition. As in C, a NUL ends it.
    pub fn parse(text: &[u8]) -> Result<Filter, Malformed> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(Malformed::TooLong);
        }
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        let mut lexer = Lexer { text, at: 0, count: 0 };
        let (mut order, mut named) = (Order::default(), Vec::new());
        while let Some(token) = lexer.next(order.is_operand_behind())? {
            let is_taken = match token {
                Token::Operator(operator) => order.operator(operator),
                Token::Value(value) => order.operand(Step::Value(value)),
                Token::Member(name) => {
                    named.push(name);
                    order.operand(Step::Member(named.len() - 1))
                }
            };
            is_taken.ok_or(Malformed::At(0))?;
        }
        let mut steps = order.end().ok_or(Malformed::At(0))?;
        let mut names = named.clone();
        names.sort_unstable();
        names.dedup();
        for step in &mut steps {
            if let Step::Member(at) = step {
                *at = names.binary_search(&named[*at]).expect("a name that is there");
            }
        }
        Ok(Filter { steps, names })
    }

    /// Number of operands and operators: how much one element costs.
    pub fn size(&self) -> usize {
        let size = |step: &Step| match step {
            Step::Value(Value::List(values)) => values.len(),
            _ => 1,
        };
        self.steps.iter().map(size).sum()
    }

    /// Returns true if the attributes fulfil the condition.
    pub fn passes(&self, attributes: &[u8]) -> bool {
        self.value(attributes).is_some_and(|value| truth(&value))
    }

    /// Reads the attributes once for all members of the condition.
    fn value(&self, attributes: &[u8]) -> Option<Value> {
        let members = members(attributes, &self.names)?;
        let mut stack: Vec<Cow<'_, Value>> = Vec::new();
        for step in &self.steps {
            let value = match step {
                Step::Value(value) => Cow::Borrowed(value),
                Step::Member(at) => Cow::Borrowed(&members[*at]),
                Step::Operator(operator) => {
                    let right = stack.pop()?;
                    let left = if operator.operands() == 2 {
                        stack.pop()?
                    } else {
                        Cow::Owned(Value::Null)
                    };
                    Cow::Owned(Value::Number(result(*operator, &left, &right)))
                }
            };
            stack.push(value);
        }
        stack.pop().map(Cow::into_owned)
    }
}

fn result(operator: Operator, left: &Value, right: &Value) -> f64 {
    let (a, b) = (number(left), number(right));
    let of = |is_so: bool| f64::from(u8::from(is_so));
    match operator {
        Operator::Not => of(!truth(right)),
        Operator::Power => a.powf(b),
        Operator::Times => a * b,
        Operator::Divided => a / b,
        Operator::Remainder => a % b,
        Operator::Plus => a + b,
        Operator::Minus => a - b,
        Operator::Above => of(a > b),
        Operator::AtLeast => of(a >= b),
        Operator::Below => of(a < b),
        Operator::AtMost => of(a <= b),
        Operator::Equal => of(are_equal(left, right)),
        Operator::Different => of(!are_equal(left, right)),
        Operator::In => of(is_in(left, right)),
        Operator::And => of(truth(left) && truth(right)),
        Operator::Or => of(truth(left) || truth(right)),
        Operator::Open | Operator::Close => 0.0,
    }
}

/// A text counts as the number that it shows, as far as it is one.
fn number(value: &Value) -> f64 {
    match value {
        Value::Number(number) => *number,
        Value::Text(text) if text.len() <= NUMBER_BYTES_MAX => {
            let text = std::str::from_utf8(text).unwrap_or_default();
            text.trim_start().parse().unwrap_or(0.0)
        }
        _ => 0.0,
    }
}

fn truth(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Number(number) => *number != 0.0,
        Value::Text(text) => !text.is_empty(),
        Value::List(_) => true,
    }
}

fn are_equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Text(left), Value::Text(right)) => left == right,
        (Value::Null, other) | (other, Value::Null) => *other == Value::Null,
        _ => number(left) == number(right),
    }
}

/// In a list, or a part of a text.
fn is_in(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (_, Value::List(values)) => values.iter().any(|value| are_equal(left, value)),
        (Value::Text(part), Value::Text(whole)) => memmem::find(whole, part).is_some(),
        _ => false,
    }
}

/// Brings operands and operators into the order in which they are used.
#[derive(Default)]
struct Order {
    steps: Vec<Step>,
    waiting: Vec<Operator>,
    /// Values that there are when the steps have been done.
    values: usize,
    /// The last part that was read is an operand, or closes parentheses.
    has_operand_behind: bool,
}

impl Order {
    /// A minus is an operator, not a sign.
    fn is_operand_behind(&self) -> bool {
        self.has_operand_behind
    }

    fn operand(&mut self, operand: Step) -> Option<()> {
        self.steps.push(operand);
        self.values += 1;
        self.has_operand_behind = true;
        Some(())
    }

    fn operator(&mut self, operator: Operator) -> Option<()> {
        self.has_operand_behind = operator == Operator::Close;
        match operator {
            Operator::Open => {}
            Operator::Close => loop {
                match self.waiting.pop()? {
                    Operator::Open => return Some(()),
                    waiting => self.release(waiting)?,
                }
            },
            _ => {
                while let Some(waiting) = self.waiting.last().copied().filter(|last| *last != Operator::Open) {
                    let is_before = match operator.is_right_first() {
                        true => waiting.precedence() > operator.precedence(),
                        false => waiting.precedence() >= operator.precedence(),
                    };
                    if !is_before {
                        break;
                    }
                    self.waiting.pop();
                    self.release(waiting)?;
                }
            }
        }
        self.waiting.push(operator);
        Some(())
    }

    fn release(&mut self, operator: Operator) -> Option<()> {
        self.values = self.values.checked_sub(operator.operands())? + 1;
        self.steps.push(Step::Operator(operator));
        Some(())
    }

    fn end(mut self) -> Option<Vec<Step>> {
        while let Some(waiting) = self.waiting.pop() {
            if waiting == Operator::Open {
                return None;
            }
            self.release(waiting)?;
        }
        (self.values == 1).then_some(self.steps)
    }
}

struct Lexer<'t> {
    text: &'t [u8],
    at: usize,
    count: usize,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn skip(&mut self, is_part: impl Fn(u8) -> bool) {
        while self.at < self.text.len() && is_part(self.peek(0)) {
            self.at += 1;
        }
    }

    fn spaces(&mut self) {
        self.skip(|byte| matches!(byte, b' ' | b'\t'..=b'\r'));
    }

    /// An error at the end shows the whole text.
    fn error(&self) -> Malformed {
        Malformed::At(if self.at < self.text.len() { self.at } else { 0 })
    }

    fn count_one(&mut self) -> Result<(), Malformed> {
        self.count += 1;
        if self.count > TOKENS_MAX {
            Err(self.error())
        } else {
            Ok(())
        }
    }

    fn next(&mut self, has_operand_behind: bool) -> Result<Option<Token>, Malformed> {
        self.spaces();
        if self.at == self.text.len() {
            return Ok(None);
        }
        self.count_one()?;
        let token = match self.peek(0) {
            b'0'..=b'9' => Token::Value(self.number()?),
            b'-' if !has_operand_behind && self.peek(1).is_ascii_digit() => Token::Value(self.number()?),
            b'"' | b'\'' => Token::Value(self.quoted()?),
            b'.' => {
                self.at += 1;
                let start = self.at;
                self.skip(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
                Token::Member(self.text[start..self.at].to_vec())
            }
            b'[' => Token::Value(self.list()?),
            _ => self.word()?,
        };
        Ok(Some(token))
    }

    /// An operator or `null`. Letters and signs that stand together may hold several operators: the
    /// longest that they begin with is taken.
    fn word(&mut self) -> Result<Token, Malformed> {
        let start = self.at;
        let is_part = |byte: &&u8| byte.is_ascii_alphabetic() || b"+-*%/!()<>=|&".contains(byte);
        let length = self.text[start..]
            .iter()
            .take(WORD_BYTES_MAX)
            .take_while(is_part)
            .count();
        let word = &self.text[start..start + length];
        if word == b"null" {
            self.at += length;
            return Ok(Token::Value(Value::Null));
        }
        let fitting = OPERATORS.iter().filter(|(name, _)| word.starts_with(name.as_bytes()));
        let Some((name, operator)) = fitting.max_by_key(|(name, _)| name.len()) else {
            self.skip(|byte| is_part(&&byte));
            return Err(self.error());
        };
        self.at = start + name.len();
        Ok(Token::Operator(*operator))
    }

    fn number(&mut self) -> Result<Value, Malformed> {
        let start = self.at;
        if self.peek(0) == b'-' {
            self.at += 1;
        }
        self.skip(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E'));
        let text = &self.text[start..self.at];
        let number = std::str::from_utf8(text)
            .ok()
            .filter(|text| text.len() <= NUMBER_BYTES_MAX);
        let number = number.and_then(|text| text.parse().ok()).ok_or_else(|| self.error())?;
        Ok(Value::Number(number))
    }

    /// A backslash keeps the next character from ending the text, and stays.
    fn quoted(&mut self) -> Result<Value, Malformed> {
        let quote = self.peek(0);
        self.at += 1;
        let start = self.at;
        while self.at < self.text.len() {
            match self.peek(0) {
                b'\\' if self.at + 1 < self.text.len() => self.at += 2,
                byte if byte == quote => {
                    self.at += 1;
                    return Ok(Value::Text(self.text[start..self.at - 1].to_vec()));
                }
                _ => self.at += 1,
            }
        }
        Err(self.error())
    }

    /// Numbers and texts.
    fn list(&mut self) -> Result<Value, Malformed> {
        self.at += 1;
        let mut values = Vec::new();
        loop {
            self.spaces();
            self.count_one()?;
            values.push(match self.peek(0) {
                b']' => break,
                b'0'..=b'9' | b'-' => self.number()?,
                b'"' | b'\'' => self.quoted()?,
                _ => return Err(self.error()),
            });
            self.spaces();
            match self.peek(0) {
                b']' => break,
                b',' => self.at += 1,
                _ => return Err(self.error()),
            }
        }
        self.at += 1;
        Ok(Value::List(values))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ATTRIBUTES: &[u8] =
        br#"{"y":1,"s":"foo","t":true,"n":null,"arr":[1,"x",null],"big":1e3,"esc":"a\"b\u0041","o":{"y":2},"neg":-5}"#;

    /// The original's answers: a line for each condition, and after a tab `+` if the element with
    /// these attributes passed, `-` if not, or the part of the condition that its error showed.
    #[test]
    fn conditions_mean_what_they_mean_there() {
        let recorded = include_str!("../../../testdata/vector_filters.tsv");
        let mut count = 0;
        for line in recorded.lines() {
            let (condition, expected) = line.rsplit_once('\t').unwrap();
            let outcome = match Filter::parse(condition.as_bytes()) {
                Ok(filter) if filter.passes(ATTRIBUTES) => "+",
                Ok(_) => "-",
                Err(Malformed::At(at)) => &condition[at..],
                Err(Malformed::TooLong) => unreachable!("a short condition"),
            };
            assert_eq!(outcome, expected, "{condition}");
            count += 1;
        }
        assert!(count > 70);
    }

    #[test]
    fn not_may_follow_not() {
        assert!(Filter::parse(b"!!.y").unwrap().passes(ATTRIBUTES));
        assert!(Filter::parse(b"not not .y == 1").unwrap().passes(ATTRIBUTES));
    }

    #[test]
    fn conditions_are_bounded() {
        let deep = format!("{}1{}", "(".repeat(1000), ")".repeat(1000));
        assert!(Filter::parse(deep.as_bytes()).unwrap().passes(b""));
        for long in [
            "(".repeat(100_000),
            "1+".repeat(100_000),
            format!("1 in [{}", "1,".repeat(100_000)),
        ] {
            assert!(Filter::parse(long.as_bytes()).is_err());
        }
        assert_eq!(Filter::parse(b"1\0)"), Filter::parse(b"1"));
    }

    /// A run of parentheses was looked through whole for each of its operators, up to the bound on
    /// operators: 200,000 of them took an I/O thread for seconds. No more than the longest operator
    /// is looked at now, and a text is refused by its length first.
    #[test]
    fn a_long_condition_is_refused_by_its_length() {
        let limit = " ".repeat(TEXT_BYTES_MAX - 1) + "1";
        assert!(Filter::parse(limit.as_bytes()).is_ok());
        assert_eq!(Filter::parse((limit + " ").as_bytes()), Err(Malformed::TooLong));
        let open = "(".repeat(TEXT_BYTES_MAX);
        assert_eq!(Filter::parse(open.as_bytes()), Err(Malformed::At(TOKENS_MAX)));
        assert_eq!(Filter::parse(b"nullable"), Err(Malformed::At(0)));
    }

    #[test]
    fn members_of_long_conditions_are_found() {
        let condition = ".big == 1000 and .y in .arr and .s in \"a foo b\" and .neg < .y and .y == 1";
        let filter = Filter::parse(condition.as_bytes()).unwrap();
        assert_eq!(filter.names.len(), 5);
        assert!(filter.passes(ATTRIBUTES));
        assert!(!Filter::parse(b".y or .o").unwrap().passes(ATTRIBUTES));
    }

    proptest! {
        #[test]
        fn any_condition_ends(text in "[-.y0-9 ()!<>=&|*/+inotadr'\"\\[\\],]{0,40}", json in "[{}\\[\\]\"y:,0-9 \\\\true]{0,40}") {
            if let Ok(filter) = Filter::parse(text.as_bytes()) {
                filter.passes(json.as_bytes());
            }
        }
    }
}
