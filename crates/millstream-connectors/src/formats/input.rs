//! The bytes of one file, decompressed and as UTF-8, piece by piece and in bounded memory.

mod blocks;
mod decompress;
mod encoding;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::Read;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use millstream_core::options::OptionKind;
use millstream_core::{Error, ErrorKind, OptionSpec, Options, Result};
use object_store::{GetResultPayload, ObjectStoreExt};

pub use decompress::Codec;
pub use encoding::{Encoding, check_charset};

use super::FileRef;
use super::write::no_such_codec;
use decompress::Decompressor;
use encoding::Transcoder;

/// How many bytes are read from a file, or produced by a decompressor, in one step: small enough to stay in a core's cache until parsed.
const PIECE: usize = 256 * 1024;

/// The options that every text-based format understands through [`Input`].
pub const OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        name: "compression",
        kind: OptionKind::OneOf(&["none", "uncompressed", "gzip", "bzip2", "deflate", "snappy", "lz4", "zstd"]),
        default: None,
        doc: "Compression of files whose names do not tell it by their ending (.gz, .bz2, .deflate, .snappy, .lz4, .zst).",
    },
    OptionSpec { name: "encoding", kind: OptionKind::Text, default: Some("UTF-8"), doc: "Character encoding of the files." },
    OptionSpec { name: "charset", kind: OptionKind::Text, default: None, doc: "Another name of the option encoding." },
];

/// How the bytes of files become text.
#[derive(Clone, Copy, Debug, Default)]
pub struct InputOptions {
    /// Compression of files whose names do not tell it.
    pub compression: Option<Codec>,
    /// The character encoding; `None` is UTF-8, left as it is.
    pub encoding: Option<Encoding>,
}

impl InputOptions {
    /// Reads `compression` and `encoding` (or `charset`).
    ///
    /// # Errors
    /// `CODEC_NOT_AVAILABLE.WITH_AVAILABLE_CODECS_SUGGESTION`; `INVALID_OPTION_VALUE` for encodings that are not known.
    pub fn from_options(options: &Options) -> Result<Self> {
        let codec = options.get("compression");
        let known = ["none", "uncompressed", "gzip", "bzip2", "deflate", "snappy", "lz4", "zstd"];
        if let Some(codec) = codec.filter(|codec| !known.iter().any(|name| name.eq_ignore_ascii_case(codec))) {
            return Err(no_such_codec(codec, &known));
        }
        options.check(OPTIONS)?;
        let encoding = options.get("encoding").or_else(|| options.get("charset"));
        Ok(InputOptions { compression: codec.and_then(Codec::named), encoding: encoding.map(Encoding::named).transpose()?.flatten() })
    }
}

/// An open file.
pub struct Input {
    url: String,
    bytes: Source,
    decompressor: Option<Decompressor>,
    transcoder: Option<Transcoder>,
    /// What was decompressed and waits for the transcoder.
    undecoded: Vec<u8>,
    ended: bool,
}

enum Source {
    Local(File),
    Remote(BoxStream<'static, object_store::Result<Bytes>>),
}

impl Input {
    /// Opens a file.
    ///
    /// # Errors
    /// `FAILED_READ_FILE.FILE_NOT_EXIST` ([`ErrorKind::DataLost`]) when it is gone, `FAILED_READ_FILE` ([`ErrorKind::SourceUnavailable`])
    /// when it cannot be opened.
    pub async fn open(file: &FileRef, options: &InputOptions) -> Result<Self> {
        let found = file.store.get(&file.path).await.map_err(|error| unreadable(&file.url, error))?;
        let bytes = match found.payload {
            GetResultPayload::File(file, _) => Source::Local(file),
            GetResultPayload::Stream(stream) => Source::Remote(stream),
        };
        let codec = Codec::of_name(file.path.as_ref()).or(options.compression);
        Ok(Input {
            url: file.url.clone(),
            bytes,
            decompressor: codec.map(Decompressor::new),
            transcoder: options.encoding.map(Transcoder::new),
            undecoded: Vec::new(),
            ended: false,
        })
    }

    /// Whether the file's bytes are read as they are: neither decompressed nor decoded.
    pub fn is_verbatim(&self) -> bool {
        self.decompressor.is_none() && self.transcoder.is_none()
    }

    /// Appends the next bytes to `buffer` and returns how many: 0 only at the end.
    ///
    /// # Errors
    /// `FAILED_READ_FILE`: of kind [`ErrorKind::SourceUnavailable`] when the store fails, of kind [`ErrorKind::BadRecord`] when the content
    /// cannot be decompressed (damaged, cut short, or expanding beyond all measure). What was appended before stays valid.
    pub async fn read(&mut self, buffer: &mut Vec<u8>) -> Result<usize> {
        let before = buffer.len();
        while buffer.len() == before && !self.ended {
            if self.transcoder.is_none() {
                self.ended = self.read_piece(buffer).await? == 0;
                continue;
            }
            let mut undecoded = std::mem::take(&mut self.undecoded);
            undecoded.clear();
            let read = self.read_piece(&mut undecoded).await;
            self.undecoded = undecoded;
            self.ended = read? == 0;
            if let Some(transcoder) = &mut self.transcoder {
                transcoder.decode(&self.undecoded, buffer, self.ended);
            }
        }
        Ok(buffer.len() - before)
    }

    /// As [`Input::read`], before decoding characters.
    async fn read_piece(&mut self, buffer: &mut Vec<u8>) -> Result<usize> {
        let Some(decompressor) = &mut self.decompressor else {
            return self.bytes.append(buffer, &self.url).await;
        };
        loop {
            let read = decompressor.read(buffer, PIECE).map_err(|error| damaged(&self.url, error))?;
            match read {
                Some(count) => return Ok(count),
                None => decompressor.feed(self.bytes.next(&self.url).await?),
            }
        }
    }
}

impl Source {
    /// Appends the next bytes to `buffer`; 0 at the end.
    async fn append(&mut self, buffer: &mut Vec<u8>, url: &str) -> Result<usize> {
        match self {
            Source::Local(file) => append_from(file, buffer).map_err(|error| unreadable_io(url, error)),
            Source::Remote(_) => {
                let bytes = self.next(url).await?;
                buffer.extend_from_slice(&bytes);
                Ok(bytes.len())
            }
        }
    }

    /// The next bytes; none at the end.
    async fn next(&mut self, url: &str) -> Result<Bytes> {
        match self {
            Source::Local(file) => {
                let mut piece = Vec::new();
                append_from(file, &mut piece).map_err(|error| unreadable_io(url, error))?;
                Ok(piece.into())
            }
            Source::Remote(stream) => loop {
                match stream.next().await {
                    Some(Ok(bytes)) if bytes.is_empty() => {}
                    Some(Ok(bytes)) => return Ok(bytes),
                    Some(Err(error)) => return Err(unreadable(url, error)),
                    None => return Ok(Bytes::new()),
                }
            },
        }
    }
}

/// Local files are read on the calling thread: a piece comes from the page cache in less time than a switch to another thread takes.
fn append_from(file: &mut File, buffer: &mut Vec<u8>) -> std::io::Result<usize> {
    buffer.reserve(PIECE);
    file.take(PIECE as u64).read_to_end(buffer)
}

fn unreadable(url: &str, error: object_store::Error) -> Error {
    match error {
        object_store::Error::NotFound { .. } => {
            Error::new(ErrorKind::DataLost, "FAILED_READ_FILE.FILE_NOT_EXIST", format!("the file {url} does not exist any more"))
                .caused_by(error)
        }
        error => Error::new(ErrorKind::SourceUnavailable, "FAILED_READ_FILE", format!("cannot read {url}")).caused_by(error),
    }
}

fn unreadable_io(url: &str, error: std::io::Error) -> Error {
    Error::new(ErrorKind::SourceUnavailable, "FAILED_READ_FILE", format!("cannot read {url}")).caused_by(error)
}

fn damaged(url: &str, error: std::io::Error) -> Error {
    Error::new(ErrorKind::BadRecord, "FAILED_READ_FILE", format!("the content of {url} cannot be decompressed")).caused_by(error)
}
