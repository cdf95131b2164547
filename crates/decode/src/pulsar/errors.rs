//! `ServerError` of PulsarApi.proto.

use wirespan_model::Outcome;

const NAMES: &[&str] = &[
    "UnknownError",
    "MetadataError",
    "PersistenceError",
    "AuthenticationError",
    "AuthorizationError",
    "ConsumerBusy",
    "ServiceNotReady",
    "ProducerBlockedQuotaExceededError",
    "ProducerBlockedQuotaExceededException",
    "ChecksumError",
    "UnsupportedVersionError",
    "TopicNotFound",
    "SubscriptionNotFound",
    "ConsumerNotFound",
    "TooManyRequests",
    "TopicTerminatedError",
    "ProducerBusy",
    "InvalidTopicName",
    "IncompatibleSchema",
    "ConsumerAssignError",
    "TransactionCoordinatorNotFound",
    "InvalidTxnStatus",
    "NotAllowedError",
    "TransactionConflict",
    "TransactionNotFound",
    "ProducerFenced",
];

/// Name of an error.
pub(super) fn name(code: u64) -> &'static str {
    usize::try_from(code).ok().and_then(|n| NAMES.get(n)).copied().unwrap_or("_OTHER")
}

/// Whose fault it is.
pub(super) fn outcome(code: u64) -> Outcome {
    match code {
        0..=2 | 6 | 14 | 19 | 20 => Outcome::ServerError,
        _ => Outcome::ClientError,
    }
}
