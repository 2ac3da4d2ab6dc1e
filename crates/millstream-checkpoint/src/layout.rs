//! Where everything is in a checkpoint directory.

use object_store::path::Path;

/// A log of numbered records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Log {
    Offsets,
    Commits,
}

impl Log {
    pub const ALL: [Log; 2] = [Log::Offsets, Log::Commits];

    pub fn name(self) -> &'static str {
        match self {
            Log::Offsets => "offsets",
            Log::Commits => "commits",
        }
    }
}

/// What a file in a log's folder is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// `N`, the record itself.
    Record(u64),
    /// `N.compact`: the records of a source's log up to and including N.
    Compact(u64),
    /// `.N.crc` and `.N.compact.crc`, which Hadoop writes beside a record on local disks.
    HadoopChecksum(u64),
    /// `.N.<uuid>.tmp`, a write that did not end.
    Temporary(u64),
    /// Nothing that belongs to a log.
    Other,
}

impl Entry {
    /// Reads the name of a file.
    pub fn parse(name: &str) -> Entry {
        if let Some(id) = number(name) {
            return Entry::Record(id);
        }
        if let Some(id) = name.strip_suffix(".compact").and_then(number) {
            return Entry::Compact(id);
        }
        let Some(hidden) = name.strip_prefix('.') else { return Entry::Other };
        let Some((id, rest)) = hidden.split_once('.') else { return Entry::Other };
        match (number(id), rest) {
            (Some(id), "crc" | "compact.crc") => Entry::HadoopChecksum(id),
            (Some(id), rest) if rest.ends_with(".tmp") || rest.ends_with(".tmp.crc") => Entry::Temporary(id),
            _ => Entry::Other,
        }
    }
}

/// The paths of one checkpoint.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    root: Path,
}

impl Layout {
    pub fn new(root: Path) -> Self {
        Layout { root }
    }

    pub fn metadata(&self) -> Path {
        self.root.clone().join("metadata")
    }

    pub fn boundary(&self) -> Path {
        self.root.clone().join("boundary")
    }

    pub fn epochs(&self) -> Path {
        self.root.clone().join("epoch")
    }

    pub fn epoch(&self, epoch: u64) -> Path {
        self.epochs().join(epoch.to_string())
    }

    pub fn log(&self, log: Log) -> Path {
        self.root.clone().join(log.name())
    }

    pub fn record(&self, log: Log, id: u64) -> Path {
        self.log(log).join(id.to_string())
    }

    pub fn state(&self) -> Path {
        self.root.clone().join("state")
    }

    pub fn sources(&self) -> Path {
        self.root.clone().join("sources")
    }

    pub fn source(&self, name: &str) -> Path {
        self.sources().join(name)
    }
}

/// Beside `path`, in its folder's `.torn`, a name for what was found there and could not be read.
pub(crate) fn torn(path: &Path, unique: uuid::Uuid) -> Path {
    let (folder, name) = split(path);
    folder.join(".torn").join(format!("{name}.{unique}"))
}

/// The checksum that Hadoop keeps beside `path` on local disks.
pub(crate) fn hadoop_checksum(path: &Path) -> Path {
    let (folder, name) = split(path);
    folder.join(format!(".{name}.crc"))
}

fn split(path: &Path) -> (Path, String) {
    let mut parts: Vec<_> = path.parts().collect();
    let name = parts.pop().map(|part| part.as_ref().to_owned()).unwrap_or_default();
    (parts.into_iter().collect(), name)
}

/// A number as Spark writes it in file names: decimal, no sign, no leading zero.
fn number(text: &str) -> Option<u64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if plain { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_spark_and_hadoop_are_told_apart() {
        for (name, expected) in [
            ("0", Entry::Record(0)),
            ("19", Entry::Record(19)),
            ("19.compact", Entry::Compact(19)),
            (".19.crc", Entry::HadoopChecksum(19)),
            (".19.compact.crc", Entry::HadoopChecksum(19)),
            (".19.6db105bb-b75b-4d68-a7e9-a1529f313f40.tmp", Entry::Temporary(19)),
            (".19.6db105bb-b75b-4d68-a7e9-a1529f313f40.tmp.crc", Entry::Temporary(19)),
            ("007", Entry::Other),
            ("+7", Entry::Other),
            ("", Entry::Other),
            ("7.tmp", Entry::Other),
            ("99999999999999999999", Entry::Other),
            (".torn", Entry::Other),
        ] {
            assert_eq!(Entry::parse(name), expected, "{name}");
        }
    }

    #[test]
    fn siblings_stay_in_the_folder() {
        let layout = Layout::new(Path::from("data/ck"));
        let path = layout.record(Log::Offsets, 7);
        assert_eq!(path.as_ref(), "data/ck/offsets/7");
        assert_eq!(hadoop_checksum(&path).as_ref(), "data/ck/offsets/.7.crc");
        assert_eq!(torn(&path, uuid::Uuid::nil()).as_ref(), "data/ck/offsets/.torn/7.00000000-0000-0000-0000-000000000000");
        assert_eq!(layout.source("clicks").as_ref(), "data/ck/sources/clicks");
    }
}
