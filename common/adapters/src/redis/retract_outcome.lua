-- Takes an outcome back: its job is planned and in no queue, and its group has work left; or it is not planned any more.
-- KEYS: hash of the plan that the job is in, and the one that its group is in, unsettled, stats, bitmap of the buckets in use,
-- outcome hash of the group
-- ARGV: id, group, stage, name of the group among the unsettled, bucket of the job, whether it is
-- planned again; then name
-- and count of what the outcome had added to each further count
-- Returns whether there was one
local JOB, GROUP, UNSETTLED, STATS, BUCKETS, OUTCOMES = unpack(KEYS)
local id, group, stage, name, bucket, again = unpack(ARGV, 1, 6)
if redis.call('HDEL', OUTCOMES, id) == 0 then
  return 0
end
redis.call('HINCRBY', STATS, 'touched', 1)
if again == '1' then
  redis.call('SETBIT', BUCKETS, bucket, 1)
  redis.call('HSET', JOB, id, 'p')
  redis.call('HINCRBY', GROUP, group, 1)
  redis.call('SADD', UNSETTLED, name)
end

-- What comes to nothing is not counted any more.
local function discount(stat, count)
  if redis.call('HINCRBY', STATS, stat, -count) <= 0 then
    redis.call('HDEL', STATS, stat)
  end
end

discount('done:' .. stage, 1)
if again ~= '1' then
  discount('planned:' .. stage, 1)
end
for at = 7, #ARGV, 2 do
  discount(ARGV[at], ARGV[at + 1])
end
return 1
