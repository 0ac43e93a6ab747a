//! Limits on scripts: the published ways out of Redis' sandbox, bombs, and the state that one
//! script leaves to the next; and scripts that take long. The golden scripts have the permitted
//! uses.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::execution::long_run::LongRun;
use crate::session::after::After;
use crate::session::received::Next;
use crate::testing::{Connection, Fixture, show};

fn eval(connection: &mut Connection, script: &str) -> String {
    String::from_utf8_lossy(&connection.bytes(&["EVAL", script, "0"])).into_owned()
}

/// Runs each script on a fresh connection, and expects an answer that holds `expected`.
fn check(cases: &[(&str, &str)]) {
    let fixture = Fixture::new();
    for (script, expected) in cases {
        let mut connection = fixture.connect();
        let answer = eval(&mut connection, script);
        assert!(
            answer.contains(expected),
            "{script}\n  answered {answer}\n  expected {expected}"
        );
        assert_eq!(eval(&mut connection, "return 1"), ":1\r\n", "after {script}");
    }
}

/// Short texts of digits do not go the way of Lua's own function; all is as that has it.
#[test]
fn texts_become_numbers_as_in_lua() {
    let numbers = [
        ("'42'", "42"),
        ("'007'", "7"),
        ("'999999999999999'", "1e+15"),
        ("'9007199254740993'", "9.007199254741e+15"),
        ("' 12 '", "12"),
        ("'-5'", "-5"),
        ("'+5'", "5"),
        ("'1e2'", "100"),
        ("'0x10'", "16"),
        ("'2.50'", "2.5"),
        ("''", "nil"),
        ("'12a'", "nil"),
        ("'1\\0002'", "1"),
        ("7", "7"),
        ("nil", "nil"),
        ("{}", "nil"),
        ("'101', 2", "5"),
        ("'10', 10", "10"),
        ("'zz', 36", "1295"),
        ("'8', 8", "nil"),
    ];
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    for (argument, expected) in numbers {
        let script = format!("return tostring(tonumber({argument}))");
        assert_eq!(show(&connection.run(&["EVAL", &script, "0"])), expected, "{argument}");
    }
    check(&[
        (
            "tonumber()",
            "user_script:1: bad argument #1 to 'tonumber' (value expected)",
        ),
        (
            "tonumber('1', 99)",
            "user_script:1: bad argument #2 to 'tonumber' (base out of range)",
        ),
    ]);
}

const READONLY: &str = "Attempt to modify a readonly table";

/// CVE-2022-24735, CVE-2025-46818: a script changed what every later script, of any user, ran with.
#[test]
fn nothing_is_left_for_the_next_script() {
    check(&[
        ("x = 1", READONLY),
        ("redis.call = function() end", READONLY),
        ("rawset(redis, 'call', 1)", READONLY),
        ("rawset(_G, 'x', 1)", READONLY),
        ("setmetatable(_G, {})", READONLY),
        ("setmetatable(string, {})", READONLY),
        ("table.insert(string, 1)", READONLY),
        ("table.sort(redis)", READONLY),
        ("getmetatable(_G).__index = {}", READONLY),
        ("getmetatable('').__index = nil", READONLY),
        ("getmetatable('').__add = function() end", READONLY),
        ("getmetatable(redis).__newindex = nil", READONLY),
        ("string.rep = nil", READONLY),
        ("cjson.encode = nil", READONLY),
        ("getfenv(0).x = 1", READONLY),
        ("getfenv(redis.pcall).x = 1", READONLY),
        ("getfenv(pairs).x = 1", READONLY),
        ("error(redis)", "ERR table"),
        ("KEYS.x = 1; return tostring(ARGV.x)", "nil"),
    ]);
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    eval(&mut connection, "setfenv(1, {redis = 1}) return 1");
    assert_eq!(eval(&mut connection, "return type(redis.call)"), "$8\r\nfunction\r\n");
    eval(
        &mut connection,
        "cjson.encode_max_depth(1) cjson.encode_invalid_numbers(true)",
    );
    assert_eq!(eval(&mut connection, "return cjson.encode({{}})"), "$4\r\n[{}]\r\n");
    assert!(eval(&mut connection, "return cjson.encode(1/0)").contains("must not be NaN or Inf"));
}

/// Arguments are read in place on the stack of the calling coroutine, and replies are pushed there.
#[test]
fn calls_use_the_stack_they_are_made_from() {
    let many = "local t = {} for i = 1, 7000 do t[i] = i end redis.call('RPUSH', 'list', unpack(t)) ";
    check(&[
        ("return redis.call('ECHO', -0.0)", "$2\r\n-0\r\n"),
        ("return redis.call('ECHO', 1e15)", "$16\r\n1000000000000000\r\n"),
        ("return redis.call('ECHO', 2^63)", "$22\r\n9.2233720368547758e+18\r\n"),
        ("return redis.call('ECHO', 'a\\0b')", "$3\r\na\0b\r\n"),
        ("return redis.call('ECHO', '')", "$0\r\n\r\n"),
        ("return redis.call('ECHO', {})", "must be strings or integers"),
        ("return redis.call()", "at least one argument"),
        (
            "return coroutine.wrap(function() return redis.call('ECHO', 'x') end)()",
            "$1\r\nx\r\n",
        ),
        (
            "return {pcall(coroutine.wrap(function() redis.call('x') end))}",
            "Unknown Redis command",
        ),
        (
            &format!("{many} return #redis.call('LRANGE', 'list', 0, -1)"),
            ":7000\r\n",
        ),
        (
            &format!("{many} return redis.call('LRANGE', 'list', 0, -1)[7000]"),
            "$4\r\n7000\r\n",
        ),
        (
            "redis.call('HSET', 'h', 'f', 'v') redis.setresp(3) return redis.call('HGETALL', 'h').map.f",
            "$1\r\nv\r\n",
        ),
        (
            "redis.call('SADD', 's', 'm') redis.setresp(3) return tostring(redis.call('SMEMBERS', 's').set.m)",
            "true",
        ),
    ]);
}

/// Plain answers are taken from Lua's stack, all others go another way; both look alike.
#[test]
fn plain_answers_look_as_all_others() {
    let list = |count: usize| format!("local t = {{}} for i = 1, {count} do t[i] = i end return t");
    let expected = |count: usize| {
        let elements: String = (1..=count).map(|number| format!(":{number}\r\n")).collect();
        format!("*{count}\r\n{elements}")
    };
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    for count in [1, 2, 127, 128, 129, 300] {
        assert_eq!(eval(&mut connection, &list(count)), expected(count));
    }
    for (script, answer) in [
        ("return 3.9", ":3\r\n"),
        ("return -3.9", ":-3\r\n"),
        ("return 'a\\0b'", "$3\r\na\0b\r\n"),
        ("return {}", "*0\r\n"),
        ("return {'a', 2.5, ''}", "*3\r\n$1\r\na\r\n:2\r\n$0\r\n\r\n"),
        (
            "return {'a', {1, {'b'}}}",
            "*2\r\n$1\r\na\r\n*2\r\n:1\r\n*1\r\n$1\r\nb\r\n",
        ),
        ("return {'a', false, true}", "*3\r\n$1\r\na\r\n$-1\r\n:1\r\n"),
        ("return {1, nil, 3}", "*1\r\n:1\r\n"),
        ("return {1, x = 2}", "*1\r\n:1\r\n"),
        ("return {[2] = 1}", "*0\r\n"),
        ("return {ok = 'fine', 1}", "+fine\r\n"),
        ("return {1, err = 'ERR bad'}", "-ERR bad\r\n"),
        ("return redis.call('INCR', 'n')", ":1\r\n"),
        ("return", "$-1\r\n"),
    ] {
        assert_eq!(eval(&mut connection, script), answer, "{script}");
    }
}

/// Ways to reach the machine, or the interpreter from below (CVE-2022-0543 among them).
#[test]
fn the_world_outside_is_not_there() {
    for name in [
        "io", "package", "require", "dofile", "loadfile", "debug", "print", "newproxy", "module",
    ] {
        check(&[(&format!("return type({name})"), "nonexistent global variable")]);
    }
    check(&[
        // Scripts have only the clock of the system's libraries.
        (
            "local names = {} for name in pairs(os) do names[#names + 1] = name end return names",
            "clock",
        ),
        // Bytecode is not verified by Lua: it is never loaded.
        (
            "return tostring(loadstring(string.dump(function() return 1 end)))",
            "nil",
        ),
        ("return tostring(loadstring('\\27Lua'))", "nil"),
        ("return tostring(load(function() return nil end))", "function"),
        ("return loadstring('return 7')()", "7"),
        // CVE-2024-46981: the collector is not in the script's hands, and nothing of a script runs
        // in it.
        ("return collectgarbage('stop')", "0"),
        ("return collectgarbage('setpause', 0)", "0"),
    ]);
}

/// CVE-2025-49844: Lua frees a chunk's name while it parses.
#[test]
fn names_of_chunks_are_held() {
    let script = "for i = 1, 2000 do
        local name = string.rep('n', i % 50) .. i
        loadstring('local x = {' .. string.rep('\"a\"..i,', 50) .. '}', name)
        loadstring('x = ', name .. '\\0' .. i)
    end collectgarbage() return 'ok'";
    check(&[(script, "ok")]);
}

/// CVE-2025-46817 and its kin: counts that wrap around. CVE-2024-31449: `bit.tohex`.
/// CVE-2022-24834: cjson and cmsgpack.
#[test]
fn counts_do_not_wrap() {
    check(&[
        ("return {unpack({1,2,3}, -2, 2147483647)}", "too many results to unpack"),
        ("return {unpack({1,2,3}, 0, 2147483647)}", "too many results to unpack"),
        (
            "return {unpack({1,2,3}, -2147483648, 2147483647)}",
            "too many results to unpack",
        ),
        ("return {unpack({1,2,3}, 1, 0/0)}", "too many results to unpack"),
        ("return {unpack({1,2,3}, 2)}", "*2\r\n:2\r\n:3"),
        ("return bit.tohex(65535, -2147483648)", "0000FFFF"),
        ("return bit.tohex(1, 2147483647)", "00000001"),
        ("return bit.lshift(1, 4294967295)", "-2147483648"),
        ("return struct.pack('i2147483648', 1)", "integral size overflow"),
        ("return struct.pack('!3', 1)", "not a power of 2"),
        ("return struct.pack('c99999999999', 'x')", "integral size overflow"),
        ("return struct.unpack('c2147483647', 'x')", "data string too short"),
        (
            "return struct.unpack('i8', 'abcdefgh', 9007199254740992)",
            "data string too short",
        ),
        ("return struct.unpack('c0', 'x')", "needs a previous size"),
        ("return struct.unpack('bc0', '\\255x')", "data string too short"),
        ("return bit.bnot(cjson.null)", "number expected, got userdata"),
        (
            "return redis.call('xgroup')",
            "ERR Wrong number of args calling Redis command from script",
        ),
        ("return struct.size('c2147483647c2147483647c2147483647')", "6442450941"),
        (
            "return cmsgpack.unpack('\\221\\255\\255\\255\\255')",
            "Missing bytes in input.",
        ),
        (
            "return cmsgpack.unpack('\\223\\255\\255\\255\\255')",
            "Missing bytes in input.",
        ),
        (
            "return cmsgpack.unpack('\\219\\255\\255\\255\\255x')",
            "Missing bytes in input.",
        ),
        (
            "return cmsgpack.unpack(string.rep('\\145', 100000))",
            "Bad data format in input.",
        ),
        ("return cmsgpack.unpack_limit('x', 1, -1)", "Invalid request"),
        ("return string.format('%999999d', 1)", "invalid format"),
        ("return #string.rep('', 1e15)", "0"),
        ("return select(-1, 1, 2)", "2"),
        ("return string.sub('abc', -2147483648, 2147483647)", "abc"),
        ("return #string.rep('x', 1e15)", "resulting string too large"),
    ]);
}

/// Tables and texts that nest, scripts that call themselves.
#[test]
fn depth_is_bounded() {
    check(&[
        ("local t = {} t[1] = t return t", "reached lua stack limit"),
        ("local t = {} t.x = t return cjson.encode(t)", "excessive nesting"),
        (
            "return cjson.decode(string.rep('[', 100000))",
            "too many nested data structures",
        ),
        ("local t = {} t[1] = t return #cmsgpack.pack(t)", "17"),
        (
            "local t = {1} for i = 1, 60 do t = {t, t} end return cjson.encode(t)",
            "resulting string too large",
        ),
        (
            "local t = {} for i = 1, 9 do t[i] = t end return cmsgpack.pack(t)",
            "resulting string too large",
        ),
        ("local function f() return f() + 1 end return f()", "stack overflow"),
        (
            "local function f() local ok, e = pcall(f) return e end return tostring(f())",
            "overflow",
        ),
        (
            "local t = setmetatable({}, {}) getmetatable(t).__index = t return t.x",
            "loop in gettable",
        ),
        (
            "return loadstring(string.rep('(', 10000) .. '1' .. string.rep(')', 10000)) or 'refused'",
            "refused",
        ),
        (
            "return string.rep('a', 50000):find(string.rep('a?', 50000) .. 'b')",
            "pattern too complex",
        ),
        ("return #string.rep('x', 3):gsub('', string.rep('y', 10))", "43"),
        (
            "local s = 'x' for i = 1, 40 do s = s .. s end return #s",
            "not enough memory",
        ),
    ]);
}

/// A script of 45 bytes returned a table that contained itself three times. Writing it as a reply
/// took time exponential in its depth, without checking the clock, the budget or kills, and the
/// server answered no other client. Depth, bytes and time are now checked at each value of an
/// answer.
#[test]
fn answers_that_hold_themselves_are_refused_and_leave_nothing() {
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    for (build, error) in [
        ("local t = {} for i = 1, 3 do t[i] = t end", "reached lua stack limit"),
        (
            "redis.setresp(3) local t = {} t.map = {a = t, b = t, c = t}",
            "reached lua stack limit",
        ),
        (
            "redis.setresp(3) local t = {} t.set = {[t] = true}",
            "reached lua stack limit",
        ),
        (
            "local t = {1} for i = 1, 60 do t = {t, t} end",
            "the reply exceeds the maximum size",
        ),
        (
            "local s = string.rep('x', 1048576) local t = {s, s, true} for i = 1, 10 do t = {t, t} end",
            "the reply exceeds the maximum size",
        ),
    ] {
        let script = format!("redis.call('INCR', 'count') {build} return t");
        let answer = eval(&mut connection, &script);
        assert!(answer.starts_with('-') && answer.contains(error), "{script}\n{answer}");
        assert_eq!(
            answer.matches("\r\n").count(),
            1,
            "nothing is in front of the error of {script}"
        );
        connection.check("GET count => nil");
        // In a transaction the others have their replies.
        let script = format!("{build} return t");
        for words in [&["MULTI"][..], &["EVAL", &script, "0"], &["PING"]] {
            connection.run(words);
        }
        let answer = String::from_utf8_lossy(&connection.bytes(&["EXEC"])).into_owned();
        assert!(answer.starts_with("*2\r\n-") && answer.contains(error), "{answer}");
        assert!(answer.ends_with("\r\n+PONG\r\n"), "{answer}");
        assert_eq!(eval(&mut connection, "return {1, {2}}"), "*2\r\n:1\r\n*1\r\n:2\r\n");
    }
}

/// Two threads observe the clock: the fixture's advances only when it is set.
fn in_background<R: Send>(fixture: &Fixture, mut poke: impl FnMut(), run: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| {
        let running = scope.spawn(run);
        while !running.is_finished() {
            poke();
            fixture.advance_ms(10);
            std::thread::yield_now();
        }
        running.join().unwrap()
    })
}

/// A script that takes long is restarted on another thread; other clients get an error, and may
/// kill it until it writes.
#[test]
fn a_long_script_is_killed() {
    for (script, with_pcall) in [
        ("while true do end", false),
        ("while true do pcall(function() while true do end end) end", true),
        (
            "local c = coroutine.create(function() while true do end end) while true do coroutine.resume(c) end",
            true,
        ),
        (
            "while true do xpcall(function() while true do end end, function() while true do end end) end",
            true,
        ),
        ("return string.rep('a', 5000):find(string.rep('a*', 40) .. 'b')", false),
        (
            "local t = {1} for i = 1, 60 do t = {t, t} end while true do pcall(cjson.encode, t) end",
            true,
        ),
        (
            "local t = {} for i = 1, 9 do t[i] = t end while true do pcall(cmsgpack.pack, t) end",
            true,
        ),
        (
            "local s = '[' .. string.rep('1,', 1e6) .. '1]' while true do pcall(cjson.decode, s) end",
            true,
        ),
    ] {
        let fixture = Fixture::new();
        let mut request = Vec::new();
        quartet_wire_resp::encode_command(&["EVAL", script, "0"], &mut request);
        let mut connection = fixture.connect();
        let (received, reply) = in_background(
            &fixture,
            || {},
            || {
                let mut out = Vec::new();
                (connection.session.receive(&request, &mut out), out)
            },
        );
        assert!(reply.is_empty(), "nothing of the first run is seen");
        let Next::After(After::LongRun(mut run)) = received.next else {
            panic!("the script ended: {script}");
        };
        let mut other = fixture.connect();
        let (mut was_busy, mut killed) = (false, false);
        let layer = fixture.layer.clone();
        let poke = || {
            if layer.scripting.long_scripts.is_busy() && !killed {
                was_busy |= show(&other.run(&["GET", "a"])).starts_with("!BUSY Redis is busy");
                killed = show(&other.run(&["SCRIPT", "KILL"])) == "OK";
                // go-redis' own suite flushes right after a kill, and got BUSY when the machine was
                // slow.
                assert_eq!(show(&other.run(&["GET", "a"])), "nil", "{with_pcall}");
            }
        };
        let run = in_background(&fixture, poke, || {
            run.run();
            run
        });
        let mut out = Vec::new();
        connection.session.take_back(*run, &mut out);
        let text = String::from_utf8_lossy(&out);
        assert!(
            text.contains("Script killed by user with SCRIPT KILL"),
            "{with_pcall} {text}"
        );
        assert!(was_busy && killed);
        assert_eq!(show(&other.run(&["GET", "a"])), "nil");
        assert_eq!(
            show(&other.run(&["SCRIPT", "KILL"])),
            "!NOTBUSY No scripts in execution right now."
        );
    }
}

/// The first run's writes are rolled back; the second run writes them once. It cannot be killed
/// afterwards.
#[test]
fn a_long_script_takes_effect_once() {
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    connection.check("CONFIG SET busy-reply-threshold 50 => OK");
    // The script lasts for an hour of the fixture's time. A thread that gets no processor for a
    // while sees much of it pass at once, and none of it may be the whole hour.
    const HOUR_MS: u64 = 3_600_000;
    let script = "redis.call('INCR', 'count') while os.clock() < 3600 do end return redis.call('INCR', 'count')";
    let let_some_pass = || std::thread::sleep(Duration::from_millis(1));
    let mut request = Vec::new();
    for words in [&["MULTI"][..], &["EVAL", script, "0"], &["EXEC"]] {
        quartet_wire_resp::encode_command(words, &mut request);
    }
    let received = in_background(&fixture, let_some_pass, || {
        let mut out = Vec::new();
        connection.session.receive(&request, &mut out)
    });
    let Next::After(After::LongRun(mut run)) = received.next else {
        panic!("the script ended");
    };
    let mut other = fixture.connect();
    assert_eq!(show(&other.run(&["GET", "count"])), "nil");
    let layer = fixture.layer.clone();
    let mut answers = Vec::new();
    let poke = || {
        let_some_pass();
        if layer.scripting.long_scripts.is_busy() && answers.is_empty() {
            answers.push(show(&other.run(&["SCRIPT", "KILL"])));
            fixture.advance_ms(HOUR_MS);
        }
    };
    let run = in_background(&fixture, poke, || {
        run.run();
        run
    });
    let mut out = Vec::new();
    connection.session.take_back(*run, &mut out);
    assert_eq!(out, b"*1\r\n:2\r\n");
    assert!(answers[0].starts_with("!UNKILLABLE"), "{answers:?}");
    assert!(!layer.scripting.scripts_call_all.load(Ordering::Relaxed));
}

/// A transaction whose reads are heavy: 60 of them take far longer than the clock needs to pass
/// every bound.
fn heavy_transaction(before: &[&[&str]]) -> Vec<u8> {
    let mut request = Vec::new();
    quartet_wire_resp::encode_command(&["MULTI"], &mut request);
    before
        .iter()
        .for_each(|words| quartet_wire_resp::encode_command(words, &mut request));
    for _ in 0..55 {
        quartet_wire_resp::encode_command(&["SORT", "list", "BY", "none*", "LIMIT", "0", "1"], &mut request);
    }
    quartet_wire_resp::encode_command(&["EXEC"], &mut request);
    request
}

fn fill_list(connection: &mut Connection) {
    let numbers: Vec<String> = (0..20_000).map(|number: u32| number.to_string()).collect();
    let mut words = vec!["RPUSH", "list"];
    words.extend(numbers.iter().map(String::as_str));
    connection.run(&words);
}

/// The transaction's first run ends early; the result is the second run, which has not started.
fn begin_heavy(fixture: &Fixture, connection: &mut Connection, request: &[u8]) -> Box<LongRun> {
    let received = in_background(fixture, || {}, || connection.session.receive(request, &mut Vec::new()));
    match received.next {
        Next::After(After::LongRun(run)) => run,
        other => panic!("the transaction ended: {other:?}"),
    }
}

/// A transaction of many heavy reads kept the connection's thread for its whole duration. It is
/// rolled back and run again where it may take long, from the connection's previous state.
#[test]
fn a_long_transaction_takes_effect_once() {
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    connection.check("CONFIG SET busy-reply-threshold 0 => OK");
    fill_list(&mut connection);
    let request = heavy_transaction(&[
        &["INCR", "count"],
        &["SELECT", "3"],
        &["INCR", "count"],
        &["SELECT", "0"],
        &["PING"],
    ]);
    let mut run = begin_heavy(&fixture, &mut connection, &request);
    let mut other = fixture.connect();
    assert_eq!(
        show(&other.run(&["GET", "count"])),
        "nil",
        "nothing of the first run is seen"
    );
    let run = in_background(
        &fixture,
        || {},
        || {
            run.run();
            run
        },
    );
    let mut out = Vec::new();
    connection.session.take_back(*run, &mut out);
    assert!(
        out.starts_with(b"*60\r\n:1\r\n+OK\r\n:1\r\n+OK\r\n"),
        "{}",
        String::from_utf8_lossy(&out)
    );
    other.check("GET count => 1\nSELECT 3 => OK\nGET count => 1");
    assert!(!fixture.layer.scripting.long_scripts.is_busy());
    connection.check("PING => PONG\nEXEC => !ERR EXEC without MULTI");
}

/// Other clients get an error while it keeps them waiting, and may kill it: none of its effects
/// stay, whether it has written or not.
#[test]
fn a_long_transaction_is_killed() {
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    connection.check("CONFIG SET busy-reply-threshold 1 => OK");
    fill_list(&mut connection);
    let request = heavy_transaction(&[&["INCR", "count"]]);
    let mut run = begin_heavy(&fixture, &mut connection, &request);
    let mut other = fixture.connect();
    let (mut error, mut killed) = (String::new(), String::new());
    let layer = fixture.layer.clone();
    let poke = || {
        if layer.scripting.long_scripts.is_busy() && killed.is_empty() {
            error = show(&other.run(&["GET", "count"]));
            killed = show(&other.run(&["SCRIPT", "KILL"]));
        }
    };
    let run = in_background(&fixture, poke, || {
        run.run();
        run
    });
    let mut out = Vec::new();
    connection.session.take_back(*run, &mut out);
    assert!(error.starts_with("!BUSY"), "{error}");
    assert_eq!(killed, "OK");
    assert_eq!(
        String::from_utf8_lossy(&out),
        "-EXECABORT Transaction discarded because of: it was ended by SCRIPT KILL\r\n"
    );
    other.check("GET count => nil\nSCRIPT KILL => !NOTBUSY No scripts in execution right now.");
    connection.check("EXEC => !ERR EXEC without MULTI\nGET count => nil");
}
