//! Settings of Kafka's Java client as librdkafka has them.
//!
//! Programs are written with the names that the Java client documents. Most are the same here; the rest are translated, or have no meaning
//! outside of Java and are ignored with a warning, as the Java client ignores what it does not know. What would silently weaken security or
//! change which records are read is refused.

use std::collections::BTreeMap;
use std::time::Duration;

use millstream_core::{Error, Options, Result};
use rdkafka::ClientConfig;

use crate::rate::illegal_argument;

/// Settings of a client, under librdkafka's names.
#[derive(Clone)]
pub(super) struct Settings {
    config: ClientConfig,
    /// How long questions to the cluster may take altogether.
    pub(super) patience: Duration,
}

impl std::fmt::Debug for Settings {
    /// Without values: there are passwords among them.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.config.config_map().keys()).finish()
    }
}

/// Names that differ.
const RENAMED: &[(&str, &str)] = &[
    ("fetch.max.wait.ms", "fetch.wait.max.ms"),
    ("request.timeout.ms", "socket.timeout.ms"),
    ("receive.buffer.bytes", "socket.receive.buffer.bytes"),
    ("send.buffer.bytes", "socket.send.buffer.bytes"),
    ("metadata.max.age.ms", "topic.metadata.refresh.interval.ms"),
    ("delivery.timeout.ms", "message.timeout.ms"),
    ("max.request.size", "message.max.bytes"),
    ("sasl.mechanism", "sasl.mechanisms"),
    ("sasl.kerberos.kinit.cmd", "sasl.kerberos.kinit.cmd"),
    ("ssl.keystore.certificate.chain", "ssl.certificate.pem"),
    ("ssl.keystore.key", "ssl.key.pem"),
    ("ssl.truststore.certificates", "ssl.ca.pem"),
];

/// Settings that say nothing to a client that is not Java.
const JAVA_ONLY: &[&str] = &[
    "key.serializer",
    "value.serializer",
    "key.deserializer",
    "value.deserializer",
    "max.poll.records",
    "ssl.protocol",
    "ssl.provider",
    "ssl.enabled.protocols",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
    "ssl.keymanager.algorithm",
    "ssl.truststore.type",
    "ssl.keystore.type",
    "ssl.truststore.password",
    "sasl.client.callback.handler.class",
    "metric.reporters",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "partition.assignment.strategy",
    "exclude.internal.topics",
    "max.block.ms",
    "default.api.timeout.ms",
];

impl Settings {
    /// The settings that options with `kafka.` before their names give.
    ///
    /// # Errors
    /// `IllegalArgumentException`, `ConfigException` for a value that is not accepted.
    pub(super) fn from(options: &Options) -> Result<Self> {
        let given: BTreeMap<String, &str> = options
            .iter()
            .filter_map(|(name, value)| Some((name.to_ascii_lowercase().strip_prefix("kafka.")?.to_owned(), value)))
            .collect();
        let mut settings = Settings { config: ClientConfig::new(), patience: Duration::from_secs(60) };
        for name in ["default.api.timeout.ms", "max.block.ms"] {
            if let Some(value) = given.get(name) {
                let ms = value.trim().parse().map_err(|_| refused(name, value, "a number of milliseconds"))?;
                settings.patience = Duration::from_millis(ms);
            }
        }
        for (name, value) in &given {
            settings.take(name, value, &given)?;
        }
        Ok(settings)
    }

    fn take(&mut self, name: &str, value: &str, given: &BTreeMap<String, &str>) -> Result<()> {
        let is_pem = |what: &str| given.get(what).is_some_and(|kind| kind.eq_ignore_ascii_case("PEM"));
        match name {
            "sasl.jaas.config" => return self.take_login(value, given),
            "sasl.login.callback.handler.class" => {
                if value.ends_with("OAuthBearerLoginCallbackHandler") {
                    self.config.set("sasl.oauthbearer.method", "oidc");
                    return Ok(());
                }
                return Err(refused(name, value, "no class but Kafka's OAuthBearerLoginCallbackHandler: Java code cannot run here"));
            }
            "ssl.truststore.location" => {
                if !is_pem("ssl.truststore.type") {
                    let wants =
                        "a file of PEM certificates, with ssl.truststore.type=PEM: export them from the key store with keytool and openssl";
                    return Err(refused(name, value, wants));
                }
                return self.set("ssl.ca.location", value, name);
            }
            "ssl.keystore.location" if is_pem("ssl.keystore.type") => {
                self.set("ssl.certificate.location", value, name)?;
                return self.set("ssl.key.location", value, name);
            }
            "ssl.keystore.location" if !given.get("ssl.keystore.type").is_some_and(|kind| kind.eq_ignore_ascii_case("PKCS12")) => {
                return Err(refused(name, value, "a PEM or PKCS12 file, with ssl.keystore.type=PEM or PKCS12: convert it with keytool"));
            }
            "ssl.endpoint.identification.algorithm" => {
                return self.set(name, if value.trim().is_empty() { "none" } else { value }, name);
            }
            "buffer.memory" => {
                let bytes: u64 = value.trim().parse().map_err(|_| refused(name, value, "a number of bytes"))?;
                return self.set("queue.buffering.max.kbytes", &(bytes / 1024).max(1).to_string(), name);
            }
            "partitioner.class" => {
                return Err(refused(name, value, "no class: use librdkafka's setting kafka.partitioner, or the column partition"));
            }
            "transactional.id" => return Err(refused(name, value, "no value: the sink's option 'transactional' makes its own")),
            "client.rack" => {
                tracing::warn!(
                    "kafka.client.rack is ignored: records are read from the leaders of partitions, which alone know where a range ends"
                );
                return Ok(());
            }
            _ if JAVA_ONLY.contains(&name) => {
                tracing::debug!(setting = name, "a setting of Kafka's Java client has no meaning here and is ignored");
                return Ok(());
            }
            _ => {}
        }
        let here = RENAMED.iter().find(|(java, _)| *java == name).map_or(name, |(_, here)| *here);
        self.set(here, value, name)
    }

    /// Sets what librdkafka knows. `given` is the name to show.
    fn set(&mut self, name: &str, value: &str, given: &str) -> Result<()> {
        let mut probe = ClientConfig::new();
        probe.set(name, value.trim());
        match probe.create_native_config() {
            Ok(_) => drop(self.config.set(name, value.trim())),
            Err(error) if error.to_string().contains("No such configuration property") => {
                tracing::warn!(setting = given, "the configuration kafka.{given} was supplied but is not a known setting");
            }
            Err(error) => return Err(refused(given, "", &format!("another value ({error})"))),
        }
        Ok(())
    }

    /// User and password, or the client of an identity provider, of a login module.
    fn take_login(&mut self, value: &str, given: &BTreeMap<String, &str>) -> Result<()> {
        let wants = "`…PlainLoginModule required username=\"…\" password=\"…\";`, ScramLoginModule or OAuthBearerLoginModule";
        let mut words = value.split_whitespace();
        let module = words.next().unwrap_or_default();
        let fields = login_fields(value);
        let field = |name: &str| fields.get(name).map(String::as_str);
        if module.ends_with("PlainLoginModule") || module.ends_with("ScramLoginModule") {
            let (Some(user), Some(password)) = (field("username"), field("password")) else {
                return Err(refused("sasl.jaas.config", "", wants));
            };
            self.config.set("sasl.username", user).set("sasl.password", password);
            if !given.contains_key("sasl.mechanism") && module.ends_with("PlainLoginModule") {
                self.config.set("sasl.mechanisms", "PLAIN");
            }
            return Ok(());
        }
        if module.ends_with("OAuthBearerLoginModule") {
            for (from, to) in [
                ("clientId", "sasl.oauthbearer.client.id"),
                ("clientSecret", "sasl.oauthbearer.client.secret"),
                ("scope", "sasl.oauthbearer.scope"),
            ] {
                if let Some(value) = field(from) {
                    self.config.set(to, value);
                }
            }
            if field("unsecuredLoginStringClaim_sub").is_some() {
                self.config.set("enable.sasl.oauthbearer.unsecure.jwt", "true");
            }
            return Ok(());
        }
        Err(refused("sasl.jaas.config", "", wants))
    }

    /// These settings with others under them, which the user may have overridden.
    pub(super) fn over(&self, defaults: &[(&str, &str)]) -> ClientConfig {
        let mut config = ClientConfig::new();
        for (name, value) in defaults {
            config.set(*name, *value);
        }
        for (name, value) in self.config.config_map() {
            config.set(name, value);
        }
        config
    }

    /// What a setting is, under librdkafka's name.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.config.get(name)
    }
}

/// `name="value"` pairs of a login module's line.
fn login_fields(line: &str) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('=') {
        let name = before.split_whitespace().next_back().unwrap_or_default().to_owned();
        let after = after.trim_start();
        let (value, left) = match after.chars().next() {
            Some(quote @ ('"' | '\'')) => {
                let inner = &after[1..];
                let mut value = String::new();
                let mut letters = inner.char_indices();
                let mut end = inner.len();
                while let Some((index, letter)) = letters.next() {
                    match letter {
                        '\\' => value.extend(letters.next().map(|(_, escaped)| escaped)),
                        letter if letter == quote => {
                            end = index + 1;
                            break;
                        }
                        letter => value.push(letter),
                    }
                }
                (value, inner.get(end..).unwrap_or_default())
            }
            _ => {
                let end = after.find(|letter: char| letter.is_whitespace() || letter == ';').unwrap_or(after.len());
                (after[..end].to_owned(), &after[end..])
            }
        };
        fields.insert(name, value);
        rest = left;
    }
    fields
}

fn refused(name: &str, value: &str, wants: &str) -> Error {
    let given = if value.is_empty() { String::new() } else { format!(" is '{value}' but") };
    illegal_argument(format!("option 'kafka.{name}'{given} takes {wants}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(given: &[(&str, &str)]) -> Result<Settings> {
        Settings::from(&given.iter().copied().collect())
    }

    #[test]
    fn java_names_become_those_of_librdkafka() {
        let jaas = r#"org.apache.kafka.common.security.scram.ScramLoginModule required username="al\"ice" password='p=w;d' ;"#;
        let made = settings(&[
            ("kafka.bootstrap.servers", "h:1"),
            ("kafka.fetch.max.wait.ms", "50"),
            ("kafka.sasl.mechanism", "SCRAM-SHA-512"),
            ("kafka.sasl.jaas.config", jaas),
            ("kafka.security.protocol", "SASL_SSL"),
            ("kafka.ssl.truststore.type", "PEM"),
            ("kafka.ssl.truststore.location", "/ca.pem"),
            ("kafka.buffer.memory", "33554432"),
            ("kafka.max.poll.records", "7"),
            ("kafka.bogus.setting", "7"),
            ("kafka.default.api.timeout.ms", "1500"),
            ("subscribe", "t"),
        ])
        .unwrap();
        for (name, value) in [
            ("bootstrap.servers", "h:1"),
            ("fetch.wait.max.ms", "50"),
            ("sasl.mechanisms", "SCRAM-SHA-512"),
            ("sasl.username", "al\"ice"),
            ("sasl.password", "p=w;d"),
            ("security.protocol", "SASL_SSL"),
            ("ssl.ca.location", "/ca.pem"),
            ("queue.buffering.max.kbytes", "32768"),
        ] {
            assert_eq!(made.get(name), Some(value), "{name}");
        }
        assert_eq!(made.get("bogus.setting"), None);
        assert_eq!(made.patience, Duration::from_millis(1500));
        assert!(!format!("{made:?}").contains("p=w;d"));
    }

    #[test]
    fn what_cannot_be_done_here_is_refused() {
        for (name, value) in [
            ("kafka.security.protocol", "FOO"),
            ("kafka.ssl.truststore.location", "/store.jks"),
            ("kafka.ssl.keystore.location", "/store.jks"),
            ("kafka.sasl.jaas.config", "com.example.MyModule required;"),
            ("kafka.sasl.jaas.config", "PlainLoginModule required username=\"a\";"),
            ("kafka.sasl.login.callback.handler.class", "com.example.Handler"),
            ("kafka.partitioner.class", "com.example.Partitioner"),
            ("kafka.transactional.id", "mine"),
            ("kafka.fetch.max.wait.ms", "soon"),
        ] {
            assert_eq!(settings(&[(name, value)]).unwrap_err().code(), "IllegalArgumentException", "{name}={value}");
        }
    }
}
