-- Reads the nodes. KEYS: hash of nodes. ARGV: names of nodes that are returned first. Returns the time of the store in milliseconds since
-- the epoch, the number of damaged ones, then names and values of 65 at most. Removes those that have been away for a day, and those
-- whose time is more than a minute ahead.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local known, nodes, damaged = {}, {}, 0
for _, name in ipairs(ARGV) do known[name] = true end
local all = redis.pcall('HGETALL', KEYS[1])
if all.err and not string.find(all.err, 'WRONGTYPE', 1, true) then return all end
if all.err then return { now, 1 } end
for at = 1, #all, 2 do
    local name, value = all[at], all[at + 1]
    local seen = #value <= 256 and tonumber(string.match(value, ' (%d+)$'))
    if #name > 32 or not seen then
        damaged = damaged + 1
    elseif seen < now - 86400000 or seen > now + 60000 then
        -- A store that cannot be written can be read.
        redis.pcall('HDEL', KEYS[1], name)
        if seen > now then damaged = damaged + 1 end
    else
        nodes[#nodes + 1] = { name, value, math.min(seen, now) + (known[name] and now or 0) }
    end
end
if #nodes > 65 then table.sort(nodes, function(one, other) return one[3] > other[3] end) end
local result = { now, damaged + math.max(0, #nodes - 65) }
for at = 1, math.min(#nodes, 65) do
    result[#result + 1] = nodes[at][1]
    result[#result + 1] = nodes[at][2]
end
return result
