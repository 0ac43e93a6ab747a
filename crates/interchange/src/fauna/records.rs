//! The records of one file: one a line, or the elements of one array; compressed or not.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use crate::error::{Error, Result};
use crate::lines::{LINE_BYTES_MAX, Lines};

type Input = BufReader<Box<dyn Read>>;

pub enum Records {
    Lines(Lines<Input>),
    Elements(Elements<Input>),
}

impl Records {
    /// The first byte distinguishes lines from an array: `.json` is either.
    pub fn open(path: &Path) -> Result<Records> {
        let failed = |error: io::Error| Error::Source(format!("{}: {error}", path.display()));
        let file = File::open(path).map_err(failed)?;
        let input: Box<dyn Read> = match path.extension().is_some_and(|end| end == "gz") {
            true => Box::new(MultiGzDecoder::new(file)),
            false => Box::new(file),
        };
        let mut input = BufReader::with_capacity(1 << 20, input);
        Ok(match first_byte(&mut input).map_err(failed)? {
            Some(b'[') => Records::Elements(Elements::after_bracket(input)),
            _ => Records::Lines(Lines::new(input)),
        })
    }

    pub fn read(&mut self) -> Result<Option<Vec<u8>>> {
        match self {
            Records::Lines(lines) => lines.read(),
            Records::Elements(elements) => elements.read().map_err(|error| Error::Source(error.to_string())),
        }
    }

    /// Records that were read.
    pub fn count(&self) -> u64 {
        match self {
            Records::Lines(lines) => lines.count,
            Records::Elements(elements) => elements.count,
        }
    }

    /// Passes over what an earlier run has brought.
    pub fn skip_to(&mut self, count: u64) -> Result<()> {
        while self.count() < count && self.read()?.is_some() {}
        Ok(())
    }
}

/// Passes over white space.
fn first_byte(input: &mut impl BufRead) -> io::Result<Option<u8>> {
    loop {
        let bytes = input.fill_buf()?;
        if bytes.is_empty() {
            return Ok(None);
        }
        match bytes.iter().position(|byte| !byte.is_ascii_whitespace()) {
            Some(at) => {
                let byte = bytes[at];
                input.consume(at);
                return Ok(Some(byte));
            }
            None => {
                let length = bytes.len();
                input.consume(length);
            }
        }
    }
}

/// Finds where elements end; what they are is for others to read.
pub struct Elements<R> {
    input: R,
    count: u64,
    is_over: bool,
}

impl<R: BufRead> Elements<R> {
    /// The input is at the opening bracket of the array.
    fn after_bracket(mut input: R) -> Elements<R> {
        input.consume(1);
        Elements {
            input,
            count: 0,
            is_over: false,
        }
    }

    fn read(&mut self) -> io::Result<Option<Vec<u8>>> {
        if self.is_over {
            return Ok(None);
        }
        let (mut element, mut depth, mut in_text, mut is_escaped) = (Vec::new(), 0_usize, false, false);
        loop {
            let bytes = self.input.fill_buf()?;
            if bytes.is_empty() {
                return Err(self.fault("ends in the middle of its array"));
            }
            let end = bytes.iter().position(|&byte| {
                if in_text {
                    in_text = is_escaped || byte != b'"';
                    is_escaped = !is_escaped && byte == b'\\';
                    return false;
                }
                match byte {
                    b'"' => in_text = true,
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' if depth > 0 => depth -= 1,
                    b',' | b']' if depth == 0 => return true,
                    _ => {}
                }
                false
            });
            element.extend_from_slice(&bytes[..end.unwrap_or(bytes.len())]);
            let read = end.map_or(bytes.len(), |end| end + 1);
            self.is_over = end.is_some_and(|end| bytes[end] == b']');
            self.input.consume(read);
            if element.len() > LINE_BYTES_MAX {
                return Err(self.fault("has an element that is longer than any record"));
            }
            if end.is_none() {
                continue;
            }
            let text = element.trim_ascii();
            if text.is_empty() && self.is_over {
                return Ok(None);
            }
            self.count += 1;
            return Ok(Some(text.to_vec()));
        }
    }

    fn fault(&self, text: &str) -> io::Error {
        io::Error::other(format!("the file {text}, after {} records", self.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_found_with_any_content() {
        let read = |text: &str, capacity: usize| -> io::Result<Vec<String>> {
            let mut input = BufReader::with_capacity(capacity, text.as_bytes());
            assert_eq!(first_byte(&mut input)?, Some(b'['));
            let mut elements = Elements::after_bracket(input);
            let mut texts = Vec::new();
            while let Some(element) = elements.read()? {
                texts.push(String::from_utf8(element).unwrap());
            }
            Ok(texts)
        };
        let text = "[ {\"a\":[1,2],\"b\":\"],}\\\\\\\"\"} ,\n7,[[]] ]\n";
        // A buffer of one byte ends everywhere.
        for capacity in [1, 2, 7, 1000] {
            let input = text.to_owned();
            assert_eq!(
                read(&input, capacity).unwrap(),
                ["{\"a\":[1,2],\"b\":\"],}\\\\\\\"\"}", "7", "[[]]"]
            );
            assert_eq!(read("[]", capacity).unwrap(), [""; 0]);
            assert!(read("[{\"a\":1}", capacity).is_err());
        }
    }

    #[test]
    fn a_file_is_lines_or_an_array_compressed_or_not() {
        let folder = tempfile::tempdir().unwrap();
        let lines = b"{\"a\":1}\n{\"a\":2}\n".as_slice();
        let array = b" [{\"a\":1},{\"a\":2}]".as_slice();
        for (name, content) in [
            ("l.jsonl", lines),
            ("a.json", array),
            ("l.jsonl.gz", lines),
            ("a.json.gz", array),
        ] {
            let path = folder.path().join(name);
            let mut bytes = content.to_vec();
            if name.ends_with("gz") {
                let mut encoder = flate2::read::GzEncoder::new(content, flate2::Compression::fast());
                bytes.clear();
                encoder.read_to_end(&mut bytes).unwrap();
            }
            std::fs::write(&path, bytes).unwrap();
            let mut records = Records::open(&path).unwrap();
            records.skip_to(1).unwrap();
            assert_eq!(records.read().unwrap().unwrap(), b"{\"a\":2}", "{name}");
            assert_eq!(records.read().unwrap(), None);
        }
    }
}
