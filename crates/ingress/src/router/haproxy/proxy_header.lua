-- The header of the PROXY protocol at the beginning of a connection. Called when it is whole, or too long to become it.
--
-- A header that names a client is left where it is, for the frontend behind. One that names none (UNKNOWN, LOCAL, families
-- other than TCP) is taken away, so that the connection's own address can be told instead. Anything else is refused.

local SIGNATURE = "\r\n\r\n\0\r\nQUIT\n"
local LONGEST_LINE = 107

-- Its length and whether it names nobody; nothing when it is none.
local function header(bytes)
  if bytes:sub(1, 6) == "PROXY " then
    local _, last = bytes:sub(1, LONGEST_LINE):find("\r\n", 1, true)
    local word = bytes:match("^PROXY (%u+%d?)[ \r]")
    if last and word == "UNKNOWN" then return last, true end
    if last and (word == "TCP4" or word == "TCP6") then return last, false end
  elseif bytes:sub(1, 12) == SIGNATURE and #bytes >= 16 then
    local command, family, high, low = bytes:byte(13, 16)
    local whole = 16 + high * 256 + low
    if (command == 0x20 or command == 0x21) and #bytes >= whole then
      return whole, command == 0x20 or (family ~= 0x11 and family ~= 0x21)
    end
  end
end

core.register_action("proxy_header", { "tcp-req" }, function(txn)
  local length, names_nobody = header(txn.req:data(0) or "")
  if not length then return act.DENY end
  if names_nobody then
    txn.req:remove(0, length)
    txn:set_var("sess.own_address", 1)
  end
  txn:set_var("sess.header_read", 1)
end)
