//! Numbers of operations, errors and events, and their names.

/// Name of an operation, and whether its request begins with a path.
pub(super) fn operation(code: i32) -> Option<(&'static str, bool)> {
    Some(match code {
        1 => ("create", true),
        2 => ("delete", true),
        3 => ("exists", true),
        4 => ("getData", true),
        5 => ("setData", true),
        6 => ("getACL", true),
        7 => ("setACL", true),
        8 => ("getChildren", true),
        9 => ("sync", true),
        11 => ("ping", false),
        12 => ("getChildren2", true),
        13 => ("check", true),
        14 => ("multi", false),
        15 => ("create2", true),
        16 => ("reconfig", false),
        17 => ("checkWatches", true),
        18 => ("removeWatches", true),
        19 => ("createContainer", true),
        20 => ("deleteContainer", true),
        21 => ("createTTL", true),
        22 => ("multiRead", false),
        100 => ("auth", false),
        101 => ("setWatches", false),
        102 => ("sasl", false),
        103 => ("getEphemerals", true),
        104 => ("getAllChildrenNumber", true),
        105 => ("setWatches2", false),
        106 => ("addWatch", true),
        107 => ("whoAmI", false),
        -10 => ("createSession", false),
        -11 => ("closeSession", false),
        _ => return None,
    })
}

/// Name of an error, and whether the server is at fault.
pub(super) fn error(code: i32) -> Option<(&'static str, bool)> {
    Some(match code {
        -1 => ("SystemError", true),
        -2 => ("RuntimeInconsistency", true),
        -3 => ("DataInconsistency", true),
        -4 => ("ConnectionLoss", true),
        -5 => ("MarshallingError", false),
        -6 => ("Unimplemented", false),
        -7 => ("OperationTimeout", true),
        -8 => ("BadArguments", false),
        -12 => ("UnknownSession", false),
        -13 => ("NewConfigNoQuorum", true),
        -14 => ("ReconfigInProgress", true),
        -100 => ("APIError", false),
        -101 => ("NoNode", false),
        -102 => ("NoAuth", false),
        -103 => ("BadVersion", false),
        -108 => ("NoChildrenForEphemerals", false),
        -110 => ("NodeExists", false),
        -111 => ("NotEmpty", false),
        -112 => ("SessionExpired", false),
        -113 => ("InvalidCallback", false),
        -114 => ("InvalidACL", false),
        -115 => ("AuthFailed", false),
        -118 => ("SessionMoved", false),
        -119 => ("NotReadOnly", true),
        -120 => ("EphemeralOnLocalSession", false),
        -121 => ("NoWatcher", false),
        -122 => ("RequestTimeout", true),
        -123 => ("ReconfigDisabled", false),
        -124 => ("SessionClosedRequireSaslAuth", false),
        -125 => ("QuotaExceeded", false),
        -127 => ("ThrottledOp", true),
        _ => return None,
    })
}

/// Name of a watch event.
pub(super) fn event(code: i32) -> Option<&'static str> {
    Some(match code {
        -1 => "None",
        1 => "NodeCreated",
        2 => "NodeDeleted",
        3 => "NodeDataChanged",
        4 => "NodeChildrenChanged",
        5 => "DataWatchRemoved",
        6 => "ChildWatchRemoved",
        7 => "PersistentWatchRemoved",
        _ => return None,
    })
}
