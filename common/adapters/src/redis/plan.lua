-- Records jobs as planned and says where each is.
-- KEYS: jobs, open, unsettled, stats, then one outcome hash for each group
-- ARGV: the groups, in the order of their hashes; then id, index of the group, stage of each job, of which there is one at least
-- Returns for each job: 0 planned, 1 enqueued, 2 done
-- At most a few thousand arguments, each of which may be on the stack. A call takes Redis longer than what it does, so what can
-- be asked or written of all jobs is asked or written at once.
local HASHES = 4
local groups = #KEYS - HASHES
local ids = {}
for at = groups + 1, #ARGV, 3 do
  ids[#ids + 1] = ARGV[at]
end
local known = redis.call('HMGET', KEYS[1], unpack(ids))
-- A group that was never planned has no outcome.
local open = redis.call('HMGET', KEYS[2], unpack(ARGV, 1, groups))

local states, written, seen, opened, planned = {}, {}, {}, {}, {}
for job, id in ipairs(ids) do
  local at = groups + 3 * job - 2
  local group, stage = tonumber(ARGV[at + 1]), ARGV[at + 2]
  local state = 0
  if known[job] == 'e' then
    state = 1
  end
  -- The outcome first: it stands though the plan may have come back by itself.
  if open[group] and redis.call('HEXISTS', KEYS[HASHES + group], id) == 1 then
    state = 2
  elseif not seen[id] and not (known[job] and open[group]) then
    -- One that is known in a group that is not was written by a call that ended there, for want of a right.
    if not known[job] then
      written[#written + 1] = id
      written[#written + 1] = 'p'
    end
    opened[group] = (opened[group] or 0) + 1
    planned[stage] = (planned[stage] or 0) + 1
  end
  seen[id] = true
  states[job] = state
end

if #written > 0 then
  redis.call('HSET', KEYS[1], unpack(written))
end
local names = {}
for group = 1, groups do
  if opened[group] then
    redis.call('HINCRBY', KEYS[2], ARGV[group], opened[group])
    names[#names + 1] = ARGV[group]
  end
end
if #names > 0 then
  redis.call('SADD', KEYS[3], unpack(names))
end
for stage, count in pairs(planned) do
  redis.call('HINCRBY', KEYS[4], 'planned:' .. stage, count)
end
return states
