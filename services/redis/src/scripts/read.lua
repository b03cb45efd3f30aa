-- Reads records of a tag, and the position of its stream that they belong to.
-- KEYS: stream, addresses-of-record by their end. ARGV: start of the records' keys, maximum length of a record, then either `scan`,
-- a cursor and a number of records, or `get` and addresses-of-record.
-- Returns last id and first id of the stream, the next cursor, the number of damaged records, then addresses-of-record and records.

-- True for an error that is not one of the key, such as a missing permission.
local function has_failed(reply)
    local error = type(reply) == 'table' and reply.err
    return error and not string.find(error, 'WRONGTYPE', 1, true) and not string.find(error, 'no such key', 1, true)
end

local last, first = '0-0', ''
local stream = redis.pcall('XINFO', 'STREAM', KEYS[1])
if has_failed(stream) then return stream end
if not stream.err then
    for at = 1, #stream, 2 do
        if stream[at] == 'last-generated-id' then last = stream[at + 1] end
        if stream[at] == 'first-entry' and stream[at + 1] then first = stream[at + 1][1] end
    end
end

local result, damaged, bytes, aors = { last, first, '0', 0 }, 0, 0, {}
if ARGV[3] == 'scan' then
    local page = redis.pcall('ZSCAN', KEYS[2], ARGV[4], 'COUNT', ARGV[5])
    if has_failed(page) then return page end
    if page.err then
        damaged = 1
    else
        result[3] = page[1]
        for at = 1, #page[2], 2 do aors[#aors + 1] = page[2][at] end
    end
else
    for at = 4, #ARGV do aors[#aors + 1] = ARGV[at] end
end
for _, aor in ipairs(aors) do
    local record = #aor <= 1024 and redis.pcall('GET', ARGV[1] .. aor)
    if has_failed(record) then return record end
    -- An absent one is false: it ended, and the set is trimmed later.
    if type(record) == 'string' and #record <= tonumber(ARGV[2]) and bytes < 33554432 then
        bytes = bytes + #record + #aor
        result[#result + 1] = aor
        result[#result + 1] = record
    elseif record or #aor > 1024 then
        damaged = damaged + 1
    end
end
result[4] = damaged
return result
