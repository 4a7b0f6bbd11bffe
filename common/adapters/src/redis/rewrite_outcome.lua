-- Puts an outcome in the place of the one that its job has, if any.
-- KEYS: outcome hash of the group
-- ARGV: id, outcome
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
end
return 0
