//! Records of a file, one a line.

use std::io::{self, BufRead, BufReader, Read};

use crate::error::{Result, source};

/// A longer line is no record of any of the databases.
pub const LINE_BYTES_MAX: usize = 64 << 20;

pub struct Lines<R> {
    reader: BufReader<R>,
    /// Lines that were read.
    pub count: u64,
}

impl<R: Read> Lines<R> {
    pub fn new(reader: R) -> Lines<R> {
        Lines {
            reader: BufReader::with_capacity(1 << 20, reader),
            count: 0,
        }
    }

    /// The next line, without its end. Empty lines are none.
    pub fn read(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            let mut line = Vec::new();
            let limit = LINE_BYTES_MAX as u64 + 1;
            let read = (&mut self.reader).take(limit).read_until(b'\n', &mut line);
            if read.map_err(source)? == 0 {
                return Ok(None);
            }
            if line.len() > LINE_BYTES_MAX {
                let long = io::Error::other(format!("line {} is longer than any record", self.count + 1));
                return Err(source(long));
            }
            self.count += 1;
            let text = line.trim_ascii();
            if !text.is_empty() {
                return Ok(Some(text.to_vec()));
            }
        }
    }

    /// Passes over what an earlier run has brought.
    pub fn skip_to(&mut self, count: u64) -> Result<()> {
        while self.count < count && self.read()?.is_some() {}
        Ok(())
    }
}

/// A line as a report shows it.
pub fn shown(line: &[u8]) -> String {
    const BYTES_MAX: usize = 200;
    let dots = if line.len() > BYTES_MAX { "..." } else { "" };
    format!("{}{dots}", String::from_utf8_lossy(&line[..line.len().min(BYTES_MAX)]))
}
