-- Records jobs as planned and says where each is.
-- KEYS: unsettled, stats, bitmap of the buckets in use, then the hashes of the plan, then one outcome hash for each group
-- ARGV: how many hashes and how many groups there are; of each hash its bucket; of each group
-- its id, which hash it is in, and its name among the unsettled; of each job, of which there is one at least, its id, which hash it is in, which group it
-- is of, and its stage
-- Returns for each job: 0 planned, 1 enqueued, 2 done
-- At most a few thousand arguments, some of which may be on the stack.
local UNSETTLED, STATS, BUCKETS = KEYS[1], KEYS[2], KEYS[3]
local HASHES = 3
local hashes, groups = tonumber(ARGV[1]), tonumber(ARGV[2])
local OUTCOMES = HASHES + hashes
local GROUPS = 2 + hashes
local JOBS = GROUPS + 3 * groups

-- Who removes a session looks whether this has changed, also where all jobs are known.
redis.call('HINCRBY', STATS, 'touched', 1)

-- Before any job, so that nothing is in a bucket that nobody knows of.
local bits = {}
for hash = 1, hashes do
  local at = #bits
  bits[at + 1], bits[at + 2], bits[at + 3], bits[at + 4] = 'SET', 'u1', ARGV[2 + hash], '1'
end
redis.call('BITFIELD', BUCKETS, unpack(bits))

-- A group that was never planned has no outcome.
local hash_of, open = {}, {}
for group = 1, groups do
  local at = GROUPS + 3 * group - 2
  hash_of[group] = KEYS[HASHES + tonumber(ARGV[at + 1])]
  open[group] = redis.call('HGET', hash_of[group], ARGV[at])
end

local states, seen, opened, planned = {}, {}, {}, {}
for at = JOBS + 1, #ARGV, 4 do
  local id, hash, group, stage = ARGV[at], KEYS[HASHES + tonumber(ARGV[at + 1])], tonumber(ARGV[at + 2]), ARGV[at + 3]
  local known = redis.call('HGET', hash, id)
  local state = 0
  if known == 'e' then
    state = 1
  end
  -- The outcome first: it stands though the plan may have come back by itself.
  if open[group] and redis.call('HEXISTS', KEYS[OUTCOMES + group], id) == 1 then
    state = 2
  elseif not seen[id] and not (known and open[group]) then
    -- One that is known in a group that is not was written by a call that ended there, for want of a right.
    if not known then
      redis.call('HSET', hash, id, 'p')
    end
    opened[group] = (opened[group] or 0) + 1
    planned[stage] = (planned[stage] or 0) + 1
  end
  seen[id] = true
  states[#states + 1] = state
end

local names, new = {}, 0
for group = 1, groups do
  if opened[group] then
    local at = GROUPS + 3 * group - 2
    redis.call('HINCRBY', hash_of[group], ARGV[at], opened[group])
    names[#names + 1] = ARGV[at + 2]
    if not open[group] then
      new = new + 1
    end
  end
end
if #names > 0 then
  redis.call('SADD', UNSETTLED, unpack(names))
end
for stage, count in pairs(planned) do
  redis.call('HINCRBY', STATS, 'planned:' .. stage, count)
end
if new > 0 then
  redis.call('HINCRBY', STATS, 'groups', new)
end
return states
