//! The container around Avro records: a header with the schema, then blocks, each compressed on its own and closed by a marker.

use std::io::Read;
use std::ops::Range;

use millstream_core::{Error, Result};

use super::super::FileRef;
use super::super::positioned::{Positioned, decode_error, unreadable};
use super::validate::read_long;

const MAGIC: &[u8] = b"Obj\x01";
/// The length of the marker after every block.
pub(super) const SYNC_BYTES: usize = 16;
/// How much is read at a time.
const CHUNK_BYTES: usize = 1 << 20;
/// The largest header that is read.
const MAX_HEADER_BYTES: usize = 16 << 20;
/// The largest compressed block that is read.
const MAX_BLOCK_BYTES: usize = 256 << 20;
/// A block may always unfold to this size …
const FREE_BLOCK_BYTES: usize = 64 << 20;
/// … or to its compressed size times this, whichever is more …
const MAX_RATIO: usize = 200;
/// … but never beyond this.
const MAX_UNFOLDED_BYTES: usize = 1 << 30;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Codec {
    Null,
    Deflate,
    Snappy,
    Zstandard,
    Bzip2,
}

/// An open container file.
#[derive(Debug)]
pub(super) struct Container {
    file: FileRef,
    open: Positioned,
    /// Where the next chunk begins in the file.
    next: u64,
    buffer: Vec<u8>,
    /// Where the unread bytes begin in the buffer.
    start: usize,
    /// The writer's schema as JSON.
    pub(super) schema: String,
    codec: Codec,
    sync: [u8; SYNC_BYTES],
}

/// A block, decompressed.
#[derive(Debug)]
pub(super) struct Block {
    /// How many records it says it has.
    pub(super) count: u64,
    /// The encoded records.
    pub(super) data: Vec<u8>,
}

impl Container {
    /// Opens a file and reads its header. `None` for a file without a single byte.
    pub(super) async fn open(file: &FileRef) -> Result<Option<Self>> {
        let open = Positioned::open(file).await?;
        if open.len() == 0 {
            return Ok(None);
        }
        let mut container = Container {
            file: file.clone(),
            open,
            next: 0,
            buffer: Vec::new(),
            start: 0,
            schema: String::new(),
            codec: Codec::Null,
            sync: [0; SYNC_BYTES],
        };
        container.read_header().await?;
        Ok(Some(container))
    }

    async fn read_header(&mut self) -> Result<()> {
        if self.take(MAGIC.len()).await? != Some(MAGIC) {
            return Err(self.bad("it is no Avro container file: it does not begin with Obj and 1"));
        }
        let (mut schema, mut codec, mut size) = (None, Vec::new(), 0_usize);
        loop {
            let mut entries = self.long().await?;
            if entries == 0 {
                break;
            }
            if entries < 0 {
                entries = entries.saturating_neg();
                self.long().await?;
            }
            for _ in 0..entries {
                let key = self.sized(MAX_HEADER_BYTES).await?;
                let value = self.sized(MAX_HEADER_BYTES).await?;
                size = size.saturating_add(key.len()).saturating_add(value.len()).saturating_add(1);
                if size > MAX_HEADER_BYTES {
                    return Err(self.bad("its header is above the limit of 16 MiB"));
                }
                match key.as_slice() {
                    b"avro.schema" => schema = Some(value),
                    b"avro.codec" => codec = value,
                    _ => {}
                }
            }
        }
        let schema = schema.ok_or_else(|| self.bad("its header has no schema"))?;
        self.schema = String::from_utf8(schema).map_err(|_| self.bad("the schema in its header is not UTF-8"))?;
        self.codec = match codec.as_slice() {
            b"" | b"null" => Codec::Null,
            b"deflate" => Codec::Deflate,
            b"snappy" => Codec::Snappy,
            b"zstandard" => Codec::Zstandard,
            b"bzip2" => Codec::Bzip2,
            other => {
                let name = String::from_utf8_lossy(other);
                return Err(self.bad(format!("its codec '{name}' is not supported: use null, deflate, snappy, zstandard or bzip2")));
            }
        };
        self.sync = self.marker().await?;
        Ok(())
    }

    /// The next block; `None` at a proper end of the file.
    pub(super) async fn next_block(&mut self) -> Result<Option<Block>> {
        if !self.fill(1).await? {
            return Ok(None);
        }
        let count = u64::try_from(self.long().await?).map_err(|_| self.bad("a block has a negative number of records"))?;
        let data = self.sized(MAX_BLOCK_BYTES).await?;
        if self.marker().await? != self.sync {
            return Err(self.bad("a block does not end with the file's marker"));
        }
        let data = self.decompress(data).map_err(|why| self.bad(format!("a block cannot be decompressed: {why}")))?;
        Ok(Some(Block { count, data }))
    }

    fn decompress(&self, data: Vec<u8>) -> std::result::Result<Vec<u8>, String> {
        let limit = data.len().saturating_mul(MAX_RATIO).clamp(FREE_BLOCK_BYTES, MAX_UNFOLDED_BYTES);
        match self.codec {
            Codec::Null => Ok(data),
            Codec::Deflate => unfold(flate2::read::DeflateDecoder::new(data.as_slice()), limit),
            Codec::Zstandard => unfold(zstd::stream::read::Decoder::new(data.as_slice()).map_err(|error| error.to_string())?, limit),
            Codec::Bzip2 => unfold(bzip2::read::BzDecoder::new(data.as_slice()), limit),
            Codec::Snappy => {
                let (body, checksum) = data.split_last_chunk::<4>().ok_or("it is too short")?;
                let size = snap::raw::decompress_len(body).map_err(|error| error.to_string())?;
                if size > limit {
                    return Err(too_large(limit));
                }
                let unfolded = snap::raw::Decoder::new().decompress_vec(body).map_err(|error| error.to_string())?;
                let mut found = flate2::Crc::new();
                found.update(&unfolded);
                if found.sum() != u32::from_be_bytes(*checksum) {
                    return Err("its checksum is wrong".to_owned());
                }
                Ok(unfolded)
            }
        }
    }

    fn bad(&self, why: impl std::fmt::Display) -> Error {
        unreadable(&self.file, why)
    }

    fn cut_off(&self) -> Error {
        self.bad(format!("it ends in the middle of a block, after {} bytes", self.open.len()))
    }

    /// Makes sure that `count` unread bytes are in the buffer; `false` when the file has fewer.
    async fn fill(&mut self, count: usize) -> Result<bool> {
        while self.buffer.len() - self.start < count {
            let left = self.open.len().saturating_sub(self.next);
            if left == 0 {
                return Ok(false);
            }
            self.buffer.drain(..self.start);
            self.start = 0;
            // What a damaged length asks for must not be allocated before it is there.
            let chunk: Range<u64> = self.next..self.next + left.min(CHUNK_BYTES as u64);
            let bytes = self.open.read(chunk.clone()).await.map_err(|error| decode_error(&self.file, error))?;
            self.buffer.extend_from_slice(&bytes);
            self.next = chunk.end;
        }
        Ok(true)
    }

    async fn take(&mut self, count: usize) -> Result<Option<&[u8]>> {
        if !self.fill(count).await? {
            return Ok(None);
        }
        let from = self.start;
        self.start += count;
        Ok(self.buffer.get(from..self.start))
    }

    async fn long(&mut self) -> Result<i64> {
        // Near the end of the file ten bytes need not be there.
        self.fill(10).await?;
        match read_long(self.buffer.get(self.start..).unwrap_or_default()) {
            Some((value, size)) => {
                self.start += size;
                Ok(value)
            }
            None => Err(self.cut_off()),
        }
    }

    async fn sized(&mut self, limit: usize) -> Result<Vec<u8>> {
        let size = usize::try_from(self.long().await?).map_err(|_| self.bad("a length is negative"))?;
        if size > limit {
            return Err(self.bad(format!("a part of {size} bytes is above the limit of {limit}")));
        }
        match self.take(size).await? {
            Some(bytes) => Ok(bytes.to_vec()),
            None => Err(self.cut_off()),
        }
    }

    async fn marker(&mut self) -> Result<[u8; SYNC_BYTES]> {
        let marker = self.take(SYNC_BYTES).await?.and_then(|bytes| bytes.first_chunk::<SYNC_BYTES>().copied());
        marker.ok_or_else(|| self.cut_off())
    }
}

fn too_large(limit: usize) -> String {
    format!("it unfolds to more than {limit} bytes")
}

fn unfold(reader: impl Read, limit: usize) -> std::result::Result<Vec<u8>, String> {
    let mut unfolded = Vec::new();
    reader.take(limit as u64 + 1).read_to_end(&mut unfolded).map_err(|error| error.to_string())?;
    if unfolded.len() > limit { Err(too_large(limit)) } else { Ok(unfolded) }
}
