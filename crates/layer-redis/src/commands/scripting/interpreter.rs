//! Lua 5.1 in its sandbox: one interpreter a thread, made once and used for every script.
//!
//! Everything a script can reach is read-only, so nothing of it is left for the next one; a script
//! that changes an object that cannot be locked has the interpreter thrown away after it. The
//! library is in `prelude.lua`; the functions that it lacks, or that C does without care, are
//! Rust's. ARCHITECTURE.md has the choice of interpreter.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use mlua::chunk::ChunkMode;
use mlua::state::{GcIncParams, GcMode};
use mlua::{Function, HookTriggers, Lua, LuaOptions, LuaString, MultiValue, StdLib, Table, Value, VmState};
use quartet_engine::Engine;
use quartet_model::hexadecimal;
use rustc_hash::FxHashMap;

use super::arguments::{Located, define};
use super::bridge::{Bridge, Buffers, MARK};
use super::budget::{Budget, INSTRUCTIONS_PER_LOOK, Limit, SCRIPT_BYTES_MAX};
use super::conversion::Fields;
use super::registration::{self, Registration};
use super::{bits, cjson, cmsgpack, stack, strings, structs};
use crate::facts::RedisVersion;
use crate::handler::groups::Groups;
use crate::layer::Log;
use crate::scripting::long_scripts::Stop;
use crate::scripting::scripts::{Digest, sha1};

const PRELUDE: &str = include_str!("prelude.lua");
/// Compiled functions that are kept; more, and all are compiled again.
const FUNCTIONS_MAX: i64 = 10_000;
/// Functions of one library.
const REGISTERED_MAX: usize = 1000;
const NO_LIMIT: usize = 0;
/// The collector starts once memory has grown to this many percent of its previous use: live data
/// is mostly the library, and walking it repeatedly costs more than the garbage of scripts.
const COLLECT_AT_PERCENT: i32 = 1000;
/// Garbage that scripts may leave for the collector's own cycle; beyond that it runs after the
/// script.
const LEFT_BYTES_MAX: usize = 8 << 20;
/// While a script runs, a collection is triggered when memory has grown half way to the limit, and
/// then by this part of the limit: otherwise garbage would reach it.
const SMALLEST_STEP_PART: usize = 8;
/// Source of the compiled functions that are kept; more, and all are compiled again.
const SOURCE_BYTES_MAX: usize = 16 << 20;

thread_local! {
    static INTERPRETER: RefCell<Option<Interpreter>> = const { RefCell::new(None) };
}

pub struct Interpreter {
    pub lua: Lua,
    pub budget: Rc<Budget>,
    pub fields: Rc<Fields>,
    log: Rc<RefCell<Option<Log>>>,
    seed: Rc<Cell<u64>>,
    cjson_options: Rc<RefCell<cjson::Options>>,
    library_globals: Table,
    run: Function,
    run_function: Function,
    load_library: Function,
    /// Compiled functions. A handle of each would take one of the few thousand places that Lua
    /// gives us.
    functions: Table,
    /// Places in `functions`.
    scripts: FxHashMap<Digest, i64>,
    libraries: FxHashMap<Digest, Rc<Library>>,
    next_place: i64,
    /// Total source length of the kept functions.
    source_bytes: usize,
    /// Memory in use after the latest full collection.
    floor_bytes: Rc<Cell<usize>>,
    /// Memory at which the code of others ends.
    pub bytes_max: Rc<Cell<usize>>,
    /// The buffers that the commands of a run write into, kept from run to run.
    pub buffers: Buffers,
    /// Lua does not hold on to a chunk's name while it parses: these stay.
    _names: Vec<LuaString>,
}

/// Functions that a library has registered, in an interpreter.
pub struct Library {
    pub functions: Vec<Registered>,
}

pub struct Registered {
    pub name: String,
    pub description: Option<String>,
    pub flags: u32,
    /// Its place among the compiled functions.
    place: i64,
}

/// The code that runs.
pub enum Chunk<'a> {
    /// A script, already compiled under its digest.
    Script(&'a Digest),
    Function {
        library: &'a Digest,
        name: &'a str,
    },
}

impl Chunk<'_> {
    /// Its name in errors and statistics.
    pub fn name(&self) -> String {
        match self {
            Chunk::Script(digest) => hexadecimal(*digest),
            Chunk::Function { name, .. } => (*name).to_owned(),
        }
    }
}

/// How a run ended.
pub enum RunEnd {
    /// The bridge has taken it over.
    Plain,
    Answer(Value),
    Failed {
        text: String,
        counted: bool,
    },
    /// It took too long for this thread: nothing of it may stay.
    LongRunning,
    /// Its database's scripts may not take so long.
    TooLong,
}

impl RunEnd {
    /// How a run ends that was stopped at `place`, if that is known.
    pub fn of_stop(stop: Stop, place: &str) -> RunEnd {
        match stop {
            Stop::LongRunning => RunEnd::LongRunning,
            Stop::TooLong => RunEnd::TooLong,
            Stop::Killed | Stop::LoadTimeout => RunEnd::Failed {
                text: format!("ERR Script killed by user with SCRIPT KILL...{place}"),
                counted: false,
            },
        }
    }
}

/// The time and the log of a run.
pub struct Host<'a> {
    pub engine: &'a Arc<Engine>,
    pub log: &'a Log,
    pub seed: u64,
    /// Memory that the run may take.
    pub bytes_max: usize,
}

impl Host<'_> {
    pub fn of(groups: Groups<'_>) -> Host<'_> {
        let admission_control = groups.access().admission_control.as_ref();
        let bytes_max = admission_control.map_or(SCRIPT_BYTES_MAX, |admission_control| {
            admission_control.script_bytes_max()
        });
        Host {
            engine: groups.engine(),
            log: &groups.scripting().log,
            seed: groups.random().next(),
            bytes_max: bytes_max.min(groups.engine().memory().room_for_a_request() as usize),
        }
    }
}

/// Lends this thread's interpreter. It is made at the first call, and tells scripts that this is
/// the server's version.
pub fn with_interpreter<R>(version: RedisVersion, body: impl FnOnce(&mut Interpreter) -> R) -> R {
    INTERPRETER.with(|place| {
        let mut place = place.borrow_mut();
        let interpreter = place.get_or_insert_with(|| Interpreter::new(version).expect("the prelude runs"));
        let result = body(interpreter);
        interpreter.clean_up();
        if interpreter.budget.spoilt.get() {
            *place = None;
        }
        result
    })
}

/// Drops this thread's interpreter with all that it has compiled. The next script makes another.
pub fn drop_interpreter() {
    INTERPRETER.with(|place| {
        if let Ok(mut place) = place.try_borrow_mut() {
            *place = None;
        }
    });
}

impl Interpreter {
    fn new(version: RedisVersion) -> mlua::Result<Interpreter> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::new())?;
        let budget = Rc::new(Budget::default());
        let fields = Rc::new(Fields::new(&lua)?);
        let log = Rc::new(RefCell::new(None));
        let seed = Rc::new(Cell::new(0));
        let cjson_options = Rc::new(RefCell::new(cjson::Options::default()));
        let real = lua.globals();
        let native = lua.create_table()?;
        define_natives(&lua, &native, &budget, &log)?;
        native.raw_set("mark", MARK)?;
        let bridge = stack::functions(&lua)?;
        native.raw_set("bridge", bridge.call)?;
        native.raw_set("given", bridge.given)?;
        native.raw_set("answered", bridge.answered)?;
        real.raw_set(
            "tonumber",
            bridge
                .faster_tonumber
                .call::<Value>(real.raw_get::<Value>("tonumber")?)?,
        )?;
        let functions = lua.create_table()?;
        native.raw_set("functions", &functions)?;
        native.raw_set("plain", lua.create_function(plain)?)?;
        define_random(&lua, &native, &seed)?;
        strings::define_strings(&lua, &native, &budget)?;
        let redis = lua.create_table()?;
        redis.raw_set("REDIS_VERSION", version.text())?;
        redis.raw_set("REDIS_VERSION_NUM", version.number())?;
        real.raw_set("redis", redis)?;
        real.raw_set("bit", bits::library(&lua)?)?;
        real.raw_set("struct", structs::library(&lua)?)?;
        real.raw_set("cmsgpack", cmsgpack::library(&lua, &budget)?)?;
        real.raw_set("cjson", cjson::library(&lua, &cjson_options, &budget)?)?;
        let names = ["@user_script", "@user_function", "=prelude", "=(load)"];
        let names = names
            .map(|name| lua.create_string(name))
            .into_iter()
            .collect::<mlua::Result<_>>()?;
        let prelude = lua
            .load(PRELUDE)
            .set_name("=prelude")
            .set_mode(ChunkMode::Text)
            .into_function()?;
        let (globals, library_globals, run, run_function, load_library): (Table, Table, Function, Function, Function) =
            prelude.call((native, real))?;
        lua.set_globals(globals)?;
        lua.gc_set_mode(GcMode::Incremental(GcIncParams::default().pause(COLLECT_AT_PERCENT)));
        let hook_budget = budget.clone();
        let triggers = HookTriggers::new().every_nth_instruction(INSTRUCTIONS_PER_LOOK);
        let floor_bytes = Rc::new(Cell::new(lua.used_memory()));
        let bytes_max = Rc::<Cell<usize>>::default();
        let (hook_floor, hook_max) = (floor_bytes.clone(), bytes_max.clone());
        lua.set_global_hook(triggers, move |lua, _| {
            collect_in_time(lua, &hook_floor, hook_max.get())?;
            if hook_budget.may_go_on() {
                Ok(VmState::Continue)
            } else {
                Err(mlua::Error::runtime("stopped"))
            }
        })?;
        Ok(Interpreter {
            functions,
            lua,
            budget,
            fields,
            log,
            seed,
            cjson_options,
            library_globals,
            run,
            run_function,
            load_library,
            scripts: FxHashMap::default(),
            libraries: FxHashMap::default(),
            next_place: 1,
            source_bytes: 0,
            floor_bytes,
            bytes_max,
            buffers: Buffers::default(),
            _names: names,
        })
    }

    /// Compiles the script unless it is compiled. The error is Lua's message.
    pub fn compile(&mut self, digest: &Digest, source: &[u8]) -> Result<(), String> {
        if self.scripts.contains_key(digest) {
            return Ok(());
        }
        let chunk = self.lua.load(source).set_name("@user_script").set_mode(ChunkMode::Text);
        let function = self
            .limited(SCRIPT_BYTES_MAX, || chunk.into_function())
            .map_err(|error| message(&error))?;
        let place = self.keep(&function, source.len())?;
        self.scripts.insert(*digest, place);
        Ok(())
    }

    /// Keeps a compiled function and gives its place. Once there are too many, all the others go.
    fn keep(&mut self, function: &Function, source_bytes: usize) -> Result<i64, String> {
        self.source_bytes += source_bytes;
        if self.next_place > FUNCTIONS_MAX || self.source_bytes > SOURCE_BYTES_MAX {
            self.source_bytes = source_bytes;
            self.scripts.clear();
            self.libraries.clear();
            self.next_place = 1;
            self.functions.clear().map_err(|error| message(&error))?;
        }
        let place = self.next_place;
        self.functions
            .raw_set(place, function)
            .map_err(|error| message(&error))?;
        self.next_place += 1;
        Ok(place)
    }

    /// Runs a library's code, which registers its functions, unless this interpreter knows it. The
    /// error is the reply's.
    pub fn load_library(&mut self, digest: &Digest, source: &[u8], host: &Host<'_>) -> Result<Rc<Library>, String> {
        if let Some(library) = self.libraries.get(digest) {
            return Ok(library.clone());
        }
        let chunk = self
            .lua
            .load(source)
            .set_name("@user_function")
            .set_mode(ChunkMode::Text);
        let chunk = chunk.set_environment(self.library_globals.clone());
        let code = self
            .limited(host.bytes_max, || chunk.into_function())
            .map_err(|error| format!("Error compiling function: {}", message(&error)))?;
        let functions: RefCell<Vec<Registration>> = RefCell::default();
        self.begin(host, Limit::Load);
        let ended = self.lua.scope(|scope| {
            let register = scope.create_function(|_, (count, values): (usize, MultiValue)| {
                let mut functions = functions.borrow_mut();
                let outcome = registration::read(count, values, &functions);
                Ok(match outcome {
                    Ok(_) if functions.len() >= REGISTERED_MAX => Some("too many functions in one library".to_owned()),
                    Ok(function) => {
                        functions.push(function);
                        None
                    }
                    Err(message) => Some(message),
                })
            })?;
            self.limited(host.bytes_max, || {
                self.load_library.call::<(bool, Value)>((code, register))
            })
        });
        let stopped = self.budget.stopped();
        self.budget.end();
        let failure = match ended {
            _ if stopped.is_some() => Some("ERR FUNCTION LOAD timeout".to_owned()),
            Ok((true, _)) => None,
            Ok((false, Value::String(text))) => Some(format!("ERR {}", text.to_string_lossy())),
            Ok((false, Value::Table(failure))) => Some(self.error_text(&failure)),
            Ok((false, _)) => Some("ERR execution failure".to_owned()),
            Err(error) => Some(format!("ERR {}", message(&error))),
        };
        if let Some(text) = failure {
            return Err(format!("Error registering functions: {text}"));
        }
        let functions = functions.into_inner();
        // Makes room for all of them first, so that they do not evict each other.
        let is_full = self.next_place + functions.len() as i64 > FUNCTIONS_MAX;
        if is_full || self.source_bytes + source.len() > SOURCE_BYTES_MAX {
            self.next_place = FUNCTIONS_MAX + 1;
        }
        let mut source_bytes = source.len();
        let mut registered = Vec::new();
        for function in functions {
            registered.push(Registered {
                place: self.keep(&function.callback, std::mem::take(&mut source_bytes))?,
                name: function.name,
                description: function.description,
                flags: function.flags,
            });
        }
        let library = Rc::new(Library { functions: registered });
        self.libraries.insert(*digest, library.clone());
        Ok(library)
    }

    pub fn knows_library(&self, digest: &Digest) -> bool {
        self.libraries.contains_key(digest)
    }

    /// Runs compiled or loaded code. For its time limit and for kills, the run lasts until the
    /// caller ends the budget: writing the answer is part of it.
    pub fn run(&mut self, chunk: &Chunk<'_>, host: &Host<'_>, limit: Limit, bridge: &mut Bridge<'_, '_, '_>) -> RunEnd {
        self.begin(host, limit);
        let call = AssertUnwindSafe(|| self.call(chunk, host.bytes_max, bridge));
        let ended = catch_unwind(call).ok().flatten().unwrap_or_else(|| {
            // In any case, the next script gets a fresh interpreter.
            self.budget.spoilt.set(true);
            Err(mlua::Error::runtime("the interpreter failed"))
        });
        match (self.budget.stopped(), ended) {
            (Some(stop), ended) => {
                let place = match &ended {
                    Ok((false, Value::Table(failure))) => place_of(failure, chunk),
                    _ => String::new(),
                };
                RunEnd::of_stop(stop, &place)
            }
            (None, Ok((true, _))) if bridge.answer.is_some() => RunEnd::Plain,
            (None, Ok((true, value))) => RunEnd::Answer(value),
            (None, Ok((false, Value::Table(failure)))) => self.failure(chunk, &failure),
            (None, Ok((false, value))) => RunEnd::Failed {
                text: format!(
                    "ERR Error running script {}, {}",
                    chunk.name(),
                    value.to_string().unwrap_or_else(|_| "execution failure".into())
                ),
                counted: false,
            },
            (None, Err(error)) => RunEnd::Failed {
                text: format!("ERR Error running script {}, {}", chunk.name(), message(&error)),
                counted: false,
            },
        }
    }

    /// `None`: something panicked on the way.
    fn call(
        &self,
        chunk: &Chunk<'_>,
        bytes_max: usize,
        bridge: &mut Bridge<'_, '_, '_>,
    ) -> Option<mlua::Result<(bool, Value)>> {
        let (run, place) = match chunk {
            Chunk::Script(digest) => (&self.run, self.scripts[*digest]),
            Chunk::Function { library, name } => {
                let functions = &self.libraries[*library].functions;
                let registered = functions
                    .iter()
                    .find(|function| function.name.eq_ignore_ascii_case(name));
                (&self.run_function, registered.expect("a function of its library").place)
            }
        };
        stack::lend(bridge, || self.limited(bytes_max, || run.call(place)))
    }

    /// Foreign code runs with at most this much memory. Our own code runs without a limit: with
    /// one, each string and table that it creates would be a protected call.
    fn limited<R>(&self, run_bytes_max: usize, body: impl FnOnce() -> R) -> R {
        let bytes_max = self.lua.used_memory() + run_bytes_max;
        self.bytes_max.set(bytes_max);
        limit_memory(&self.lua, bytes_max);
        let result = body();
        limit_memory(&self.lua, NO_LIMIT);
        result
    }

    /// Frees the garbage of earlier runs, however they ended, once it is much. Objects that the
    /// answer holds stay.
    pub fn clean_up(&self) {
        if self.lua.used_memory() > self.floor_bytes.get() + LEFT_BYTES_MAX
            && collect(&self.lua, &self.floor_bytes).is_err()
        {
            self.budget.spoilt.set(true);
        }
    }

    fn begin(&self, host: &Host<'_>, limit: Limit) {
        self.budget.begin(host.engine, limit);
        self.seed.set(host.seed);
        self.cjson_options.borrow_mut().reset();
        let mut log = self.log.borrow_mut();
        if log.as_ref().is_none_or(|log| !Arc::ptr_eq(log, host.log)) {
            *log = Some(host.log.clone());
        }
    }

    /// The text of a table that represents an error.
    fn error_text(&self, failure: &Table) -> String {
        match failure.raw_get(&self.fields.err) {
            Ok(Value::String(text)) => text.to_string_lossy(),
            Ok(Value::Integer(number)) => number.to_string(),
            Ok(Value::Number(number)) => super::numbers::general(number, 14),
            _ => "ERR unknown error".into(),
        }
    }

    fn failure(&self, chunk: &Chunk<'_>, failure: &Table) -> RunEnd {
        let counted = matches!(
            failure.raw_get(&self.fields.ignore_error_stats_update),
            Ok(Value::Boolean(true))
        );
        RunEnd::Failed {
            text: self.error_text(failure).replace(['\r', '\n'], " ") + &place_of(failure, chunk),
            counted,
        }
    }
}

/// Triggers a collection once a running script has brought memory nearer to its limit, so that
/// garbage alone never reaches it.
fn collect_in_time(lua: &Lua, floor_bytes: &Cell<usize>, bytes_max: usize) -> mlua::Result<()> {
    let half_way = bytes_max.saturating_sub(floor_bytes.get()) / 2;
    let step = half_way.max(bytes_max / SMALLEST_STEP_PART);
    if lua.used_memory() > floor_bytes.get() + step {
        collect(lua, floor_bytes)?;
    }
    Ok(())
}

fn collect(lua: &Lua, floor_bytes: &Cell<usize>) -> mlua::Result<()> {
    let outcome = lua.gc_collect();
    floor_bytes.set(lua.used_memory());
    outcome
}

pub fn limit_memory(lua: &Lua, bytes_max: usize) {
    // Every interpreter keeps its own allocator, so a limit can always be set.
    let _ = lua.set_memory_limit(bytes_max);
}

/// The place of a failure, noted by the prelude, in Redis's words.
fn place_of(failure: &Table, chunk: &Chunk<'_>) -> String {
    let text = |name: &str| failure.raw_get::<Option<LuaString>>(name).ok().flatten();
    match (text("source"), text("line")) {
        (Some(source), Some(line)) => format!(
            " script: {}, on {}:{}.",
            chunk.name(),
            source.to_string_lossy(),
            line.to_string_lossy()
        ),
        _ => String::new(),
    }
}

/// Lua's message without mlua's additions.
fn message(error: &mlua::Error) -> String {
    match error {
        mlua::Error::SyntaxError { message, .. } => message.clone(),
        mlua::Error::RuntimeError(text) | mlua::Error::MemoryError(text) => text.clone(),
        mlua::Error::CallbackError { cause, .. } => message(cause),
        other => other.to_string(),
    }
}

fn define_natives(lua: &Lua, native: &Table, budget: &Rc<Budget>, log: &Rc<RefCell<Option<Log>>>) -> mlua::Result<()> {
    let stopped = budget.clone();
    native.raw_set("stopped", lua.create_function(move |_, ()| Ok(stopped.is_stopped()))?)?;
    let spoil = budget.clone();
    native.raw_set(
        "spoil",
        lua.create_function(move |_, ()| {
            spoil.spoilt.set(true);
            Ok(())
        })?,
    )?;
    native.raw_set("where", lua.create_function(|lua, ()| Ok(place(lua)))?)?;
    let clock = budget.clone();
    native.raw_set("clock", lua.create_function(move |_, ()| Ok(clock.seconds()))?)?;
    native.raw_set(
        "is_user",
        lua.create_function(|_, function: Function| {
            let info = function.info();
            Ok(info.what != "C" && info.source.as_deref() != Some("=prelude"))
        })?,
    )?;
    native.raw_set(
        "sha1hex",
        lua.create_function(|lua, value: Value| {
            let text = lua.coerce_string(value)?;
            let digest = sha1(&text.map(|text| text.as_bytes().to_vec()).unwrap_or_default());
            Ok(hexadecimal(&digest))
        })?,
    )?;
    native.raw_set("load", lua.create_function(load)?)?;
    let log = log.clone();
    let write = move |lua: &Lua, (level, words): (u8, MultiValue)| {
        let words = words
            .into_iter()
            .filter_map(|word| lua.coerce_string(word).ok().flatten());
        let words: Vec<String> = words.map(|word| word.to_string_lossy()).collect();
        if let Some(log) = &*log.borrow() {
            log(level, &words.join(" "));
        }
        Ok(())
    };
    native.raw_set("log", lua.create_function(write)?)?;
    Ok(())
}

/// An error from Rust as scripts know errors: a text.
fn plain(lua: &Lua, failure: Value) -> mlua::Result<Value> {
    let Value::Error(error) = &failure else {
        return Ok(failure);
    };
    if let Some(Located(text)) = error.downcast_ref::<Located>() {
        let place = match place(lua) {
            (Some(source), Some(line)) => format!("{}:{line}: ", source.trim_start_matches('@')),
            _ => String::new(),
        };
        return Ok(Value::String(lua.create_string(place + text)?));
    }
    Ok(Value::String(lua.create_string(message(error))?))
}

/// Compiles text, never bytecode. The caller's argument keeps the name alive; Lua would cut a name
/// with a zero byte, and nothing would keep the rest of it.
fn load(lua: &Lua, (source, name): (LuaString, LuaString)) -> mlua::Result<(Value, Option<String>)> {
    let name = match name.to_str() {
        Ok(name) if !name.contains('\0') => name.to_owned(),
        _ => "=(load)".to_owned(),
    };
    let source = source.as_bytes().to_vec();
    match lua
        .load(source)
        .set_name(name)
        .set_mode(ChunkMode::Text)
        .into_function()
    {
        Ok(function) => Ok((Value::Function(function), None)),
        Err(error) => Ok((Value::Nil, Some(message(&error)))),
    }
}

/// Source and line of the innermost function of the script that is running.
fn place(lua: &Lua) -> (Option<String>, Option<String>) {
    for level in 1..64 {
        let place_of_frame = lua.inspect_stack(level, |frame| {
            let source = frame.source();
            let is_users = source.what != "C" && source.what != "tail";
            let name = source.source.map(|name| name.into_owned())?;
            let line = frame.current_line()?;
            (is_users && name != "=prelude").then_some((name, line))
        });
        match place_of_frame {
            None => break,
            Some(None) => {}
            Some(Some((name, line))) => return (Some(name), Some(line.to_string())),
        }
    }
    (None, None)
}

/// `math.random` with the generator of drand48, which Redis uses so that a seed gives the same
/// numbers everywhere.
fn define_random(lua: &Lua, native: &Table, seed: &Rc<Cell<u64>>) -> mlua::Result<()> {
    let state = seed.clone();
    define(lua, native, "random", move |_, arguments| {
        let next = state.get().wrapping_mul(0x5_DEEC_E66D).wrapping_add(0xB) & ((1 << 48) - 1);
        state.set(next);
        let share = (next >> 17) as f64 / (1u64 << 31) as f64;
        match arguments.values.len() {
            0 => Ok(share),
            1 => {
                let upper = arguments.integer(0)?;
                if upper < 1 {
                    return Err(arguments.bad(0, "interval is empty"));
                }
                Ok((share * upper as f64).floor() + 1.0)
            }
            2 => {
                let (lower, upper) = (arguments.integer(0)?, arguments.integer(1)?);
                if lower > upper {
                    return Err(arguments.bad(1, "interval is empty"));
                }
                Ok((share * (upper as f64 - lower as f64 + 1.0)).floor() + lower as f64)
            }
            _ => Err("wrong number of arguments".into()),
        }
    })?;
    let state = seed.clone();
    define(lua, native, "randomseed", move |_, arguments| {
        let seed = arguments.integer(0)? as u32;
        state.set((u64::from(seed) << 16) + 0x330E);
        Ok(())
    })
}
