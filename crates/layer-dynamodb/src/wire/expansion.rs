//! The bytes of a file that is imported, decompressed.
//!
//! The file is untrusted: it may expand without end, contain an endless record, or be damaged. So
//! each read checks whether the import is still wanted, and a file that expands far more than items
//! do is refused.

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Read};
use std::rc::Rc;

use flate2::read::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Largest ratio of a file's expanded size to its own, beside a size that is always allowed.
const EXPANSION_MAX: u64 = 200;
const EXPANDED_BYTES_ALWAYS: u64 = 16 << 20;
/// Memory limit of the Zstandard decoder; RFC 8878 requires this much, and no level below `--ultra`
/// uses more.
const WINDOW_BYTES_MAX: u64 = 8 << 20;

/// The content of a file, compressed as an import's InputCompressionType says. It fails once
/// `may_go_on` is false.
pub fn expand<'w>(
    file: Box<dyn Read + Send>,
    compression: &str,
    may_go_on: &'w dyn Fn() -> bool,
) -> Box<dyn Read + 'w> {
    let compressed_bytes = Rc::new(Cell::new(0));
    let file = Counted {
        inner: file,
        bytes: compressed_bytes.clone(),
    };
    let inner: Box<dyn Read> = match compression {
        "GZIP" => Box::new(MultiGzDecoder::new(file)),
        "ZSTD" => Box::new(Frames::new(file)),
        _ => Box::new(file),
    };
    Box::new(Bounded {
        inner,
        compressed_bytes,
        bytes: 0,
        may_go_on,
    })
}

fn invalid(text: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

struct Counted<R> {
    inner: R,
    bytes: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.bytes.set(self.bytes.get() + count as u64);
        Ok(count)
    }
}

struct Bounded<'w> {
    inner: Box<dyn Read>,
    compressed_bytes: Rc<Cell<u64>>,
    bytes: u64,
    may_go_on: &'w dyn Fn() -> bool,
}

impl Read for Bounded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !(self.may_go_on)() {
            return Err(io::Error::other("The import was interrupted"));
        }
        let count = self.inner.read(buffer).map_err(|error| match error.kind() {
            // The decoders' errors for a damaged file.
            io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof => invalid(error),
            _ => error,
        })?;
        self.bytes += count as u64;
        let allowed = self.compressed_bytes.get().saturating_mul(EXPANSION_MAX);
        match self.bytes > allowed.max(EXPANDED_BYTES_ALWAYS) {
            true => Err(invalid(format!(
                "A file expands to more than {EXPANSION_MAX} times its size"
            ))),
            false => Ok(count),
        }
    }
}

/// The frames of a file of Zstandard, one after another.
struct Frames<R> {
    file: BufReader<R>,
    frame: FrameDecoder,
}

impl<R: Read> Frames<R> {
    fn new(file: R) -> Frames<R> {
        let mut frame = FrameDecoder::new();
        frame.set_max_window_size(WINDOW_BYTES_MAX);
        Frames {
            file: BufReader::new(file),
            frame,
        }
    }

    fn begin_frame(&mut self) -> io::Result<()> {
        match self.frame.init(&mut self.file) {
            Ok(()) => Ok(()),
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                let skipped = io::copy(&mut self.file.by_ref().take(length.into()), &mut io::sink())?;
                match skipped == u64::from(length) {
                    true => Ok(()),
                    false => Err(io::ErrorKind::UnexpectedEof.into()),
                }
            }
            Err(error) => Err(invalid(error.to_string())),
        }
    }

    /// Refuses a frame whose content is not what its checksum says.
    fn check_frame(&self) -> io::Result<()> {
        let sums = self
            .frame
            .get_checksum_from_data()
            .zip(self.frame.get_calculated_checksum());
        match sums.is_none_or(|(expected, actual)| expected == actual) {
            true => Ok(()),
            false => Err(invalid("A file is damaged: the checksum of a Zstandard frame is wrong")),
        }
    }
}

impl<R: Read> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if buffer.is_empty() || self.frame.can_collect() > 0 {
                return self.frame.read(buffer);
            }
            if !self.frame.is_finished() {
                let strategy = BlockDecodingStrategy::UptoBlocks(1);
                let decoded = self.frame.decode_blocks(&mut self.file, strategy);
                decoded.map_err(|error| invalid(error.to_string()))?;
                continue;
            }
            self.check_frame()?;
            if self.file.fill_buf()?.is_empty() {
                return Ok(0);
            }
            self.begin_frame()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Read, Write};

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::{EXPANDED_BYTES_ALWAYS, expand};

    fn gzip(content: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(content: &[u8]) -> Vec<u8> {
        compress_to_vec(content, CompressionLevel::Fastest)
    }

    /// The readable bytes, and the error at their end.
    fn read(file: Vec<u8>, compression: &str) -> (Vec<u8>, Option<String>) {
        let mut content = Vec::new();
        let ended = expand(Box::new(Cursor::new(file)), compression, &|| true).read_to_end(&mut content);
        (content, ended.err().map(|error| error.to_string()))
    }

    #[test]
    fn files_of_several_members_or_frames_are_read_whole() {
        let (first, two) = (b"some lines\n".repeat(40_000), b"and others".to_vec());
        let whole = [first.as_slice(), &two].concat();
        let skippable = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
        for (compression, file) in [
            ("NONE", whole.clone()),
            ("GZIP", [gzip(&first), gzip(&two)].concat()),
            (
                "ZSTD",
                [zstd(&first), skippable.clone(), zstd(b""), zstd(&two), skippable].concat(),
            ),
        ] {
            assert_eq!(read(file, compression), (whole.clone(), None), "{compression}");
        }
        for compression in ["GZIP", "ZSTD", "NONE"] {
            assert_eq!(read(Vec::new(), compression).0, b"");
        }
    }

    #[test]
    fn damage_is_an_error() {
        let content = b"lines that are not all the same 0123456789\n".repeat(1000);
        for (compression, file) in [("GZIP", gzip(&content)), ("ZSTD", zstd(&content))] {
            for position in (0..file.len()).step_by(7) {
                let mut damaged = file.clone();
                damaged[position] ^= 0x10;
                let (read, error) = read(damaged, compression);
                // Names and times in a header say nothing of the content.
                assert!(error.is_some() || read == content, "{compression} {position}");
            }
            let cut = file[..file.len() / 2].to_vec();
            assert!(read(cut, compression).1.is_some(), "{compression}");
        }
        assert!(read(b"no frame at all".to_vec(), "ZSTD").1.is_some());
    }

    #[test]
    fn a_window_is_not_allocated_as_announced() {
        // A frame header without content size that announces a window of a terabyte.
        let header = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xf0];
        let (content, error) = read(header.to_vec(), "ZSTD");
        assert!(content.is_empty() && error.is_some_and(|error| error.to_lowercase().contains("window")));
    }

    #[test]
    fn bombs_are_refused_before_they_expand() {
        let content = vec![b'\n'; EXPANDED_BYTES_ALWAYS as usize + (8 << 20)];
        for (compression, file) in [("GZIP", gzip(&content)), ("ZSTD", zstd(&content))] {
            assert!((file.len() as u64) < EXPANDED_BYTES_ALWAYS / 400, "{compression}");
            let (read, error) = read(file, compression);
            assert!(read.len() as u64 <= EXPANDED_BYTES_ALWAYS + (1 << 20));
            assert!(
                error.is_some_and(|error| error.contains("times its size")),
                "{compression}"
            );
        }
        assert_eq!(read(content, "NONE").1, None);
    }
}
