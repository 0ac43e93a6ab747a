-- The part of the sandbox that is written in Lua: read-only tables, the functions that catch errors, and those that raise them.
--
-- Rust hands in `native`; what this chunk returns is all that Rust keeps. An error that crosses from Rust is an opaque
-- object: `native.plain` makes of it what scripts know.
-- Everything is reached through locals: a script that lays hands on one of these functions finds nothing in its environment.

local native, real = ...
local error, pcall, xpcall, type, next, select, tostring = error, pcall, xpcall, type, next, select, tostring
local rawget, rawset, setmetatable, getmetatable, pairs, tonumber =
  rawget, rawset, setmetatable, getmetatable, pairs, tonumber
local raw_unpack, collect, raw_setfenv, raw_getfenv = unpack, collectgarbage, setfenv, getfenv
local resume, concat, insert, remove, sort = coroutine.resume, table.concat, table.insert, table.remove, table.sort
local sub, rep, find, floor = string.sub, string.rep, native.find, math.floor
local stopped = native.stopped

-- Read-only tables. A script sees an empty proxy; reads fall through, writes are refused, and the functions that go round
-- metatables look here first.
local contents = setmetatable({}, { __mode = 'k' })
local locked = {}

local function refuse() error('Attempt to modify a readonly table', 2) end

local function protect(inner)
  local proxy = setmetatable({}, { __index = inner, __newindex = refuse, __metatable = locked })
  contents[proxy] = inner
  return proxy
end

contents[locked] = {}
setmetatable(locked, { __newindex = refuse, __metatable = locked })

local function missing(_, name)
  error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
end

local function check_writable(t)
  if contents[t] then error('Attempt to modify a readonly table', 3) end
end

-- An argument that a function of Lua itself refused behind our back is the script's error, at the script's line.
local function relocated(message)
  if sub(message, 1, 8) ~= 'prelude:' then return message end
  local text = native.match(message, '^prelude:%d+: (.*)$')
  local source, line = native.where()
  return source and sub(source, 2) .. ':' .. line .. ': ' .. text or text
end

-- Catching errors. A script that is being stopped catches nothing.

local function plain(failure)
  if type(failure) == 'userdata' then return native.plain(failure) end
  return failure
end

local function caught(ok, ...)
  if ok then return true, ... end
  if stopped() then error((...), 0) end
  local failure = plain((...))
  if type(failure) == 'string' then failure = relocated(failure) end
  if type(failure) == 'table' then
    local text = failure.err
    if type(text) == 'string' or type(text) == 'number' then return false, text end
  end
  return false, failure
end

local function caught_as_is(ok, ...)
  if not ok then
    if stopped() then error((...), 0) end
    return false, plain((...))
  end
  return ok, ...
end

real.pcall = function(...) return caught(pcall(...)) end
-- A handler runs after its function has ended, not inside it: there, Lua counts no instructions and nothing could end it.
local function handled(handler, ok, ...)
  if ok then return true, ... end
  if stopped() then error((...), 0) end
  local fine, answer = pcall(handler, plain((...)))
  if stopped() then error(answer, 0) end
  return false, answer
end
real.xpcall = function(f, handler) return handled(handler, pcall(f)) end
real.coroutine.resume = function(...) return caught_as_is(resume(...)) end

-- Functions that go round metatables, or that could change what other scripts see.

real.rawset = function(t, k, v)
  check_writable(t)
  return rawset(t, k, v)
end
real.rawget = function(t, k)
  if contents[t] then t = contents[t] end
  return rawget(t, k)
end
real.setmetatable = function(t, m)
  check_writable(t)
  return setmetatable(t, m)
end
real.next = function(t, k) return next(contents[t] or t, k) end
real.pairs = function(t) return pairs(contents[t] or t) end
real.table.insert = function(t, ...)
  check_writable(t)
  return insert(t, ...)
end
real.table.remove = function(t, ...)
  check_writable(t)
  return remove(t, ...)
end
real.table.sort = function(t, ...)
  check_writable(t)
  return sort(t, ...)
end
real.unpack = function(t, first, last)
  -- Lua counts its own arguments among the results that it has room for.
  if first == nil and last == nil then return raw_unpack(t) end
  first = first or 1
  last = last or (type(t) == 'table' and #t or 0)
  if type(first) == 'number' and type(last) == 'number' and not (last - first < 8000) then
    error('too many results to unpack', 2)
  end
  return raw_unpack(t, first, last)
end
real.collectgarbage = function(what)
  if what == 'count' then return collect('count') end
  if what == nil or what == 'collect' or what == 'step' then collect('collect') end
  return 0
end

-- Environments. The compiled chunk outlives the run, so whoever changes one has the interpreter thrown away.
real.getfenv = function(f)
  if type(f) == 'function' then
    local environment = raw_getfenv(f)
    return contents[environment] and environment or real._G
  end
  return real._G
end
real.setfenv = function(f, environment)
  if type(environment) ~= 'table' then
    error("bad argument #2 to 'setfenv' (table expected, got " .. type(environment) .. ')', 2)
  end
  native.spoil()
  if type(f) == 'function' then
    if not native.is_user(f) then error("'setfenv' cannot change environment of given object", 2) end
    return raw_setfenv(f, environment)
  end
  if f == 1 or f == nil then return raw_setfenv(2, environment) end
  error("bad argument #1 to 'setfenv' (invalid level)", 2)
end

real.loadstring = function(source, name)
  if type(source) ~= 'string' then
    error("bad argument #1 to 'loadstring' (string expected, got " .. type(source) .. ')', 2)
  end
  return native.load(source, name or source)
end
real.load = function(reader, name)
  if type(reader) ~= 'function' then
    error("bad argument #1 to 'load' (function expected, got " .. type(reader) .. ')', 2)
  end
  local pieces = {}
  while true do
    local piece = reader()
    if piece == nil or piece == '' then break end
    if type(piece) ~= 'string' then return nil, 'reader function must return a string' end
    pieces[#pieces + 1] = piece
  end
  return native.load(concat(pieces), name or '=(load)')
end

-- Strings. Patterns are matched in Rust, which counts its steps and does not recurse without bound.

local string = real.string
string.rep = function(s, n)
  if type(s) == 'string' and type(n) == 'number' and (n <= 0 or #s == 0) then return '' end
  if type(s) == 'string' and type(n) == 'number' and #s * n > native.string_bytes_max then
    error('resulting string too large', 2)
  end
  return rep(s, n)
end
string.find, string.match = find, native.match

string.gmatch = function(s, pattern)
  native.check_strings('gmatch', s, pattern)
  local position = 1
  local function advance(after, ...)
    position = after or #s + 2
    return ...
  end
  return function() return advance(native.step(s, pattern, position)) end
end
string.gfind = string.gmatch

local function replacement(repl, whole, ...)
  local value
  if type(repl) == 'table' then value = repl[(...)] else value = repl(...) end
  if not value then return whole end
  if type(value) ~= 'string' and type(value) ~= 'number' then
    error('invalid replacement value (a ' .. type(value) .. ')', 4)
  end
  return value
end

string.gsub = function(s, pattern, repl, most)
  local kind = type(repl)
  if kind == 'string' or kind == 'number' then return native.gsub(s, pattern, repl, most) end
  native.check_strings('gsub', s, pattern)
  if kind ~= 'table' and kind ~= 'function' then
    error("bad argument #3 to 'gsub' (string/function/table expected)", 2)
  end
  s = tostring(s)
  local pieces, position, count = {}, 1, 0
  local anchored = sub(pattern, 1, 1) == '^'
  local function add(first, last, ...)
    if not first then return false end
    count = count + 1
    pieces[#pieces + 1] = sub(s, position, first - 1)
    pieces[#pieces + 1] = replacement(repl, sub(s, first, last), ...)
    if last >= first then
      position = last + 1
    else
      pieces[#pieces + 1] = sub(s, first, first)
      position = first + 1
    end
    return true
  end
  while (not most or count < most) and position <= #s + 1 do
    if not add(native.search(s, pattern, position)) or anchored then break end
  end
  pieces[#pieces + 1] = sub(s, position)
  return concat(pieces), count
end

-- The library `redis`.

-- A function of Rust while a script runs.
local bridge
local mark, PROTOCOL, PERMISSION = native.mark, 2, 3

local function error_table(text)
  local code, message = 'ERR', text
  if sub(text, 1, 1) == '-' then
    local space = find(text, ' ', 1, true)
    if space then
      code, message = sub(text, 2, space - 1), sub(text, space + 1)
    else
      message = sub(text, 2)
    end
  end
  local trimmed = native.match(message, '^[\r\n]*(.-)[\r\n]*$')
  return { err = code .. ' ' .. trimmed }
end

local function raise(text) error(error_table(text), 0) end

local function needs_run(name)
  if not bridge then raise(name .. ' can only be called inside a script invocation') end
end

local redis = real.redis
-- A function of Rust, so that an error in it is one at the line that calls it.
redis.call = native.bridge
local function reply_or_failure(ok, value)
  if ok then return value end
  if stopped() then error(value, 0) end
  return plain(value)
end
redis.pcall = function(...)
  if not bridge then needs_run('redis.call/pcall') end
  return reply_or_failure(pcall(bridge, ...))
end
redis.error_reply = function(...)
  local text = (...)
  if select('#', ...) ~= 1 or type(text) ~= 'string' then return error_table('wrong number or type of arguments') end
  return error_table(sub(text, 1, 1) == '-' and text or '-' .. text)
end
redis.status_reply = function(...)
  local text = (...)
  if select('#', ...) ~= 1 or type(text) ~= 'string' then return error_table('wrong number or type of arguments') end
  return { ok = text }
end
redis.sha1hex = function(...)
  if select('#', ...) ~= 1 then raise('wrong number of arguments') end
  return native.sha1hex((...))
end
redis.log = function(...)
  local count, level = select('#', ...), tonumber((...))
  if count < 2 then raise('redis.log() requires two arguments or more.') end
  if not level then raise('First argument must be a number (log level).') end
  if level < 0 or level > 3 then raise('Invalid debug level.') end
  native.log(level, select(2, ...))
end
redis.setresp = function(...)
  needs_run('redis.setresp')
  if select('#', ...) ~= 1 then raise('redis.setresp() requires one argument.') end
  local version = tonumber((...))
  if version ~= 2 and version ~= 3 then raise('RESP version must be 2 or 3.') end
  bridge(mark, PROTOCOL, version)
end
redis.set_repl = function(...)
  needs_run('redis.set_repl')
  if select('#', ...) ~= 1 then raise('redis.set_repl() requires two arguments.') end
  local flags = tonumber((...))
  if not flags or flags < 0 or flags > 3 then
    raise('Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.')
  end
end
redis.acl_check_cmd = function(...)
  needs_run('redis.acl_check_cmd')
  return bridge(mark, PERMISSION, ...)
end
redis.replicate_commands = function() return true end
redis.breakpoint = function() return false end
redis.debug = function() end
redis.REPL_NONE, redis.REPL_AOF, redis.REPL_SLAVE, redis.REPL_REPLICA, redis.REPL_ALL = 0, 1, 2, 2, 3
redis.LOG_DEBUG, redis.LOG_VERBOSE, redis.LOG_NOTICE, redis.LOG_WARNING = 0, 1, 2, 3

real.math.random = function(...)
  if not bridge then error('math.random can only be called inside a script invocation', 2) end
  return native.random(...)
end
real.math.randomseed = function(...)
  if not bridge then error('math.randomseed can only be called inside a script invocation', 2) end
  return native.randomseed(...)
end

-- What FUNCTION LOAD may use while a library's code runs.

local registry
local load_redis = {
  log = redis.log,
  register_function = function(...)
    if not registry then raise('redis.register_function can only be called on FUNCTION LOAD command') end
    local failure = registry(select('#', ...), ...)
    if failure then raise(failure) end
  end,
  REDIS_VERSION = redis.REDIS_VERSION,
  REDIS_VERSION_NUM = redis.REDIS_VERSION_NUM,
  LOG_DEBUG = 0, LOG_VERBOSE = 1, LOG_NOTICE = 2, LOG_WARNING = 3,
}

-- Lock it all.

real.os = { clock = native.clock }
for _, name in next, { 'string', 'table', 'math', 'coroutine', 'os', 'redis', 'bit', 'struct', 'cmsgpack', 'cjson' } do
  real[name] = protect(real[name])
end
-- Valkey's name for the same library.
real.server = real.redis
local string_metatable = getmetatable('')
string_metatable.__index = real.string
string_metatable.__metatable = locked
for _, name in next, { 'print', 'dofile', 'loadfile', 'require', 'module', 'package', 'newproxy', 'debug', 'io' } do
  real[name] = nil
end
local globals = protect(setmetatable(real, { __index = missing }))
real._G = globals

local redis_of_loading = protect(setmetatable(load_redis, { __index = missing }))
local loading = setmetatable({ redis = redis_of_loading, server = redis_of_loading }, { __index = missing })
local library_globals = setmetatable({}, { __newindex = refuse, __metatable = locked })
contents[library_globals] = real
local library_access = { __index = real, __newindex = refuse, __metatable = locked }
library_globals = setmetatable({}, library_access)
contents[library_globals] = real

-- Running. The handler adds where the error happened, as Redis words it.

local function describe(failure)
  failure = plain(failure)
  local source, line = native.where()
  if type(failure) ~= 'table' or contents[failure] then
    failure = { err = 'ERR ' .. relocated(tostring(failure)) }
  end
  if source then
    rawset(failure, 'source', source)
    rawset(failure, 'line', line)
  end
  return failure
end

local function finish(ok, answer)
  bridge = nil
  real.KEYS, real.ARGV = nil, nil
  if ok and native.answered(answer) then return true end
  return ok, answer
end

local functions, given = native.functions, native.given

local function run(place)
  bridge = redis.call
  real.KEYS, real.ARGV = given()
  return finish(xpcall(functions[place], describe))
end

local function run_function(place)
  bridge = redis.call
  local callback, keys, arguments = functions[place], given()
  return finish(xpcall(function() return callback(keys, arguments) end, describe))
end

local function finish_loading(...)
  registry = nil
  library_access.__index = real
  return ...
end

local function load_library(code, registry_of_load)
  registry = registry_of_load
  library_access.__index = loading
  return finish_loading(pcall(code))
end

return globals, library_globals, run, run_function, load_library
