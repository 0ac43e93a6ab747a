//! The slowest pace of a transfer before the server gives it up.
//!
//! A timer that restarts with each byte bounds nothing: a peer that sends or takes one byte a
//! minute keeps its connection, and its buffers, indefinitely. So a transfer has a total time,
//! extended only by moved bytes.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::task::yield_now;
use tokio::time::{Instant, timeout_at};

/// A peer that takes its replies more slowly is cut off, after its timeout for a stall.
pub const OUTPUT_BYTES_PER_SECOND_MIN: u64 = 16 << 10;

/// Upper bound on the bytes of one send call. A kernel without preemption copies a reply of
/// megabytes in one go, for a millisecond or two in which the thread serves no other connection.
const SENT_AT_ONCE_BYTES_MAX: usize = 128 << 10;

/// Writes all of `bytes`. The thread's other tasks have their turn in between.
pub async fn write_in_turns(socket: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    for (index, piece) in bytes.chunks(SENT_AT_ONCE_BYTES_MAX).enumerate() {
        if index > 0 {
            yield_now().await;
        }
        socket.write_all(piece).await?;
    }
    Ok(())
}

/// Returns the part of `bytes` to be sent next.
pub fn sent_at_once(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(SENT_AT_ONCE_BYTES_MAX)]
}

/// `timeout` initially, and a second more for each `bytes_per_second` moved bytes.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub timeout: Duration,
    pub bytes_per_second: u64,
}

impl Pace {
    /// The deadline for the next byte of a transfer since `started`.
    pub fn deadline(&self, started: Instant, moved_bytes: u64) -> Instant {
        let earned_ms = moved_bytes.saturating_mul(1000) / self.bytes_per_second;
        started + self.timeout + Duration::from_millis(earned_ms)
    }

    /// Writes all of `bytes`, at this pace and without a pause longer than its timeout. The
    /// thread's other tasks have their turn in between, and first: what a socket takes at once has
    /// been sent before.
    pub async fn write_all(&self, socket: &mut (impl AsyncWrite + Unpin), mut bytes: &[u8]) -> io::Result<()> {
        let started = Instant::now();
        let whole = bytes.len();
        while !bytes.is_empty() {
            yield_now().await;
            let moved_bytes = (whole - bytes.len()) as u64;
            let deadline = self.deadline(started, moved_bytes).min(Instant::now() + self.timeout);
            match timeout_at(deadline, socket.write(sent_at_once(bytes))).await?? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                count => bytes = &bytes[count..],
            }
        }
        // An encrypting transport keeps bytes of its own.
        let deadline = self.deadline(started, whole as u64).min(Instant::now() + self.timeout);
        timeout_at(deadline, socket.flush()).await?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::Pin;
    use std::task::{Context, Poll};
    use tokio::io::AsyncReadExt;

    const PACE: Pace = Pace {
        timeout: Duration::from_secs(60),
        bytes_per_second: 1000,
    };

    /// The time for which a reader that takes `count` bytes each `every` is written to, and true if
    /// it got all 100,000.
    async fn read_in_steps(count: usize, every: Duration) -> (Duration, bool) {
        let (mut writer, mut reader) = tokio::io::duplex(count);
        let started = Instant::now();
        let writing = tokio::spawn(async move { PACE.write_all(&mut writer, &[0; 100_000]).await });
        let reading = tokio::spawn(async move {
            let mut buffer = vec![0; count];
            loop {
                tokio::time::sleep(every).await;
                if !matches!(reader.read(&mut buffer).await, Ok(1..)) {
                    break;
                }
            }
        });
        let is_whole = writing.await.unwrap().is_ok();
        let elapsed = started.elapsed();
        reading.abort();
        (elapsed, is_whole)
    }

    /// Takes all that it is given, and notes how much that was and how often another task had its
    /// turn before.
    struct Taking {
        turns: std::rc::Rc<std::cell::Cell<usize>>,
        taken: Vec<(usize, usize)>,
    }

    impl AsyncWrite for Taking {
        fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            let turns = self.turns.get();
            self.taken.push((bytes.len(), turns));
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// Replies of megabytes held the thread for a millisecond and more.
    #[tokio::test]
    async fn others_have_their_turn_while_much_is_sent() {
        const BYTES: usize = 2 * SENT_AT_ONCE_BYTES_MAX + 1;
        let turns = std::rc::Rc::new(std::cell::Cell::new(0));
        let count = async {
            loop {
                turns.set(turns.get() + 1);
                yield_now().await;
            }
        };
        let socket = || Taking {
            turns: turns.clone(),
            taken: Vec::new(),
        };
        let (mut paced, mut plain) = (socket(), socket());
        let write = async {
            PACE.write_all(&mut paced, &[0; BYTES]).await.unwrap();
            write_in_turns(&mut plain, &[0; BYTES]).await.unwrap();
        };
        tokio::select! {
            biased;
            () = count => unreachable!("it never ends"),
            () = write => {}
        }
        for duration in [paced.taken, plain.taken] {
            let bytes: Vec<usize> = duration.iter().map(|(bytes, _)| *bytes).collect();
            assert_eq!(bytes, [SENT_AT_ONCE_BYTES_MAX, SENT_AT_ONCE_BYTES_MAX, 1]);
            assert!(duration.windows(2).all(|pair| pair[0].1 < pair[1].1), "{duration:?}");
        }
    }

    /// Only a stall of sixty seconds was bounded: a reader of one byte each half minute held a
    /// reply indefinitely.
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
    async fn a_reader_that_stops_is_dropped_at_any_progress() {
        let (mut writer, mut reader) = tokio::io::duplex(90_000);
        let writing = tokio::spawn(async move { PACE.write_all(&mut writer, &[0; 1_000_000]).await });
        reader.read_exact(&mut [0; 80_000]).await.unwrap();
        let started = Instant::now();
        assert!(writing.await.unwrap().is_err());
        assert!(started.elapsed() <= Duration::from_secs(60));
    }
}
