//! From what a user calls a place to the store that keeps it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use millstream_core::{Clock, Ids, Options, Result};
use object_store::ObjectStore;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, S3CopyIfNotExists};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::memory::InMemory;
use object_store::path::Path;
use parking_lot::Mutex;
use url::Url;

use super::confirmed::ConfirmedStore;
use super::durable::DurableStore;
use super::failure::to_error;
use super::file_ops::{FileOps, SystemFiles};
use super::location::{Location, Scheme};
use super::publish::Privacy;
use super::stats::DurableStats;

/// Hidden files younger than this may belong to a writer that has created but not yet locked them.
const ABANDONED_AFTER: Duration = Duration::from_secs(60);

/// What stores need besides a place: time, identifiers, credentials, and where they count. Clones share the stores they open.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    stats: Arc<DurableStats>,
    files: Arc<dyn FileOps>,
    config: Options,
    opened: Arc<Mutex<Opened>>,
}

#[derive(Debug, Default)]
struct Opened {
    local: HashMap<Privacy, DurableStore>,
    /// By scheme and authority.
    other: HashMap<String, Arc<dyn ObjectStore>>,
}

impl StoreOptions {
    /// Options with no configuration besides the process environment.
    pub fn new(clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Self {
        StoreOptions { clock, ids, stats: Arc::default(), files: Arc::new(SystemFiles), config: Options::new(), opened: Arc::default() }
    }

    /// The same with configuration of remote stores, which goes before the environment: the names of `object_store`
    /// (`aws_access_key_id`, `aws_endpoint`, `google_service_account`, `azure_storage_account_key`, …) or of Hadoop's S3A
    /// (`fs.s3a.access.key`, also with `spark.hadoop.` before it). Other names are ignored.
    pub fn with_config(self, config: Options) -> Self {
        StoreOptions { config, opened: Arc::default(), ..self }
    }

    /// The same with another way to change files, such as a [`Recorder`](super::Recorder).
    pub fn with_file_ops(self, files: Arc<dyn FileOps>) -> Self {
        StoreOptions { files, opened: Arc::default(), ..self }
    }

    /// What all stores opened with these options have spent on durability.
    pub fn stats(&self) -> &Arc<DurableStats> {
        &self.stats
    }

    pub(super) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    pub(super) fn ids(&self) -> &Arc<dyn Ids> {
        &self.ids
    }

    pub(super) fn file_ops(&self) -> &Arc<dyn FileOps> {
        &self.files
    }

    fn local(&self, privacy: Privacy) -> DurableStore {
        let mut opened = self.opened.lock();
        opened.local.entry(privacy).or_insert_with(|| DurableStore::new("/", privacy, self)).clone()
    }
}

/// Opens a place: a path (`/data/in`, `data/in`, relative to the working directory) or a URL (`file:`, `memory:`, `s3:`, `s3a:`, `gs:`,
/// `az:`, `azure:`, `abfs:`, `abfss:`). Returns the store, the path in it, and the URL in its normal form, which opens the same place again.
///
/// A path is taken literally, a URL is percent-decoded. Links on the way are resolved; the place need not exist. Local stores are
/// [`DurableStore`]s over the whole file system, remote ones [`ConfirmedStore`]s with conditional creates; `memory:` stores live as long as
/// `options` and its clones. Nothing is read or written but links.
///
/// # Errors
/// `INVALID_LOCATION` for anything else, naming what is accepted; those of [`to_error`] if the configuration of a remote store is wrong.
pub fn open(path_or_url: &str, privacy: Privacy, options: &StoreOptions) -> Result<(Arc<dyn ObjectStore>, Path, Url)> {
    let location = Location::parse(path_or_url)?;
    let Location { scheme, path, url } = location;
    if scheme == Scheme::Local {
        return Ok((Arc::new(options.local(privacy)), path, url));
    }
    let authority = url[..url::Position::BeforePath].to_owned();
    let mut opened = options.opened.lock();
    let store = match opened.other.get(&authority) {
        Some(store) => Arc::clone(store),
        None => {
            let store = open_other(scheme, &authority, options).map_err(|error| to_error(format!("cannot open {authority}"), error))?;
            opened.other.insert(authority, Arc::clone(&store));
            store
        }
    };
    Ok((store, path, url))
}

/// Makes what an earlier process left at a place solid before recovery believes it; see [`DurableStore::settle`]. Returns the number of
/// abandoned files removed; on remote stores there is nothing to do.
///
/// # Errors
/// Those of [`open`], `STORE_SYNC_FAILED`, and errors of reading directories.
pub async fn settle(path_or_url: &str, privacy: Privacy, options: &StoreOptions) -> Result<u64> {
    let location = Location::parse(path_or_url)?;
    match location.scheme {
        Scheme::Local => {
            let settled = options.local(privacy).settle(&location.path, ABANDONED_AFTER).await;
            settled.map_err(|error| to_error(format!("cannot prepare {}", location.url), error))
        }
        _ => Ok(0),
    }
}

fn open_other(scheme: Scheme, authority: &str, options: &StoreOptions) -> object_store::Result<Arc<dyn ObjectStore>> {
    let clock = Arc::clone(&options.clock);
    Ok(match scheme {
        Scheme::Local | Scheme::Memory => Arc::new(InMemory::new()),
        Scheme::S3 => Arc::new(ConfirmedStore::new(s3_builder(authority, &options.config).build()?, clock)),
        Scheme::Gcs => {
            let mut builder = GoogleCloudStorageBuilder::from_env().with_url(authority);
            for (name, value) in options.config.iter() {
                if let Ok(key) = name.to_ascii_lowercase().parse::<GoogleConfigKey>() {
                    builder = builder.with_config(key, value);
                }
            }
            Arc::new(ConfirmedStore::new(builder.build()?, clock))
        }
        Scheme::Azure => {
            let mut builder = MicrosoftAzureBuilder::from_env().with_url(authority);
            for (name, value) in options.config.iter() {
                if let Ok(key) = name.to_ascii_lowercase().parse::<AzureConfigKey>() {
                    builder = builder.with_config(key, value);
                }
            }
            Arc::new(ConfirmedStore::new(builder.build()?, clock))
        }
    })
}

/// Hadoop's names of what `object_store` knows under another name.
const S3A_NAMES: &[(&str, AmazonS3ConfigKey)] = &[
    ("fs.s3a.access.key", AmazonS3ConfigKey::AccessKeyId),
    ("fs.s3a.secret.key", AmazonS3ConfigKey::SecretAccessKey),
    ("fs.s3a.session.token", AmazonS3ConfigKey::Token),
    ("fs.s3a.endpoint", AmazonS3ConfigKey::Endpoint),
    ("fs.s3a.endpoint.region", AmazonS3ConfigKey::Region),
];

fn s3_builder(url: &str, config: &Options) -> AmazonS3Builder {
    let mut builder = AmazonS3Builder::from_env().with_url(url);
    // Conditional puts are on unless configuration turns them off, which `probe` then refuses; conditional copies are not.
    if builder.get_config_value(&AmazonS3ConfigKey::CopyIfNotExists).is_none() {
        builder = builder.with_copy_if_not_exists(S3CopyIfNotExists::Multipart);
    }
    for (name, value) in config.iter() {
        let name = name.to_ascii_lowercase();
        let name = name.strip_prefix("spark.hadoop.").unwrap_or(&name);
        if name == "fs.s3a.path.style.access" {
            builder = builder.with_virtual_hosted_style_request(!value.eq_ignore_ascii_case("true"));
        } else if let Some((_, key)) = S3A_NAMES.iter().find(|(hadoop, _)| *hadoop == name) {
            builder = builder.with_config(*key, value);
        } else if let Ok(key) = name.parse::<AmazonS3ConfigKey>() {
            builder = builder.with_config(key, value);
        }
    }
    builder
}

#[cfg(test)]
mod tests;
