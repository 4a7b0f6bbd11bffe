-- Replaces the record of how a session stands, unless somebody gave it work, or replaced that record, since it was looked at.
-- KEYS: stats, hash of the standings
-- ARGV: session, how often it was touched and its record then, or nothing; the new record
-- Returns whether it did: also where it had before, and only the reply was lost
local STATS, STANDINGS = unpack(KEYS)
local session, times, before, standing = unpack(ARGV)
local now = redis.call('HGET', STANDINGS, session) or ''
if (redis.call('HGET', STATS, 'touched') or '0') ~= times or (now ~= before and now ~= standing) then
  return 0
end
redis.call('HSET', STANDINGS, session, standing)
return 1
