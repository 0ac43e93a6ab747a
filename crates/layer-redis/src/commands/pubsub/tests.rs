//! Messages through whole sessions.

use crate::testing::{Connection, Fixture, show};
use quartet_wire_resp::decode;

/// Returns the messages that arrived unasked, each as a line.
fn mail(connection: &mut Connection) -> Vec<String> {
    let bytes = connection.mail();
    let mut input = bytes.as_slice();
    let mut lines = Vec::new();
    while let Some((value, used)) = decode(input).unwrap() {
        lines.push(show(&value));
        input = &input[used..];
    }
    lines
}

#[test]
fn messages_reach_channels_patterns_and_shards() {
    let fixture = Fixture::new();
    let (mut listener, mut sender) = (fixture.connect(), fixture.connect());
    listener.check(
        "SUBSCRIBE a => [subscribe a 1]
         PSUBSCRIBE a* => [psubscribe a* 2]
         SSUBSCRIBE a => [ssubscribe a 1]
         GET x => !ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context
         PING => [pong ]",
    );
    sender.check("PUBLISH a 1 => 2\nSPUBLISH a 2 => 1\nPUBLISH b 3 => 0\nPUBSUB NUMSUB a b => [a 1 b 0]");
    assert_eq!(
        mail(&mut listener),
        ["[message a 1]", "[pmessage a* a 1]", "[smessage a 2]"]
    );
    listener.check("RESET => RESET");
    sender.check("PUBLISH a 1 => 0\nPUBSUB CHANNELS => []\nPUBSUB SHARDCHANNELS => []\nPUBSUB NUMPAT => 0");
}

#[test]
fn a_transactions_messages_follow_its_reply_and_a_closed_listener_gets_none() {
    let fixture = Fixture::new();
    let (mut listener, mut sender) = (fixture.connect(), fixture.connect());
    listener.check("SUBSCRIBE a => [subscribe a 1]");
    sender.check("MULTI => OK\nPUBLISH a 1 => QUEUED");
    assert!(mail(&mut listener).is_empty());
    sender.check("EXEC => [1]");
    assert_eq!(mail(&mut listener), ["[message a 1]"]);
    listener.session.close();
    sender.check("PUBLISH a 1 => 0");
}

#[test]
fn a_slow_listener_is_cut_off_at_the_hard_limit_and_after_a_time_at_the_soft_one() {
    for (limit, advance_ms) in [("pubsub 1000 0 0", 0), ("pubsub 0 500 10", 10_001)] {
        let fixture = Fixture::new();
        let (mut listener, mut sender) = (fixture.connect(), fixture.connect());
        sender.bytes(&["CONFIG", "SET", "client-output-buffer-limit", limit]);
        listener.check("SUBSCRIBE a => [subscribe a 1]");
        let message = "x".repeat(600);
        sender.bytes(&["PUBLISH", "a", &message]);
        let is_killed = || {
            listener
                .session
                .client()
                .killed
                .load(std::sync::atomic::Ordering::SeqCst)
        };
        assert!(!is_killed(), "{limit}");
        fixture.advance_ms(advance_ms);
        sender.bytes(&["PUBLISH", "a", &message]);
        assert!(is_killed(), "{limit}");
        assert!(mail(&mut listener).is_empty(), "{limit}");
    }
}
