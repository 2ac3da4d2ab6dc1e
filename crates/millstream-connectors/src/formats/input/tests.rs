use std::io::{Read, Write};
use std::sync::Arc;

use bytes::Bytes;
use futures::executor::block_on;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use super::*;

const CODECS: [(&str, Codec); 8] = [
    ("gz", Codec::Gzip),
    ("bz2", Codec::Bzip2),
    ("deflate", Codec::Deflate),
    ("zst", Codec::Zstd),
    ("snappy", Codec::Snappy),
    ("framed.snappy", Codec::Snappy),
    ("lz4", Codec::Lz4),
    ("hadoop.lz4", Codec::Lz4),
];

fn sample() -> Vec<u8> {
    (0..20_000).map(|n| format!("{{\"n\":{n}}}\n")).collect::<String>().into_bytes()
}

/// Hadoop's block framing: each block of plain bytes in chunks of its own.
fn hadoop(plain: &[u8], compress: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let mut out = Vec::new();
    for block in plain.chunks(10_000) {
        out.extend((block.len() as u32).to_be_bytes());
        for chunk in block.chunks(6_000) {
            let packed = compress(chunk);
            out.extend((packed.len() as u32).to_be_bytes());
            out.extend(packed);
        }
    }
    out
}

fn pack(ending: &str, plain: &[u8]) -> Vec<u8> {
    match ending {
        "gz" => {
            // Two members.
            let mut out = Vec::new();
            for half in plain.chunks(plain.len() / 2 + 1) {
                let mut encoder = flate2::write::GzEncoder::new(out, flate2::Compression::default());
                encoder.write_all(half).unwrap();
                out = encoder.finish().unwrap();
            }
            out
        }
        "bz2" => {
            let mut out = Vec::new();
            for half in plain.chunks(plain.len() / 2 + 1) {
                let mut encoder = bzip2::write::BzEncoder::new(out, bzip2::Compression::fast());
                encoder.write_all(half).unwrap();
                out = encoder.finish().unwrap();
            }
            out
        }
        "deflate" => {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(plain).unwrap();
            encoder.finish().unwrap()
        }
        "zst" => {
            [zstd::encode_all(&plain[..plain.len() / 2], 1).unwrap(), zstd::encode_all(&plain[plain.len() / 2..], 1).unwrap()].concat()
        }
        "snappy" => hadoop(plain, |chunk| snap::raw::Encoder::new().compress_vec(chunk).unwrap()),
        "framed.snappy" => {
            let mut out = Vec::new();
            snap::read::FrameEncoder::new(plain).read_to_end(&mut out).unwrap();
            out
        }
        "hadoop.lz4" => hadoop(plain, lz4_flex::block::compress),
        _ => lz4_frame(plain),
    }
}

/// An LZ4 frame of independent blocks, one of them stored.
fn lz4_frame(plain: &[u8]) -> Vec<u8> {
    let mut out = 0x184d_2204_u32.to_le_bytes().to_vec();
    out.extend([0x60, 0x40, 0x82]);
    for (at, block) in plain.chunks(60_000).enumerate() {
        let packed = lz4_flex::block::compress(block);
        if at == 1 {
            out.extend((block.len() as u32 | 0x8000_0000).to_le_bytes());
            out.extend(block);
        } else {
            out.extend((packed.len() as u32).to_le_bytes());
            out.extend(packed);
        }
    }
    out.extend([0; 4]);
    out
}

/// Decompresses `packed` fed in pieces of `piece` bytes: what came out, and the error that ended it.
fn unpack(codec: Codec, packed: &[u8], piece: usize) -> (Vec<u8>, Option<std::io::Error>) {
    let mut decompressor = Decompressor::new(codec);
    let (mut out, mut rest) = (Vec::new(), packed);
    loop {
        match decompressor.read(&mut out, 5_000) {
            Ok(Some(0)) => return (out, None),
            Ok(Some(_)) => {}
            Ok(None) => {
                let (next, later) = rest.split_at(piece.min(rest.len()));
                decompressor.feed(Bytes::copy_from_slice(next));
                rest = later;
            }
            Err(error) => return (out, Some(error)),
        }
    }
}

#[test]
fn every_codec_in_pieces_of_any_size() {
    let plain = sample();
    for (ending, codec) in CODECS {
        let packed = pack(ending, &plain);
        assert_eq!(Codec::of_name(&format!("a.json.{ending}")), Some(codec));
        for piece in [1, 7, 4096, packed.len()] {
            let (out, error) = unpack(codec, &packed, piece);
            assert!(error.is_none(), "{ending} in {piece}: {error:?}");
            assert!(out == plain, "{ending} in {piece}: {} of {} bytes", out.len(), plain.len());
        }
    }
}

#[test]
fn truncated_and_damaged_files_are_errors_after_what_came_before() {
    let plain = sample();
    for (ending, codec) in CODECS {
        let packed = pack(ending, &plain);
        let (out, error) = unpack(codec, &packed[..packed.len() - 9], 4096);
        assert!(error.is_some(), "{ending} cut short");
        assert!(plain.starts_with(&out) && !out.is_empty(), "{ending}");
        let (_, error) = unpack(codec, b"{\"this\":\"is not compressed\"}\n{\"n\":1}\n", 4096);
        assert!(error.is_some(), "{ending} of plain text");
    }
    assert_eq!(unpack(Codec::Gzip, b"", 10).0, b"");
}

#[test]
fn a_file_that_expands_beyond_measure_is_stopped() {
    let zeros = vec![b' '; 80 * 1024 * 1024];
    for (ending, codec) in [("gz", Codec::Gzip), ("zst", Codec::Zstd)] {
        let packed = pack(ending, &zeros);
        let (out, error) = unpack(codec, &packed, 4096);
        assert!(error.is_some() && out.len() < zeros.len(), "{ending}: {} of {} to {}", packed.len(), zeros.len(), out.len());
    }
}

fn read_all(file: &FileRef, options: &InputOptions) -> Result<Vec<u8>> {
    block_on(async {
        let mut input = Input::open(file, options).await?;
        let mut out = Vec::new();
        while input.read(&mut out).await? > 0 {}
        Ok(out)
    })
}

#[test]
fn local_and_remote_files_give_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let plain = sample();
    for (name, content) in [("a.json", plain.clone()), ("a.json.gz", pack("gz", &plain))] {
        std::fs::write(folder.path().join(name), &content).unwrap();
        let local: Arc<dyn ObjectStore> = Arc::new(LocalFileSystem::new_with_prefix(folder.path()).unwrap());
        let memory = InMemory::new();
        block_on(memory.put(&Path::from(name), content.into())).unwrap();
        for store in [local, Arc::new(memory)] {
            let file = FileRef { store, path: Path::from(name), url: format!("file:///{name}"), size: 1, modified_ms: 0 };
            assert!(read_all(&file, &InputOptions::default()).unwrap() == plain);
        }
    }
    let store = Arc::new(InMemory::new());
    let gone = FileRef { store, path: Path::from("gone"), url: "memory:///gone".to_owned(), size: 1, modified_ms: 0 };
    let error = read_all(&gone, &InputOptions::default()).unwrap_err();
    assert_eq!((error.code(), error.kind()), ("FAILED_READ_FILE.FILE_NOT_EXIST", ErrorKind::DataLost));
}

#[test]
fn the_option_tells_the_codec_only_where_the_name_does_not() {
    let plain = sample();
    let memory = Arc::new(InMemory::new());
    for (name, content) in [("a.json", pack("zst", &plain)), ("b.gz", pack("gz", &plain))] {
        block_on(memory.put(&Path::from(name), content.into())).unwrap();
        let file = FileRef { store: memory.clone(), path: Path::from(name), url: name.to_owned(), size: 1, modified_ms: 0 };
        let options = InputOptions::from_options(&Options::new().with("compression", "zstd")).unwrap();
        assert!(read_all(&file, &options).unwrap() == plain, "{name}");
    }
}

#[test]
fn encodings_become_utf8_in_pieces_of_any_size() {
    let text = "a\nžluť 😀\n";
    let utf16: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let utf32: Vec<u8> = text.chars().flat_map(|c| (c as u32).to_be_bytes()).collect();
    let marked = [&[0xff, 0xfe, 0, 0][..], &text.chars().flat_map(|c| (c as u32).to_le_bytes()).collect::<Vec<u8>>()].concat();
    for (name, bytes) in [("UTF-16LE", utf16), ("UTF-32", utf32), ("utf-32", marked)] {
        for piece in [1, 3, 100] {
            let mut transcoder = Transcoder::new(Encoding::named(name).unwrap().unwrap());
            let mut out = Vec::new();
            for part in bytes.chunks(piece) {
                transcoder.decode(part, &mut out, false);
            }
            transcoder.decode(&[], &mut out, true);
            assert_eq!(String::from_utf8(out).unwrap(), text, "{name} in {piece}");
        }
    }
    assert_eq!(Encoding::named("utf8").unwrap(), None);
    assert_eq!(Encoding::named("klingon").unwrap_err().code(), "INVALID_OPTION_VALUE");
}
