-- Joins an update into the record of an address-of-record: Registrations::apply of proto/location. The encodings are there.
-- KEYS: record, addresses-of-record by their end, stream. ARGV: address-of-record, encoded update.
-- Returns the time of the store in milliseconds since the epoch.
local read_as, pack, sub, byte = struct.unpack, struct.pack, string.sub, string.byte
local update = ARGV[2]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local version, flags, waited = read_as('<BBI4', update)
local clear, entries, removals, name = read_as('<I4I2I2B', update, 23)
if version ~= 1 then return redis.error_reply('ERR version of the update') end
-- Hashes and numbers of 64 bits are compared as bytes: numbers of Lua have 53 bits.
local owner = sub(update, 31, 31 + name) .. sub(update, 15, 22)

-- Bindings in order; false: removed. Traces of removals, the oldest first.
local list, index, count, latest, traces = {}, {}, 0, 0, {}
local function add(entry)
    list[#list + 1] = entry
    index[entry.id] = #list
    count = count + 1
end
local function remove(at)
    index[list[at].id] = nil
    list[at] = false
    count = count - 1
end

local function read(record)
    local at = 19 + byte(record, 2)
    local total = read_as('<I2', record, at)
    at = at + 2
    for _ = 1, total do
        local start, times = at, at + 25 + byte(record, at + 16)
        local expires, registered = read_as('<I8I8', record, times)
        local cseq, body = read_as('<I4I2', record, times + 24)
        at = times + 30 + body
        if at - 1 > #record then error('cut short') end
        local name = sub(record, start + 17, times - 9)
        if #name > 32 or not string.find(name, '^[a-z0-9][a-z0-9-]*$') or byte(name, -1) == 45 then error('name') end
        -- No update makes a binding that lasts longer, or one that was registered later than now.
        if expires > now and expires <= now + 4320000000 and registered <= now + 60000 then
            local entry = {
                id = sub(record, start, start + 15), owner = sub(record, start + 16, times - 1),
                expires = expires, registered = registered,
                call = sub(record, times + 16, times + 23), cseq = cseq, bytes = sub(record, start, at - 1),
            }
            if body == 0 then
                traces[#traces + 1] = entry
            else
                add(entry)
                latest = math.max(latest, expires)
            end
        end
    end
end
local record = redis.pcall('GET', KEYS[1])
if type(record) == 'string' then
    local is_later = (byte(record, 1) or 0) > 1
    if is_later then
        -- A later server's key ends with its last binding; without an end, it is damaged.
        local ends = redis.pcall('PTTL', KEYS[1])
        if type(ends) ~= 'number' or ends >= 0 and ends <= 4320000000 then return redis.error_reply('ERR version of the record') end
    end
    -- A damaged one is replaced, and so is a value of another type.
    if is_later or not pcall(read, record) then list, index, count, latest, traces = {}, {}, 0, 0, {} end
end

local function time_of(age)
    return math.max(0, now - age - waited)
end

local all, trace_ends = string.rep('\255', 16), math.max(latest, now + 900000)
-- Leaves the trace of a removal, unless that of an earlier one of the same binding is later.
local function leave(id, registered, rest, is_later)
    for at = 1, #traces do
        if traces[at].id == id then
            if is_later(traces[at]) then return end
            table.remove(traces, at)
            break
        end
    end
    traces[#traces + 1] = {
        id = id, owner = owner, expires = trace_ends, registered = registered, call = sub(rest, 1, 8), cseq = read_as('<I4', rest, 9),
        bytes = id .. owner .. pack('<I8I8', trace_ends, registered) .. rest .. '\0\0',
    }
end
if flags % 2 == 1 then
    local cleared = time_of(clear)
    for at = 1, #list do
        if list[at] and list[at].registered <= cleared then remove(at) end
    end
    leave(all, cleared, string.rep('\0', 12), function(trace) return trace.registered > cleared end)
end

local new, kept = {}, {}
local at = 32 + name
for _ = 1, entries do
    local id = sub(update, at, at + 15)
    local age, expires = read_as('<I4I4', update, at + 16)
    local cseq, body = read_as('<I4I2', update, at + 32)
    if at + 37 + body > #update then return redis.error_reply('ERR update cut short') end
    -- One without a body is none.
    if body > 0 then
        new[#new + 1] = {
            id = id, age = age, expires = math.max(0, expires - waited), call = sub(update, at + 24, at + 31), cseq = cseq,
            rest = sub(update, at + 24, at + 37 + body),
        }
        kept[id] = true
    end
    at = at + 38 + body
end
for old = 1, #list do
    if list[old] and list[old].owner == owner and not kept[list[old].id] then remove(old) end
end

-- False if the record has less of this update, or more of other nodes, than the update says.
local is_exact = flags % 2 == 0
local function is_newer(entry, call, cseq, age)
    if entry.owner == owner then return false end
    if entry.call == call then return entry.cseq >= cseq end
    return entry.registered > time_of(age)
end
local function is_later(trace, call, cseq, age)
    if trace.owner == owner then return false end
    -- A lower CSeq that came 5 s later is that of a phone that counts anew.
    if trace.id ~= all and trace.call == call then return trace.cseq > cseq and time_of(age) <= trace.registered + 5000 end
    return trace.registered > time_of(age)
end
for _ = 1, removals do
    local id, call = sub(update, at, at + 15), sub(update, at + 20, at + 27)
    local old = index[id]
    local age = read_as('<I4', update, at + 16)
    local cseq = read_as('<I4', update, at + 28)
    if not (old and is_newer(list[old], call, cseq, age)) then
        if old then remove(old) end
        leave(id, time_of(age), sub(update, at + 20, at + 31), function(trace) return is_later(trace, call, cseq, age) end)
    else
        is_exact = false
    end
    at = at + 32
end

local function is_kept_out(entry)
    for at = 1, #traces do
        local trace = traces[at]
        if (trace.id == entry.id or trace.id == all) and is_later(trace, entry.call, entry.cseq, entry.age) then return true end
    end
end
for number = 1, #new do
    local entry = new[number]
    local old, is_taken = index[entry.id], false
    if not (old and is_newer(list[old], entry.call, entry.cseq, entry.age)) and not is_kept_out(entry) then
        local registered = time_of(entry.age)
        local stored = {
            id = entry.id, owner = owner, expires = now + entry.expires, registered = registered,
            call = entry.call, cseq = entry.cseq,
            bytes = entry.id .. owner .. pack('<I8I8', now + entry.expires, registered) .. entry.rest,
        }
        is_taken = true
        if old then
            if entry.expires == 0 then remove(old) else list[old] = stored end
        elseif entry.expires > 0 and count < 64 then
            add(stored)
        else
            is_taken = false
        end
        for at = #traces, 1, -1 do
            if is_taken and traces[at].id == entry.id then table.remove(traces, at) end
        end
    end
    is_exact = is_exact and is_taken
end
while #traces > 16 do table.remove(traces, 1) end

-- A key of another type is another program's, under our prefix: it is replaced.
local function change(key, ...)
    local reply = redis.pcall(...)
    if type(reply) ~= 'table' or not reply.err then return end
    if string.find(reply.err, 'WRONGTYPE', 1, true) then redis.call('DEL', key) end
    redis.call(...)
end

local parts, ends = {}, 0
latest = 0
for number = 1, #list do
    if list[number] then
        parts[#parts + 1] = list[number].bytes
        latest = math.max(latest, list[number].expires)
    end
end
for number = 1, #traces do
    parts[#parts + 1] = traces[number].bytes
    ends = math.max(ends, traces[number].expires)
end
local head = '\1' .. sub(update, 31, 31 + name) .. sub(update, 15, 22) .. sub(update, 7, 14)
local joined = head .. pack('<I2', #parts) .. table.concat(parts)
if #parts == 0 then
    redis.call('DEL', KEYS[1])
else
    redis.call('SET', KEYS[1], joined, 'PXAT', math.max(latest, ends))
end
-- A user without bindings is not among those that are read at a start.
if count == 0 then
    change(KEYS[2], 'ZREM', KEYS[2], ARGV[1])
else
    change(KEYS[2], 'ZADD', KEYS[2], latest, ARGV[1])
end
-- The stream has the head of a long record only, and whether the update was taken as it is: nodes read the record by its key.
if #joined <= 2048 then
    change(KEYS[3], 'XADD', KEYS[3], 'MAXLEN', '~', 100000, '*', 'a', ARGV[1], 'r', joined)
else
    change(KEYS[3], 'XADD', KEYS[3], 'MAXLEN', '~', 100000, '*', 'a', ARGV[1], is_exact and 'e' or 'h', head)
end

-- Steps of a bounded length: records that ended, and news older than 15 minutes. A node that was away longer reads all records.
local ended = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, 4)
if #ended > 0 then redis.call('ZREM', KEYS[2], unpack(ended)) end
if now % 16 == 0 then redis.call('XTRIM', KEYS[3], 'MINID', '~', now - 900000) end
return now
