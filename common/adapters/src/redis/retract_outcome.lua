-- Takes an outcome back: its job is planned and in no queue, and its group has work left.
-- KEYS: jobs, open, unsettled, stats, outcome hash of the group
-- ARGV: id, group, stage; then name and count of what the outcome had added to each further count
-- Returns whether there was one
local id, group, stage = ARGV[1], ARGV[2], ARGV[3]
if redis.call('HDEL', KEYS[5], id) == 0 then
  return 0
end
redis.call('HSET', KEYS[1], id, 'p')
redis.call('HINCRBY', KEYS[2], group, 1)
redis.call('SADD', KEYS[3], group)

-- What comes to nothing is not counted any more.
local function discount(name, count)
  if redis.call('HINCRBY', KEYS[4], name, -count) <= 0 then
    redis.call('HDEL', KEYS[4], name)
  end
end

discount('done:' .. stage, 1)
for at = 4, #ARGV, 2 do
  discount(ARGV[at], ARGV[at + 1])
end
return 1
