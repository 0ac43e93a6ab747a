//! Members of a JSON object, found without reading the others: what a filter asks of an element's
//! attributes.
//!
//! Attributes are any bytes, and JSON only if a client says so. As at the original, a member is
//! found by the bytes of its name, text before it has only to look like JSON, and objects inside
//! the object, or what is no JSON, count as not there.

/// Levels of nested arrays; deeper arrays count as absent.
const DEPTH_MAX: usize = 16;

/// A value that a filter can work with. `true` and `false` are 1 and 0.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// `null`.
    Null,
    Number(f64),
    Text(Vec<u8>),
    List(Vec<Value>),
}

/// Returns the values of the members of the object that have these names, which are in byte order,
/// each once. `None` if one of them is not there.
pub(super) fn members(json: &[u8], names: &[Vec<u8>]) -> Option<Vec<Value>> {
    let mut values: Vec<Option<Value>> = vec![None; names.len()];
    let mut missing = names.len();
    let mut reader = Reader(json);
    if missing > 0 {
        reader.spaces();
        reader.take(b'{')?;
    }
    while missing > 0 {
        reader.spaces();
        let start = reader.0;
        reader.skip_text()?;
        let quoted = &start[..start.len() - reader.0.len()];
        let name = &quoted[1..quoted.len() - 1];
        reader.spaces();
        reader.take(b':')?;
        reader.spaces();
        if let Ok(at) = names.binary_search_by(|other| other.as_slice().cmp(name))
            && values[at].is_none()
        {
            values[at] = Some(Reader(reader.0).value(DEPTH_MAX)?);
            missing -= 1;
            if missing == 0 {
                break;
            }
        }
        reader.skip_value()?;
        reader.spaces();
        reader.take(b',')?;
    }
    values.into_iter().collect()
}

/// Reads from the front.
struct Reader<'j>(&'j [u8]);

impl Reader<'_> {
    fn first(&self) -> Option<u8> {
        self.0.first().copied()
    }

    fn step(&mut self, count: usize) {
        self.0 = &self.0[count..];
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        (self.first()? == byte).then(|| self.step(1))
    }

    fn spaces(&mut self) {
        let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
        let count = self.0.iter().take_while(|byte| is_space(byte)).count();
        self.step(count);
    }

    fn skip_text(&mut self) -> Option<()> {
        self.take(b'"')?;
        loop {
            match self.first()? {
                b'"' => break,
                b'\\' if self.0.len() > 1 => self.step(2),
                _ => self.step(1),
            }
        }
        self.take(b'"')
    }

    fn skip_value(&mut self) -> Option<()> {
        match self.first()? {
            b'"' => self.skip_text(),
            b'{' => self.skip_between(b'{', b'}'),
            b'[' => self.skip_between(b'[', b']'),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            _ => {
                let count = self.number_bytes();
                (count > 0).then(|| self.step(count))
            }
        }
    }

    /// Passes over brackets of one kind; others in between are not looked at.
    fn skip_between(&mut self, open: u8, close: u8) -> Option<()> {
        let mut depth = 0usize;
        loop {
            match self.first()? {
                b'"' => self.skip_text()?,
                byte => {
                    depth += usize::from(byte == open);
                    depth -= usize::from(byte == close);
                    self.step(1);
                    if depth == 0 {
                        return Some(());
                    }
                }
            }
        }
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        self.0.starts_with(word).then(|| self.step(word.len()))
    }

    fn number_bytes(&self) -> usize {
        let is_of_number = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        self.0.iter().take_while(|byte| is_of_number(byte)).count()
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        match self.first()? {
            b'"' => self.text(),
            b'[' => self.list(depth.checked_sub(1)?),
            b't' => self.literal(b"true", Value::Number(1.0)),
            b'f' => self.literal(b"false", Value::Number(0.0)),
            b'n' => self.literal(b"null", Value::Null),
            b'0'..=b'9' | b'-' | b'+' => {
                let count = self.number_bytes();
                let number = std::str::from_utf8(&self.0[..count]).ok()?.parse().ok()?;
                self.step(count);
                Some(Value::Number(number))
            }
            _ => None,
        }
    }

    fn text(&mut self) -> Option<Value> {
        let start = self.0;
        self.skip_text()?;
        let quoted = &start[1..start.len() - self.0.len() - 1];
        let mut text = Vec::with_capacity(quoted.len());
        let mut bytes = quoted.iter();
        while let Some(byte) = bytes.next() {
            text.push(match (byte, byte == &b'\\') {
                (_, false) => *byte,
                (_, true) => match bytes.next()? {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    other => *other,
                },
            });
        }
        Some(Value::Text(text))
    }

    fn list(&mut self, depth: usize) -> Option<Value> {
        let mut values = Vec::new();
        self.step(1);
        self.spaces();
        if self.take(b']').is_some() {
            return Some(Value::List(values));
        }
        loop {
            self.spaces();
            values.push(self.value(depth)?);
            self.spaces();
            if self.take(b']').is_some() {
                return Some(Value::List(values));
            }
            self.take(b',')?;
        }
    }

    fn literal(&mut self, word: &[u8], value: Value) -> Option<Value> {
        self.word(word)?;
        let ends = self
            .first()
            .is_none_or(|byte| matches!(byte, b' ' | b'\t'..=b'\r' | b',' | b']' | b'}'));
        ends.then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, name: &str, expected: Option<Value>) {
        let attributes = members(json.as_bytes(), &[name.as_bytes().to_vec()]);
        assert_eq!(attributes.map(|mut values| values.remove(0)), expected, "{json}");
    }

    #[test]
    fn members_are_found() {
        let json =
            r#" {"a" : {"b":"}"}, "l":[1, [true], "x"], "t":"q\"\u0041\n", "n":null, "f":false, "num":-1.5e2 } "#;
        check(json, "num", Some(Value::Number(-150.0)));
        check(json, "t", Some(Value::Text(b"q\"u0041\n".to_vec())));
        check(json, "n", Some(Value::Null));
        check(json, "f", Some(Value::Number(0.0)));
        let list = vec![
            Value::Number(1.0),
            Value::List(vec![Value::Number(1.0)]),
            Value::Text(b"x".to_vec()),
        ];
        check(json, "l", Some(Value::List(list)));
        check(json, "a", None);
        check(json, "b", None);
    }

    #[test]
    fn what_is_no_json_has_no_members() {
        for json in [
            "",
            "7",
            "{",
            r#"{"a"#,
            r#"{"a":}"#,
            r#"{"a":truely}"#,
            r#"{"a":1-}"#,
            r#"{b:1,"a":1}"#,
            r#"{"\"#,
        ] {
            check(json, "a", None);
        }
        let nested = format!(r#"{{"a":{}1{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
        check(&nested, "a", None);
    }
}
