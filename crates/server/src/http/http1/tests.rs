//! A connection over a pipe in memory, to a layer that echoes its requests.

use std::net::IpAddr;

use quartet_engine::{Arrival, Engine, EngineOptions, Memory, PartitionId, Reserved};
use quartet_env::{FaultyDisk, ManualClock};
use quartet_tenancy::Partitions;
use tokio::io::DuplexStream;

use super::*;
use crate::connections::turns::ThreadTurns;
use crate::http::{Credential, Dispatch, Head, IDLE_TIMEOUT, ResponseStream, STRANGER_IDLE_TIMEOUT, Wake};
use crate::limits::unauthenticated_input::StrangerBytes;

fn wrong() -> Answer {
    let mut answer = Answer::settled(401, "who?");
    answer.credential = Credential::Wrong;
    answer
}

const BODY_BYTES_MAX: usize = 60_000;

/// Size of the answer to `/large`.
const LARGE_BYTES: usize = 1 << 20;

/// Answers with the method, the target and the body, or much; takes its time for `/slow`, is busy
/// for `/busy`, and follows `/stream`.
struct Telling;

impl HttpLayer for Telling {
    fn body_bytes_max(&self) -> usize {
        BODY_BYTES_MAX
    }

    fn answer(&self, head: &Head<'_>, body: Option<&[u8]>) -> Answer {
        let body = body.map_or("too long".into(), String::from_utf8_lossy);
        let mut answer = Answer::settled(200, format!("[{} {} {body}]", head.method, head.target));
        if head.header("authorization") == Some("right") {
            answer.credential = Credential::Right;
        }
        answer
    }

    fn judge_head(&self, head: &Head<'_>) -> HeadShows {
        match head.header("authorization") {
            Some("right") => HeadShows::Credential,
            Some(_) => HeadShows::Answer(wrong()),
            None => HeadShows::Name,
        }
    }

    fn refuse_stranger(&self, head: &Head<'_>) -> Option<Answer> {
        (head.target == "/guarded" && head.header("authorization") != Some("right")).then(wrong)
    }

    fn dispatch(&self, head: &Head<'_>, body: Option<&[u8]>) -> Dispatch {
        match head.target {
            "/slow" | "/stream" => Dispatch::Later,
            "/rest" => {
                let answer = self.answer(head, body);
                Dispatch::Unfinished(None, Box::new(move || answer))
            }
            "/busy" => Dispatch::Busy(PartitionId(0)),
            "/large" => Dispatch::Answered(Answer::settled(200, "x".repeat(LARGE_BYTES))),
            _ => Dispatch::Answered(self.answer(head, body)),
        }
    }

    fn answer_busy(&self, head: &Head<'_>) -> Answer {
        Answer::settled(503, format!("busy with {}", head.target))
    }

    fn follow(&self, head: &Head<'_>, _body: Option<&[u8]>, _wake: Wake) -> Option<ResponseStream> {
        (head.target == "/stream").then(|| Ok((200, Headers::new(), Box::new(Counting(0)) as Box<dyn Follower>)))
    }
}

/// The paused clock advances only for timers.
#[test]
fn wrong_credentials_are_delayed_more_each_time_and_valid_credentials_are_not() {
    let peer = Peer::for_test(StrangerBytes::new());
    let ask = |credential: &'static str| {
        let request = format!("POST / HTTP/1.1\r\nauthorization: {credential}\r\ncontent-length: 50000\r\n\r\n");
        with_connection_of(peer.clone(), async move |mut client: DuplexStream, _stop| {
            let started = Instant::now();
            client.write_all(request.as_bytes()).await.unwrap();
            if credential == "right" {
                client.write_all(&[b'x'; 50_000]).await.unwrap();
            }
            let mut first = [0; 12];
            client.read_exact(&mut first).await.unwrap();
            (started.elapsed(), String::from_utf8(first.to_vec()).unwrap())
        })
    };
    let waits: Vec<Duration> = (0..16).map(|_| ask("wrong").0).collect();
    assert!(
        waits[7] < Duration::from_millis(5) && waits[15] > Duration::from_secs(1),
        "{waits:?}"
    );
    assert!(waits.is_sorted_by_key(|wait| wait.as_millis() / 5), "{waits:?}");
    let (wait, answer) = ask("right");
    assert!(
        wait < Duration::from_millis(5) && answer == "HTTP/1.1 200",
        "{wait:?} {answer}"
    );
}

/// Sends two parts, then ends.
struct Counting(u32);

impl Follower for Counting {
    fn next(&mut self) -> Following {
        self.0 += 1;
        match self.0 {
            1 | 3 => Following::Send(format!("part {}", self.0).into_bytes()),
            2 => Following::Wait(Dependency::ZERO),
            _ => Following::End,
        }
    }
}

/// Runs `talk` against a connection, with a paused clock that advances when all tasks are idle.
fn with_connection<T>(talk: impl AsyncFnOnce(DuplexStream, watch::Sender<bool>) -> T) -> T {
    with_connection_of(Peer::for_test(StrangerBytes::new()), talk)
}

fn with_connection_of<T>(peer: Peer, talk: impl AsyncFnOnce(DuplexStream, watch::Sender<bool>) -> T) -> T {
    with_pipe(1 << 16, peer, talk)
}

/// The same; the pipe takes `bytes` before they are read.
fn with_pipe<T>(bytes: usize, peer: Peer, talk: impl AsyncFnOnce(DuplexStream, watch::Sender<bool>) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let clock = Arc::new(ManualClock::new(1));
        let failure = Box::new(|error: &_| panic!("the log failed: {error}"));
        let disk = Arc::new(FaultyDisk::new());
        let engine = Engine::open(disk, clock, EngineOptions::default(), failure, &mut |_| {}).unwrap();
        let partitions = Arc::new(Partitions::new(vec![Arc::new(engine)]));
        let waiters = ThreadWaiters::start(&partitions, &ThreadTurns::default());
        let (client, server) = tokio::io::duplex(bytes);
        let (stop, stopped) = watch::channel(false);
        let connection = Connection::new(server, Arc::new(Telling), peer, waiters.clone(), stopped);
        let serving = tokio::spawn(async move { connection.run().await.map(drop) });
        let replies = talk(client, stop).await;
        let _ = serving.await.unwrap();
        waiters.stop();
        replies
    })
}

/// The first two pieces left together, so others waited twice as long.
#[test]
fn an_answer_leaves_in_pieces_from_the_first_on() {
    let peer = Peer::for_test(StrangerBytes::new());
    let pieces = with_pipe(2 * LARGE_BYTES, peer, async |mut client, _stop| {
        client.write_all(b"GET /large HTTP/1.1\r\n\r\n").await.unwrap();
        let (mut pieces, mut buffer) = (Vec::new(), vec![0; 2 * LARGE_BYTES]);
        while pieces.iter().sum::<usize>() < LARGE_BYTES {
            pieces.push(client.read(&mut buffer).await.unwrap());
        }
        pieces
    });
    assert!(
        pieces.len() >= 8 && pieces.iter().all(|bytes| *bytes == pieces[0]),
        "{pieces:?}"
    );
}

/// All output for `pieces`, which are sent one after the other, without the dates.
fn exchange(pieces: &[&[u8]]) -> String {
    with_connection(async |mut client, _stop| {
        for piece in pieces {
            client.write_all(piece).await.unwrap();
            tokio::task::yield_now().await;
        }
        client.shutdown().await.unwrap();
        let mut answers = String::new();
        client.read_to_string(&mut answers).await.unwrap();
        let lines = answers
            .split_inclusive("\r\n")
            .filter(|line| !line.starts_with("date: "));
        lines.collect()
    })
}

/// A whole answer of the layer.
fn told(text: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}", text.len())
}

fn refused(status: &str) -> String {
    format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
}

#[test]
fn requests_may_be_cut_anywhere() {
    let requests =
        b"\r\nPOST /a HTTP/1.1\r\nContent-Length: 5\r\n\r\nhelloPOST /b HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n\
        3\r\nabc\r\n0\r\n\r\nGET /c HTTP/1.1\r\n\r\n";
    let expected = told("[POST /a hello]") + &told("[POST /b abc]") + &told("[GET /c ]");
    assert_eq!(exchange(&[requests]), expected);
    for cut in 1..requests.len() {
        let (first, second) = requests.split_at(cut);
        assert_eq!(exchange(&[first, second]), expected, "cut at {cut}");
    }
    let bytes: Vec<&[u8]> = requests.chunks(1).collect();
    assert_eq!(exchange(&bytes), expected);
}

/// It was parsed again for every received byte.
#[test]
fn a_head_in_pieces_is_parsed_once_a_line() {
    let head = b"GET / HTTP/1.1\r\nfirst: 1\r\nsecond: 22222222\r\n\r\n";
    let lines = head.iter().filter(|&&byte| byte == b'\n').count();
    let mut unfinished = UnfinishedHead::default();
    let mut parsed = (1..=head.len()).filter(|&end| unfinished.may_be_whole(&head[..end]));
    assert_eq!((parsed.next(), parsed.next_back()), (Some(1), Some(head.len())));
    assert_eq!(2 + parsed.count(), 1 + lines);
}

#[test]
fn a_connection_is_kept_as_long_as_the_peer_wants() {
    let closing = told("[GET / ]").replace("content-length", "connection: close\r\ncontent-length");
    let request = b"GET / HTTP/1.1\r\nConnection: close\r\n\r\nGET /lost HTTP/1.1\r\n\r\n";
    assert_eq!(exchange(&[request]), closing);
    assert_eq!(
        exchange(&[b"GET / HTTP/1.0\r\n\r\nGET /lost HTTP/1.0\r\n\r\n"]),
        closing
    );
    let head = told("[GET / ]").replace("content-length", "connection: keep-alive\r\ncontent-length");
    let request = b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
    assert_eq!(exchange(&[request, request]), head.repeat(2));
}

/// The layer does not see the body of an unauthenticated peer whose credential is wrong.
#[test]
fn an_unauthenticated_peer_is_refused_before_its_request_is_answered() {
    let guarded = |credential: &str| {
        format!("POST /guarded HTTP/1.1\r\nauthorization: {credential}\r\ncontent-length: 2\r\n\r\nhi")
    };
    let (right, other) = (guarded("right"), guarded("other"));
    let refusal = "HTTP/1.1 401 Unauthorized\r\ncontent-length: 4\r\n\r\nwho?";
    let answer = told("[POST /guarded hi]");
    assert_eq!(
        exchange(&[other.as_bytes(), right.as_bytes()]),
        refusal.to_owned() + &answer
    );
    // An authenticated peer is no longer limited.
    assert_eq!(
        exchange(&[right.as_bytes(), other.as_bytes()]),
        answer.clone() + &answer
    );
}

#[test]
fn a_head_request_is_answered_without_body() {
    assert_eq!(
        exchange(&[b"HEAD /h HTTP/1.1\r\n\r\n"]),
        "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n"
    );
}

#[test]
fn a_client_that_waits_for_a_continue_gets_it() {
    let request = b"POST / HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n";
    let expected = "HTTP/1.1 100 Continue\r\n\r\n".to_owned() + &told("[POST / hi]");
    assert_eq!(exchange(&[request, b"hi"]), expected);
}

#[test]
fn bodies_that_are_too_long_are_read_and_refused() {
    let bytes = BODY_BYTES_MAX + 1;
    let long = "x".repeat(bytes);
    let whole = format!("POST / HTTP/1.1\r\nContent-Length: {bytes}\r\n\r\n{long}GET /next HTTP/1.1\r\n\r\n");
    let expected = told("[POST / too long]") + &told("[GET /next ]");
    assert_eq!(exchange(&[whole.as_bytes()]), expected);
    let (first, second) = whole.as_bytes().split_at(60);
    assert_eq!(exchange(&[first, second]), expected);
}

#[test]
fn an_unreadable_request_ends_the_connection() {
    let good = "GET / HTTP/1.1\r\n\r\n";
    for (bad, status) in [
        ("nonsense\r\n\r\n", "400 Bad Request"),
        ("PRI * HTTP/1.1\r\nx\r\n\r\n", "400 Bad Request"),
        (
            "POST / HTTP/1.1\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            "400 Bad Request",
        ),
        (
            "POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 1\r\n\r\nx",
            "400 Bad Request",
        ),
        (
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nnonsense\r\n",
            "400 Bad Request",
        ),
        (
            "POST / HTTP/1.1\r\ntransfer-encoding: gzip\r\n\r\n",
            "501 Not Implemented",
        ),
    ] {
        let input = format!("{good}{bad}{good}");
        let expected = told("[GET / ]") + &refused(status);
        assert_eq!(exchange(&[input.as_bytes()]), expected, "{bad:?}");
    }
}

#[test]
fn an_answer_may_continue() {
    let request = b"POST /stream HTTP/1.1\r\n\r\nGET /next HTTP/1.1\r\n\r\n";
    let chunks = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n6\r\npart 1\r\n6\r\npart 3\r\n0\r\n\r\n";
    assert_eq!(exchange(&[request]), chunks.to_owned() + &told("[GET /next ]"));
    let old = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\npart 1part 3";
    assert_eq!(
        exchange(&[b"POST /stream HTTP/1.0\r\nconnection: keep-alive\r\n\r\n"]),
        old
    );
}

/// The time that the server keeps a connection after `sent`, followed by a repeated `dripped`, a
/// piece a second; together with the last answer.
fn kept_for(sent: &'static [u8], dripped: &'static [u8]) -> (Duration, String) {
    with_connection(async |client, _stop| {
        let started = Instant::now();
        let (mut reader, mut writer) = tokio::io::split(client);
        let dripping = tokio::spawn(async move {
            let _ = writer.write_all(sent).await;
            while !dripped.is_empty() && writer.write_all(dripped).await.is_ok() {
                sleep(Duration::from_secs(1)).await;
            }
            // The pipe must stay open.
            std::future::pending::<()>().await;
        });
        let mut answers = String::new();
        let ended = timeout(3 * IDLE_TIMEOUT, reader.read_to_string(&mut answers)).await;
        ended.expect("given up").unwrap();
        dripping.abort();
        (started.elapsed(), answers)
    })
}

#[test]
fn silence_ends_a_connection() {
    for (sent, longest) in [
        (&b""[..], 2 * STRANGER_IDLE_TIMEOUT),
        (b"GET / HT", HEAD_TIMEOUT),
        (b"POST / HTTP/1.1\r\ncontent-length: 10\r\n\r\nx", BODY_PACE.timeout),
        (b"GET / HTTP/1.1\r\n\r\n", 2 * STRANGER_IDLE_TIMEOUT),
        (b"GET / HTTP/1.1\r\nauthorization: right\r\n\r\n", 2 * IDLE_TIMEOUT),
    ] {
        let (duration, _) = kept_for(sent, b"");
        assert!(
            duration <= longest + LINGER_TIMEOUT + Duration::from_secs(1),
            "{duration:?} {longest:?}"
        );
    }
    assert!(kept_for(b"GET / HTTP/1.1\r\nauthorization: right\r\n\r\n", b"").0 > IDLE_TIMEOUT);
}

/// The timer for the rest of a head restarted at each byte, so a head of a byte a minute held its
/// connection indefinitely.
#[test]
fn a_dripping_request_has_one_deadline() {
    let most = |timeout: Duration| timeout + LINGER_TIMEOUT + Duration::from_secs(3);
    let (duration, _) = kept_for(b"GET / HTTP/1.1\r\nx: ", b"x");
    assert!(duration <= most(HEAD_TIMEOUT), "{duration:?}");
    // A request that was answered does not give the next one more time.
    let (duration, _) = kept_for(b"GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nx: ", b"x");
    assert!(duration <= most(HEAD_TIMEOUT), "{duration:?}");
    let (duration, answer) = kept_for(b"POST / HTTP/1.1\r\ncontent-length: 1000000\r\n\r\n", b"x");
    assert!(
        duration <= most(BODY_PACE.timeout) && answer.contains(" 408 "),
        "{duration:?} {answer}"
    );
    let chunks = b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n";
    let (duration, answer) = kept_for(chunks, b"1;xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\nx\r\n");
    assert!(
        duration <= most(BODY_PACE.timeout) && answer.contains(" 408 "),
        "{duration:?} {answer}"
    );
}

#[test]
fn a_large_body_is_accepted_only_from_authorised_peers() {
    for length in ["content-length: 1000000", "transfer-encoding: chunked"] {
        let head = format!("POST / HTTP/1.1\r\nauthorization: wrong\r\nexpect: 100-continue\r\n{length}\r\n\r\n");
        let answer = exchange(&[head.as_bytes()]);
        assert_eq!(
            answer, "HTTP/1.1 401 Unauthorized\r\nconnection: close\r\ncontent-length: 4\r\n\r\nwho?",
            "{length}"
        );
    }
    let right =
        b"POST / HTTP/1.1\r\nauthorization: right\r\nexpect: 100-continue\r\ntransfer-encoding: chunked\r\n\r\n";
    let answer = exchange(&[right, b"2\r\nhi\r\n0\r\n\r\n"]);
    assert_eq!(
        answer,
        "HTTP/1.1 100 Continue\r\n\r\n".to_owned() + &told("[POST / hi]")
    );
}

/// Four unauthenticated peers send heads of 10,000 bytes each, but only the first three fit; an
/// authenticated peer is not counted among them.
#[test]
fn unauthenticated_peers_share_a_budget_of_bytes() {
    let budget = StrangerBytes::with_limits(35_000, 35_000);
    let other_peers: Vec<_> = (0..3)
        .map(|_| {
            let mut input = budget.input(IpAddr::from([127, 0, 0, 1]));
            assert!(input.set(10_000));
            input
        })
        .collect();
    let head = format!("GET / HTTP/1.1\r\nx: {}", "x".repeat(10_000));
    let answer = |first: &'static str| {
        let peer = Peer::for_test(budget.clone());
        let head = head.clone();
        with_connection_of(peer, async move |mut client: DuplexStream, _stop| {
            client.write_all(first.as_bytes()).await.unwrap();
            client.write_all(head.as_bytes()).await.unwrap();
            sleep(Duration::from_secs(1)).await;
            client.write_all(b"\r\n\r\n").await.unwrap();
            client.shutdown().await.unwrap();
            let mut answers = String::new();
            client.read_to_string(&mut answers).await.unwrap();
            answers
        })
    };
    assert!(answer("").starts_with("HTTP/1.1 503 "));
    assert!(!answer("GET / HTTP/1.1\r\nauthorization: right\r\n\r\n").contains(" 503 "));
    drop(other_peers);
    assert!(answer("").starts_with("HTTP/1.1 200 "));
}

/// Far more than the rows that other tests of this process count at the same time.
const MUCH: u64 = 1 << 40;

const LARGE_HEAD: &[u8] = b"POST / HTTP/1.1\r\nauthorization: right\r\ncontent-length: 50000\r\n\r\n";

/// A peer in a process whose budget is taken up to this part.
fn peer_beside(bytes: u64) -> (Peer, Arc<Memory>, Reserved) {
    let peer = Peer::for_test(StrangerBytes::new());
    let memory = peer.memory.clone();
    memory.set_budget(Some(2 * MUCH));
    let mut other_peers = Reserved::new(memory.clone());
    other_peers.set(bytes);
    (peer, memory, other_peers)
}

#[test]
fn a_large_body_counts_in_the_budget_of_the_process_until_it_is_answered() {
    let answer = |bytes: u64| {
        let (peer, memory, _others) = peer_beside(bytes);
        with_connection_of(peer, async move |mut client: DuplexStream, _stop| {
            client.write_all(LARGE_HEAD).await.unwrap();
            client.write_all(&[b'x'; 40_000]).await.unwrap();
            sleep(Duration::from_secs(1)).await;
            let kept_bytes = memory.reserved_bytes() - bytes;
            // It may have been refused already.
            let _ = client.write_all(&[b'x'; 10_000]).await;
            let mut first = [0; 12];
            client.read_exact(&mut first).await.unwrap();
            sleep(Duration::from_secs(1)).await;
            let left_bytes = memory.reserved_bytes() - bytes;
            (String::from_utf8(first.to_vec()).unwrap(), kept_bytes, left_bytes)
        })
    };
    let (first, kept_bytes, left_bytes) = answer(MUCH);
    assert_eq!((first.as_str(), left_bytes), ("HTTP/1.1 200", 0));
    assert!((40_000..50_000).contains(&kept_bytes), "{kept_bytes}");
    assert_eq!(answer(2 * MUCH), ("HTTP/1.1 503".to_owned(), 0, 0));
}

/// The second answer does not fit into the pipe; its request is still kept, too.
#[test]
fn an_answer_that_is_not_taken_counts_in_the_budget_of_the_process() {
    let (peer, memory, _others) = peer_beside(0);
    with_connection_of(peer, async move |mut client: DuplexStream, _stop| {
        for _ in 0..2 {
            client.write_all(LARGE_HEAD).await.unwrap();
            client.write_all(&[b'x'; 50_000]).await.unwrap();
        }
        sleep(Duration::from_secs(1)).await;
        assert!(memory.reserved_bytes() > 90_000, "{}", memory.reserved_bytes());
        client.shutdown().await.unwrap();
        client.read_to_end(&mut Vec::new()).await.unwrap();
        assert_eq!(memory.reserved_bytes(), 0);
    });
}

/// A client whose first request has not arrived gets its time for the first bytes; others end at
/// once.
#[test]
fn stopping_ends_a_connection() {
    let at_once = Duration::from_millis(1);
    for (sent, within) in [
        (&b""[..], FIRST_BYTES_WITHIN + at_once),
        (b"GET / HT", FIRST_BYTES_WITHIN + at_once),
        (b"GET / HTTP/1.1\r\n\r\n", at_once),
    ] {
        with_connection(async |mut client, stop| {
            client.write_all(sent).await.unwrap();
            tokio::task::yield_now().await;
            stop.send_replace(true);
            let mut answers = Vec::new();
            let ended = tokio::time::timeout(within, client.read_to_end(&mut answers)).await;
            assert!(ended.is_ok(), "{}", String::from_utf8_lossy(sent));
        });
    }
}

#[test]
fn the_preface_of_http2_is_handed_on() {
    for cut in 0..HTTP2_PREFACE.len() {
        assert!(cut == 0 || speaks_http2(&HTTP2_PREFACE[..cut]));
    }
    assert!(!speaks_http2(b"PUT"));
    assert!(!speaks_http2(b""));
}

#[test]
fn numbers_are_written() {
    for (number, text) in [(0, "0"), (7, "7"), (10, "10"), (usize::MAX, "18446744073709551615")] {
        let mut out = Vec::new();
        write_decimal(number, &mut out);
        assert_eq!(out, text.as_bytes());
    }
}

#[test]
fn a_slow_answer_keeps_its_place() {
    let piece = b"GET /a HTTP/1.1\r\n\r\nPOST /slow HTTP/1.1\r\nContent-Length: 2\r\n\r\nhiGET /b HTTP/1.1\r\n\r\n";
    let expected = told("[GET /a ]") + &told("[POST /slow hi]") + &told("[GET /b ]");
    assert_eq!(exchange(&[piece]), expected);
    let last = exchange(&[b"GET /slow HTTP/1.1\r\nConnection: close\r\n\r\nGET /lost HTTP/1.1\r\n\r\n"]);
    assert!(last.contains("[GET /slow ]") && !last.contains("/lost"), "{last}");
}

/// A busy partition is retried, and after a while the client gets an error. The requests after it
/// are answered.
#[test]
fn a_busy_partition_is_waited_for_and_then_reported() {
    let busy = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 15\r\n\r\nbusy with /busy";
    let requests =
        b"GET /a HTTP/1.1\r\n\r\nPOST /busy HTTP/1.1\r\ncontent-length: 5\r\n\r\nhelloGET /b HTTP/1.1\r\n\r\n";
    let expected = told("[GET /a ]") + busy + &told("[GET /b ]");
    assert_eq!(exchange(&[requests]), expected);
    // With a body that is gathered first.
    let (head, body) = requests.split_at(requests.len() - 24);
    assert_eq!(exchange(&[head, body]), expected);
}

/// Pipelined requests may be answered by several partitions: by two, if their database moves
/// meanwhile. An answer that depends only on reads left as soon as the last answer of another
/// partition could, and each answer's arrival was the first partition's.
#[test]
fn a_pipelined_answer_is_held_by_the_partition_that_gave_it() {
    let mut outgoing = Outgoing::default();
    let mut answer = |arrivals: [u64; 3], partition, dependency| {
        let writing = Writing {
            is_old: false,
            is_last: false,
            is_head: false,
        };
        let mut answer = Answer::settled(200, "");
        (answer.partition, answer.dependency) = (PartitionId(partition), quartet_model::Version(dependency));
        outgoing.arrivals = Arrivals::numbered(&arrivals);
        outgoing.answer(writing, answer);
        let waiting = outgoing
            .others
            .iter()
            .copied()
            .chain([(outgoing.partition, outgoing.hold)]);
        waiting
            .map(|(partition, hold)| (partition.0, hold.dependency.0, hold.arrival))
            .collect::<Vec<_>>()
    };
    let arrived = Arrival::numbered;
    assert_eq!(answer([10, 20, 30], 2, 7), [(2, 7, arrived(30))]);
    assert_eq!(answer([11, 21, 31], 2, 0), [(2, 7, arrived(31))]);
    assert_eq!(answer([12, 22, 32], 1, 0), [(2, 7, arrived(31)), (1, 0, arrived(22))]);
    let all = [(2, 7, arrived(31)), (1, 0, arrived(22)), (0, 3, arrived(13))];
    assert_eq!(answer([13, 23, 33], 0, 3), all);
    let again = [
        (2, 7, arrived(31)),
        (1, 0, arrived(22)),
        (0, 3, arrived(13)),
        (1, 0, arrived(24)),
    ];
    assert_eq!(answer([14, 24, 34], 1, 0), again);
}
