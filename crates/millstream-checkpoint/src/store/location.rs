//! Reading what a user calls a place.

use std::env;
use std::fs;
use std::path::{Component, Path as FilePath, PathBuf};

use millstream_core::{Error, Result};
use object_store::path::Path;
use percent_encoding::percent_decode_str;
use url::Url;

/// Which kind of store a place is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    Local,
    Memory,
    S3,
    Gcs,
    Azure,
}

/// A place: the kind of store, the path in it, and the URL in its normal form, which names the same place when parsed again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Location {
    pub(super) scheme: Scheme,
    pub(super) path: Path,
    pub(super) url: Url,
}

impl Location {
    /// Reads a path or a URL.
    ///
    /// # Errors
    /// `INVALID_LOCATION`.
    pub(super) fn parse(text: &str) -> Result<Location> {
        if text.trim().is_empty() {
            return Err(invalid(text, "it is empty"));
        }
        match split_scheme(text) {
            None => Self::local(text, FilePath::new(text)),
            Some((scheme, rest)) => Self::remote(text, &scheme, rest),
        }
    }

    fn remote(text: &str, name: &str, rest: &str) -> Result<Location> {
        let scheme = match name {
            "file" => return Self::file_url(text, rest),
            "memory" => Scheme::Memory,
            "s3" | "s3a" => Scheme::S3,
            "gs" => Scheme::Gcs,
            "az" | "azure" | "abfs" | "abfss" => Scheme::Azure,
            _ => return Err(invalid(text, "its scheme is not known")),
        };
        let Some(rest) = rest.strip_prefix("//") else { return Err(invalid(text, "'//' and a bucket must follow the scheme")) };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if authority.is_empty() && scheme != Scheme::Memory {
            return Err(invalid(text, "it names no bucket or container"));
        }
        if authority.contains('@') && (scheme != Scheme::Azure || authority.split('@').any(|part| part.contains(':'))) {
            // Without the text, which would show the secret.
            let message = "credentials do not belong into a URL; set them as options or in the environment";
            return Err(Error::invalid("INVALID_LOCATION", message));
        }
        // s3a is Hadoop's name for the same thing; one bucket must not be opened twice.
        let name = if scheme == Scheme::S3 { "s3" } else { name };
        let path = decode(text, path.trim_end_matches('/'))?;
        let path = Path::parse(path).map_err(|error| invalid(text, "its path is not one").caused_by(error))?;
        let mut url = Url::parse(&format!("{name}://{authority}/")).map_err(|error| invalid(text, "it is malformed").caused_by(error))?;
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.clear().extend(path.parts());
        }
        Ok(Location { scheme, path, url })
    }

    /// `file:/a`, `file:///a` and `file://localhost/a`. The rest is taken to be percent-encoded, but `?` and `#`, which a URL would take for
    /// the beginning of a query or fragment, are characters of the path: they occur in glob patterns.
    fn file_url(text: &str, rest: &str) -> Result<Location> {
        let path = match rest.strip_prefix("//") {
            Some(rest) => match rest.split_once('/') {
                Some(("" | "localhost", path)) => path,
                _ => return Err(invalid(text, "a file URL names no host")),
            },
            None => rest.strip_prefix('/').ok_or_else(|| invalid(text, "the path of a file URL is absolute"))?,
        };
        let path = format!("/{}", decode(text, path)?);
        Self::local(text, FilePath::new(&path))
    }

    fn local(text: &str, path: &FilePath) -> Result<Location> {
        let resolved = resolve(path).map_err(|error| invalid(text, "the working directory cannot be read").caused_by(error))?;
        let Some(utf8) = resolved.to_str() else { return Err(invalid(text, "it leads to a name that is not UTF-8")) };
        let path = Path::parse(utf8).map_err(|error| invalid(text, "its path is not one").caused_by(error))?;
        let url = Url::from_file_path(&resolved).map_err(|()| invalid(text, "it is not absolute"))?;
        Ok(Location { scheme: Scheme::Local, path, url })
    }
}

/// The scheme in lower case and what follows its colon, if the text is a URL: `s3://b`, `file:/a`; but not `2024-01-01T00:00` or `a:b`,
/// which are names of files.
fn split_scheme(text: &str) -> Option<(String, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let mut letters = scheme.chars();
    let is_scheme = letters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && letters.all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '+' | '-' | '.'));
    (is_scheme && (rest.starts_with('/') || scheme.eq_ignore_ascii_case("file"))).then(|| (scheme.to_ascii_lowercase(), rest))
}

fn decode(text: &str, encoded: &str) -> Result<String> {
    let decoded = percent_decode_str(encoded).decode_utf8();
    decoded.map(|decoded| decoded.into_owned()).map_err(|error| invalid(text, "it does not decode to UTF-8").caused_by(error))
}

/// The absolute path with links resolved as far as it exists and `.` and `..` taken out.
fn resolve(path: &FilePath) -> std::io::Result<PathBuf> {
    let mut resolved = if path.is_absolute() { PathBuf::from("/") } else { env::current_dir()? };
    for component in path.components() {
        match component {
            Component::RootDir | Component::Prefix(_) | Component::CurDir => {}
            Component::ParentDir => {
                resolved.pop();
            }
            Component::Normal(name) => {
                resolved.push(name);
                let is_link = fs::symlink_metadata(&resolved).is_ok_and(|metadata| metadata.is_symlink());
                if is_link && let Ok(target) = fs::canonicalize(&resolved) {
                    resolved = target;
                }
            }
        }
    }
    Ok(resolved)
}

fn invalid(text: &str, why: &str) -> Error {
    let accepted = "a path, or a URL of one of file:, s3:, gs:, az:, abfss:, memory:";
    Error::invalid("INVALID_LOCATION", format!("'{text}' is not a location: {why}; give {accepted}"))
}

#[cfg(test)]
mod tests;
