//! One request that only reads, under the partition's lock beside others that do.

use quartet_engine::{MustWrite, PartitionGuard, ReadGuard};
use quartet_wire_resp::Arguments;

use super::Session;
use super::admission::Refusal;
use super::turn::{Request, Turn, owes_others};
use crate::command::{BLOCKING, Command, Group, READONLY};
use crate::execution::call::{Ended, call_beside};
use crate::handler::monitor::tell_monitors;
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
    /// It is to be received again.
    Again,
    /// Nothing has happened but that it was admitted: it is to run with the lock alone.
    NotHere(&'static Command),
}

impl Session {
    /// The request may run beside others: it reads keys, and there is nothing else to do now that
    /// needs the lock alone. EXEC takes it alone, whatever its queue holds: it ends watches.
    pub(super) fn may_run_beside(&self, layer: &Redis, arguments: Arguments<'_>) -> bool {
        let latest = self.client.shared.last_command_index();
        let reads = |command: &Command| {
            let is_of_keys = !matches!(
                command.group,
                Group::Search
                    | Group::Scripting
                    | Group::Transactions
                    | Group::Connection
                    | Group::PubSub
                    | Group::Server
                    | Group::Cluster
            );
            command.has(READONLY) && !command.has(BLOCKING) && is_of_keys
        };
        let finds = layer.table.find_of_after(latest, arguments);
        finds.is_ok_and(reads)
            && self.client.multi.is_none()
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
            Ok(command) => match self.run_beside(partition, &mut turn, command, request) {
                Ok(ended) => {
                    tell_monitors(turn.layer, &self.client, command, now_micros, request.arguments);
                    ended
                }
                Err(MustWrite) => return RunBeside::NotHere(command),
            },
            Err(Refusal::Error(error)) => Ended::without_effects(Err(error)),
            Err(Refusal::Later) => {
                turn.received.is_busy = true;
                return RunBeside::Again;
            }
        };
        turn.waits_for(ended.dependency);
        if let Err(error) = ended.outcome {
            self.error(turn.layer, &error, turn.start, turn.out);
        }
        self.note_size(&turn, request);
        self.silence(&mut turn, request);
        self.client.forget_caching_behind(&request.arguments[0]);
        self.deliver_own_mail(&mut turn);
        RunBeside::Answered
    }

    fn run_beside(
        &mut self,
        partition: &mut ReadGuard<'_>,
        turn: &mut Turn<'_>,
        command: &'static Command,
        request: &Request<'_>,
    ) -> Result<Ended, MustWrite> {
        self.client.takes_late_parts = true;
        let ended = call_beside(
            partition,
            turn.layer,
            &mut self.client,
            command,
            request.arguments,
            turn.out,
        );
        self.client.takes_late_parts = false;
        self.reply_start = turn.start;
        let is_whole = matches!(&ended, Ok(ended) if ended.outcome.is_ok());
        if !is_whole {
            self.client.late_parts.clear();
        }
        if ended.is_err() {
            turn.out.truncate(turn.start);
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use quartet_engine::BriefWaits;
    use quartet_wire_resp::encode_command;

    use crate::testing::{Connection, Fixture};

    /// The answer to a request while somebody else reads; `None`: it needs the lock alone, or
    /// somebody waits for that.
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
        PFCOUNT y\nJSON.GET j $.a\nJSON.TYPE j $.a";

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
            "MULTI",
            "EVAL return 0",
            "INFO",
            "PING",
            "BLPOP none 0",
            "WATCH s",
        ] {
            assert_eq!(beside_a_reader(&fixture, &mut connection, line), None, "{line}");
        }
    }

    /// Each key is counted once, also where the command runs twice.
    #[test]
    fn a_command_that_finds_an_expired_key_runs_again_alone() {
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
    fn what_is_read_beside_others_is_remembered_and_misses_are_told() {
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
    fn a_pipeline_goes_on_alone_from_its_first_write_on() {
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
