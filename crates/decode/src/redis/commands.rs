//! Names of Redis commands (Redis 7 and 8, Valkey 8), and where their keys stand.

/// Commands of the core, upper case, sorted.
pub const NAMES: &[&str] = &[
    "ACL",
    "APPEND",
    "ASKING",
    "AUTH",
    "BGREWRITEAOF",
    "BGSAVE",
    "BITCOUNT",
    "BITFIELD",
    "BITFIELD_RO",
    "BITOP",
    "BITPOS",
    "BLMOVE",
    "BLMPOP",
    "BLPOP",
    "BRPOP",
    "BRPOPLPUSH",
    "BZMPOP",
    "BZPOPMAX",
    "BZPOPMIN",
    "CLIENT",
    "CLUSTER",
    "COMMAND",
    "CONFIG",
    "COPY",
    "DBSIZE",
    "DEBUG",
    "DECR",
    "DECRBY",
    "DEL",
    "DISCARD",
    "DUMP",
    "ECHO",
    "EVAL",
    "EVALSHA",
    "EVALSHA_RO",
    "EVAL_RO",
    "EXEC",
    "EXISTS",
    "EXPIRE",
    "EXPIREAT",
    "EXPIRETIME",
    "FAILOVER",
    "FCALL",
    "FCALL_RO",
    "FLUSHALL",
    "FLUSHDB",
    "FUNCTION",
    "GEOADD",
    "GEODIST",
    "GEOHASH",
    "GEOPOS",
    "GEORADIUS",
    "GEORADIUSBYMEMBER",
    "GEORADIUSBYMEMBER_RO",
    "GEORADIUS_RO",
    "GEOSEARCH",
    "GEOSEARCHSTORE",
    "GET",
    "GETBIT",
    "GETDEL",
    "GETEX",
    "GETRANGE",
    "GETSET",
    "HDEL",
    "HELLO",
    "HEXISTS",
    "HEXPIRE",
    "HEXPIREAT",
    "HEXPIRETIME",
    "HGET",
    "HGETALL",
    "HGETDEL",
    "HGETEX",
    "HINCRBY",
    "HINCRBYFLOAT",
    "HKEYS",
    "HLEN",
    "HMGET",
    "HMSET",
    "HPERSIST",
    "HPEXPIRE",
    "HPEXPIREAT",
    "HPEXPIRETIME",
    "HPTTL",
    "HRANDFIELD",
    "HSCAN",
    "HSET",
    "HSETEX",
    "HSETNX",
    "HSTRLEN",
    "HTTL",
    "HVALS",
    "INCR",
    "INCRBY",
    "INCRBYFLOAT",
    "INFO",
    "KEYS",
    "LASTSAVE",
    "LATENCY",
    "LCS",
    "LINDEX",
    "LINSERT",
    "LLEN",
    "LMOVE",
    "LMPOP",
    "LOLWUT",
    "LPOP",
    "LPOS",
    "LPUSH",
    "LPUSHX",
    "LRANGE",
    "LREM",
    "LSET",
    "LTRIM",
    "MEMORY",
    "MGET",
    "MIGRATE",
    "MODULE",
    "MONITOR",
    "MOVE",
    "MSET",
    "MSETNX",
    "MULTI",
    "OBJECT",
    "PERSIST",
    "PEXPIRE",
    "PEXPIREAT",
    "PEXPIRETIME",
    "PFADD",
    "PFCOUNT",
    "PFDEBUG",
    "PFMERGE",
    "PFSELFTEST",
    "PING",
    "PSETEX",
    "PSUBSCRIBE",
    "PSYNC",
    "PTTL",
    "PUBLISH",
    "PUBSUB",
    "PUNSUBSCRIBE",
    "QUIT",
    "RANDOMKEY",
    "READONLY",
    "READWRITE",
    "RENAME",
    "RENAMENX",
    "REPLCONF",
    "REPLICAOF",
    "RESET",
    "RESTORE",
    "RESTORE-ASKING",
    "ROLE",
    "RPOP",
    "RPOPLPUSH",
    "RPUSH",
    "RPUSHX",
    "SADD",
    "SAVE",
    "SCAN",
    "SCARD",
    "SCRIPT",
    "SDIFF",
    "SDIFFSTORE",
    "SELECT",
    "SENTINEL",
    "SET",
    "SETBIT",
    "SETEX",
    "SETNX",
    "SETRANGE",
    "SHUTDOWN",
    "SINTER",
    "SINTERCARD",
    "SINTERSTORE",
    "SISMEMBER",
    "SLAVEOF",
    "SLOWLOG",
    "SMEMBERS",
    "SMISMEMBER",
    "SMOVE",
    "SORT",
    "SORT_RO",
    "SPOP",
    "SPUBLISH",
    "SRANDMEMBER",
    "SREM",
    "SSCAN",
    "SSUBSCRIBE",
    "STRLEN",
    "SUBSCRIBE",
    "SUBSTR",
    "SUNION",
    "SUNIONSTORE",
    "SUNSUBSCRIBE",
    "SWAPDB",
    "SYNC",
    "TIME",
    "TOUCH",
    "TTL",
    "TYPE",
    "UNLINK",
    "UNSUBSCRIBE",
    "UNWATCH",
    "WAIT",
    "WAITAOF",
    "WATCH",
    "XACK",
    "XADD",
    "XAUTOCLAIM",
    "XCLAIM",
    "XDEL",
    "XGROUP",
    "XINFO",
    "XLEN",
    "XPENDING",
    "XRANGE",
    "XREAD",
    "XREADGROUP",
    "XREVRANGE",
    "XSETID",
    "XTRIM",
    "ZADD",
    "ZCARD",
    "ZCOUNT",
    "ZDIFF",
    "ZDIFFSTORE",
    "ZINCRBY",
    "ZINTER",
    "ZINTERCARD",
    "ZINTERSTORE",
    "ZLEXCOUNT",
    "ZMPOP",
    "ZMSCORE",
    "ZPOPMAX",
    "ZPOPMIN",
    "ZRANDMEMBER",
    "ZRANGE",
    "ZRANGEBYLEX",
    "ZRANGEBYSCORE",
    "ZRANGESTORE",
    "ZRANK",
    "ZREM",
    "ZREMRANGEBYLEX",
    "ZREMRANGEBYRANK",
    "ZREMRANGEBYSCORE",
    "ZREVRANGE",
    "ZREVRANGEBYLEX",
    "ZREVRANGEBYSCORE",
    "ZREVRANK",
    "ZSCAN",
    "ZSCORE",
    "ZUNION",
    "ZUNIONSTORE",
];

/// Longest command name that is accepted, bytes.
pub const MAX_NAME: usize = 32;

/// An upper-case command name on the stack, so that it can outlive the chunk it came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Name {
    bytes: [u8; MAX_NAME],
    len: u8,
}

impl Name {
    /// Takes a name: letters first, then letters, digits, `.`, `_`, `-`; at most [`MAX_NAME`] bytes.
    pub fn new(bytes: &[u8]) -> Option<Name> {
        let word = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        if !bytes.first()?.is_ascii_alphabetic() || !bytes.iter().all(word) {
            return None;
        }
        let mut name = Name { len: u8::try_from(bytes.len()).ok()?, ..Name::default() };
        let place = name.bytes.get_mut(..bytes.len())?;
        place.copy_from_slice(bytes);
        place.make_ascii_uppercase();
        Some(name)
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..usize::from(self.len)).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }

    /// Whether it is a command of the core.
    pub fn is_known(&self) -> bool {
        NAMES.binary_search(&self.as_str()).is_ok()
    }
}

/// Commands whose second word is part of the operation.
pub fn is_container(name: &str) -> bool {
    matches!(
        name,
        "ACL"
            | "CLIENT"
            | "CLUSTER"
            | "COMMAND"
            | "CONFIG"
            | "DEBUG"
            | "FUNCTION"
            | "LATENCY"
            | "MEMORY"
            | "MODULE"
            | "OBJECT"
            | "PUBSUB"
            | "SCRIPT"
            | "SENTINEL"
            | "SLOWLOG"
            | "XGROUP"
            | "XINFO"
    )
}

/// Commands of which nothing but the name is kept.
pub fn is_secret(name: &str) -> bool {
    matches!(name, "AUTH" | "HELLO")
}

/// Commands whose second word is the name of a channel, which is kept: names of topics are no values.
pub fn has_channel(name: &str) -> bool {
    matches!(
        name,
        "PUBLISH"
            | "SPUBLISH"
            | "SUBSCRIBE"
            | "PSUBSCRIBE"
            | "SSUBSCRIBE"
            | "UNSUBSCRIBE"
            | "PUNSUBSCRIBE"
            | "SUNSUBSCRIBE"
    )
}

/// How many keys a command of the core names, if that follows from the number of its arguments.
pub fn key_count(name: &str, arguments: u64) -> Option<u64> {
    match name {
        "DEL" | "EXISTS" | "MGET" | "PFCOUNT" | "PFMERGE" | "SDIFF" | "SDIFFSTORE" | "SINTER" | "SINTERSTORE"
        | "SUNION" | "SUNIONSTORE" | "SSUBSCRIBE" | "TOUCH" | "UNLINK" | "WATCH" => Some(arguments),
        "MSET" | "MSETNX" => Some(arguments.div_ceil(2)),
        "BLPOP" | "BRPOP" | "BZPOPMAX" | "BZPOPMIN" | "BITOP" => arguments.checked_sub(1),
        "BLMOVE" | "BRPOPLPUSH" | "COPY" | "GEOSEARCHSTORE" | "LCS" | "LMOVE" | "RENAME" | "RENAMENX" | "RPOPLPUSH"
        | "SMOVE" | "ZRANGESTORE" => Some(arguments.min(2)),
        "ACL" | "ASKING" | "AUTH" | "BGREWRITEAOF" | "BGSAVE" | "CLIENT" | "CLUSTER" | "COMMAND" | "CONFIG"
        | "DBSIZE" | "DEBUG" | "DISCARD" | "ECHO" | "EVAL" | "EVALSHA" | "EVALSHA_RO" | "EVAL_RO" | "EXEC"
        | "FAILOVER" | "FCALL" | "FCALL_RO" | "FLUSHALL" | "FLUSHDB" | "FUNCTION" | "HELLO" | "INFO" | "KEYS"
        | "LASTSAVE" | "LATENCY" | "LMPOP" | "BLMPOP" | "BZMPOP" | "LOLWUT" | "MEMORY" | "MIGRATE" | "MODULE"
        | "MONITOR" | "MULTI" | "OBJECT" | "PFDEBUG" | "PFSELFTEST" | "PING" | "PSUBSCRIBE" | "PSYNC" | "PUBLISH"
        | "PUBSUB" | "PUNSUBSCRIBE" | "QUIT" | "RANDOMKEY" | "READONLY" | "READWRITE" | "REPLCONF" | "REPLICAOF"
        | "RESET" | "ROLE" | "SAVE" | "SCAN" | "SCRIPT" | "SELECT" | "SENTINEL" | "SHUTDOWN" | "SINTERCARD"
        | "SLAVEOF" | "SLOWLOG" | "SPUBLISH" | "SUBSCRIBE" | "SUNSUBSCRIBE" | "SWAPDB" | "SYNC" | "TIME"
        | "UNSUBSCRIBE" | "UNWATCH" | "WAIT" | "WAITAOF" | "XGROUP" | "XINFO" | "XREAD" | "XREADGROUP" | "ZDIFF"
        | "ZDIFFSTORE" | "ZINTER" | "ZINTERCARD" | "ZINTERSTORE" | "ZMPOP" | "ZUNION" | "ZUNIONSTORE" => None,
        _ => NAMES.binary_search(&name).is_ok().then_some(arguments.min(1)),
    }
}

/// Whether the first argument of a command of the core is a key.
pub fn key_is_first(name: &str, arguments: u64) -> bool {
    let more = has_channel(name) || is_container(name) || is_secret(name) || name == "BITOP";
    !more && key_count(name, arguments).is_some_and(|n| n > 0)
}
