-- Marks a group as having nothing left to do, unless it has open jobs.
-- KEYS: open, unsettled
-- ARGV: group
if tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or 0) == 0 then
  redis.call('SREM', KEYS[2], ARGV[1])
end
return 0
