//! One request that only reads, under the partition's lock beside others that do.

use quartet_engine::{MustWrite, PartitionGuard, ReadGuard};
use quartet_wire_resp::Arguments;

use super::Session;
use super::admission::{Refusal, discarded_because_of};
use super::turn::{Request, Turn, owes_others};
use crate::command::Command;
use crate::command::error_reply::ErrorReply;
use crate::commands::transactions;
use crate::execution::call::{Ended, Reading, call_reading};
use crate::handler::monitor::tell_monitors;
use crate::handler::outcome::Outcome;
use crate::layer::Redis;

/// The partition's lock, as a batch of requests holds it.
pub(super) enum Hold<'p> {
    Alone(PartitionGuard<'p>),
    /// Beside others who read.
    Beside(ReadGuard<'p>),
}

/// The end of a request that was run beside others.
pub(super) enum RunBeside {
    Answered,
    /// It must be received again.
    Again,
    /// It was admitted, without further effects: it must run with the exclusive lock.
    NotHere(&'static Command),
}

impl Session {
    /// Returns true if the request may share the lock: it reads keys, and no pending work needs the
    /// exclusive lock. The same holds for a transaction of such requests without WATCH.
    pub(super) fn may_run_beside(&self, layer: &Redis, arguments: Arguments<'_>) -> bool {
        let latest = self.client.shared.last_command_index();
        let only_reads = |command: &Command| match &self.client.multi {
            None => command.reads_keys() || command.name == "multi" || is_read_of_streams(command, arguments),
            // The lines of a transaction's commands are sent as they run, and it may run again.
            Some(_) if command.name == "exec" => {
                self.client.executes_only_reads() && !layer.connections.clients.has_monitors()
            }
            Some(_) => command.reads_keys(),
        };
        let finds = layer.table.find_of_after(latest, arguments);
        finds.is_ok_and(only_reads)
            && !self.client.is_upstream
            && !layer.connections.pause.is_set()
            && !owes_others(layer)
            && !layer.should_evict()
    }

    pub(super) fn request_beside(
        &mut self,
        partition: &mut ReadGuard<'_>,
        mut turn: Turn<'_>,
        request: &Request<'_>,
    ) -> RunBeside {
        turn.layer.trim_tracking();
        self.deliver_own_mail(&mut turn);
        self.forget_time_of_long_request(turn.layer, request);
        turn.start = turn.out.len();
        let now_micros = partition.now_micros();
        let admitted = self.admit(turn.layer, request.arguments, request.raw.len(), now_micros);
        let ended = match admitted {
            Ok(command) if self.client.multi.is_some() && !transactions::runs_inside_multi(command) => {
                let queued = self.enqueue(&mut turn, command, request, false);
                Ended::without_effects(queued.map(|()| Outcome::Done))
            }
            Ok(command) => match self.run_beside(partition, &mut turn, command, request) {
                Ok(ended) => {
                    tell_monitors(turn.layer, &self.client, command, now_micros, request.arguments);
                    ended
                }
                Err(MustWrite) => return RunBeside::NotHere(command),
            },
            Err(Refusal::Error(error)) => Ended::without_effects(Err(self.refuse_beside(request.arguments, error))),
            Err(Refusal::Later) => {
                turn.received.is_busy = true;
                return RunBeside::Again;
            }
        };
        turn.waits_for(ended.dependency);
        match ended.outcome {
            Err(error) => self.error(turn.layer, &error, turn.start, turn.out),
            Ok(Outcome::RunLong) => {
                self.leave_to_long_run(&mut turn, request);
                return RunBeside::Answered;
            }
            Ok(_) => {}
        }
        self.note_size(&turn, request);
        self.silence(&mut turn, request);
        self.client.forget_caching_behind(&request.arguments[0]);
        self.deliver_own_mail(&mut turn);
        RunBeside::Answered
    }

    /// As [`Session::refuse`], of a connection that watches no key.
    fn refuse_beside(&mut self, arguments: Arguments<'_>, refused: ErrorReply) -> ErrorReply {
        if arguments[0].eq_ignore_ascii_case(b"exec") {
            transactions::end(&mut self.client);
            return discarded_because_of(&refused.text).into();
        }
        if let Some(queue) = &mut self.client.multi {
            queue.refused = true;
        }
        refused
    }

    fn run_beside(
        &mut self,
        partition: &mut ReadGuard<'_>,
        turn: &mut Turn<'_>,
        command: &'static Command,
        request: &Request<'_>,
    ) -> Result<Ended, MustWrite> {
        self.client.takes_late_parts = true;
        let ended = call_reading(
            Reading::Beside(partition),
            turn.layer,
            &mut self.client,
            command,
            request.arguments,
            turn.out,
        );
        self.client.takes_late_parts = false;
        self.reply_start = turn.start;
        let is_whole = matches!(&ended, Ok(ended) if matches!(ended.outcome, Ok(Outcome::Done)));
        if !is_whole {
            self.client.late_parts.clear();
        }
        if ended.is_err() {
            turn.out.truncate(turn.start);
        }
        ended
    }
}

/// XREAD that does not wait.
fn is_read_of_streams(command: &Command, arguments: Arguments<'_>) -> bool {
    command.name == "xread" && !arguments.iter().any(|word| word.eq_ignore_ascii_case(b"block"))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use quartet_engine::BriefWaits;
    use quartet_wire_resp::encode_command;

    use crate::testing::{Connection, Fixture, show};

    /// The reply to a request while another thread reads; `None`: it needs the exclusive lock, or
    /// another thread waits for that.
    fn beside_a_reader(fixture: &Fixture, connection: &mut Connection, line: &str) -> Option<Vec<u8>> {
        let (_reader, _brief) = (fixture.layer.engine.read(), BriefWaits::begin());
        let words: Vec<&str> = line.split_whitespace().collect();
        let (mut request, mut out) = (Vec::new(), Vec::new());
        encode_command(&words, &mut request);
        let received = connection.session.receive(&request, &mut out);
        assert_ne!(received.is_busy, received.consumed == request.len(), "{line}");
        (!received.is_busy).then_some(out)
    }

    /// The same of a request that needs no more than the lock beside others.
    fn answer_beside(fixture: &Fixture, connection: &mut Connection, line: &str) -> Vec<u8> {
        let give_up_at = Instant::now() + Duration::from_secs(60);
        loop {
            match beside_a_reader(fixture, connection, line) {
                Some(answer) => return answer,
                None => assert!(Instant::now() < give_up_at, "{line}"),
            }
        }
    }

    const WRITES: &str = "
        SET s abc
        SET n 10 EX 100
        RPUSH l a b c
        SADD u a b c
        SADD v b
        HSET h f 1 g 2
        ZADD z 1 a 2 b 3 c
        XADD x 1-1 f v
        XGROUP CREATE x g 0
        GEOADD p 13.361389 38.115556 Palermo 15.087269 37.502669 Catania
        PFADD y a b
        JSON.SET j $ {\"a\":1}
        FT.CREATE i PREFIX 1 doc SCHEMA n NUMERIC SORTABLE g TAG t TEXT
        HSET doc1 n 1 g red t hello
        HSET doc2 n 2 g blue t hello
        FT.DICTADD d word
        FT.SUGADD suggestions hello 1
        VADD vectors VALUES 2 1 1 one
        VADD vectors VALUES 2 1 2 two
        BITFIELD s SET u8 0 97";

    const READS: &str = "
        GET s\nGET none\nGET l\nMGET s n none\nSTRLEN s\nGETRANGE s 0 1\nSUBSTR s 0 1\nLCS s n
        GETBIT s 1\nBITCOUNT s\nBITPOS s 1\nBITFIELD_RO s GET u8 0
        EXISTS s none\nTYPE l\nTTL s\nPTTL s\nEXPIRETIME n\nPEXPIRETIME n\nTOUCH s\nDUMP s\nSCAN 0\nKEYS *
        OBJECT ENCODING s\nSORT_RO l ALPHA
        LLEN l\nLRANGE l 0 -1\nLINDEX l 0\nLPOS l b
        SCARD u\nSMEMBERS v\nSISMEMBER u a\nSMISMEMBER u a d\nSINTER u v\nSINTERCARD 2 u v\nSUNION u v\nSDIFF v u
        SSCAN v 0
        HGET h f\nHMGET h f g\nHGETALL h\nHKEYS h\nHVALS h\nHLEN h\nHEXISTS h f\nHSTRLEN h f\nHSCAN h 0
        HTTL h FIELDS 1 f
        ZCARD z\nZSCORE z a\nZMSCORE z a b\nZRANK z a\nZREVRANK z a\nZRANGE z 0 -1\nZREVRANGE z 0 -1
        ZRANGEBYSCORE z 1 2\nZREVRANGEBYSCORE z 2 1\nZRANGEBYLEX z - +\nZREVRANGEBYLEX z + -\nZCOUNT z 1 2
        ZLEXCOUNT z - +\nZINTER 2 z z\nZUNION 2 z z\nZDIFF 2 z none\nZINTERCARD 2 z z\nZSCAN z 0
        XLEN x\nXRANGE x - +\nXREVRANGE x + -\nXPENDING x g\nXINFO STREAM x\nXINFO GROUPS x\nXINFO CONSUMERS x g
        GEODIST p Palermo Catania\nGEOHASH p Palermo\nGEOPOS p Palermo
        GEOSEARCH p FROMLONLAT 15 37 BYRADIUS 200 km ASC
        PFCOUNT y\nJSON.GET j $.a\nJSON.TYPE j $.a\nDBSIZE\nMEMORY USAGE s\nXREAD STREAMS x 0\nXREAD STREAMS x 9
        FT._LIST\nFT.SEARCH i hello SORTBY n\nFT.AGGREGATE i * GROUPBY 1 @g\nFT.EXPLAIN i hello
        FT.EXPLAINCLI i hello\nFT.TAGVALS i g\nFT.SPELLCHECK i hallo\nFT.DICTDUMP d\nFT.SYNDUMP i
        FT.SUGGET suggestions he\nFT.SUGLEN suggestions
        VSIM vectors ELE one\nVCARD vectors\nVDIM vectors\nVEMB vectors one\nVLINKS vectors one\nVINFO vectors
        VISMEMBER vectors one\nVRANGE vectors - +\nVGETATTR vectors one";

    fn lines(text: &str) -> impl Iterator<Item = &str> {
        text.lines().map(str::trim).filter(|line| !line.is_empty())
    }

    #[test]
    fn commands_that_read_keys_run_beside_readers_and_no_others_do() {
        let fixture = Fixture::new();
        let mut connection = fixture.connect();
        for line in lines(WRITES) {
            assert_eq!(beside_a_reader(&fixture, &mut connection, line), None, "{line}");
            let reply = connection.bytes(&line.split_whitespace().collect::<Vec<_>>());
            assert_ne!(reply[0], b'-', "{line}");
        }
        for line in lines(READS) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let expected = connection.bytes(&words);
            assert!(expected[0] != b'-' || line == "GET l", "{line}");
            assert_eq!(answer_beside(&fixture, &mut connection, line), expected, "{line}");
        }
        // FT.INFO counts itself.
        let [first, second] = [1, 2].map(|count| format!("number_of_admin_ops\r\n:{count}\r\n"));
        let info = String::from_utf8(connection.bytes(&["FT.INFO", "i"])).unwrap();
        assert!(info.contains(&first), "{info}");
        let expected = info.replace(&first, &second).into_bytes();
        assert_eq!(answer_beside(&fixture, &mut connection, "FT.INFO i"), expected);
        for line in [
            "GETEX s",
            "EVAL return 0",
            "EVAL_RO return 0",
            "INFO",
            "PING",
            "BLPOP none 0",
            "XREAD BLOCK 1 STREAMS x 0",
            "FT.CONFIG GET TIMEOUT",
            "FT.CREATE j SCHEMA n NUMERIC",
            "WATCH s",
        ] {
            assert_eq!(beside_a_reader(&fixture, &mut connection, line), None, "{line}");
        }
    }

    #[test]
    fn a_transaction_of_reads_shares_the_lock_unless_it_needs_it_exclusively() {
        let fixture = Fixture::new();
        let mut connection = fixture.connect();
        connection.check("SET a 1 => OK\nRPUSH l x => 1\nSET gone v PX 10 => OK");
        let calls = |connection: &mut Connection| show(&connection.run(&["INFO", "commandstats"]));
        connection.check("CONFIG RESETSTAT => OK");
        for line in ["MULTI", "GET a", "LRANGE a 0 -1", "STRLEN a"] {
            answer_beside(&fixture, &mut connection, line);
        }
        let replies = answer_beside(&fixture, &mut connection, "EXEC");
        let wrong_type = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
        assert_eq!(
            String::from_utf8(replies).unwrap(),
            format!("*3\r\n$1\r\n1\r\n{wrong_type}:1\r\n")
        );
        let counted = calls(&mut connection);
        for line in [
            "cmdstat_get:calls=1,",
            "cmdstat_strlen:calls=1,",
            "cmdstat_exec:calls=1,",
        ] {
            assert!(counted.contains(line), "{counted}");
        }
        assert!(
            counted
                .lines()
                .any(|line| { line.starts_with("cmdstat_lrange:calls=1,") && line.contains("failed_calls=1") })
        );
        // An expired key is removed, with the exclusive lock; each command counts once.
        fixture.advance_ms(20);
        connection.check("CONFIG RESETSTAT => OK");
        for line in ["MULTI", "GET a", "GET gone", "GET a"] {
            answer_beside(&fixture, &mut connection, line);
        }
        assert_eq!(beside_a_reader(&fixture, &mut connection, "EXEC"), None);
        connection.check("EXEC => [1 nil 1]\nEXEC => !ERR EXEC without MULTI\nDBSIZE => 2");
        let counted = calls(&mut connection);
        assert!(counted.contains("cmdstat_get:calls=3,"), "{counted}");
        // One write, or WATCH, is enough.
        for (before, queued) in [("WATCH a", "GET a"), ("UNWATCH", "SET a 2"), ("UNWATCH", "PING")] {
            connection.run(&before.split(' ').collect::<Vec<_>>());
            connection.check("MULTI => OK");
            assert_eq!(show(&connection.run(&queued.split(' ').collect::<Vec<_>>())), "QUEUED");
            assert_eq!(beside_a_reader(&fixture, &mut connection, "EXEC"), None, "{queued}");
            connection.run(&["EXEC"]);
        }
        // A refusal ends it.
        connection.check("MULTI => OK\nGET => !ERR wrong number of arguments for 'get' command");
        connection.check("EXEC => !EXECABORT Transaction discarded because of previous errors.");
    }

    /// Each key is counted once, also where the command runs twice.
    #[test]
    fn a_command_that_finds_an_expired_key_runs_again_exclusively() {
        let fixture = Fixture::new();
        let mut connection = fixture.connect();
        connection.check("SET gone v PX 10 => OK\nSET stays v => OK\nDBSIZE => 2");
        fixture.advance_ms(20);
        assert_eq!(beside_a_reader(&fixture, &mut connection, "MGET stays gone"), None);
        let before = fixture.layer.observation.statistics.commands_processed();
        connection.check("MGET stays gone => [v nil]\nDBSIZE => 1");
        let statistics = &fixture.layer.observation.statistics;
        assert_eq!(statistics.commands_processed(), before + 2);
        let keys = [
            &statistics.keyspace_hits,
            &statistics.keyspace_misses,
            &statistics.expired_keys,
        ];
        let counted = keys.map(|counter| counter.load(std::sync::atomic::Ordering::Relaxed));
        assert_eq!(counted, [1, 1, 1]);
    }

    #[test]
    fn shared_reads_are_recorded_and_misses_are_published() {
        let fixture = Fixture::new();
        let (mut reader, mut writer) = (fixture.connect(), fixture.connect());
        reader.session.speak_resp3();
        reader.check("CLIENT TRACKING on => OK");
        writer.check("SET a 1 => OK");
        assert_eq!(answer_beside(&fixture, &mut reader, "GET a"), b"$1\r\n1\r\n");
        assert_eq!(reader.mail(), b"");
        writer.check("SET a 2 => OK");
        assert_eq!(reader.mail(), b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\na\r\n");
        answer_beside(&fixture, &mut reader, "GET none");
        writer.check("CONFIG SET notify-keyspace-events KEm => OK");
        assert_eq!(beside_a_reader(&fixture, &mut writer, "GET none"), None);
        let mut listener = fixture.connect();
        assert!(!listener.bytes(&["SUBSCRIBE", "__keyevent@0__:keymiss"]).is_empty());
        writer.check("GET none => nil");
        assert!(listener.mail().ends_with(b"$4\r\nnone\r\n"));
    }

    #[test]
    fn a_pipeline_is_exclusive_from_its_first_write() {
        let fixture = Fixture::new();
        let mut connection = fixture.connect();
        let (mut requests, mut out) = (Vec::new(), Vec::new());
        for words in [
            &["GET", "k"][..],
            &["SET", "k", "v"],
            &["GET", "k"],
            &["NOSUCH"],
            &["GET", "k"],
        ] {
            encode_command(words, &mut requests);
        }
        let received = connection.session.receive(&requests, &mut out);
        assert_eq!(received.consumed, requests.len());
        let out = String::from_utf8(out).unwrap();
        assert!(
            out.starts_with("$-1\r\n+OK\r\n$1\r\nv\r\n-ERR unknown command"),
            "{out}"
        );
        assert!(out.ends_with("$1\r\nv\r\n"), "{out}");
    }
}
