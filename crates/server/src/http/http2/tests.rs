//! A connection of HTTP/2 over a pipe in memory, in frames written here.

use quartet_engine::{Engine, EngineOptions};
use quartet_env::{FaultyDisk, ManualClock};
use quartet_tenancy::Partitions;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf};

use super::*;
use crate::connections::turns::ThreadTurns;
use crate::http::framing::HTTP2_PREFACE;
use crate::http::{Credential, IDLE_TIMEOUT, STRANGER_IDLE_TIMEOUT};
use crate::limits::unauthenticated_input::StrangerBytes;

const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
const PING: [u8; 17] = [0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
const GO_AWAY: u8 = 7;

/// Takes every credential for a right one.
struct Welcoming;

impl HttpLayer for Welcoming {
    fn body_bytes_max(&self) -> usize {
        0
    }

    fn answer(&self, head: &Head<'_>, _body: Option<&[u8]>) -> Answer {
        let mut answer = Answer::settled(200, "");
        if head.has("authorization") {
            answer.credential = Credential::Right;
        }
        answer
    }

    fn judge_head(&self, _head: &Head<'_>) -> HeadShows {
        HeadShows::Name
    }

    fn answer_busy(&self, _head: &Head<'_>) -> Answer {
        Answer::settled(503, "")
    }
}

/// A request of stream 1 without a body: `:method: GET`, `:scheme: http`, `:path: /` and perhaps
/// `authorization: x` (RFC 7541, appendix A has the numbers).
fn request(shows_credential: bool) -> Vec<u8> {
    let mut headers = vec![0x82, 0x86, 0x84];
    if shows_credential {
        headers.extend_from_slice(&[0x0f, 0x08, 1, b'x']);
    }
    let mut frame = vec![0, 0, headers.len() as u8, 1, 5, 0, 0, 0, 1];
    frame.extend_from_slice(&headers);
    frame
}

/// Returns the time that the server keeps a connection which sends this, followed by a ping each
/// second without end, and acknowledges nothing; and the types of the received frames. The server
/// stops after `stops`, if that is given.
fn kept_for(said: &[u8], stops: Option<Duration>) -> (Duration, Vec<u8>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let failure = Box::new(|error: &_| panic!("the log failed: {error}"));
        let (disk, clock) = (Arc::new(FaultyDisk::new()), Arc::new(ManualClock::new(1)));
        let engine = Engine::open(disk, clock, EngineOptions::default(), failure, &mut |_| {}).unwrap();
        let partitions = Arc::new(Partitions::new(vec![Arc::new(engine)]));
        let waiters = ThreadWaiters::start(&partitions, &ThreadTurns::default());
        let (client, server) = tokio::io::duplex(1 << 16);
        let (stop, stopped) = watch::channel(false);
        let peer = Peer::for_test(StrangerBytes::new());
        let serving = serve(
            server,
            HTTP2_PREFACE.to_vec(),
            Arc::new(Welcoming),
            peer,
            waiters.clone(),
            stopped,
        );
        let serving = tokio::spawn(serving);
        let started = Instant::now();
        let (mut reader, mut writer) = tokio::io::split(client);
        writer.write_all(&[&SETTINGS, said].concat()).await.unwrap();
        let pinging = tokio::spawn(async move {
            while writer.write_all(&PING).await.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        let stopping = tokio::spawn(async move {
            match stops {
                Some(stops) => tokio::time::sleep(stops).await,
                None => std::future::pending().await,
            }
            stop.send_replace(true);
            stop.closed().await;
        });
        let types = frame_types(&mut reader).await;
        let elapsed = started.elapsed();
        serving.await.unwrap();
        pinging.abort();
        stopping.abort();
        waiters.stop();
        (elapsed, types)
    })
}

/// Returns the types of all frames up to the end of the connection.
async fn frame_types(reader: &mut ReadHalf<DuplexStream>) -> Vec<u8> {
    let mut types = Vec::new();
    let mut head = [0; 9];
    while reader.read_exact(&mut head).await.is_ok() {
        types.push(head[3]);
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        reader.read_exact(&mut vec![0; length as usize]).await.unwrap();
    }
    types
}

/// Connections of HTTP/2 had no limit on silence, and pings keep a connection busy without a
/// request.
#[test]
fn pings_do_not_keep_a_connection() {
    for (said, shortest) in [
        (Vec::new(), STRANGER_IDLE_TIMEOUT),
        (request(false), STRANGER_IDLE_TIMEOUT),
        (request(true), IDLE_TIMEOUT),
    ] {
        let (duration, types) = kept_for(&said, None);
        assert!(
            shortest <= duration && duration <= 2 * shortest + IDLE_SLACK,
            "{duration:?} {shortest:?}"
        );
        assert!(types.contains(&GO_AWAY), "the peer is told: {types:?}");
    }
}

/// A client that left the server's last PING without an answer held the stop of its layers for a
/// minute: a home that had handed over was no successor meanwhile, and its command failed.
#[test]
fn a_peer_that_acknowledges_nothing_does_not_hold_a_stop() {
    let stops = Duration::from_secs(2);
    for said in [Vec::new(), request(true)] {
        let (kept, types) = kept_for(&said, Some(stops));
        assert!(stops <= kept && kept <= stops + 4 * FAREWELL_TIMEOUT, "{kept:?}");
        assert!(types.contains(&GO_AWAY), "the peer is told: {types:?}");
    }
}

/// Slack between the server's timeout and the peer's; and the first turn of a clock that starts
/// before a credential.
const IDLE_SLACK: Duration = Duration::from_secs(60);
