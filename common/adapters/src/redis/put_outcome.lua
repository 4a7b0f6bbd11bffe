-- Stores an outcome unless its job has one, and marks a group as having nothing left to do that has no open job then, if no
-- job follows from the outcome.
-- KEYS: hash of the plan that the job is in, and the one that its group is in, unsettled, stats, bitmap of the buckets in use,
-- best, outcome hash of the group
-- ARGV: id, group, stage, outcome, best median in milliseconds or nothing, whether no job follows, name of the group among the
-- unsettled, its bucket; then name and increment of each further count
-- Returns whether it was the first, and the open jobs of the group
local JOB, GROUP, UNSETTLED, STATS, BUCKETS, BEST, OUTCOMES = unpack(KEYS)
local id, group, stage, outcome, best, is_last, name, bucket = unpack(ARGV, 1, 8)

local function settled(open)
  if is_last == '1' and open == 0 then
    redis.call('SREM', UNSETTLED, name)
  end
  return open
end

-- The first write of all: when memory is short, Redis refuses this one and nothing has changed.
local first = redis.call('HSETNX', OUTCOMES, id, outcome)
local planned = redis.call('HDEL', JOB, id)
-- One that is stored and still planned is counted now: a right that was missing ended the script before it got there.
if first == 0 and planned == 0 then
  return {0, settled(tonumber(redis.call('HGET', GROUP, group) or 0))}
end

local open
if planned == 1 then
  open = redis.call('HINCRBY', GROUP, group, -1)
else
  -- Never planned, or the plan was lost: planned and done at once.
  redis.call('SETBIT', BUCKETS, bucket, 1)
  if not redis.call('HGET', GROUP, group) then
    redis.call('HINCRBY', STATS, 'groups', 1)
  end
  open = redis.call('HINCRBY', GROUP, group, 0)
  redis.call('SADD', UNSETTLED, name)
  redis.call('HINCRBY', STATS, 'planned:' .. stage, 1)
end

redis.call('HINCRBY', STATS, 'done:' .. stage, 1)
for at = 9, #ARGV, 2 do
  redis.call('HINCRBY', STATS, ARGV[at], ARGV[at + 1])
end
if best ~= '' then
  local known = redis.call('HGET', BEST, group)
  if not known or tonumber(best) < tonumber(known) then
    redis.call('HSET', BEST, group, best)
  end
end
return {first, settled(open)}
