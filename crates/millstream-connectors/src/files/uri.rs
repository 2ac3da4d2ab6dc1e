//! File URLs as Spark writes them into its logs and into `_metadata`, and the way back to a path inside a store.
//!
//! Spark encodes with Java's `URI`: only characters that a URI path may not hold are escaped; letters outside ASCII stay as they are.
//! The source log is compared as text across restarts and across engines, so the encoding has to be exactly this one.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use millstream_core::{Error, Result};
use object_store::ObjectStore;
use object_store::path::Path;
use percent_encoding::percent_decode_str;

use super::local_file::LocalFile;
use crate::formats::FileRef;
use crate::storage::Location;

/// Punctuation that a URI path holds unescaped.
const LEGAL: &[u8] = b"_-!.~'()*,;:$&+=@/";

/// A path or a single name, encoded as `java.net.URI` does it. Bytes that are not UTF-8 are escaped one by one.
pub(crate) fn encode(path: &[u8]) -> String {
    let mut out = String::with_capacity(path.len() + 8);
    for chunk in path.utf8_chunks() {
        for c in chunk.valid().chars() {
            let legal = if c.is_ascii() { c.is_ascii_alphanumeric() || LEGAL.contains(&(c as u8)) } else { !escapes_outside_ascii(c) };
            if legal {
                out.push(c);
            } else {
                escape(&mut out, c.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        escape(&mut out, chunk.invalid());
    }
    out
}

/// Java escapes ISO control characters and the space separators of Unicode, and no other character outside ASCII.
fn escapes_outside_ascii(c: char) -> bool {
    matches!(c, '\u{80}'..='\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{2028}' | '\u{2029}' | '\u{202f}' | '\u{205f}' | '\u{3000}')
}

fn escape(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(out, "%{byte:02X}");
    }
}

/// The bytes that an encoded path or name stands for.
pub(crate) fn decode(encoded: &str) -> Vec<u8> {
    percent_decode_str(encoded).collect()
}

/// The text that an encoded path or name stands for; bytes that are not UTF-8 are replaced.
pub(crate) fn decode_text(encoded: &str) -> String {
    String::from_utf8_lossy(&decode(encoded)).into_owned()
}

/// One spelling per file: `file:/x` is `file:///x`, and the Hadoop schemes of S3 are `s3`.
pub(crate) fn canonical(url: &str) -> String {
    if let Some(rest) = url.strip_prefix("file:").filter(|rest| rest.starts_with('/') && !rest.starts_with("//")) {
        return format!("file://{rest}");
    }
    for scheme in ["s3a://", "s3n://"] {
        if let Some(rest) = url.strip_prefix(scheme) {
            return format!("s3://{rest}");
        }
    }
    url.to_owned()
}

/// The last part of a URL or path.
pub(crate) fn name_of(url: &str) -> &str {
    url.rsplit('/').next().unwrap_or(url)
}

/// Everything before the last part of a URL or path, without the slash between them.
pub(crate) fn parent_of(url: &str) -> &str {
    url.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// A URL as Hadoop shows the path: `file:/data/in`, unescaped.
pub(crate) fn shown_path(url: &str) -> String {
    match url.strip_prefix("file://") {
        Some(path) => format!("file:{}", if path.is_empty() { "/".to_owned() } else { decode_text(path) }),
        None => decode_text(url),
    }
}

/// A directory (or single file) from which files are addressed.
#[derive(Clone, Debug)]
pub(crate) struct Root {
    /// Its URL as Spark spells it, without a slash at the end: `file:///data/in`, `s3://bucket`.
    pub(crate) url: String,
    /// The store.
    pub(crate) store: Arc<dyn ObjectStore>,
    /// The path inside the store.
    pub(crate) path: Path,
    /// The path on this machine, for local files.
    pub(crate) local: Option<PathBuf>,
}

impl Root {
    /// # Errors
    /// `INVALID_LOCATION` for a `file:` URL that is no path of this machine.
    pub(crate) fn new(location: &Location) -> Result<Self> {
        let (prefix, local) = if location.url.scheme() == "file" {
            let path = location.url.to_file_path().map_err(|()| {
                Error::invalid("INVALID_LOCATION", format!("'{}' is no path of this machine: use file:///path", location.url))
            })?;
            ("file://".to_owned(), Some(path))
        } else {
            (format!("{}://{}", location.url.scheme(), location.url.authority()), None)
        };
        let url = format!("{prefix}{}", encode(&decode(location.url.path())));
        let url = canonical(url.trim_end_matches('/'));
        Ok(Root { url, store: location.store.clone(), path: location.path.clone(), local })
    }

    /// How Spark's reports name it.
    pub(crate) fn display(&self) -> String {
        shown_path(&self.url)
    }

    /// The encoded part of a file's URL below this root (empty for the root itself), or `None` when it lies elsewhere.
    pub(crate) fn relative<'a>(&self, url: &'a str) -> Option<&'a str> {
        let rest = url.strip_prefix(self.url.as_str())?;
        if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
    }

    /// The file of that URL, to be read.
    ///
    /// # Errors
    /// `INVALID_LOCATION` when the URL lies outside this root or is not a name that the store can hold.
    pub(crate) fn file_ref(&self, url: &str, size: u64) -> Result<FileRef> {
        let relative = self
            .relative(url)
            .ok_or_else(|| Error::invalid("INVALID_LOCATION", format!("the file {url} does not lie in {}", self.display())))?;
        let bytes = decode(relative);
        if let Some(text) = std::str::from_utf8(&bytes).ok().filter(|text| self.local.is_none() || LocalFileSystemName(text).is_readable())
        {
            let inside = match (self.path.as_ref(), text) {
                ("", text) => text.to_owned(),
                (root, "") => root.to_owned(),
                (root, text) => format!("{root}/{text}"),
            };
            if let Ok(path) = Path::parse(&inside) {
                return Ok(FileRef { store: self.store.clone(), path, url: url.to_owned(), size, modified_ms: 0 });
            }
        }
        let Some(root) = &self.local else {
            return Err(Error::invalid("INVALID_LOCATION", format!("the store of {url} cannot address a file of that name: rename it")));
        };
        let (store, path) = LocalFile::open(root.join(super::local_file::path_from_bytes(bytes)));
        Ok(FileRef { store: Arc::new(store), path, url: url.to_owned(), size, modified_ms: 0 })
    }
}

/// A relative path as `object_store`'s local file system sees it: it keeps names that end in `#` and digits for itself.
struct LocalFileSystemName<'a>(&'a str);

impl LocalFileSystemName<'_> {
    fn is_readable(&self) -> bool {
        match name_of(self.0).split_once('#') {
            Some((_, digits)) => digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()),
            None => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded_as_java_does_it() {
        for (name, encoded) in [
            ("with space.json", "with%20space.json"),
            ("per%cent.json", "per%25cent.json"),
            ("hash#tag.json", "hash%23tag.json"),
            ("plus+and&.json", "plus+and&.json"),
            ("žluť.json", "žluť.json"),
            ("q'uote.json", "q'uote.json"),
            ("a=b.json", "a=b.json"),
            ("20%25.json", "20%2525.json"),
            ("a[1]{b}?^`|\"<>\\.json", "a%5B1%5D%7Bb%7D%3F%5E%60%7C%22%3C%3E%5C.json"),
            ("line\nbreak", "line%0Abreak"),
            ("no\u{a0}break\u{2003}space\u{85}", "no%C2%A0break%E2%80%83space%C2%85"),
        ] {
            assert_eq!(encode(name.as_bytes()), encoded, "{name}");
            assert_eq!(decode(encoded), name.as_bytes(), "{encoded}");
        }
        assert_eq!(encode(b"bad\xff\xc5name"), "bad%FF%C5name");
    }

    #[test]
    fn one_file_has_one_spelling() {
        assert_eq!(canonical("file:/a/b"), "file:///a/b");
        assert_eq!(canonical("file:///a/b"), "file:///a/b");
        assert_eq!(canonical("s3a://bucket/a"), "s3://bucket/a");
    }

    proptest::proptest! {
        #[test]
        fn encoding_is_reversible(bytes: Vec<u8>) {
            proptest::prop_assert_eq!(decode(&encode(&bytes)), bytes);
        }
    }
}
