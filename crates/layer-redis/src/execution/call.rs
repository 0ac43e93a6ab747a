//! Running one command: as a transaction of its own, or within that of EXEC or of a script.

use std::sync::atomic::Ordering;

use quartet_engine::{Dependency, ExecuteError, Frozen, MustWrite, PartitionGuard, ReadGuard, Space, Transaction};
use quartet_wire_resp::{Arguments, Reply};

use crate::access::acl::Denial;
use crate::command::error_reply::ErrorReply;
use crate::command::errors;
use crate::command::{BLOCKING, Command, FAST, KNOWS_SIZE, SKIP_SLOWLOG, WRITE};
use crate::commands::transactions;
use crate::commands::transactions::QueueRun;
use crate::connections::blocking::EmptyReply;
use crate::connections::clients::ClientState;
use crate::execution::replication::gather;
use crate::execution::slowlog::slow_command;
use crate::handler::allowance::Allowance;
use crate::handler::beside::{Beside, Ran};
use crate::handler::caching::remember;
use crate::handler::command_memory::CommandMemory;
use crate::handler::context::Context;
use crate::handler::definition::{LongRunning, Nested};
use crate::handler::groups::Groups;
use crate::handler::monitor::tell_monitors;
use crate::handler::outcome::Outcome;
use crate::layer::Redis;
use crate::observation::counting::{Held, add};

/// A command to be run.
pub struct Call<'a> {
    pub command: &'static Command,
    pub arguments: Arguments<'a>,
    /// The command has waited and is called again, because this key changed.
    pub retry_for: Option<&'a [u8]>,
}

/// A command's outcome, or the error that it answers.
type Answer = Result<Outcome, ErrorReply>;

/// The end of a call: its outcome, and the version that the reply must wait for.
pub struct Ended {
    pub outcome: Answer,
    pub dependency: Dependency,
}

impl Ended {
    /// Nothing was read or written.
    pub fn without_effects(outcome: Answer) -> Ended {
        Ended {
            outcome,
            dependency: Dependency::ZERO,
        }
    }
}

/// Runs one command as one transaction. Appends its reply to `out`, except for an error, which the
/// caller writes with [`answer_error`] after removing the partial reply.
pub fn call(
    partition: &mut PartitionGuard<'_>,
    layer: &Redis,
    client: &mut ClientState,
    call: &Call<'_>,
    out: &mut Vec<u8>,
) -> Ended {
    let (command, arguments) = (call.command, call.arguments);
    let index = layer.table.index(command);
    client.shared.note_command(index);
    let started_micros = begin(layer, client);
    if begins_elsewhere(client, command) {
        return Ended::without_effects(Ok(Outcome::RunLong));
    }
    let runs_queue = client.multi.is_some() && command.name == "exec";
    let queue_run = runs_queue.then(|| QueueRun::new(layer, client.may_take_long));
    let allowance = match &queue_run {
        None => Allowance::with_lock(started_micros),
        Some(run) => Allowance::within(run),
    };
    let is_bounded = may_run_long(client, command) && call.retry_for.is_none();
    let now_ms = partition.now_micros() / 1000;
    let memory = CommandMemory::behind(layer, client);
    let executed = partition.execute(layer.space, |tx| {
        let reply = reply_to(client, layer, &memory, out);
        let mut context = Context {
            tx,
            client,
            groups: Groups::of(layer)
                .allowed((is_bounded || runs_queue).then_some(&allowance))
                .with_memory(&memory),
            reply,
            now_ms,
            in_exec: false,
            retry_for: call.retry_for,
        };
        let outcome = match handle(layer, &mut context, index, command, arguments) {
            _ if is_bounded && allowance.is_used_up() => Ok(Outcome::RunLong),
            Ok(Outcome::Done) if context.reply.is_full() => Err(context.groups.reply_is_full()),
            outcome => outcome,
        };
        match keeps_effects(&outcome) {
            true => Ok(outcome),
            false => Err(outcome),
        }
    });
    memory.keep_for(client);
    let is_home = !matches!(executed, Err(ExecuteError::NotHome));
    let mut ended = conclude(layer, executed);
    if !is_home && let Some(outcome) = run_without_home(client, command, out) {
        let ends_transaction = matches!(command.name, "discard" | "unwatch");
        if outcome.is_ok() && ends_transaction {
            transactions::forget(partition, client);
        }
        ended.outcome = outcome;
    }
    // A command that waits or is received again is counted when it has been served.
    let is_over = !matches!(
        ended.outcome,
        Ok(Outcome::Wait(_) | Outcome::Retry { .. } | Outcome::RunLong | Outcome::SwitchDatabase(_))
    );
    if is_over && runs_queue {
        // EXEC ends its transaction, also with an error.
        transactions::forget(partition, client);
    }
    if is_over {
        // The sleep of DEBUG SLEEP counts as the command's duration.
        let started_micros = started_micros.saturating_sub(client.sleep_micros);
        let counting = Counting {
            failed: ended.outcome.is_err(),
            held: held_by(client),
        };
        let ended_micros = account(layer, client, index, command, arguments, started_micros, counting);
        client.started_micros = Some(ended_micros);
    }
    ended
}

/// Returns the command's start. Drops the request that another command parsed.
fn begin(layer: &Redis, client: &mut ClientState) -> u64 {
    if !client.may_take_long {
        client.parsed = None;
    }
    let started_micros = client.started_micros.take();
    started_micros.unwrap_or_else(|| layer.engine.now_micros())
}

/// The writer of a command's reply, with the bounds on its size.
fn reply_to<'o>(client: &ClientState, layer: &Redis, memory: &'o CommandMemory<'_>, out: &'o mut Vec<u8>) -> Reply<'o> {
    Reply::new(out, client.protocol)
        .limited(layer.reply_bytes_max())
        .with_memory(memory)
        .kept_whole(client.keeps_replies_whole)
}

/// Returns true if the command ends and restarts on a thread that may take long, once it is known
/// to take long.
fn may_run_long(client: &ClientState, command: &Command) -> bool {
    // Commands that wait, and MIGRATE, continue in other ways than by their reply.
    let writes = command.has(WRITE) && !command.has(BLOCKING) && command.name != "migrate" && !client.is_upstream;
    !client.may_take_long && (writes || command.may_look_at_much())
}

/// The counting of a holder of the exclusive lock: others count beside one that takes long.
fn held_by(client: &ClientState) -> Held {
    match client.may_take_long {
        true => Held::Beside,
        false => Held::Alone,
    }
}

/// The connection's last command of this kind took long, and this is another: it is not started
/// with the lock held, as most of its work would be done twice.
fn begins_elsewhere(client: &ClientState, command: &Command) -> bool {
    let may_be_long = client.may_look_at_much(command) && !command.has(KNOWS_SIZE);
    client.expects_long && !client.may_take_long && may_be_long
}

/// The state that a command reads which only reads.
pub enum Reading<'r, 'p> {
    /// The latest, with the partition's lock held beside others.
    Beside(&'r mut ReadGuard<'p>),
    /// One that was frozen, without the lock.
    Frozen(&'r mut Frozen),
    /// The latest, without the lock, while a transaction holds that for long.
    BeforeLong(&'r mut Frozen),
}

impl Reading<'_, '_> {
    pub fn now_micros(&self) -> u64 {
        match self {
            Reading::Beside(partition) => partition.now_micros(),
            Reading::Frozen(frozen) | Reading::BeforeLong(frozen) => frozen.now_micros(),
        }
    }

    fn execute<R, E>(
        self,
        space: Space,
        body: impl FnOnce(&mut Transaction<'_>) -> Result<R, E>,
    ) -> Result<Result<(R, Dependency), ExecuteError<E>>, MustWrite> {
        match self {
            Reading::Beside(partition) => partition.execute(space, body),
            Reading::Frozen(frozen) | Reading::BeforeLong(frozen) => frozen.execute(body),
        }
    }
}

/// Runs one read-only command. Appends its reply to `out`, as [`call`] does. `MustWrite`: it has
/// effects or notifications that require the exclusive lock, and must be called with that; it was
/// not counted, and `out` holds no valid reply.
pub fn call_reading(
    reading: Reading<'_, '_>,
    layer: &Redis,
    client: &mut ClientState,
    command: &'static Command,
    arguments: Arguments<'_>,
    out: &mut Vec<u8>,
) -> Result<Ended, MustWrite> {
    let index = layer.table.index(command);
    let runs_queue = client.multi.is_some() && command.name == "exec";
    client.shared.note_command(index);
    let started_micros = begin(layer, client);
    if begins_elsewhere(client, command) {
        return Ok(Ended::without_effects(Ok(Outcome::RunLong)));
    }
    let is_on_long_thread = matches!(reading, Reading::Frozen(_));
    let allowance = match is_on_long_thread {
        true => Allowance::without_lock(&client.shared, &layer.scripting.long_scripts),
        false => Allowance::with_lock(started_micros),
    };
    let now_ms = reading.now_micros() / 1000;
    let beside = Beside::new(layer.changes.are_wanted(), layer.home_decides_until_ms(now_ms));
    let is_bounded = client.may_look_at_much(command);
    let memory = CommandMemory::behind(layer, client);
    let executed = reading.execute(layer.space, |tx| {
        let reply = reply_to(client, layer, &memory, out);
        let groups = Groups::with_notes(layer, &beside);
        let mut context = Context {
            tx,
            client,
            groups: groups.allowed(is_bounded.then_some(&allowance)).with_memory(&memory),
            reply,
            now_ms,
            in_exec: false,
            retry_for: None,
        };
        let nested = Nested::new(layer, call_queued_reading);
        let outcome = layer.commands().handler(index).run(&mut context, arguments, nested);
        if beside.must_be_alone(layer.tells_of_misses()) {
            return Err(Err(MustWrite));
        }
        match outcome {
            _ if allowance.is_used_up() && !is_on_long_thread => Ok(Outcome::RunLong),
            _ if allowance.is_used_up() => Err(Ok(errors::ENDED.into())),
            Ok(Outcome::Done) if context.reply.is_full() => Err(Ok(context.groups.reply_is_full())),
            Ok(Outcome::Done) => {
                if !is_on_long_thread {
                    remember(context.groups, context.client, command, arguments);
                }
                Ok(Outcome::Done)
            }
            Ok(Outcome::RunLong) if !is_on_long_thread => Ok(Outcome::RunLong),
            Err(error) if !error.keeps_effects => Err(Ok(error)),
            Ok(_) | Err(_) => Err(Err(MustWrite)),
        }
    })?;
    if layer.replica.is_some()
        && executed
            .as_ref()
            .is_err_and(|error| !matches!(error, ExecuteError::Layer(..)))
    {
        return Err(MustWrite);
    }
    memory.keep_for(client);
    let (outcome, dependency) = match executed {
        Ok((Outcome::RunLong, _)) => return Ok(Ended::without_effects(Ok(Outcome::RunLong))),
        Ok((outcome, dependency)) => (Ok(outcome), dependency),
        Err(ExecuteError::Layer(error, dependency)) => (Err(error?), dependency),
        Err(ExecuteError::NotHome) => {
            let outcome = run_without_home(client, command, out);
            (
                outcome.unwrap_or_else(|| Err(errors::NOT_HOME.into())),
                Dependency::ZERO,
            )
        }
        Err(
            ExecuteError::Unreadable(dependency)
            | ExecuteError::TooLarge(dependency)
            | ExecuteError::DiskFull(dependency),
        ) => (Err(errors::UNREADABLE.into()), dependency),
    };
    // A transaction that runs beside others watches no key.
    if runs_queue {
        transactions::end(client);
    }
    // Other code that counts holds the exclusive lock, or counts as those beside others do.
    let _counting = is_on_long_thread.then(|| layer.engine.read());
    let (hits, misses) = beside.keys_read();
    layer.observation.statistics.keys_read_beside(hits, misses);
    for ran in beside.take_ran() {
        count_queued(layer, ran);
    }
    let counting = Counting {
        failed: outcome.is_err(),
        held: Held::Beside,
    };
    let ended_micros = account(layer, client, index, command, arguments, started_micros, counting);
    client.started_micros = Some(ended_micros);
    Ok(Ended { outcome, dependency })
}

/// See [`transactions::run_without_home`].
fn run_without_home(client: &mut ClientState, command: &Command, out: &mut Vec<u8>) -> Option<Answer> {
    let answer = transactions::run_without_home(client, command)?;
    Some(answer.map(|()| {
        Reply::new(out, client.protocol).ok();
        Outcome::Done
    }))
}

/// Passes on what the transaction has gathered for others, or forgets it with the transaction.
fn conclude(layer: &Redis, executed: Result<(Answer, Dependency), ExecuteError<Answer>>) -> Ended {
    let (outcome, dependency) = match executed {
        Ok((outcome, dependency)) => {
            layer.outbox.commit(dependency);
            layer.replication.commit(dependency);
            layer.commit_modules();
            return Ended { outcome, dependency };
        }
        Err(ExecuteError::Layer(outcome, dependency)) => (outcome, dependency),
        Err(ExecuteError::TooLarge(dependency)) => {
            let refusal = layer.module_states.take_refusal();
            (Err(refusal.unwrap_or(errors::EFFECTS_TOO_LARGE).into()), dependency)
        }
        Err(ExecuteError::DiskFull(dependency)) => (Err(errors::DISK_FULL.into()), dependency),
        Err(ExecuteError::Unreadable(dependency)) => (Err(errors::UNREADABLE.into()), dependency),
        Err(ExecuteError::NotHome) => (Err(errors::NOT_HOME.into()), Dependency::ZERO),
    };
    layer.changes.take();
    layer.roll_modules_back();
    layer.outbox.discard(dependency);
    layer.replication.discard();
    Ended { outcome, dependency }
}

/// Returns true if the transaction is committed with this outcome.
fn keeps_effects(outcome: &Answer) -> bool {
    match outcome {
        Ok(outcome) => matches!(outcome, Outcome::Done | Outcome::Wait(_)),
        Err(error) => error.keeps_effects,
    }
}

/// Runs the handler of `command`, which has this `index` in the table, and gathers its notices to
/// others.
fn handle(
    layer: &Redis,
    context: &mut Context<'_, '_>,
    index: usize,
    command: &'static Command,
    arguments: Arguments<'_>,
) -> Answer {
    if command.has(WRITE) && context.must_end_before(arguments.len() as u64) {
        return Ok(Outcome::RunLong);
    }
    let answered_from = context.reply.mark();
    let outcome = layer
        .commands()
        .handler(index)
        .run(context, arguments, Nested::new(layer, call_queued));
    if !keeps_effects(&outcome) {
        return outcome;
    }
    let now_ms = context.expires_up_to_ms();
    layer.follow_changes(context.tx, now_ms);
    if layer.changes.are_wanted() {
        let (changes, expired_fields) = layer.changes.take_with_fields();
        layer.notify(Some((command, arguments)), &changes);
        layer.invalidate(Some(context.client.shared.id), &changes);
        if layer.replication.is_on() {
            layer.gather_ended(&changes, &expired_fields);
            gather(layer, context, command, arguments, &changes, answered_from);
        }
        remember(context.groups, context.client, command, arguments);
    }
    outcome
}

/// Counts an error reply and writes it.
pub fn answer_error(layer: &Redis, error: &ErrorReply, reply: &mut Reply<'_>) {
    if !error.is_counted {
        layer.observation.statistics.error_sent(error.text.as_bytes());
    }
    reply.error(&*error.text);
}

/// A command that was allowed when it was queued, or that a script calls, is checked when it runs.
fn denied(
    layer: &Redis,
    context: &Context<'_, '_>,
    denial: &Denial,
    command: &'static Command,
    arguments: Arguments<'_>,
) -> ErrorReply {
    let is_script = context.client.is_script;
    let (place, text) = if is_script {
        ("lua", denial.text_in_script().into())
    } else {
        ("multi", denial.text_at_exec().into())
    };
    layer.log_denial(context.client, denial, command, arguments, place);
    text
}

/// Runs one queued command, or one of a script, inside the present transaction. Its errors become
/// its reply.
pub fn call_queued(
    layer: &Redis,
    context: &mut Context<'_, '_>,
    command: &'static Command,
    arguments: Arguments<'_>,
) -> Result<(), LongRunning> {
    let index = layer.table.index(command);
    if !context.client.is_script {
        context.client.shared.note_command(index);
    }
    tell_monitors(layer, context.client, command, context.tx.now_micros(), arguments);
    let started_micros = layer.engine.now_micros();
    let slept_before = context.client.sleep_micros;
    let outcome = match context.client.user.check(command, arguments) {
        Ok(()) => {
            pass_gate_again(layer, context, command).and_then(|()| handle(layer, context, index, command, arguments))
        }
        Err(denial) => Err(denied(layer, context, &denial, command, arguments)),
    };
    if context.has_used_up_allowance() {
        return Err(LongRunning);
    }
    let outcome = match outcome {
        Ok(Outcome::RunLong) => return Err(LongRunning),
        Ok(Outcome::After(_) | Outcome::SwitchDatabase(_) | Outcome::Retry { .. }) => {
            Err("ERR Command not allowed inside a transaction".into())
        }
        Ok(Outcome::Wait(block)) => {
            match block.in_exec {
                EmptyReply::Null => context.reply.null(),
                EmptyReply::NullArray => context.reply.null_array(),
            }
            Ok(())
        }
        Ok(Outcome::Done) => Ok(()),
        Err(error) => Err(error),
    };
    let slept_micros = context.client.sleep_micros - slept_before;
    let started_micros = started_micros.saturating_sub(slept_micros);
    let counting = Counting {
        failed: outcome.is_err(),
        held: held_by(context.client),
    };
    account(
        layer,
        context.client,
        index,
        command,
        arguments,
        started_micros,
        counting,
    );
    match outcome {
        // Nothing of EXEC stays. Effects of a script stay, as after any error of it.
        Ok(()) if context.client.is_script && context.reply.is_full() => {
            let error = context.groups.reply_is_full();
            layer.observation.statistics.error_sent(error.text.as_bytes());
            context.reply.replace_by_error(&*error.text);
        }
        Ok(()) => {}
        Err(error) => answer_error(layer, &error, &mut context.reply),
    }
    Ok(())
}

/// The same in a read-only transaction. It may be run again, so its commands are counted at its
/// end; effects that cannot wait until then require the exclusive lock.
fn call_queued_reading(
    layer: &Redis,
    context: &mut Context<'_, '_>,
    command: &'static Command,
    arguments: Arguments<'_>,
) -> Result<(), LongRunning> {
    let beside = context.beside().expect("it only reads");
    let index = layer.table.index(command);
    context.client.shared.note_command(index);
    let started_micros = layer.engine.now_micros();
    let outcome = match context.client.user.check(command, arguments) {
        Ok(()) => layer
            .commands()
            .handler(index)
            .run(context, arguments, Nested::new(layer, call_queued_reading)),
        Err(_) => Ok(Outcome::RunLong),
    };
    let ended_micros = layer.engine.now_micros();
    let micros = ended_micros.saturating_sub(started_micros);
    context
        .client
        .shared
        .last_active_micros
        .store(ended_micros, Ordering::Relaxed);
    if context.has_used_up_allowance() {
        return Err(LongRunning);
    }
    let error = match outcome {
        Ok(Outcome::Done) => None,
        Err(error) if !error.keeps_effects => Some(error),
        Ok(_) | Err(_) => {
            beside.needs_lock_alone();
            None
        }
    };
    if is_slow(layer, command, micros) {
        beside.needs_lock_alone();
    }
    if beside.must_be_alone(layer.tells_of_misses()) {
        return Err(LongRunning);
    }
    match &error {
        Some(error) => context.reply.error(&*error.text),
        None => remember(context.groups, context.client, command, arguments),
    }
    beside.has_run(Ran {
        command,
        micros,
        ended_micros,
        error,
    });
    Ok(())
}

fn count_queued(layer: &Redis, ran: Ran) {
    let index = layer.table.index(ran.command);
    let counter = &layer.observation.statistics.commands.0[index];
    add(&counter.calls, 1, Held::Beside);
    add(&counter.micros, ran.micros, Held::Beside);
    if let Some(error) = &ran.error {
        add(&counter.failed, 1, Held::Beside);
        if !error.is_counted {
            layer.observation.statistics.error_sent(error.text.as_bytes());
        }
    }
    if layer.config.latency_tracking.load(Ordering::Relaxed) != 0 {
        counter.durations.add_under_lock(ran.micros, Held::Beside);
    }
    note_duration(layer, ran.command, ran.ended_micros, ran.micros);
    if let Some(admission_control) = &layer.access.admission_control {
        admission_control.took(ran.micros);
    }
}

/// Returns true if SLOWLOG must record the call.
fn is_slow(layer: &Redis, command: &Command, micros: u64) -> bool {
    let threshold = layer.config.slowlog_log_slower_than.load(Ordering::Relaxed);
    threshold >= 0 && micros >= threshold as u64 && !command.has(SKIP_SLOWLOG)
}

/// A queued command was counted when it was queued; one of a script counts by itself.
fn pass_gate_again(layer: &Redis, context: &Context<'_, '_>, command: &'static Command) -> Result<(), ErrorReply> {
    if !context.client.is_script {
        return Ok(());
    }
    layer.pass_gate(command, 0, context.tx.now_micros())
}

/// How a call is counted.
struct Counting {
    /// It answered an error.
    failed: bool,
    /// The mode of the partition's lock.
    held: Held,
}

/// Counts a call of `command`, which has this `index` in the table, under the partition's lock.
/// Returns its end.
fn account(
    layer: &Redis,
    client: &ClientState,
    index: usize,
    command: &'static Command,
    arguments: Arguments<'_>,
    started_micros: u64,
    counting: Counting,
) -> u64 {
    let Counting { failed, held } = counting;
    let now_micros = layer.engine.now_micros();
    let micros = now_micros.saturating_sub(started_micros);
    let counter = &layer.observation.statistics.commands.0[index];
    add(&counter.calls, 1, held);
    add(&counter.micros, micros, held);
    if failed {
        add(&counter.failed, 1, held);
    }
    client.shared.last_active_micros.store(now_micros, Ordering::Relaxed);
    if layer.config.latency_tracking.load(Ordering::Relaxed) != 0 {
        counter.durations.add_under_lock(micros, held);
    }
    note_duration(layer, command, now_micros, micros);
    if let Some(admission_control) = &layer.access.admission_control {
        admission_control.took(micros);
    }
    if is_slow(layer, command, micros) {
        if let Some(slow) = &layer.process.slow {
            slow(command.name, arguments.len(), &layer.access.realm, micros);
        }
        let entry = slow_command(layer, client, command, arguments, micros);
        let length_max = layer.config.slowlog_max_len.load(Ordering::Relaxed).max(0) as usize;
        layer.observation.slowlog.lock().add(entry, length_max);
    }
    now_micros
}

/// Returns the name of a call in LATENCY and latencystats.
fn note_duration(layer: &Redis, command: &Command, now_micros: u64, micros: u64) {
    let event = if command.has(FAST) { "fast-command" } else { "command" };
    layer.note_latency(event, now_micros, micros);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread::{self, ThreadId};

    use quartet_env::Clock;
    use quartet_wire_resp::{Value, encode_command};

    use crate::testing::{Connection, layer_with};

    /// Advances by a microsecond whenever the test's thread reads it.
    struct CountedClock {
        thread: ThreadId,
        micros: AtomicU64,
    }

    impl Clock for CountedClock {
        fn now_micros(&self) -> u64 {
            let is_counted = thread::current().id() == self.thread;
            self.micros.fetch_add(is_counted.into(), Ordering::SeqCst)
        }
    }

    /// The number of clock readings by sixteen GETs in one pipeline, and INFO's figures for them.
    fn sixteen(clock: &CountedClock, connection: &mut Connection, value: &str) -> (u64, String) {
        connection.run(&["SET", "key", value]);
        connection.run(&["CONFIG", "RESETSTAT"]);
        let mut requests = Vec::new();
        (0..16).for_each(|_| encode_command(&["GET", "key"], &mut requests));
        let before = clock.micros.load(Ordering::SeqCst);
        let received = connection.session.receive(&requests, &mut Vec::new());
        assert_eq!(received.consumed, requests.len());
        let readings = clock.micros.load(Ordering::SeqCst) - before;
        let Value::Bulk(text) = connection.run(&["INFO", "commandstats"]) else {
            panic!("INFO answers a string");
        };
        let text = String::from_utf8(text).unwrap();
        let line = text.lines().find(|line| line.starts_with("cmdstat_get")).unwrap();
        (readings, line.split(",usec_per_call").next().unwrap().to_owned())
    }

    #[test]
    fn a_pipeline_reads_the_clock_once_a_command_and_each_has_its_own_time() {
        let clock = Arc::new(CountedClock {
            thread: thread::current().id(),
            micros: AtomicU64::new(1_700_000_000_000_000),
        });
        let layer = layer_with(clock.clone(), crate::commands::own());
        let mut connection = Connection::to(&layer);
        let exact = "cmdstat_get:calls=16,usec=16".to_owned();
        // When the lock is taken, and as each ends.
        assert_eq!(sixteen(&clock, &mut connection, "value"), (17, exact.clone()));
        // Sending to a monitor between two commands is no part of the second.
        let mut monitor = Connection::to(&layer);
        monitor.run(&["MONITOR"]);
        assert_eq!(sixteen(&clock, &mut connection, "value"), (33, exact));
    }

    #[test]
    fn all_calls_are_the_sum_of_each_commands() {
        let layer = layer_with(Arc::new(quartet_env::ManualClock::new(1)), crate::commands::own());
        let mut connection = Connection::to(&layer);
        let total = || layer.observation.statistics.commands_processed();
        connection.run(&["SET", "key", "value"]);
        connection.run(&["GET", "key"]);
        connection.run(&["LPUSH", "key", "value"]);
        connection.run(&["NOSUCH"]);
        assert_eq!(total(), 3);
        connection.run(&["CONFIG", "RESETSTAT"]);
        assert_eq!(total(), 1);
    }

    /// An empty wait inside EXEC used to count as a failed call, and an error that only EXEC gives
    /// was missing from the counters of errors.
    #[test]
    fn inside_exec_an_empty_wait_is_no_failure_and_a_refusal_is_an_error() {
        let layer = layer_with(Arc::new(quartet_env::ManualClock::new(1)), crate::commands::own());
        let mut connection = Connection::to(&layer);
        connection.run(&["SET", "key", "value"]);
        connection.run(&["MULTI"]);
        connection.run(&["BLPOP", "none", "0"]);
        connection.run(&["MIGRATE", "127.0.0.1", "1", "key", "0", "1000"]);
        let replies = connection.run(&["EXEC"]);
        let refusal = Value::Error(b"ERR Command not allowed inside a transaction".to_vec());
        assert_eq!(replies, Value::Array(vec![Value::NullArray, refusal]));
        let mut info = |section: &str| match connection.run(&["INFO", section]) {
            Value::Bulk(text) => String::from_utf8(text).unwrap(),
            other => panic!("INFO answers {other:?}"),
        };
        let text = info("commandstats");
        let failures = |name: &str| {
            let line = text.split("cmdstat_").find(|line| line.starts_with(name));
            line.and_then(|line| line.split("failed_calls=").nth(1)?.chars().next())
        };
        assert_eq!((failures("blpop:"), failures("migrate:")), (Some('0'), Some('1')));
        let errors = info("errorstats");
        assert!(errors.contains("errorstat_ERR:count=1"), "{errors}");
    }
}
