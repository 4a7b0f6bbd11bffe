-- Records jobs as planned and says where each is.
-- KEYS: jobs, open, unsettled, stats, then one outcome hash for each group
-- ARGV: the groups, in the order of their hashes; then id, index of the group, stage of each job
-- Returns for each job: 0 planned, 1 enqueued, 2 done
local HASHES = 4
local groups = #KEYS - HASHES
local states, opened, planned = {}, {}, {}

for at = groups + 1, #ARGV, 3 do
  local id, group, stage = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2]
  local state = 0
  if redis.call('HEXISTS', KEYS[HASHES + group], id) == 1 then
    state = 2
  else
    local known = redis.call('HGET', KEYS[1], id)
    if known == 'e' then
      state = 1
    elseif not known then
      redis.call('HSET', KEYS[1], id, 'p')
      opened[group] = (opened[group] or 0) + 1
      planned[stage] = (planned[stage] or 0) + 1
    end
  end
  states[#states + 1] = state
end

for group = 1, groups do
  if opened[group] then
    redis.call('HINCRBY', KEYS[2], ARGV[group], opened[group])
    redis.call('SADD', KEYS[3], ARGV[group])
  end
end
for stage, count in pairs(planned) do
  redis.call('HINCRBY', KEYS[4], 'planned:' .. stage, count)
end
return states
