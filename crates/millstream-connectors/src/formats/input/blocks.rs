//! Compression formats made of blocks: Hadoop's framing of Snappy and LZ4, the Snappy stream format, the LZ4 frame format.

use std::io::{BufRead, Error, ErrorKind, Read, Result};

use super::decompress::Feed;

/// The largest block that is believed. Hadoop's default is 256 KiB, LZ4's largest 4 MiB.
const MAX_BLOCK: usize = 64 * 1024 * 1024;

/// How blocks are wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// A block is its plain length (4 bytes, big-endian) and then chunks, each a compressed length and a raw Snappy chunk, until the
    /// plain length is reached.
    HadoopSnappy,
    /// The same with raw LZ4 chunks.
    HadoopLz4,
    /// Chunks of a type byte, a length (3 bytes, little-endian), and for data a masked CRC-32C of the plain bytes.
    SnappyStream,
    /// A header, then blocks of a length (4 bytes, little-endian, the high bit meaning uncompressed), ended by a zero length.
    Lz4Frame,
}

/// A reader of blocks.
pub(super) struct Blocks {
    feed: Feed,
    framing: Framing,
    /// Compressed bytes collected for the present step.
    held: Vec<u8>,
    /// How many of them the step needs.
    wanted: usize,
    step: Step,
    plain: Vec<u8>,
    taken: usize,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A Hadoop block's plain length.
    BlockLength,
    /// A Hadoop chunk's compressed length, with how many plain bytes of the block are missing.
    ChunkLength {
        missing: usize,
    },
    Chunk {
        missing: usize,
    },
    /// A Snappy chunk's type and length.
    SnappyHeader,
    SnappyChunk {
        kind: u8,
    },
    /// LZ4: magic number and descriptor flags.
    Lz4Header,
    Lz4Descriptor(Lz4Flags),
    Lz4Length(Lz4Flags),
    Lz4Block {
        flags: Lz4Flags,
        compressed: bool,
    },
    Lz4End,
}

#[derive(Clone, Copy, Debug)]
struct Lz4Flags {
    block_checksum: bool,
    content_checksum: bool,
    content_size: bool,
    dictionary: bool,
    /// Blocks refer to earlier ones, which must be kept.
    linked: bool,
    block_size: usize,
}

impl Blocks {
    pub(super) fn new(feed: Feed, framing: Framing) -> Self {
        let (step, wanted) = first_step(framing);
        Blocks { feed, framing, held: Vec::new(), wanted, step, plain: Vec::new(), taken: 0 }
    }

    /// Collects the bytes that the step needs; false at a clean end.
    fn collect(&mut self) -> Result<bool> {
        while self.held.len() < self.wanted {
            let available = self.feed.fill_buf()?;
            if available.is_empty() {
                return match self.step {
                    Step::BlockLength | Step::SnappyHeader | Step::Lz4Header if self.held.is_empty() => Ok(false),
                    _ => Err(Error::new(ErrorKind::UnexpectedEof, "the compressed data ends in the middle of a block")),
                };
            }
            let count = available.len().min(self.wanted - self.held.len());
            self.held.extend_from_slice(available.get(..count).unwrap_or_default());
            self.feed.consume(count);
        }
        Ok(true)
    }

    fn next_step(&mut self, step: Step, wanted: usize) -> Result<()> {
        if wanted > MAX_BLOCK {
            return Err(corrupt("a block is longer than any writer makes"));
        }
        (self.step, self.wanted) = (step, wanted);
        self.held.clear();
        Ok(())
    }

    /// Does the step whose bytes are complete.
    fn advance(&mut self) -> Result<()> {
        let number = |at: usize| -> Result<[u8; 4]> {
            self.held.get(at..).and_then(|rest| rest.first_chunk()).copied().ok_or_else(|| corrupt("a length is missing"))
        };
        match self.step {
            Step::BlockLength => match usize_of(u32::from_be_bytes(number(0)?)) {
                0 => self.next_step(Step::BlockLength, 4),
                missing if missing > MAX_BLOCK => Err(corrupt("a block is longer than any writer makes")),
                missing => self.next_step(Step::ChunkLength { missing }, 4),
            },
            Step::ChunkLength { missing } => {
                let length = usize_of(u32::from_be_bytes(number(0)?));
                self.next_step(Step::Chunk { missing }, length)
            }
            Step::Chunk { missing } => {
                let before = self.plain.len();
                match self.framing {
                    Framing::HadoopSnappy => snappy(&self.held, missing, &mut self.plain)?,
                    _ => lz4(&self.held, missing, &[], &mut self.plain)?,
                }
                match missing.saturating_sub(self.plain.len() - before) {
                    0 => self.next_step(Step::BlockLength, 4),
                    missing => self.next_step(Step::ChunkLength { missing }, 4),
                }
            }
            Step::SnappyHeader => {
                let [kind, low, middle, high] = number(0)?;
                self.next_step(Step::SnappyChunk { kind }, usize_of(u32::from_le_bytes([low, middle, high, 0])))
            }
            Step::SnappyChunk { kind } => {
                match kind {
                    0xff if self.held == b"sNaPpY" => {}
                    0x00 | 0x01 => {
                        let (checksum, data) = self.held.split_first_chunk::<4>().ok_or_else(|| corrupt("a checksum is missing"))?;
                        let before = self.plain.len();
                        match kind {
                            0x00 => snappy(data, 1 << 16, &mut self.plain)?,
                            _ => self.plain.extend_from_slice(data),
                        }
                        let sum = crc32c::crc32c(self.plain.get(before..).unwrap_or_default());
                        if sum.rotate_right(15).wrapping_add(0xa282_ead8) != u32::from_le_bytes(*checksum) {
                            return Err(corrupt("the checksum of a block does not fit its data"));
                        }
                    }
                    // Padding and chunks that readers may skip.
                    0x80..=0xfe => {}
                    _ => return Err(corrupt("a chunk of an unknown kind")),
                }
                self.next_step(Step::SnappyHeader, 4)
            }
            Step::Lz4Header => {
                if number(0)? != 0x184d_2204_u32.to_le_bytes() {
                    return Err(corrupt("not an LZ4 frame"));
                }
                let [flags, size] = self.held.get(4..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default();
                let flags = Lz4Flags {
                    linked: flags & 0x20 == 0,
                    block_checksum: flags & 0x10 != 0,
                    content_size: flags & 0x08 != 0,
                    content_checksum: flags & 0x04 != 0,
                    dictionary: flags & 0x01 != 0,
                    block_size: match size >> 4 & 7 {
                        4 => 64 << 10,
                        5 => 256 << 10,
                        6 => 1 << 20,
                        7 => 4 << 20,
                        _ => return Err(corrupt("an unknown block size")),
                    },
                };
                let descriptor = 1 + if flags.content_size { 8 } else { 0 } + if flags.dictionary { 4 } else { 0 };
                self.next_step(Step::Lz4Descriptor(flags), descriptor)
            }
            Step::Lz4Descriptor(flags) => self.next_step(Step::Lz4Length(flags), 4),
            Step::Lz4Length(flags) => {
                let length = u32::from_le_bytes(number(0)?);
                if length == 0 {
                    return self.next_step(Step::Lz4End, if flags.content_checksum { 4 } else { 0 });
                }
                let compressed = length & 0x8000_0000 == 0;
                let data = usize_of(length & 0x7fff_ffff);
                if data > flags.block_size {
                    return Err(corrupt("a block is longer than its frame allows"));
                }
                self.next_step(Step::Lz4Block { flags, compressed }, data + if flags.block_checksum { 4 } else { 0 })
            }
            Step::Lz4Block { flags, compressed } => {
                let end = self.held.len() - if flags.block_checksum { 4.min(self.held.len()) } else { 0 };
                let data = self.held.get(..end).unwrap_or_default();
                if compressed {
                    let window = if flags.linked { last(&self.plain, 64 << 10).to_vec() } else { Vec::new() };
                    lz4(data, flags.block_size, &window, &mut self.plain)?;
                } else {
                    self.plain.extend_from_slice(data);
                }
                self.next_step(Step::Lz4Length(flags), 4)
            }
            Step::Lz4End => self.next_step(Step::Lz4Header, 6),
        }
    }
}

impl Read for Blocks {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        while self.taken == self.plain.len() {
            // Linked LZ4 blocks look back 64 KiB.
            let kept = if self.framing == Framing::Lz4Frame { last(&self.plain, 64 << 10).len() } else { 0 };
            self.plain.drain(..self.plain.len() - kept);
            self.taken = kept;
            if !self.collect()? {
                return Ok(0);
            }
            self.advance()?;
        }
        let ready = self.plain.get(self.taken..).unwrap_or_default();
        let count = ready.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..count), ready.get(..count)) {
            to.copy_from_slice(from);
        }
        self.taken += count;
        Ok(count)
    }
}

fn first_step(framing: Framing) -> (Step, usize) {
    match framing {
        Framing::HadoopSnappy | Framing::HadoopLz4 => (Step::BlockLength, 4),
        Framing::SnappyStream => (Step::SnappyHeader, 4),
        Framing::Lz4Frame => (Step::Lz4Header, 6),
    }
}

fn usize_of(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn last(bytes: &[u8], most: usize) -> &[u8] {
    bytes.get(bytes.len().saturating_sub(most)..).unwrap_or_default()
}

fn corrupt(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, what)
}

fn snappy(data: &[u8], most: usize, plain: &mut Vec<u8>) -> Result<()> {
    let length = snap::raw::decompress_len(data).map_err(Error::other)?;
    if length > most {
        return Err(corrupt("a block expands to more than was announced"));
    }
    let before = plain.len();
    plain.resize(before + length, 0);
    snap::raw::Decoder::new().decompress(data, plain.get_mut(before..).unwrap_or_default()).map_err(Error::other)?;
    Ok(())
}

fn lz4(data: &[u8], most: usize, window: &[u8], plain: &mut Vec<u8>) -> Result<()> {
    let before = plain.len();
    plain.resize(before + most, 0);
    let room = plain.get_mut(before..).unwrap_or_default();
    let length = lz4_flex::block::decompress_into_with_dict(data, room, window).map_err(Error::other)?;
    plain.truncate(before + length);
    Ok(())
}
