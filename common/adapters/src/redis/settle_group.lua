-- Marks a group as having nothing left to do, unless it has open jobs.
-- KEYS: hash of the plan that the group is in, unsettled
-- ARGV: group, its name among the unsettled
local GROUP, UNSETTLED = unpack(KEYS)
if tonumber(redis.call('HGET', GROUP, ARGV[1]) or 0) == 0 then
  redis.call('SREM', UNSETTLED, ARGV[2])
end
return 0
