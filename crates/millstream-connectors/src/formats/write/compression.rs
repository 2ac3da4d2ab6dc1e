//! Compression of text files, with the codecs and name endings of Hadoop.

use std::io::Write;

use bzip2::write::BzEncoder;
use flate2::write::{GzEncoder, ZlibEncoder};
use millstream_core::{Options, Result};

use super::{encoding_failed, no_such_codec};

const KNOWN: &[&str] = &["none", "uncompressed", "gzip", "bzip2", "deflate", "snappy", "lz4"];

/// Blocks of Snappy and LZ4 hold at most this many bytes of text, Hadoop's default buffer.
const BLOCK: usize = 256 * 1024;

/// A codec of text files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    None,
    Gzip,
    Bzip2,
    Deflate,
    Snappy,
    Lz4,
}

impl Codec {
    /// The codec that the option `compression` (or, for older programs, `codec`) asks for.
    ///
    /// # Errors
    /// `CODEC_NOT_AVAILABLE.WITH_AVAILABLE_CODECS_SUGGESTION`.
    pub(super) fn from_options(options: &Options) -> Result<Codec> {
        let Some(name) = options.get("compression").or_else(|| options.get("codec")) else { return Ok(Codec::None) };
        Ok(match name.to_ascii_lowercase().as_str() {
            "none" | "uncompressed" => Codec::None,
            "gzip" | "org.apache.hadoop.io.compress.gzipcodec" => Codec::Gzip,
            "bzip2" | "org.apache.hadoop.io.compress.bzip2codec" => Codec::Bzip2,
            "deflate" | "org.apache.hadoop.io.compress.deflatecodec" => Codec::Deflate,
            "snappy" | "org.apache.hadoop.io.compress.snappycodec" => Codec::Snappy,
            "lz4" | "org.apache.hadoop.io.compress.lz4codec" => Codec::Lz4,
            _ => return Err(no_such_codec(name, KNOWN)),
        })
    }

    /// What file names end with.
    pub(super) fn extension(self) -> &'static str {
        match self {
            Codec::None => "",
            Codec::Gzip => ".gz",
            Codec::Bzip2 => ".bz2",
            Codec::Deflate => ".deflate",
            Codec::Snappy => ".snappy",
            Codec::Lz4 => ".lz4",
        }
    }

    /// Begins a file.
    pub(super) fn start(self) -> Compressor {
        match self {
            Codec::None => Compressor::None(Vec::new()),
            Codec::Gzip => Compressor::Gzip(GzEncoder::new(Vec::new(), flate2::Compression::default())),
            Codec::Bzip2 => Compressor::Bzip2(BzEncoder::new(Vec::new(), bzip2::Compression::default())),
            Codec::Deflate => Compressor::Deflate(ZlibEncoder::new(Vec::new(), flate2::Compression::default())),
            Codec::Snappy => Compressor::Blocks { pack: snappy, text: Vec::new(), done: Vec::new() },
            Codec::Lz4 => Compressor::Blocks { pack: lz4, text: Vec::new(), done: Vec::new() },
        }
    }
}

/// One file's text on its way to bytes.
pub(super) enum Compressor {
    None(Vec<u8>),
    Gzip(GzEncoder<Vec<u8>>),
    Bzip2(BzEncoder<Vec<u8>>),
    Deflate(ZlibEncoder<Vec<u8>>),
    /// Hadoop's framing around a codec without one.
    Blocks {
        pack: Pack,
        text: Vec<u8>,
        done: Vec<u8>,
    },
}

impl Compressor {
    /// Takes text.
    ///
    /// # Errors
    /// `FILE_ENCODING_FAILED`.
    pub(super) fn write(&mut self, text: &[u8]) -> Result<()> {
        let written = match self {
            Compressor::None(done) => {
                done.extend_from_slice(text);
                Ok(())
            }
            Compressor::Gzip(encoder) => encoder.write_all(text),
            Compressor::Bzip2(encoder) => encoder.write_all(text),
            Compressor::Deflate(encoder) => encoder.write_all(text),
            Compressor::Blocks { pack, text: pending, done } => {
                pending.extend_from_slice(text);
                while pending.len() >= BLOCK {
                    let rest = pending.split_off(BLOCK);
                    block(*pack, pending, done)?;
                    *pending = rest;
                }
                Ok(())
            }
        };
        written.map_err(|error| encoding_failed("compressed text")(error.into()))
    }

    /// The bytes that are ready.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(match self {
            Compressor::None(done) | Compressor::Blocks { done, .. } => done,
            Compressor::Gzip(encoder) => encoder.get_mut(),
            Compressor::Bzip2(encoder) => encoder.get_mut(),
            Compressor::Deflate(encoder) => encoder.get_mut(),
        })
    }

    /// Ends the file: the bytes not taken yet.
    ///
    /// # Errors
    /// `FILE_ENCODING_FAILED`.
    pub(super) fn finish(self) -> Result<Vec<u8>> {
        let done = match self {
            Compressor::None(done) => Ok(done),
            Compressor::Gzip(encoder) => encoder.finish(),
            Compressor::Bzip2(encoder) => encoder.finish(),
            Compressor::Deflate(encoder) => encoder.finish(),
            Compressor::Blocks { pack, text, mut done } => {
                if !text.is_empty() {
                    block(pack, &text, &mut done)?;
                }
                Ok(done)
            }
        };
        done.map_err(|error| encoding_failed("compressed text")(error.into()))
    }
}

/// Packs one block.
type Pack = fn(&[u8]) -> Result<Vec<u8>>;

fn snappy(text: &[u8]) -> Result<Vec<u8>> {
    snap::raw::Encoder::new().compress_vec(text).map_err(|error| encoding_failed("snappy")(error.into()))
}

fn lz4(text: &[u8]) -> Result<Vec<u8>> {
    Ok(lz4_flex::block::compress(text))
}

/// Hadoop's framing: the length of the text, the length of the block, the block, lengths in four bytes with the highest first.
fn block(pack: Pack, text: &[u8], done: &mut Vec<u8>) -> Result<()> {
    let packed = pack(text)?;
    for length in [text.len(), packed.len()] {
        let length = u32::try_from(length).map_err(|error| encoding_failed("compressed text")(error.into()))?;
        done.extend_from_slice(&length.to_be_bytes());
    }
    done.extend_from_slice(&packed);
    Ok(())
}
