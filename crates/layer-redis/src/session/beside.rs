//! One request that only reads, under the partition's lock beside others that do, or at the state
//! before a transaction that holds the lock for long.

use std::sync::atomic::Ordering;

use quartet_engine::MustWrite;
use quartet_wire_resp::Arguments;

use super::Session;
use super::admission::Refusal;
use super::hold::Hold;
use super::received::Next;
use super::turn::{Request, Turn, owes_others};
use crate::command::error_reply::ErrorReply;
use crate::command::{Command, Group};
use crate::commands::transactions;
use crate::execution::call::{Ended, Reading, call_reading};
use crate::handler::monitor::tell_monitors;
use crate::handler::outcome::Outcome;
use crate::layer::Redis;

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

    /// Returns the state for a request that does not wait for the lock, which another keeps for a
    /// long transaction: it reads keys and nothing else that this transaction may change. A request
    /// after one of the same batch continues at its state.
    pub(super) fn before_long<'l>(
        &mut self,
        layer: &Redis,
        held: &mut Option<Hold<'l>>,
        arguments: Arguments<'_>,
    ) -> Option<Hold<'l>> {
        if layer.replica.is_some() {
            return None;
        }
        if !matches!(held, Some(Hold::BeforeLong(_))) && (held.is_some() || !layer.engine.shows_state()) {
            return None;
        }
        let before = held.take();
        if !self.may_run_before_long(layer, arguments) {
            return None;
        }
        let before = before.or_else(|| {
            let frozen = layer.engine.frozen_before_long(layer.space)?;
            Some(Hold::BeforeLong(Box::new(frozen)))
        });
        self.client.started_micros = None;
        before
    }

    fn may_run_before_long(&self, layer: &Redis, arguments: Arguments<'_>) -> bool {
        let latest = self.client.shared.last_command_index();
        let only_reads = |command: &Command| command.reads_keys() && !matches!(command.group, Group::Module(_));
        layer.table.find_of_after(latest, arguments).is_ok_and(only_reads)
            && self.client.multi.is_none()
            && !self.client.is_upstream
            && self.client.shared.tracking.lock().is_none()
            && !layer.connections.pause.is_set()
            && !layer.connections.is_held.load(Ordering::SeqCst)
            && !layer.connections.clients.has_monitors()
            && !layer.scripting.long_scripts.is_busy()
    }

    pub(super) fn request_beside(
        &mut self,
        reading: Reading<'_, '_>,
        mut turn: Turn<'_>,
        request: &Request<'_>,
    ) -> RunBeside {
        turn.layer.trim_tracking();
        self.deliver_own_mail(&mut turn);
        self.forget_time_of_long_request(turn.layer, request);
        turn.start = turn.out.len();
        let now_micros = reading.now_micros();
        let admitted = match turn.layer.replica {
            None => self.admit(turn.layer, request.arguments, request.raw.len(), now_micros),
            Some(_) => self.admissible(turn.layer, request.arguments, request.raw.len()),
        };
        let counted = admitted.as_ref().ok().copied();
        let ended = match admitted {
            Ok(command) if self.client.multi.is_some() && !transactions::runs_inside_multi(command) => {
                let queued = self.enqueue(&mut turn, command, request, false);
                Ended::without_effects(queued.map(|()| Outcome::Done))
            }
            Ok(command) => match self.run_beside(reading, &mut turn, command, request) {
                Ok(ended) => {
                    tell_monitors(turn.layer, &self.client, command, now_micros, request.arguments);
                    ended
                }
                Err(MustWrite) => return RunBeside::NotHere(command),
            },
            // The home refuses, and counts refusals.
            Err(_) if turn.layer.replica.is_some() => {
                turn.received.next = Next::Busy;
                return RunBeside::Again;
            }
            Err(Refusal::Error(error)) => Ended::without_effects(Err(self.refuse_beside(request.arguments, error))),
            Err(Refusal::Later) => {
                turn.received.next = Next::Busy;
                return RunBeside::Again;
            }
        };
        // A node that is not home counts what it answers.
        if turn.layer.replica.is_some()
            && let Some(command) = counted
            && !matches!(ended.outcome, Ok(Outcome::RunLong))
            && turn.layer.pass_gate(command, request.raw.len(), now_micros).is_err()
        {
            turn.out.truncate(turn.start);
            turn.received.next = Next::Busy;
            return RunBeside::Again;
        }
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
            return transactions::discarded_because_of(&refused.text);
        }
        if let Some(queue) = &mut self.client.multi {
            queue.refused = true;
        }
        refused
    }

    fn run_beside(
        &mut self,
        reading: Reading<'_, '_>,
        turn: &mut Turn<'_>,
        command: &'static Command,
        request: &Request<'_>,
    ) -> Result<Ended, MustWrite> {
        self.client.takes_late_parts = true;
        let ended = call_reading(
            reading,
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
pub(super) fn is_read_of_streams(command: &Command, arguments: Arguments<'_>) -> bool {
    command.name == "xread" && !arguments.iter().any(|word| word.eq_ignore_ascii_case(b"block"))
}

#[cfg(test)]
mod tests {
    use quartet_wire_resp::encode_command;

    use crate::testing::{Connection, Fixture, answer_beside, beside_a_reader, show};

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
        PFCOUNT y\nJSON.GET j $.a\nJSON.TYPE j $.a\nDBSIZE\nMEMORY USAGE s\nXREAD STREAMS x 0\nXREAD STREAMS x 9";

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
        for line in [
            "GETEX s",
            "EVAL return 0",
            "EVAL_RO return 0",
            "INFO",
            "PING",
            "BLPOP none 0",
            "XREAD BLOCK 1 STREAMS x 0",
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
