//! How connectors reach file systems and object stores: by a function that the binary installs, so that durability is decided in one place.

use std::fmt;
use std::sync::Arc;

use millstream_core::Result;
use object_store::ObjectStore;
use object_store::path::Path;
use url::Url;

/// A store together with the path inside it that a URL names.
#[derive(Clone, Debug)]
pub struct Location {
    /// The URL as normalised: `file:///data/in`, `s3://bucket/prefix`.
    pub url: Url,
    /// The store of the URL's scheme and host.
    pub store: Arc<dyn ObjectStore>,
    /// The path inside the store.
    pub path: Path,
}

/// What turns a place into a location.
type Open = dyn Fn(&str) -> Result<Location> + Send + Sync;

/// Opens locations. Cloning is cheap.
#[derive(Clone)]
pub struct Storage(Arc<Open>);

impl Storage {
    /// Storage that opens a path (`/data/in`, `data/in`) or a URL with `open`. Stores that it returns must make writes durable.
    pub fn new(open: impl Fn(&str) -> Result<Location> + Send + Sync + 'static) -> Self {
        Storage(Arc::new(open))
    }

    /// Opens a path or URL.
    ///
    /// # Errors
    /// Those of the installed function, `INVALID_LOCATION` among them.
    pub fn open(&self, path_or_url: &str) -> Result<Location> {
        (self.0)(path_or_url)
    }
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Storage")
    }
}
