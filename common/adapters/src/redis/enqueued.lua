-- Records that planned jobs are in a queue. One that has its outcome is no longer in the hash, and stays out of it.
-- KEYS: jobs
-- ARGV: ids, at least one, and at most a few thousand
local enqueued = {}
for at, state in ipairs(redis.call('HMGET', KEYS[1], unpack(ARGV))) do
  if state == 'p' then
    enqueued[#enqueued + 1] = ARGV[at]
    enqueued[#enqueued + 1] = 'e'
  end
end
if #enqueued > 0 then
  redis.call('HSET', KEYS[1], unpack(enqueued))
end
return 0
