//! One local file behind the store trait, for names that `object_store`'s local file system cannot address: bytes that are not UTF-8,
//! control characters, `name#1`.

use std::fmt;
use std::path::PathBuf;

use async_trait::async_trait;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

/// A store that holds a single file and can only be read.
#[derive(Clone, Debug)]
pub(crate) struct LocalFile {
    file: PathBuf,
    path: Path,
}

impl LocalFile {
    /// The file as a store, and its path inside it. Compression is recognised by the end of the name, which is therefore kept.
    pub(crate) fn open(file: PathBuf) -> (Self, Path) {
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let path = Path::from_iter([name]);
        (LocalFile { file, path: path.clone() }, path)
    }

    fn meta(&self, metadata: &std::fs::Metadata) -> Result<ObjectMeta> {
        let modified = metadata.modified().map_err(generic)?;
        Ok(ObjectMeta { location: self.path.clone(), last_modified: modified.into(), size: metadata.len(), e_tag: None, version: None })
    }

    fn read_only(&self) -> Error {
        Error::NotSupported { source: format!("{} can only be read", self.file.display()).into() }
    }
}

/// A path of this machine from the bytes that name it.
#[cfg(unix)]
pub(crate) fn path_from_bytes(bytes: Vec<u8>) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    std::ffi::OsString::from_vec(bytes).into()
}

/// A path of this machine from the bytes that name it.
#[cfg(not(unix))]
pub(crate) fn path_from_bytes(bytes: Vec<u8>) -> PathBuf {
    String::from_utf8_lossy(&bytes).into_owned().into()
}

fn generic(error: std::io::Error) -> Error {
    Error::Generic { store: "LocalFile", source: Box::new(error) }
}

impl fmt::Display for LocalFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalFile({})", self.file.display())
    }
}

#[async_trait]
impl ObjectStore for LocalFile {
    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        Err(self.read_only())
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(self.read_only())
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let this = self.clone();
        let location = location.clone();
        let opening = tokio::task::spawn_blocking(move || {
            let missing = |error: std::io::Error| match error.kind() {
                std::io::ErrorKind::NotFound => Error::NotFound { path: location.to_string(), source: Box::new(error) },
                _ => generic(error),
            };
            let file = std::fs::File::open(&this.file).map_err(missing)?;
            let meta = this.meta(&file.metadata().map_err(generic)?)?;
            options.check_preconditions(&meta)?;
            let range = match options.range {
                Some(range) => range.as_range(meta.size).map_err(|error| Error::Generic { store: "LocalFile", source: Box::new(error) })?,
                None => 0..meta.size,
            };
            Ok(GetResult { payload: GetResultPayload::File(file, this.file), meta, range, attributes: Attributes::default() })
        });
        opening.await?
    }

    fn delete_stream(&self, _: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        stream::iter([Err(self.read_only())]).boxed()
    }

    fn list(&self, _: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let this = self.clone();
        async move { tokio::fs::metadata(&this.file).await.map_err(generic).and_then(|metadata| this.meta(&metadata)) }
            .into_stream()
            .boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let objects = self.list(prefix).collect::<Vec<_>>().await.into_iter().collect::<Result<_>>()?;
        Ok(ListResult { common_prefixes: vec![], objects })
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Err(self.read_only())
    }
}
