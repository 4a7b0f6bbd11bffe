-- Lowers the best median of a group.
-- KEYS: best
-- ARGV: group, median in milliseconds
local known = redis.call('HGET', KEYS[1], ARGV[1])
if not known or tonumber(ARGV[2]) < tonumber(known) then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
end
return 0
