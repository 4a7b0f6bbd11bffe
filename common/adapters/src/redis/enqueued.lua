-- Records that planned jobs are in a queue. One that has its outcome is no longer in the hash, and stays out of it.
-- KEYS: jobs
-- ARGV: ids
for _, id in ipairs(ARGV) do
  if redis.call('HGET', KEYS[1], id) == 'p' then
    redis.call('HSET', KEYS[1], id, 'e')
  end
end
return 0
