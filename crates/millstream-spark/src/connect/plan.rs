//! The plan of a request: what to run, unpacked.

use std::io::Read;

use millstream_core::{Error, Result};
use prost::Message;
use prost::bytes::Bytes;
use spark_connect_proto::plan::compressed_operation::OpType as Packed;
use spark_connect_proto::plan::{CompressedOperation, OpType};
use spark_connect_proto::{Command, CompressionCodec, Plan, Relation};

use super::codec;
use super::errors::incomplete;

/// The largest plan after decompression, bytes, as Spark's `spark.connect.maxPlanSize`.
const MOST_BYTES: u64 = 512 << 20;

/// What a plan says to do.
#[derive(Debug)]
pub(super) enum Work {
    /// Rows to send.
    Root(Box<Relation>),
    /// Something to do.
    Command(Box<Command>),
}

/// Unpacks a plan.
///
/// # Errors
/// `CONNECT_INVALID_PLAN.*`.
pub(super) fn unpack(plan: Option<Plan>) -> Result<Work> {
    match plan.and_then(|plan| plan.op_type) {
        Some(OpType::Root(relation)) => Ok(Work::Root(Box::new(relation))),
        Some(OpType::Command(command)) => Ok(Work::Command(Box::new(command))),
        Some(OpType::CompressedOperation(packed)) => match packed.op_type() {
            Packed::Relation => Ok(Work::Root(Box::new(decompress(&packed)?))),
            Packed::Command => Ok(Work::Command(Box::new(decompress(&packed)?))),
            Packed::Unspecified => Err(incomplete("Plan.CompressedOperation")),
        },
        None => Err(incomplete("Plan")),
    }
}

/// The relation of a plan that must have one.
///
/// # Errors
/// `CONNECT_INVALID_PLAN.*`.
pub(super) fn relation(plan: Option<Plan>) -> Result<Relation> {
    match unpack(plan)? {
        Work::Root(relation) => Ok(*relation),
        Work::Command(_) => Err(incomplete("Plan.root")),
    }
}

fn decompress<M: Message + Default + Send>(packed: &CompressedOperation) -> Result<M> {
    let refuse = |why: String| {
        Error::invalid("CONNECT_INVALID_PLAN.CANNOT_PARSE", format!("The Spark Connect plan is invalid. {why}")).with_sqlstate("56K00")
    };
    if packed.compression_codec() != CompressionCodec::Zstd {
        return Err(refuse("Its compression is none that the server knows".to_owned()));
    }
    let mut bytes = Vec::new();
    let read = zstd::stream::read::Decoder::new(packed.data.as_ref())
        .and_then(|decoder| decoder.take(MOST_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| refuse("It cannot be decompressed".to_owned()).caused_by(error))?;
    if read as u64 > MOST_BYTES {
        return Err(refuse(format!("It has more than {MOST_BYTES} bytes after decompression")));
    }
    codec::decode(Bytes::from(bytes))
}

#[cfg(test)]
mod tests {
    use spark_connect_proto::relation::RelType;
    use spark_connect_proto::{Range, Relation};

    use super::*;

    #[test]
    fn a_compressed_plan_is_the_plan() {
        let relation = Relation { common: None, rel_type: Some(RelType::Range(Range { end: 5, step: 1, ..Range::default() })) };
        let packed = CompressedOperation {
            data: zstd::encode_all(relation.encode_to_vec().as_slice(), 1).unwrap().into(),
            op_type: Packed::Relation.into(),
            compression_codec: CompressionCodec::Zstd.into(),
        };
        let plan = Plan { op_type: Some(OpType::CompressedOperation(packed.clone())) };
        assert_eq!(super::relation(Some(plan)).unwrap(), relation);
        let broken = Plan { op_type: Some(OpType::CompressedOperation(CompressedOperation { data: Bytes::from_static(b"no"), ..packed })) };
        assert_eq!(unpack(Some(broken)).unwrap_err().code(), "CONNECT_INVALID_PLAN.CANNOT_PARSE");
        assert_eq!(unpack(None).unwrap_err().code(), "CONNECT_INVALID_PLAN.INVALID_ONE_OF_FIELD_NOT_SET");
    }
}
