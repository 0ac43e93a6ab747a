//! Rust's work for a running script, done as Lua's own C functions would: arguments are read in
//! place on Lua's stack, and results are pushed there. With the safe interface each of them is a
//! handle of its own, which cost as much as a short command.
//!
//! Invariants: an error of Lua's never passes a frame of Rust that has something to drop. So memory
//! is not limited while Rust runs here (without a limit the allocator ends the process rather than
//! fail), stack slots are reserved before they are used, and an error is raised by the outermost
//! function, when everything else has returned.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::OnceLock;

use mlua::ffi::{self, lua_State};
use mlua::{Function, Lua};

use super::bridge::{Bridge, Raised};
use crate::command::parse::short_whole_number;

type Lent = NonNull<Bridge<'static, 'static, 'static>>;

thread_local! {
    /// The bridge of the present run, if there is one and it is not in use.
    static LENT: Cell<Option<Lent>> = const { Cell::new(None) };
}

/// Takes the bridge back, however the run ends.
struct TakenBack;

impl Drop for TakenBack {
    fn drop(&mut self) {
        LENT.set(None);
    }
}

/// Lends the bridge to the functions below while `body` runs. `None`: one of them has panicked.
pub fn lend<R>(bridge: &mut Bridge<'_, '_, '_>, body: impl FnOnce() -> R) -> Option<R> {
    let _taken_back = TakenBack;
    LENT.set(Some(NonNull::from(bridge).cast()));
    let result = body();
    LENT.get().map(|_| result)
}

/// Passes `body` the bridge exclusively; `None` outside of a run. It is not restored if `body`
/// panics.
fn with_bridge<R>(body: impl FnOnce(&mut Bridge<'_, '_, '_>) -> R) -> Option<R> {
    let mut bridge = LENT.take()?;
    // SAFETY: `lend` holds the only reference and does not use it before this one is returned;
    // while this one is in use, no other caller finds the bridge. Its lifetimes end after `lend`
    // does, and none of them leaves `body`, which is generic over them.
    let result = body(unsafe { bridge.as_mut() });
    LENT.set(Some(bridge));
    Some(result)
}

/// The functions for the prelude.
pub struct Functions {
    /// `redis.call`.
    pub call: Function,
    /// The script's keys and its other arguments, as two tables.
    pub given: Function,
    /// Takes the script's answer over, if it is plain. True if it has.
    pub answered: Function,
    /// Replaces Lua's own `tonumber`, which is the argument.
    pub faster_tonumber: Function,
}

pub fn functions(lua: &Lua) -> mlua::Result<Functions> {
    // SAFETY: they do with their stack what C functions may.
    unsafe {
        Ok(Functions {
            call: lua.create_c_function(call)?,
            given: lua.create_c_function(given)?,
            answered: lua.create_c_function(answered)?,
            faster_tonumber: lua.create_c_function(faster_tonumber)?,
        })
    }
}

unsafe extern "C-unwind" fn call(state: *mut lua_State) -> c_int {
    // SAFETY: Lua calls this.
    unsafe { enter(state, |bridge, stack| bridge.call(stack).map(|()| 1)) }
}

unsafe extern "C-unwind" fn given(state: *mut lua_State) -> c_int {
    let body = |bridge: &mut Bridge<'_, '_, '_>, stack: &Stack| {
        bridge.give_words(stack);
        Ok(2)
    };
    // SAFETY: Lua calls this.
    unsafe { enter(state, body) }
}

unsafe extern "C-unwind" fn answered(state: *mut lua_State) -> c_int {
    let body = |bridge: &mut Bridge<'_, '_, '_>, stack: &Stack| {
        stack.boolean(bridge.take_answer(stack));
        Ok(1)
    };
    // SAFETY: Lua calls this.
    unsafe { enter(state, body) }
}

/// Lua's own `tonumber`, from any interpreter: it is the same in all.
static TONUMBER: OnceLock<ffi::lua_CFunction> = OnceLock::new();

unsafe extern "C-unwind" fn faster_tonumber(state: *mut lua_State) -> c_int {
    // SAFETY: Lua calls this with one argument, and there is room for one result.
    unsafe {
        if let Some(own) = ffi::lua_tocfunction(state, 1) {
            TONUMBER.get_or_init(|| own);
            ffi::lua_pushcfunction(state, tonumber);
        }
    }
    1
}

/// `tonumber` of a few digits, which arguments of scripts mostly are, and of anything else what
/// Lua's own says. That reads each text twice, by C's rules for floats.
unsafe extern "C-unwind" fn tonumber(state: *mut lua_State) -> c_int {
    // SAFETY: the argument, if there is one, stays on the stack while it is read; there is room for
    // a result. Lua's own is called as Lua has called this, and nothing is left here that its error
    // would skip.
    unsafe {
        if ffi::lua_gettop(state) == 1 && ffi::lua_type(state, 1) == ffi::LUA_TSTRING {
            let mut bytes = 0;
            let start = ffi::lua_tolstring(state, 1, &mut bytes);
            if let Some(number) = short_whole_number(std::slice::from_raw_parts(start.cast(), bytes)) {
                ffi::lua_pushnumber(state, number as f64);
                return 1;
            }
        }
        match TONUMBER.get() {
            Some(own) => own(state),
            None => 0,
        }
    }
}

/// The state that a function leaves. Nothing in it is dropped.
enum Left {
    Results(c_int),
    /// The error is on the stack.
    Failure,
    NoScript,
    Panic,
}

/// Runs `body`, which answers how many results it has put on the stack.
///
/// # Safety
///
/// To be called by a C function, with what Lua has called that with.
unsafe fn enter(state: *mut lua_State, body: fn(&mut Bridge<'_, '_, '_>, &Stack) -> Result<c_int, Raised>) -> c_int {
    let work = || {
        with_bridge(|bridge| {
            bridge.lift_memory_limit();
            // SAFETY: as above, and memory has no limit now.
            let stack = unsafe { Stack::of(state) };
            let outcome = match body(bridge, &stack) {
                Ok(results) => Left::Results(results),
                Err(raised) => {
                    bridge.put_error(&stack, raised);
                    Left::Failure
                }
            };
            bridge.restore_memory_limit();
            outcome
        })
    };
    let outcome = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(outcome) => outcome.unwrap_or(Left::NoScript),
        Err(payload) => {
            drop(payload);
            Left::Panic
        }
    };
    let text: &[u8] = match outcome {
        Left::Results(results) => return results,
        Left::Failure => b"",
        Left::NoScript => b"no script runs",
        Left::Panic => b"the interpreter failed",
    };
    // SAFETY: a C function has room for twenty values; nothing is left here that an error would
    // skip.
    unsafe {
        if !text.is_empty() {
            ffi::lua_pushlstring(state, text.as_ptr().cast(), text.len());
        }
        ffi::lua_error(state)
    }
}

/// The stack of a Lua C function: its arguments, and the values pushed after them.
pub struct Stack {
    state: *mut lua_State,
    arguments: c_int,
}

/// One argument.
pub enum Argument<'s> {
    Text(&'s [u8]),
    Number(f64),
    Pointer(*mut c_void),
    Table,
    Other,
}

impl Stack {
    /// # Safety
    ///
    /// `state` is what Lua has called a C function with that has not returned yet and has put
    /// nothing on the stack. Memory has no limit as long as this is used.
    unsafe fn of(state: *mut lua_State) -> Stack {
        // SAFETY: the state is alive, as for all that follows here.
        let arguments = unsafe { ffi::lua_gettop(state) };
        Stack { state, arguments }
    }

    /// The number of arguments.
    pub fn arguments(&self) -> usize {
        self.arguments as usize
    }

    /// The argument at `index`, from 0.
    pub fn argument(&self, index: usize) -> Argument<'_> {
        assert!(index < self.arguments());
        // SAFETY: there is such an argument, and no argument is taken off.
        unsafe { self.value_at(index as c_int + 1) }
    }

    /// Visits the elements of the table that is the argument at `index`, until the visitor returns
    /// false. Returns true if the table is a pure array of 1 to `most` elements.
    pub fn elements(&self, index: usize, most: usize, visit: &mut dyn FnMut(Argument<'_>) -> bool) -> bool {
        assert!(matches!(self.argument(index), Argument::Table));
        self.make_room(3);
        let mut count = 0;
        // SAFETY: there is room for key and value; each key is one that the table has just given.
        unsafe {
            ffi::lua_pushnil(self.state);
            while ffi::lua_next(self.state, index as c_int + 1) != 0 {
                let is_next = ffi::lua_type(self.state, -2) == ffi::LUA_TNUMBER
                    && ffi::lua_tonumber(self.state, -2) == (count + 1) as f64;
                if !is_next || count == most || !visit(self.value_at(-1)) {
                    ffi::lua_pop(self.state, 2);
                    return false;
                }
                ffi::lua_pop(self.state, 1);
                count += 1;
            }
        }
        count > 0
    }

    /// # Safety
    ///
    /// There is a value at `place`, and the result is dropped before the value is.
    unsafe fn value_at(&self, place: c_int) -> Argument<'_> {
        // SAFETY: there is. A text stays where it is as long as it is on the stack or in a table
        // there.
        unsafe {
            match ffi::lua_type(self.state, place) {
                ffi::LUA_TSTRING => {
                    let mut bytes = 0;
                    let start = ffi::lua_tolstring(self.state, place, &mut bytes);
                    Argument::Text(std::slice::from_raw_parts(start.cast(), bytes))
                }
                ffi::LUA_TNUMBER => Argument::Number(ffi::lua_tonumber(self.state, place)),
                ffi::LUA_TLIGHTUSERDATA => Argument::Pointer(ffi::lua_touserdata(self.state, place)),
                ffi::LUA_TTABLE => Argument::Table,
                _ => Argument::Other,
            }
        }
    }

    pub fn nil(&self) {
        self.make_room(1);
        // SAFETY: there is room, also in the following ones.
        unsafe { ffi::lua_pushnil(self.state) }
    }

    pub fn boolean(&self, value: bool) {
        self.make_room(1);
        unsafe { ffi::lua_pushboolean(self.state, c_int::from(value)) }
    }

    pub fn number(&self, value: f64) {
        self.make_room(1);
        unsafe { ffi::lua_pushnumber(self.state, value) }
    }

    pub fn text(&self, text: &[u8]) {
        self.make_room(1);
        // Lua copies it.
        unsafe { ffi::lua_pushlstring(self.state, text.as_ptr().cast(), text.len()) };
    }

    /// Pushes an empty table with room for an array of `elements`.
    pub fn table(&self, elements: usize) {
        self.make_room(1);
        let elements = c_int::try_from(elements).expect("a table of Lua's");
        unsafe { ffi::lua_createtable(self.state, elements, 0) }
    }

    /// Takes the last value off and makes it the element at `index`, from 1, of the table before
    /// it.
    pub fn set_element(&self, index: usize) {
        self.assert_table_before(1);
        let index = c_int::try_from(index).expect("a table of Lua's");
        // SAFETY: table and value are on the stack.
        unsafe { ffi::lua_rawseti(self.state, -2, index.into()) }
    }

    /// Pops the last two values, a key and its value, and stores them in the table before them. A
    /// `nil` key is ignored.
    pub fn set_field(&self) {
        self.assert_table_before(2);
        // SAFETY: all three are on the stack, and the key is valid.
        unsafe {
            match ffi::lua_type(self.state, -2) {
                ffi::LUA_TNIL => ffi::lua_pop(self.state, 2),
                _ => ffi::lua_rawset(self.state, -3),
            }
        }
    }

    /// Takes the last value off.
    pub fn drop_last(&self) {
        assert!(self.put() >= 1);
        // SAFETY: it is on the stack and not an argument.
        unsafe { ffi::lua_pop(self.state, 1) }
    }

    /// The number of pushed values.
    fn put(&self) -> c_int {
        // SAFETY: the state is alive.
        unsafe { ffi::lua_gettop(self.state) - self.arguments }
    }

    fn assert_table_before(&self, values: c_int) {
        assert!(self.put() > values);
        // SAFETY: there are more values than these.
        assert_eq!(unsafe { ffi::lua_type(self.state, -1 - values) }, ffi::LUA_TTABLE);
    }

    fn make_room(&self, values: c_int) {
        // SAFETY: the state is alive.
        assert_ne!(
            unsafe { ffi::lua_checkstack(self.state, values) },
            0,
            "room on Lua's stack"
        );
    }
}
