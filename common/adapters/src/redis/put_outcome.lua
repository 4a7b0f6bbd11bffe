-- Stores an outcome unless its job has one, and marks a group as having nothing left to do that has no open job then, if no
-- job follows from the outcome.
-- KEYS: jobs, open, unsettled, stats, best, outcome hash of the group
-- ARGV: id, group, stage, outcome, best median in milliseconds or nothing, whether no job follows; then name and increment
-- of each further count
-- Returns whether it was the first, and the open jobs of the group
local id, group, stage = ARGV[1], ARGV[2], ARGV[3]

local function settled(open)
  if ARGV[6] == '1' and open == 0 then
    redis.call('SREM', KEYS[3], group)
  end
  return open
end

-- The first write of all: when memory is short, Redis refuses this one and nothing has changed.
local first = redis.call('HSETNX', KEYS[6], id, ARGV[4])
local planned = redis.call('HDEL', KEYS[1], id)
-- One that is stored and still planned is counted now: a right that was missing ended the script before it got there.
if first == 0 and planned == 0 then
  return {0, settled(tonumber(redis.call('HGET', KEYS[2], group) or 0))}
end

local open
if planned == 1 then
  open = redis.call('HINCRBY', KEYS[2], group, -1)
else
  -- Never planned, or the plan was lost: planned and done at once.
  open = redis.call('HINCRBY', KEYS[2], group, 0)
  redis.call('SADD', KEYS[3], group)
  redis.call('HINCRBY', KEYS[4], 'planned:' .. stage, 1)
end

redis.call('HINCRBY', KEYS[4], 'done:' .. stage, 1)
for at = 7, #ARGV, 2 do
  redis.call('HINCRBY', KEYS[4], ARGV[at], ARGV[at + 1])
end
if ARGV[5] ~= '' then
  local known = redis.call('HGET', KEYS[5], group)
  if not known or tonumber(ARGV[5]) < tonumber(known) then
    redis.call('HSET', KEYS[5], group, ARGV[5])
  end
end
return {first, settled(open)}
