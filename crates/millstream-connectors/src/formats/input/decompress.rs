//! Decompression of a stream that arrives in pieces.

use std::io::{BufRead, Error, ErrorKind, Read, Result};
use std::sync::Arc;

use bytes::{Buf, Bytes};
use parking_lot::Mutex;

use super::blocks::{Blocks, Framing};

/// Beyond this many bytes a file must not expand by more than [`MAX_RATIO`].
const RATIO_FREE: u64 = 64 * 1024 * 1024;
/// The largest ratio of decompressed to compressed size that is believed. Text compresses by 20 at most in practice.
const MAX_RATIO: u64 = 200;

/// A compression codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// gzip, with any number of members.
    Gzip,
    /// bzip2, with any number of streams.
    Bzip2,
    /// zlib, as Hadoop's `.deflate`.
    Deflate,
    /// Snappy in Hadoop's blocks, or in the snappy project's own stream format.
    Snappy,
    /// LZ4 in Hadoop's blocks, or in LZ4's own frames.
    Lz4,
    /// Zstandard, with any number of frames.
    Zstd,
}

impl Codec {
    /// The codec of a file by the ending of its name.
    pub fn of_name(path: &str) -> Option<Codec> {
        let (_, ending) = path.rsplit_once('.')?;
        Some(match ending {
            "gz" => Codec::Gzip,
            "bz2" => Codec::Bzip2,
            "deflate" => Codec::Deflate,
            "snappy" => Codec::Snappy,
            "lz4" => Codec::Lz4,
            "zst" => Codec::Zstd,
            _ => return None,
        })
    }

    /// The codec by the name that the option `compression` gives it.
    pub fn named(name: &str) -> Option<Codec> {
        Some(match name.to_ascii_lowercase().as_str() {
            "gzip" => Codec::Gzip,
            "bzip2" => Codec::Bzip2,
            "deflate" => Codec::Deflate,
            "snappy" => Codec::Snappy,
            "lz4" => Codec::Lz4,
            "zstd" => Codec::Zstd,
            _ => return None,
        })
    }
}

/// Decompresses what it is fed.
pub(super) struct Decompressor {
    codec: Codec,
    /// Made with the first bytes, because some decoders read at once.
    decoder: Option<Box<dyn Read + Send>>,
    feed: Feed,
    fed: u64,
    produced: u64,
    /// A fault that came after good bytes, for the next call.
    fault: Option<Error>,
}

impl Decompressor {
    pub(super) fn new(codec: Codec) -> Self {
        Decompressor { codec, decoder: None, feed: Feed::default(), fed: 0, produced: 0, fault: None }
    }

    /// Gives it the next compressed bytes; none mean the end.
    pub(super) fn feed(&mut self, bytes: Bytes) {
        self.fed += bytes.len() as u64;
        let mut supply = self.feed.supply.lock();
        supply.ended = bytes.is_empty();
        supply.next = bytes;
    }

    /// Appends up to `most` decompressed bytes to `buffer` and returns how many, 0 at the end; `None` when it must be fed first.
    pub(super) fn read(&mut self, buffer: &mut Vec<u8>, most: usize) -> Result<Option<usize>> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            None => {
                let waiting = {
                    let supply = self.feed.supply.lock();
                    (supply.next.is_empty(), supply.ended)
                };
                match waiting {
                    // An empty file holds nothing, whatever its name says.
                    (true, true) => return Ok(Some(0)),
                    (true, false) => return Ok(None),
                    _ => {}
                }
                let feed = Feed { supply: self.feed.supply.clone(), current: Bytes::new() };
                self.decoder.insert(decoder(self.codec, feed)?)
            }
        };
        let before = buffer.len();
        buffer.resize(before + most, 0);
        let mut filled = before;
        let outcome = loop {
            match decoder.read(buffer.get_mut(filled..).unwrap_or_default()) {
                Ok(0) => break Ok(Some(filled - before)),
                Ok(count) => {
                    filled += count;
                    if filled == buffer.len() {
                        break Ok(Some(most));
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break Ok((filled > before).then_some(filled - before)),
                Err(error) if filled > before => {
                    self.fault = Some(error);
                    break Ok(Some(filled - before));
                }
                Err(error) => break Err(error),
            }
        };
        buffer.truncate(filled);
        self.produced += (filled - before) as u64;
        if self.produced > RATIO_FREE && self.produced / MAX_RATIO > self.fed {
            let message = format!("{} compressed bytes expand to more than {}, {MAX_RATIO} times as many", self.fed, self.produced);
            return Err(Error::new(ErrorKind::InvalidData, message));
        }
        outcome
    }
}

fn decoder(codec: Codec, mut feed: Feed) -> Result<Box<dyn Read + Send>> {
    Ok(match codec {
        Codec::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(feed)),
        Codec::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(feed)),
        Codec::Deflate => Box::new(flate2::bufread::ZlibDecoder::new(feed)),
        Codec::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(feed)?),
        Codec::Snappy => {
            // The stream format begins with a chunk of type 0xff; Hadoop's with a length whose high byte is never that.
            let framing = if feed.fill_buf()?.first() == Some(&0xff) { Framing::SnappyStream } else { Framing::HadoopSnappy };
            Box::new(Blocks::new(feed, framing))
        }
        Codec::Lz4 => match feed.fill_buf()?.first() {
            Some(0x04) => Box::new(Blocks::new(feed, Framing::Lz4Frame)),
            _ => Box::new(Blocks::new(feed, Framing::HadoopLz4)),
        },
    })
}

/// The compressed side: it answers `WouldBlock` when it has been read up and more may come.
#[derive(Default)]
pub(super) struct Feed {
    supply: Arc<Mutex<Supply>>,
    current: Bytes,
}

#[derive(Default)]
struct Supply {
    next: Bytes,
    ended: bool,
}

impl BufRead for Feed {
    fn fill_buf(&mut self) -> Result<&[u8]> {
        if self.current.is_empty() {
            let mut supply = self.supply.lock();
            self.current = std::mem::take(&mut supply.next);
            if self.current.is_empty() && !supply.ended {
                return Err(ErrorKind::WouldBlock.into());
            }
        }
        Ok(&self.current)
    }

    fn consume(&mut self, count: usize) {
        self.current.advance(count.min(self.current.len()));
    }
}

impl Read for Feed {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let available = self.fill_buf()?;
        let count = available.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..count), available.get(..count)) {
            to.copy_from_slice(from);
        }
        self.consume(count);
        Ok(count)
    }
}
