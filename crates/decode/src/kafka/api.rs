//! What each request is called, which versions exist, and where its group, topics and error codes stand.
//!
//! Versions and encodings: the message definitions of Apache Kafka 3.9 and 4.1 (kafka.apache.org/protocol).

/// Not in any version.
const NEVER: i16 = i16::MAX;

/// The place where a request names its topic or group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    Produce,
    Fetch,
    ListOffsets,
    Metadata,
    OffsetCommit,
    OffsetFetch,
    FindCoordinator,
    ApiVersions,
    DeleteTopics,
    LeaderEpoch,
    TxnGroup,
    TxnOffsetCommit,
    /// A group, then fields that are not read.
    Group,
    NullableGroup,
    /// An array of groups.
    Groups,
    /// An array of structures that begin with a topic.
    TopicNames,
    /// Credentials: never looked at.
    Secret,
    Unread,
}

/// Where a response says how it went. Numbers: the first version that begins with a throttle time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Produce,
    Fetch,
    ListOffsets,
    Metadata,
    OffsetFetch,
    FindCoordinator,
    CreateTopics,
    DeleteTopics,
    LowWatermarks,
    LeaderEpoch,
    AddPartitions,
    ElectLeaders,
    Reassign,
    LogDirs,
    /// An error code.
    Start,
    /// An error code behind the throttle time.
    Throttled(i16),
    /// An array whose elements begin with an error code.
    Array(i16),
    /// An array of a name and an error code.
    NamedArray(i16),
    /// Topics of partitions: index and error code, nothing else.
    TopicParts(i16),
    Unread,
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Api {
    /// Newest version known.
    pub(super) newest: i16,
    /// First flexible version.
    pub(super) flexible: i16,
    pub(super) name: &'static str,
    pub(super) ask: Ask,
    pub(super) answer: Answer,
}

const fn api(newest: i16, flexible: i16, name: &'static str, ask: Ask, answer: Answer) -> Api {
    Api { newest, flexible, name, ask, answer }
}

/// By key.
const APIS: &[Api] = &[
    api(13, 9, "Produce", Ask::Produce, Answer::Produce),
    api(18, 12, "Fetch", Ask::Fetch, Answer::Fetch),
    api(11, 6, "ListOffsets", Ask::ListOffsets, Answer::ListOffsets),
    api(13, 9, "Metadata", Ask::Metadata, Answer::Metadata),
    api(7, 4, "LeaderAndIsr", Ask::Unread, Answer::Start),
    api(4, 2, "StopReplica", Ask::Unread, Answer::Start),
    api(8, 6, "UpdateMetadata", Ask::Unread, Answer::Start),
    api(3, 3, "ControlledShutdown", Ask::Unread, Answer::Start),
    api(10, 8, "OffsetCommit", Ask::OffsetCommit, Answer::TopicParts(3)),
    api(10, 6, "OffsetFetch", Ask::OffsetFetch, Answer::OffsetFetch),
    api(6, 3, "FindCoordinator", Ask::FindCoordinator, Answer::FindCoordinator),
    api(9, 6, "JoinGroup", Ask::Group, Answer::Throttled(2)),
    api(4, 4, "Heartbeat", Ask::Group, Answer::Throttled(1)),
    api(5, 4, "LeaveGroup", Ask::Group, Answer::Throttled(1)),
    api(5, 4, "SyncGroup", Ask::Group, Answer::Throttled(1)),
    api(6, 5, "DescribeGroups", Ask::Groups, Answer::Array(1)),
    api(5, 3, "ListGroups", Ask::Unread, Answer::Throttled(1)),
    api(1, NEVER, "SaslHandshake", Ask::Secret, Answer::Start),
    api(4, 3, "ApiVersions", Ask::ApiVersions, Answer::Start),
    api(7, 5, "CreateTopics", Ask::TopicNames, Answer::CreateTopics),
    api(6, 4, "DeleteTopics", Ask::DeleteTopics, Answer::DeleteTopics),
    api(2, 2, "DeleteRecords", Ask::TopicNames, Answer::LowWatermarks),
    api(6, 2, "InitProducerId", Ask::Unread, Answer::Throttled(0)),
    api(4, 4, "OffsetForLeaderEpoch", Ask::LeaderEpoch, Answer::LeaderEpoch),
    api(5, 3, "AddPartitionsToTxn", Ask::Unread, Answer::AddPartitions),
    api(4, 3, "AddOffsetsToTxn", Ask::TxnGroup, Answer::Throttled(0)),
    api(4, 3, "EndTxn", Ask::Unread, Answer::Throttled(0)),
    api(2, 1, "WriteTxnMarkers", Ask::Unread, Answer::Unread),
    api(5, 3, "TxnOffsetCommit", Ask::TxnOffsetCommit, Answer::TopicParts(0)),
    api(3, 2, "DescribeAcls", Ask::Unread, Answer::Throttled(0)),
    api(3, 2, "CreateAcls", Ask::Unread, Answer::Array(0)),
    api(3, 2, "DeleteAcls", Ask::Unread, Answer::Array(0)),
    api(4, 4, "DescribeConfigs", Ask::Unread, Answer::Array(0)),
    api(2, 2, "AlterConfigs", Ask::Unread, Answer::Array(0)),
    api(2, 2, "AlterReplicaLogDirs", Ask::Unread, Answer::TopicParts(0)),
    api(4, 2, "DescribeLogDirs", Ask::Unread, Answer::LogDirs),
    api(2, 2, "SaslAuthenticate", Ask::Secret, Answer::Start),
    api(3, 2, "CreatePartitions", Ask::TopicNames, Answer::NamedArray(0)),
    api(3, 2, "CreateDelegationToken", Ask::Secret, Answer::Start),
    api(2, 2, "RenewDelegationToken", Ask::Secret, Answer::Start),
    api(2, 2, "ExpireDelegationToken", Ask::Secret, Answer::Start),
    api(3, 2, "DescribeDelegationToken", Ask::Secret, Answer::Start),
    api(2, 2, "DeleteGroups", Ask::Groups, Answer::NamedArray(0)),
    api(2, 2, "ElectLeaders", Ask::Unread, Answer::ElectLeaders),
    api(1, 1, "IncrementalAlterConfigs", Ask::Unread, Answer::Array(0)),
    api(0, 0, "AlterPartitionReassignments", Ask::Unread, Answer::Reassign),
    api(0, 0, "ListPartitionReassignments", Ask::Unread, Answer::Throttled(0)),
    api(0, NEVER, "OffsetDelete", Ask::Group, Answer::Start),
    api(1, 1, "DescribeClientQuotas", Ask::Unread, Answer::Throttled(0)),
    api(1, 1, "AlterClientQuotas", Ask::Unread, Answer::Array(0)),
    api(0, 0, "DescribeUserScramCredentials", Ask::Unread, Answer::Throttled(0)),
    api(0, 0, "AlterUserScramCredentials", Ask::Secret, Answer::NamedArray(0)),
    api(2, 0, "Vote", Ask::Unread, Answer::Start),
    api(1, 1, "BeginQuorumEpoch", Ask::Unread, Answer::Start),
    api(1, 1, "EndQuorumEpoch", Ask::Unread, Answer::Start),
    api(2, 0, "DescribeQuorum", Ask::Unread, Answer::Start),
    api(3, 0, "AlterPartition", Ask::Unread, Answer::Throttled(0)),
    api(2, 0, "UpdateFeatures", Ask::Unread, Answer::Throttled(0)),
    api(0, 0, "Envelope", Ask::Unread, Answer::Unread),
    api(1, 0, "FetchSnapshot", Ask::Unread, Answer::Throttled(0)),
    api(2, 0, "DescribeCluster", Ask::Unread, Answer::Throttled(0)),
    api(0, 0, "DescribeProducers", Ask::Unread, Answer::Unread),
    api(4, 0, "BrokerRegistration", Ask::Unread, Answer::Throttled(0)),
    api(1, 0, "BrokerHeartbeat", Ask::Unread, Answer::Throttled(0)),
    api(0, 0, "UnregisterBroker", Ask::Unread, Answer::Throttled(0)),
    api(0, 0, "DescribeTransactions", Ask::Unread, Answer::Array(0)),
    api(2, 0, "ListTransactions", Ask::Unread, Answer::Throttled(0)),
    api(0, 0, "AllocateProducerIds", Ask::Unread, Answer::Throttled(0)),
    api(1, 0, "ConsumerGroupHeartbeat", Ask::Group, Answer::Throttled(0)),
    api(1, 0, "ConsumerGroupDescribe", Ask::Groups, Answer::Array(0)),
    api(0, 0, "ControllerRegistration", Ask::Unread, Answer::Throttled(0)),
    api(0, 0, "GetTelemetrySubscriptions", Ask::Unread, Answer::Throttled(0)),
    api(0, 0, "PushTelemetry", Ask::Unread, Answer::Throttled(0)),
    api(0, 0, "AssignReplicasToDirs", Ask::Unread, Answer::Throttled(0)),
    api(0, 0, "ListClientMetricsResources", Ask::Unread, Answer::Throttled(0)),
    api(0, 0, "DescribeTopicPartitions", Ask::Unread, Answer::Array(0)),
    api(1, 0, "ShareGroupHeartbeat", Ask::Group, Answer::Throttled(0)),
    api(1, 0, "ShareGroupDescribe", Ask::Groups, Answer::Array(0)),
    api(2, 0, "ShareFetch", Ask::NullableGroup, Answer::Throttled(0)),
    api(2, 0, "ShareAcknowledge", Ask::NullableGroup, Answer::Throttled(0)),
    api(0, 0, "AddRaftVoter", Ask::Unread, Answer::Throttled(0)),
    api(0, 0, "RemoveRaftVoter", Ask::Unread, Answer::Throttled(0)),
    api(0, 0, "UpdateRaftVoter", Ask::Unread, Answer::Throttled(0)),
    api(0, 0, "InitializeShareGroupState", Ask::Unread, Answer::Unread),
    api(0, 0, "ReadShareGroupState", Ask::Unread, Answer::Unread),
    api(0, 0, "WriteShareGroupState", Ask::Unread, Answer::Unread),
    api(0, 0, "DeleteShareGroupState", Ask::Unread, Answer::Unread),
    api(0, 0, "ReadShareGroupStateSummary", Ask::Unread, Answer::Unread),
    api(0, 0, "StreamsGroupHeartbeat", Ask::Group, Answer::Throttled(0)),
    api(0, 0, "StreamsGroupDescribe", Ask::Groups, Answer::Array(0)),
    api(0, 0, "DescribeShareGroupOffsets", Ask::Unread, Answer::Unread),
    api(0, 0, "AlterShareGroupOffsets", Ask::Unread, Answer::Unread),
    api(0, 0, "DeleteShareGroupOffsets", Ask::Unread, Answer::Unread),
];

pub(super) const PRODUCE: i16 = 0;
pub(super) const FETCH: i16 = 1;
pub(super) const CONTROLLED_SHUTDOWN: i16 = 7;
pub(super) const SASL_HANDSHAKE: i16 = 17;
pub(super) const API_VERSIONS: i16 = 18;

/// The request with this key.
pub(super) fn find(key: i16) -> Option<&'static Api> {
    APIS.get(usize::try_from(key).ok()?)
}
