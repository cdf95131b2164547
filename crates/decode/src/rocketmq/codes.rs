//! Names of request and response codes (`RequestCode` and `ResponseCode` of Apache RocketMQ).

use wirespan_model::Outcome;

/// Name of a request code.
pub(super) fn request(code: i32) -> Option<&'static str> {
    Some(match code {
        10 => "SEND_MESSAGE",
        11 => "PULL_MESSAGE",
        12 => "QUERY_MESSAGE",
        13 => "QUERY_BROKER_OFFSET",
        14 => "QUERY_CONSUMER_OFFSET",
        15 => "UPDATE_CONSUMER_OFFSET",
        17 => "UPDATE_AND_CREATE_TOPIC",
        21 => "GET_ALL_TOPIC_CONFIG",
        25 => "UPDATE_BROKER_CONFIG",
        26 => "GET_BROKER_CONFIG",
        28 => "GET_BROKER_RUNTIME_INFO",
        29 => "SEARCH_OFFSET_BY_TIMESTAMP",
        30 => "GET_MAX_OFFSET",
        31 => "GET_MIN_OFFSET",
        32 => "GET_EARLIEST_MSG_STORETIME",
        33 => "VIEW_MESSAGE_BY_ID",
        34 => "HEART_BEAT",
        35 => "UNREGISTER_CLIENT",
        36 => "CONSUMER_SEND_MSG_BACK",
        37 => "END_TRANSACTION",
        38 => "GET_CONSUMER_LIST_BY_GROUP",
        39 => "CHECK_TRANSACTION_STATE",
        40 => "NOTIFY_CONSUMER_IDS_CHANGED",
        41 => "LOCK_BATCH_MQ",
        42 => "UNLOCK_BATCH_MQ",
        43 => "GET_ALL_CONSUMER_OFFSET",
        45 => "GET_ALL_DELAY_OFFSET",
        46 => "CHECK_CLIENT_CONFIG",
        100 => "PUT_KV_CONFIG",
        101 => "GET_KV_CONFIG",
        102 => "DELETE_KV_CONFIG",
        103 => "REGISTER_BROKER",
        104 => "UNREGISTER_BROKER",
        105 => "GET_ROUTEINFO_BY_TOPIC",
        106 => "GET_BROKER_CLUSTER_INFO",
        200 => "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP",
        201 => "GET_ALL_SUBSCRIPTIONGROUP_CONFIG",
        202 => "GET_TOPIC_STATS_INFO",
        203 => "GET_CONSUMER_CONNECTION_LIST",
        204 => "GET_PRODUCER_CONNECTION_LIST",
        205 => "WIPE_WRITE_PERM_OF_BROKER",
        206 => "GET_ALL_TOPIC_LIST_FROM_NAMESERVER",
        207 => "DELETE_SUBSCRIPTIONGROUP",
        208 => "GET_CONSUME_STATS",
        215 => "DELETE_TOPIC_IN_BROKER",
        216 => "DELETE_TOPIC_IN_NAMESRV",
        219 => "GET_KVLIST_BY_NAMESPACE",
        220 => "RESET_CONSUMER_CLIENT_OFFSET",
        221 => "GET_CONSUMER_STATUS_FROM_CLIENT",
        222 => "INVOKE_BROKER_TO_RESET_OFFSET",
        300 => "QUERY_TOPIC_CONSUME_BY_WHO",
        307 => "GET_CONSUMER_RUNNING_INFO",
        309 => "CONSUME_MESSAGE_DIRECTLY",
        310 => "SEND_MESSAGE_V2",
        320 => "SEND_BATCH_MESSAGE",
        321 => "QUERY_CONSUME_QUEUE",
        322 => "QUERY_DATA_VERSION",
        324 => "SEND_REPLY_MESSAGE",
        325 => "SEND_REPLY_MESSAGE_V2",
        326 => "PUSH_REPLY_MESSAGE_TO_CLIENT",
        361 => "LITE_PULL_MESSAGE",
        400 => "QUERY_ASSIGNMENT",
        401 => "SET_MESSAGE_REQUEST_MODE",
        200_050 => "POP_MESSAGE",
        200_051 => "ACK_MESSAGE",
        200_052 => "PEEK_MESSAGE",
        200_053 => "CHANGE_MESSAGE_INVISIBLETIME",
        200_054 => "NOTIFICATION",
        200_055 => "POLLING_INFO",
        200_151 => "BATCH_ACK_MESSAGE",
        _ => return None,
    })
}

/// Requests that brokers send to their clients.
pub(super) fn is_brokers(code: i32) -> bool {
    matches!(code, 39 | 40 | 220 | 221 | 307 | 309 | 326)
}

/// The operation of a request, in the words of the convention.
pub(super) fn operation_type(code: i32) -> Option<&'static str> {
    match code {
        10 | 310 | 320 | 324 | 325 => Some("send"),
        11 | 361 | 200_050 => Some("receive"),
        15 | 36 | 200_051 | 200_151 => Some("settle"),
        _ => None,
    }
}

/// Name of a response code.
pub(super) fn response(code: i32) -> &'static str {
    match code {
        0 => "SUCCESS",
        1 => "SYSTEM_ERROR",
        2 => "SYSTEM_BUSY",
        3 => "REQUEST_CODE_NOT_SUPPORTED",
        4 => "TRANSACTION_FAILED",
        10 => "FLUSH_DISK_TIMEOUT",
        11 => "SLAVE_NOT_AVAILABLE",
        12 => "FLUSH_SLAVE_TIMEOUT",
        13 => "MESSAGE_ILLEGAL",
        14 => "SERVICE_NOT_AVAILABLE",
        15 => "VERSION_NOT_SUPPORTED",
        16 => "NO_PERMISSION",
        17 => "TOPIC_NOT_EXIST",
        18 => "TOPIC_EXIST_ALREADY",
        19 => "PULL_NOT_FOUND",
        20 => "PULL_RETRY_IMMEDIATELY",
        21 => "PULL_OFFSET_MOVED",
        22 => "QUERY_NOT_FOUND",
        23 => "SUBSCRIPTION_PARSE_FAILED",
        24 => "SUBSCRIPTION_NOT_EXIST",
        25 => "SUBSCRIPTION_NOT_LATEST",
        26 => "SUBSCRIPTION_GROUP_NOT_EXIST",
        27 => "FILTER_DATA_NOT_EXIST",
        28 => "FILTER_DATA_NOT_LATEST",
        29 => "INVALID_PARAMETER",
        200 => "TRANSACTION_SHOULD_COMMIT",
        201 => "TRANSACTION_SHOULD_ROLLBACK",
        202 => "TRANSACTION_STATE_UNKNOW",
        203 => "TRANSACTION_STATE_GROUP_WRONG",
        204 => "NO_BUYER_ID",
        205 => "NOT_IN_CURRENT_UNIT",
        206 => "CONSUMER_NOT_ONLINE",
        207 => "CONSUME_MSG_TIMEOUT",
        208 => "NO_MESSAGE",
        209 => "POLLING_FULL",
        210 => "POLLING_TIMEOUT",
        _ => "_OTHER",
    }
}

/// Whose fault. A message that is stored but not yet copied or flushed is stored; that nothing is there to be read is
/// no fault at all.
pub(super) fn outcome(code: i32) -> Outcome {
    match code {
        0 | 10..=12 | 19..=22 | 200..=202 | 208..=210 => Outcome::Ok,
        1 | 2 | 4 | 14 => Outcome::ServerError,
        _ => Outcome::ClientError,
    }
}
