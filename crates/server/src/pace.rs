//! How slowly bytes may move before a transfer is given up.
//!
//! A timer that begins again with each byte bounds nothing: a peer that sends or takes one byte a minute keeps its
//! connection, and what is buffered for it, for ever. So a transfer has some time as a whole, and more of it only for
//! bytes that have moved.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};

/// A peer that takes its replies more slowly is cut off, once its timeout for a stall is over.
pub const OUTPUT_BYTES_PER_SECOND_MIN: u64 = 16 << 10;

/// `timeout` to begin with, and a second more for each `bytes_per_second` bytes that have moved.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub timeout: Duration,
    pub bytes_per_second: u64,
}

impl Pace {
    /// Until when a transfer that began at `started` may wait for the next byte.
    pub fn deadline(&self, started: Instant, moved_bytes: u64) -> Instant {
        let earned_ms = moved_bytes.saturating_mul(1000) / self.bytes_per_second;
        started + self.timeout + Duration::from_millis(earned_ms)
    }

    /// Writes all of `bytes`, at this pace and without a pause longer than its timeout.
    pub async fn write_all(&self, socket: &mut (impl AsyncWrite + Unpin), mut bytes: &[u8]) -> io::Result<()> {
        let started = Instant::now();
        let whole = bytes.len();
        while !bytes.is_empty() {
            let moved_bytes = (whole - bytes.len()) as u64;
            let deadline = self.deadline(started, moved_bytes).min(Instant::now() + self.timeout);
            match timeout_at(deadline, socket.write(bytes)).await?? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                count => bytes = &bytes[count..],
            }
        }
        // What encrypts keeps bytes of its own.
        let deadline = self.deadline(started, whole as u64).min(Instant::now() + self.timeout);
        timeout_at(deadline, socket.flush()).await?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    const PACE: Pace = Pace {
        timeout: Duration::from_secs(60),
        bytes_per_second: 1000,
    };

    /// How long a reader that takes `count` bytes each `every` is written to, and whether it got all 100,000.
    async fn read_in_steps(count: usize, every: Duration) -> (Duration, bool) {
        let (mut writer, mut reader) = tokio::io::duplex(count);
        let started = Instant::now();
        let writing = tokio::spawn(async move { PACE.write_all(&mut writer, &[0; 100_000]).await });
        let reading = tokio::spawn(async move {
            let mut taken = vec![0; count];
            loop {
                tokio::time::sleep(every).await;
                if !matches!(reader.read(&mut taken).await, Ok(1..)) {
                    break;
                }
            }
        });
        let is_whole = writing.await.unwrap().is_ok();
        let elapsed = started.elapsed();
        reading.abort();
        (elapsed, is_whole)
    }

    /// A stall of sixty seconds was all that was bounded: a reader of one byte each half minute held a reply for ever.
    #[tokio::test(start_paused = true)]
    async fn a_reader_that_trickles_is_given_up() {
        let (elapsed, is_whole) = read_in_steps(1, Duration::from_secs(30)).await;
        assert!(!is_whole && elapsed < Duration::from_secs(61), "{elapsed:?}");
        let (elapsed, is_whole) = read_in_steps(500, Duration::from_secs(1)).await;
        assert!(!is_whole && elapsed < Duration::from_secs(125), "{elapsed:?}");
        let (elapsed, is_whole) = read_in_steps(100_000, Duration::from_secs(100)).await;
        assert!(is_whole, "{elapsed:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_steady_reader_gets_everything_however_long_it_takes() {
        let (elapsed, is_whole) = read_in_steps(2000, Duration::from_secs(2)).await;
        assert!(is_whole && elapsed > Duration::from_secs(90), "{elapsed:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_stops_is_given_up_whatever_it_has_taken() {
        let (mut writer, mut reader) = tokio::io::duplex(90_000);
        let writing = tokio::spawn(async move { PACE.write_all(&mut writer, &[0; 1_000_000]).await });
        reader.read_exact(&mut [0; 80_000]).await.unwrap();
        let started = Instant::now();
        assert!(writing.await.unwrap().is_err());
        assert!(started.elapsed() <= Duration::from_secs(60));
    }
}
