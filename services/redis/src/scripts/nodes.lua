-- Reads the nodes. KEYS: hash of nodes. Returns the time of the store in milliseconds since the epoch, the number of damaged ones, then
-- names and values, and removes those that have been away for a day.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local result, damaged = { now, 0 }, 0
local all = redis.pcall('HGETALL', KEYS[1])
if all.err and not string.find(all.err, 'WRONGTYPE', 1, true) then return all end
if all.err then return { now, 1 } end
for at = 1, #all, 2 do
    local name, value = all[at], all[at + 1]
    local seen = #value <= 256 and tonumber(string.match(value, ' (%d+)$'))
    if #name > 32 or not seen or #result >= 2 + 2 * 65 then
        damaged = damaged + 1
    elseif seen < now - 86400000 then
        redis.call('HDEL', KEYS[1], name)
    else
        result[#result + 1] = name
        result[#result + 1] = value
    end
end
result[2] = damaged
return result
