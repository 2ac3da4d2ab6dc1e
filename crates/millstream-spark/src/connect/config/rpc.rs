//! The call `Config`.

use millstream_core::Result;
use spark_connect_proto::config_request::operation::OpType;
use spark_connect_proto::{ConfigRequest, ConfigResponse, KeyValue};

use super::{Confs, known};
use crate::connect::errors::{self, incomplete};

/// Settings of classic PySpark that mean nothing over Connect.
const NOT_OVER_CONNECT: &[&str] = &[
    "spark.sql.execution.arrow.enabled",
    "spark.sql.execution.arrow.pyspark.enabled",
    "spark.sql.execution.arrow.pyspark.fallback.enabled",
];

fn pair(key: &str, value: Option<String>) -> KeyValue {
    KeyValue { key: key.to_owned(), value }
}

/// Does what a client asks of the settings; the response lacks the ids of the session.
///
/// # Errors
/// Those of [`Confs`].
pub(in crate::connect) fn answer(confs: &Confs, request: &ConfigRequest) -> Result<ConfigResponse> {
    let operation = request.operation.as_ref().and_then(|operation| operation.op_type.as_ref());
    let operation = operation.ok_or_else(|| incomplete("ConfigRequest.Operation"))?;
    let mut response = ConfigResponse::default();
    let mut warn = |key: &str| {
        if NOT_OVER_CONNECT.contains(&key) {
            response.warnings.push(format!("The SQL config '{key}' is NOT supported in Spark Connect"));
        }
    };
    match operation {
        OpType::Set(set) => {
            let mut warnings = Vec::new();
            for KeyValue { key, value } in &set.pairs {
                let value = value.clone().unwrap_or_default();
                match confs.set(key, &value) {
                    Ok(()) => warn(key),
                    Err(error) if set.silent() => {
                        warnings.push(format!("Failed to set {key} to {value} due to {}", errors::text(&error)));
                    }
                    Err(error) => return Err(error),
                }
            }
            response.warnings.extend(warnings);
        }
        OpType::Unset(unset) => {
            for key in &unset.keys {
                confs.unset(key)?;
                warn(key);
            }
        }
        OpType::Get(get) => {
            for key in &get.keys {
                warn(key);
                response.pairs.push(pair(key, confs.require(key)?));
            }
        }
        OpType::GetOption(get) => response.pairs = get.keys.iter().map(|key| pair(key, confs.get(key))).collect(),
        OpType::GetWithDefault(get) => {
            for KeyValue { key, value } in &get.pairs {
                if let Some(value) = value {
                    known::check(key, value)?;
                }
                response.pairs.push(pair(key, confs.get_set(key).or_else(|| value.clone())));
            }
        }
        OpType::GetAll(get) => {
            let prefix = get.prefix();
            let all = confs.all().into_iter();
            response.pairs = all.filter_map(|(key, value)| Some(pair(key.strip_prefix(prefix)?, Some(value)))).collect();
        }
        OpType::IsModifiable(asked) => {
            response.pairs = asked.keys.iter().map(|key| pair(key, Some(confs.is_modifiable(key).to_string()))).collect();
        }
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use spark_connect_proto::config_request::{GetWithDefault, Operation, Set};

    use super::*;

    fn ask(confs: &Confs, operation: OpType) -> Result<ConfigResponse> {
        answer(confs, &ConfigRequest { operation: Some(Operation { op_type: Some(operation) }), ..ConfigRequest::default() })
    }

    #[test]
    fn a_silent_set_warns_and_goes_on() {
        let confs = Confs::new("file:/w", "UTC");
        let pairs = vec![pair("spark.executor.memory", Some("1g".into())), pair("spark.sql.ansi.enabled", Some("false".into()))];
        let loud = ask(&confs, OpType::Set(Set { pairs: pairs.clone(), silent: None }));
        assert_eq!(loud.unwrap_err().code(), "CANNOT_MODIFY_CONFIG");
        let silent = ask(&confs, OpType::Set(Set { pairs, silent: Some(true) })).unwrap();
        assert_eq!(silent.warnings.len(), 1);
        assert!(!confs.settings().ansi);
    }

    #[test]
    fn the_clients_default_comes_before_ours() {
        let confs = Confs::new("file:/w", "UTC");
        let get = || OpType::GetWithDefault(GetWithDefault { pairs: vec![pair("spark.sql.shuffle.partitions", Some("7".into()))] });
        assert_eq!(ask(&confs, get()).unwrap().pairs[0].value.as_deref(), Some("7"));
        confs.set("spark.sql.shuffle.partitions", "9").unwrap();
        assert_eq!(ask(&confs, get()).unwrap().pairs[0].value.as_deref(), Some("9"));
    }
}
