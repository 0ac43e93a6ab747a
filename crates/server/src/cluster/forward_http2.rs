//! A connection of HTTP/2 that is passed on to the home, frame by frame.
//!
//! The home answers; this node only knows which streams are open. With that it ends the connection
//! so that a client knows the outcome of each stream (`http::http2::frames` has why it must):
//!
//! | end                                   | GOAWAY                                              |
//! |---------------------------------------|-----------------------------------------------------|
//! | no home, or this node ends            | no error, last stream 0: nothing was executed       |
//! | the home ends properly                | the home's                                          |
//! | this node ends, with streams under way| no error, last stream: the newest; then the answers |
//! | the home is lost                      | internal error, if a stream has no answer           |
//!
//! The connection is reset if an end falls within a long frame, or if the client reads nothing.

use std::collections::BTreeSet;
use std::io;
use std::pin::pin;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, sleep_until, timeout};

use crate::connections::stream::end_as_usual;
use crate::http::framing::HTTP2_PREFACE;
use crate::http::http2::frames::{
    ANY_STREAM, DATA, END_STREAM, Frame, Frames, HEADERS, RST_STREAM, Reason, SETTINGS, goaway,
};

/// Time limit for a client to read what is written to it.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(30);
/// Time that a node waits before its end for the answers to open streams.
const LAST_ANSWERS: Duration = Duration::from_millis(1_200);
/// Time for reading from a client after the report of the end: bytes on their way would reset
/// the connection.
const LINGER: Duration = Duration::from_millis(500);
const BUFFER_BYTES: usize = 16 << 10;

/// The streams of a connection.
struct Streams {
    /// Streams that the home has received and has not answered completely.
    open: BTreeSet<u32>,
    /// The newest that the home has; 0: none.
    newest: u32,
    /// The last stream in the newest GOAWAY.
    last_said: u32,
    /// Streams after the newest are left out.
    are_all: bool,
}

impl Default for Streams {
    fn default() -> Streams {
        Streams {
            open: BTreeSet::new(),
            newest: 0,
            last_said: ANY_STREAM,
            are_all: false,
        }
    }
}

impl Streams {
    /// Notes a frame of the client's. False: the home must not get it.
    fn note_asked(&mut self, frame: Frame) -> bool {
        if self.are_all && frame.stream > self.newest {
            return false;
        }
        match frame.kind {
            HEADERS if frame.stream > self.newest => {
                self.newest = frame.stream;
                self.open.insert(frame.stream);
            }
            RST_STREAM => drop(self.open.remove(&frame.stream)),
            _ => {}
        }
        true
    }

    fn note_answered(&mut self, frame: Frame, content: &[u8]) {
        let is_last = match frame.kind {
            HEADERS | DATA => frame.flags & END_STREAM != 0,
            kind => kind == RST_STREAM,
        };
        if is_last {
            self.open.remove(&frame.stream);
        }
        if let Some(last) = frame.last_stream(content) {
            self.last_said = self.last_said.min(last);
            // The client knows that the others were not executed.
            self.open.retain(|stream| *stream <= last);
        }
    }

    /// The GOAWAY for the received streams; the home gets no other after it.
    fn last(&mut self, reason: Reason) -> [u8; 17] {
        self.are_all = true;
        self.last_said = self.last_said.min(self.newest);
        goaway(self.last_said, reason)
    }
}

/// Reports to a client that none of its streams was executed.
pub async fn refuse(mut socket: impl AsyncRead + AsyncWrite + Unpin + 'static) -> io::Result<()> {
    let said = [&SETTINGS[..], &goaway(0, Reason::NoError)].concat();
    write(&mut socket, &said).await?;
    end(socket).await
}

/// Passes frames both ways until the home's side ends, the home is `lost`, or this node is `over`.
/// `seen` was received before.
pub async fn pass_on(
    mut socket: impl AsyncRead + AsyncWrite + Unpin + 'static,
    seen: &[u8],
    home: impl AsyncRead + AsyncWrite,
    lost: impl Future<Output = ()>,
    over: impl Future<Output = ()>,
) -> io::Result<()> {
    {
        let streams = Mutex::default();
        let (mut from_client, mut to_client) = tokio::io::split(&mut socket);
        let (mut from_home, mut to_home) = tokio::io::split(home);
        let asking = ask(&mut from_client, &mut to_home, seen, &streams);
        let answering = answer(&mut from_home, &mut to_client, &streams, lost, over);
        let (mut asking, mut answering) = (pin!(asking), pin!(answering));
        tokio::select! {
            answered = &mut answering => answered?,
            asked = &mut asking => {
                asked?;
                answering.await?;
            }
        }
    }
    end(socket).await
}

/// Ends once the client has no more frames, or the home takes no more.
async fn ask(
    from_client: &mut (impl AsyncRead + Unpin),
    to_home: &mut (impl AsyncWrite + Unpin),
    seen: &[u8],
    streams: &Mutex<Streams>,
) -> io::Result<()> {
    let (mut frames, mut taken) = (Frames::behind(HTTP2_PREFACE.len()), Vec::new());
    frames.received.extend_from_slice(seen);
    loop {
        frames.take(&mut taken, |frame, _| streams.lock().note_asked(frame));
        if to_home.write_all(&taken).await.is_err() || to_home.flush().await.is_err() {
            // The bytes that it sent before are still to be read.
            return Ok(());
        }
        taken.clear();
        frames.received.reserve(BUFFER_BYTES);
        if from_client.read_buf(&mut frames.received).await? == 0 {
            // The home may have closed the connection.
            let _ = to_home.shutdown().await;
            return Ok(());
        }
    }
}

/// Ends once every answer has been written to the client. Errors: a write to the client fails.
async fn answer(
    from_home: &mut (impl AsyncRead + Unpin),
    to_client: &mut (impl AsyncWrite + Unpin),
    streams: &Mutex<Streams>,
    lost: impl Future<Output = ()>,
    over: impl Future<Output = ()>,
) -> io::Result<()> {
    let (mut frames, mut taken, mut has_begun) = (Frames::default(), Vec::new(), false);
    let (mut lost, mut over) = (pin!(lost), pin!(over));
    let (mut until, mut has_said_last) = (None, false);
    while until.is_none() || !frames.are_whole() || !streams.lock().open.is_empty() {
        if until.is_some() && !has_said_last && has_begun && frames.are_whole() {
            has_said_last = true;
            let last = streams.lock().last(Reason::NoError);
            write(to_client, &last).await?;
        }
        frames.received.reserve(BUFFER_BYTES);
        let limit = async {
            match until {
                Some(until) => sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        let count = tokio::select! {
            read = from_home.read_buf(&mut frames.received) => read.unwrap_or(0),
            () = &mut lost => 0,
            () = limit => 0,
            () = &mut over, if until.is_none() => {
                until = Some(Instant::now() + LAST_ANSWERS);
                continue;
            }
        };
        if count == 0 {
            break;
        }
        frames.take(&mut taken, |frame, content| {
            streams.lock().note_answered(frame, content);
            true
        });
        write(to_client, &taken).await?;
        has_begun |= !taken.is_empty();
        taken.clear();
    }
    if !frames.are_whole() {
        return Err(io::ErrorKind::ConnectionReset.into());
    }
    let mut said = if has_begun { Vec::new() } else { SETTINGS.to_vec() };
    {
        let mut streams = streams.lock();
        let reason = match streams.open.is_empty() {
            true => Reason::NoError,
            false => Reason::InternalError,
        };
        said.extend_from_slice(&streams.last(reason));
    }
    // A client with all answers of the home may have closed the connection.
    let _ = write(to_client, &said).await;
    Ok(())
}

async fn write(to_client: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    let writing = async {
        to_client.write_all(bytes).await?;
        to_client.flush().await
    };
    timeout(OUTPUT_TIMEOUT, writing).await?
}

/// Ends the connection of a client that knows the outcome of each stream.
async fn end(mut socket: impl AsyncRead + AsyncWrite + Unpin + 'static) -> io::Result<()> {
    end_as_usual(&socket);
    socket.shutdown().await?;
    let mut discarded = vec![0; BUFFER_BYTES];
    let drained = async { while let Ok(1..) = socket.read(&mut discarded).await {} };
    let _ = timeout(LINGER, drained).await;
    Ok(())
}
