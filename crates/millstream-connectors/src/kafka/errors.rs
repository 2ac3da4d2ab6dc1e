//! Errors, with Spark's conditions.

use millstream_core::{Error, ErrorKind};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};

use super::positions::TopicPartition;

const DATA_LOSS: &str = "22000";

/// Ways in which records that a query was promised can be gone. The code is a subclass of Spark's `KAFKA_DATA_LOSS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// Partitions that were read are no longer there.
    Deleted(Vec<TopicPartition>),
    /// A partition that appeared while the query ran does not begin at 0.
    LateStart(TopicPartition, i64),
    /// A partition ends before the position that was read.
    WentBack { partition: TopicPartition, known: i64, now: i64 },
    /// Records below the first one that is left were to be read.
    Expired { partition: TopicPartition, from: i64, until: i64 },
    /// The partition ends before the range does.
    CutOff { partition: TopicPartition, end: i64, until: i64 },
}

impl Loss {
    fn code(&self) -> &'static str {
        match self {
            Loss::Deleted(_) => "KAFKA_DATA_LOSS.PARTITIONS_DELETED",
            Loss::LateStart(..) => "KAFKA_DATA_LOSS.ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO",
            Loss::WentBack { .. } => "KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED",
            Loss::Expired { .. } | Loss::CutOff { .. } => "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE",
        }
    }

    /// What is gone, for people.
    pub(super) fn text(&self) -> String {
        match self {
            Loss::Deleted(partitions) => format!("Partitions {} have been deleted.", super::positions::list(partitions)),
            Loss::LateStart(partition, start) => format!("Added partition {partition} starts from {start} instead of 0."),
            Loss::WentBack { partition, known, now } => format!(
                "Partition {partition} offset was changed from {known} to {now}: either a start offset is beyond the end of the partition, or \
                 the topic was deleted and made anew."
            ),
            Loss::Expired { partition, from, until } => {
                format!(
                    "Records of {partition} in [{from}, {until}) are no longer in Kafka: they were expired or deleted before they were read."
                )
            }
            Loss::CutOff { partition, end, until } => format!(
                "Partition {partition} ends at {end}, before offset {until} that was there when the batch was planned: the topic was made anew \
                 or its log was cut."
            ),
        }
    }

    /// The loss as an error, which is what `failOnDataLoss` asks for.
    pub(super) fn error(&self) -> Error {
        let message = format!(
            "Some data may have been lost because they are not available in Kafka any more. Set the source option failOnDataLoss to false to \
             go on without them. Reason: {}",
            self.text()
        );
        Error::new(ErrorKind::DataLost, self.code(), message).with_sqlstate(DATA_LOSS)
    }
}

/// What the client said, as an error of a source that was asked for `what`.
pub(super) fn unavailable(what: &str, error: KafkaError) -> Error {
    let code = error.rdkafka_error_code();
    match code {
        Some(Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition) => {
            let message = format!("{what}: This server does not host this topic-partition. Create the topic, or correct the subscription.");
            Error::new(ErrorKind::SourceUnavailable, "UnknownTopicOrPartitionException", message).caused_by(error)
        }
        Some(Code::TopicAuthorizationFailed | Code::GroupAuthorizationFailed | Code::ClusterAuthorizationFailed) => {
            let message = format!("{what}: not authorized. Grant this client read and describe on the topics.");
            Error::new(ErrorKind::SourceUnavailable, "TopicAuthorizationException", message).caused_by(error)
        }
        Some(Code::Authentication | Code::SaslAuthenticationFailed | Code::SSL) => {
            let message = format!("{what}: the brokers refuse this client. Check kafka.security.protocol, certificates and credentials.");
            Error::new(ErrorKind::SourceUnavailable, "SaslAuthenticationException", message).caused_by(error)
        }
        _ => {
            let message = format!("{what}: the brokers cannot be reached or do not answer. Check kafka.bootstrap.servers and the cluster.");
            Error::new(ErrorKind::SourceUnavailable, "TimeoutException", message).caused_by(error)
        }
    }
}

/// Whether asking again can help.
pub(super) fn is_passing(error: &KafkaError) -> bool {
    !matches!(
        error.rdkafka_error_code(),
        Some(
            Code::UnknownTopicOrPartition
                | Code::UnknownTopic
                | Code::UnknownPartition
                | Code::TopicAuthorizationFailed
                | Code::GroupAuthorizationFailed
                | Code::ClusterAuthorizationFailed
                | Code::SaslAuthenticationFailed
                | Code::InvalidTopic
        )
    )
}
