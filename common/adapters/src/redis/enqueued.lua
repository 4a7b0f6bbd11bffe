-- Records that planned jobs are in a queue. One that has its outcome is no longer in the plan, and stays out of it.
-- KEYS: hashes of the plan
-- ARGV: of each job its id and which hash it is in
for at = 1, #ARGV, 2 do
  local hash, id = KEYS[tonumber(ARGV[at + 1])], ARGV[at]
  if redis.call('HGET', hash, id) == 'p' then
    redis.call('HSET', hash, id, 'e')
  end
end
return 0
