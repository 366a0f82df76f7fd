#!lua name=everfresh

-- The functions of a store in Redis: each is isolated, and checks everything before its first write, since a
-- function that fails half way leaves what it has written. The keys of a call have one hash tag. "Stores on
-- servers" in docs/design/key-value.md; redis.py calls them and says what the keys are.

local function text(number)
  return string.format('%.0f', number)
end

local function life()
  return string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)')
end

-- What is known of a partition: fields of the hash `s`, absent ones as START.
local function state(key)
  local found = redis.call('HMGET', key, 'end', 'id', 'writes', 'base', 'baseid', 'term', 'owner')
  return {
    last = tonumber(found[1] or 0), id = found[2] or string.rep('\0', 8), writes = tonumber(found[3] or 0),
    base = tonumber(found[4] or 0), baseid = found[5] or string.rep('\0', 8), term = tonumber(found[6] or 1),
    owner = found[7] or ''
  }
end

local function error_of(name, detail)
  return redis.error_reply('EF' .. name .. ' ' .. (detail or ''))
end

-- keys: s, log, f, then of each write its row and its index.
-- args: term or 0; group, term, epoch of the fence, or three empty; client, seq; then of each write eight:
-- table, logged, keeps before-images, expected version or '', key, 'put' or 'delete', value, id.
local function write(keys, args)
  local found = redis.call('HMGET', keys[1], 'end', 'writes', 'term', 'gone:' .. (args[7] or ''))
  local last, writes = tonumber(found[1] or 0), tonumber(found[2] or 0)
  if args[1] ~= '0' and tonumber(args[1]) ~= tonumber(found[3] or 1) then return error_of('CLOSED') end
  if args[2] ~= '' and redis.call('HGET', keys[3], args[2]) ~= args[3] .. ':' .. args[4] then
    return error_of('FENCED')
  end
  if found[4] then return error_of('TABLE', args[7]) end
  local written, todo, version, id, counted = {}, {}, 0, nil, false
  local there = {[args[7] or ''] = true}
  for i = 0, (#keys - 3) / 2 - 1 do
    local row, index, a = keys[4 + 2 * i], keys[5 + 2 * i], 7 + 8 * i
    local number, logged, images, expect = args[a], args[a + 1] == '1', args[a + 2] == '1', args[a + 3]
    if not there[number] then
      if redis.call('HEXISTS', keys[1], 'gone:' .. number) == 1 then return error_of('TABLE', number) end
      there[number] = true
    end
    local before = written[row]
    if before == nil then before = redis.call('GET', row) end
    if expect ~= '' then
      local actual = before and struct.unpack('>I8', before) or 0
      if tonumber(expect) ~= actual then return error_of('CONFLICT', i .. ' ' .. text(actual)) end
    end
    local put, entry = args[a + 5] == 'put', nil
    if logged then
      last, id = last + 1, args[a + 7]
      version = last
      entry = {'i', id, 't', number, 'k', args[a + 4]}
      local n = 6
      local function add(field, value)
        entry[n + 1], entry[n + 2] = field, value
        n = n + 2
      end
      if before and images then add('b', string.sub(before, 9)) end
      if put then add('a', args[a + 6]) end
      if args[5] ~= '' then add('c', args[5]) end
      if args[6] ~= '0' then add('q', args[6]) end
    else
      writes, counted = writes + 1, true
      version = writes
    end
    local value = put and struct.pack('>I8', version) .. args[a + 6]
    written[row] = value
    todo[#todo + 1] = {row, index, args[a + 4], value, before and true, entry, last}
  end
  for _, w in ipairs(todo) do
    if w[6] then redis.call('XADD', keys[2], '0-' .. text(w[7]), unpack(w[6])) end
    if w[4] then
      redis.call('SET', w[1], w[4])
      if not w[5] then redis.call('ZADD', w[2], 0, w[3]) end
    elseif w[5] then
      redis.call('DEL', w[1])
      redis.call('ZREM', w[2], w[3])
    end
  end
  if id then redis.call('HSET', keys[1], 'end', text(last), 'id', id) end
  if counted then redis.call('HSET', keys[1], 'writes', text(writes)) end
  return version
end

-- keys: s, log, f. args: group, term, epoch.
local function fence(keys, args)
  local found = redis.call('HGET', keys[3], args[1])
  if found then
    local term, epoch = string.match(found, '(%d+):(%d+)')
    term, epoch = tonumber(term), tonumber(epoch)
    if term > tonumber(args[2]) or (term == tonumber(args[2]) and epoch > tonumber(args[3])) then
      return error_of('FENCED')
    end
  end
  redis.call('HSET', keys[3], args[1], args[2] .. ':' .. args[3])
  return 1
end

-- keys: s, the index of a table. args: the prefix of its rows, bounds as of ZRANGEBYLEX, how many.
local function chunk(keys, args)
  local at = state(keys[1])
  local found = redis.call('ZRANGEBYLEX', keys[2], args[2], args[3], 'LIMIT', 0, args[4])
  local result = {text(at.last), at.id, found}
  local rows = {}
  for i, key in ipairs(found) do rows[i] = redis.call('GET', args[1] .. key) end
  result[4] = rows
  return result
end

-- keys: s, log. args: offset, how many. The entry at the offset is the first, if it is there.
local function log(keys, args)
  local at = state(keys[1])
  local found = redis.call('XRANGE', keys[2], '0-' .. args[1], '+', 'COUNT', args[2])
  return {text(at.base), at.baseid, text(at.last), at.id, found}
end

-- keys: s.
local function about(keys)
  local at = state(keys[1])
  return {text(at.last), at.id, text(at.term), at.owner, life()}
end

-- keys: s, log. args: offset.
local function trim(keys, args)
  local at = state(keys[1])
  local upto = math.min(tonumber(args[1]), at.last)
  if upto <= at.base then return 0 end
  local id = redis.call('XRANGE', keys[2], '0-' .. text(upto), '0-' .. text(upto))[1][2][2]
  redis.call('HSET', keys[1], 'base', text(upto), 'baseid', id)
  redis.call('XTRIM', keys[2], 'MINID', '0-' .. text(upto + 1))
  return 1
end

-- keys: s. args: owner.
local function move(keys, args)
  redis.call('HSET', keys[1], 'owner', args[1])
  redis.call('HSETNX', keys[1], 'term', 1)
  return redis.call('HINCRBY', keys[1], 'term', 1)
end

-- keys: s, the index of a table that is gone. args: its number, the prefix of its rows, how many. How many
-- rows there were.
local function clear(keys, args)
  redis.call('HSET', keys[1], 'gone:' .. args[1], 1)
  local found = redis.call('ZRANGE', keys[2], 0, tonumber(args[3]) - 1)
  for _, key in ipairs(found) do redis.call('DEL', args[2] .. key) end
  if #found > 0 then redis.call('ZREMRANGEBYRANK', keys[2], 0, #found - 1) end
  return #found
end

-- keys: one. args: what it must be, or empty for nothing; what it becomes.
local function swap(keys, args)
  if (redis.call('GET', keys[1]) or '') ~= args[1] then return 0 end
  redis.call('SET', keys[1], args[2])
  return 1
end

local reads = {'no-writes'}
redis.register_function('ef1_write', write)
redis.register_function('ef1_fence', fence)
redis.register_function('ef1_trim', trim)
redis.register_function('ef1_move', move)
redis.register_function('ef1_clear', clear)
redis.register_function('ef1_swap', swap)
redis.register_function{function_name = 'ef1_chunk', callback = chunk, flags = reads}
redis.register_function{function_name = 'ef1_log', callback = log, flags = reads}
redis.register_function{function_name = 'ef1_about', callback = about, flags = reads}
