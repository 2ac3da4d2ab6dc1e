"""Writes a directory of everything that goes wrong with files, and what must come of it.

usage: torture_files.py json|lines|parquet|orc|avro|csv DIR

DIR/in gets the files, DIR/fuzzed files of the same format in which random bytes are wrong, and DIR/expected.json says what a reader must make
of those in DIR/in:
  rows         the ids that must be in the table, each once
  records      by file and reason: records that cannot be read, whose text a corrupt-record column would keep
  left_out     by file and reason: what no mode can keep, that is oversized records and damaged files
"""

import collections
import gzip
import io
import itertools
import json
import os
import random
import sys

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.orc as orc
import pyarrow.parquet as pq

MIB = 1 << 20


class Folder:
    """The directory, and what is expected of it."""

    def __init__(self, root: str):
        self.root = root
        self.inside = os.path.join(root, "in")
        os.makedirs(self.inside)
        self.ids = itertools.count()
        self.rows: list[int] = []
        self.records: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
        self.left_out: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
        self.random = random.Random(20130208)

    def write(self, name: str | bytes, *pieces: bytes) -> None:
        path = os.path.join(os.fsencode(self.inside), os.fsencode(name))
        with open(path, "wb") as file:
            file.writelines(pieces)

    def good(self, count: int = 3, end: bytes = b"\n") -> bytes:
        """Records that must all arrive."""
        ids = list(itertools.islice(self.ids, count))
        self.rows += ids
        return b"".join(b'{"id":%d,"part":"p%d","amount":%d}' % (id, id % 3, id % 1000) + end for id in ids)

    def bad(self, name: str, reason: str, count: int = 1) -> None:
        self.records[name][reason] += count

    def lost(self, name: str, reason: str, count: int = 1) -> None:
        self.left_out[name][reason] += count

    def finish(self) -> None:
        expected = {"rows": self.rows, "records": self.records, "left_out": self.left_out}
        with open(os.path.join(self.root, "expected.json"), "w", encoding="utf-8") as file:
            json.dump(expected, file)


def broken_records(folder: Folder) -> None:
    """Files whose good lines stand between lines that are none."""
    folder.write("not-utf8.json", folder.good(), b'{"id":1,"part":"caf\xe9","amount":1}\n', b"\xff\xfe\x00\xd8\n", folder.good())
    folder.bad("not-utf8.json", "INVALID_UTF8", 2)

    for depth in (1_000, 100_000):
        name = f"nested-{depth}.json"
        lists = b'{"id":1,"deep":' + b"[" * depth + b"]" * depth + b"}\n"
        objects = b'{"id":1,"part":' + b'{"part":' * depth + b"1" + b"}" * depth + b"}\n"
        folder.write(name, folder.good(), lists, folder.good(), objects, b"[" * depth + b"\n", folder.good())
        folder.bad(name, "TOO_DEEP", 3)

    folder.write("nul.json", folder.good(), b"\0" * 1000 + b"\n", b'{"id":1,"part":"a\0b"}\n', folder.good())
    folder.bad("nul.json", "MALFORMED_JSON", 2)

    folder.write("utf16.json", "\ufeff".encode("utf-16-le"), folder.good(2).decode().encode("utf-16-le"))
    del folder.rows[-2:]
    # Two lines, each ended by the first byte of its line feed; the second half of the last one is a line of its own.
    folder.bad("utf16.json", "INVALID_UTF8")
    folder.bad("utf16.json", "MALFORMED_JSON", 2)

    folder.write("cut.json", folder.good(), folder.good(1)[:20])
    folder.rows.pop()
    folder.bad("cut.json", "MALFORMED_JSON")

    folder.write("types.json", folder.good(), b'{"id":"x","part":"p","amount":1}\n{"id":99999999999999999999}\n', folder.good())
    folder.bad("types.json", "TYPE_MISMATCH", 2)

    folder.write("words.json", b"null\n1\n\"text\"\n[1,2]\n", folder.good())
    folder.bad("words.json", "MALFORMED_JSON", 4)


def harmless(folder: Folder) -> None:
    """Files that look odd and are right."""
    folder.write("empty.json")
    folder.write("empty.json.gz")
    folder.write("nothing-inside.json.gz", gzip.compress(b""))
    folder.write("newlines.json", b"\n" * (2 * MIB))
    folder.write("bom.json", b"\xef\xbb\xbf", folder.good())
    folder.write("crlf.json", folder.good(end=b"\r\n"))
    folder.write("cr.json", folder.good(end=b"\r"))
    folder.write("no-last-line-end.json", folder.good(2), folder.good(1, end=b""))
    folder.write("two-members.json.gz", gzip.compress(folder.good()), gzip.compress(folder.good()))
    folder.write("_hidden.json", b"not read")
    folder.write(".hidden.json", b"not read")
    for name in (
        "with space.json", "ünïcödé-日本-🦀.json", "100%.json", "a%20b.json", "%2F.json", "glob*[x]?{y,z}.json", "q'u\"o`te.json",
        "plus+and&hash#semi;.json", "back\\slash.json", "new\nline.json", "key=value.json", "e\u0301.json", "\u00e9.json", b"latin-\xe9.json",
    ):
        folder.write(name, folder.good())
    os.symlink("with space.json", os.path.join(folder.inside, "link-to-nowhere.json.missing"))
    os.symlink("gone.json", os.path.join(folder.inside, "dangling.json"))
    os.symlink(".", os.path.join(folder.inside, "loop"))
    # What is read through the link are the same three rows again, as a file of its own.
    folder.rows += [id for id in named_rows(folder, "with space.json")]
    os.mkfifo(os.path.join(folder.inside, "pipe.json"))


def named_rows(folder: Folder, name: str) -> list[int]:
    with open(os.path.join(folder.inside, name), "rb") as file:
        return [json.loads(line)["id"] for line in file]


def damaged_files(folder: Folder) -> None:
    """Files that cannot be read to their end. They have no rows before the damage, so that what arrives is certain."""
    noise = folder.random.randbytes(64 * 1024)
    folder.write("noise.json.gz", noise)
    folder.lost("noise.json.gz", "UNREADABLE_FILE")

    whole = gzip.compress(b'{"id":1,"part":"' + noise.hex().encode() + b'"}\n')
    folder.write("truncated.json.gz", whole[: len(whole) // 2])
    folder.lost("truncated.json.gz", "UNREADABLE_FILE")
    folder.write("header-only.json.gz", whole[:12])
    folder.lost("header-only.json.gz", "UNREADABLE_FILE")
    flipped = bytearray(whole)
    for at in range(len(flipped) // 2, len(flipped) // 2 + 200):
        flipped[at] ^= 0xA5
    folder.write("flipped.json.gz", bytes(flipped))
    folder.lost("flipped.json.gz", "UNREADABLE_FILE")
    for codec in ("bz2", "zst", "lz4", "snappy", "deflate"):
        folder.write(f"noise.json.{codec}", noise)
        folder.lost(f"noise.json.{codec}", "UNREADABLE_FILE")

    # The rows before the damage are kept.
    rows = gzip.compress(folder.good(50_000))
    folder.write("trailing-noise.json.gz", rows, noise)
    folder.lost("trailing-noise.json.gz", "UNREADABLE_FILE")

    bomb = io.BytesIO()
    with gzip.GzipFile(fileobj=bomb, mode="wb", compresslevel=9) as file:
        for _ in range(512):
            file.write(b" " * MIB)
    folder.write("bomb.json.gz", bomb.getvalue())
    folder.lost("bomb.json.gz", "UNREADABLE_FILE")

    table = io.BytesIO()
    pq.write_table(pa.table({"id": [7, 8, 9], "part": ["a", "b", "c"]}), table)
    folder.write("parquet.json", table.getvalue())
    lines = [line for line in table.getvalue().replace(b"\r", b"\n").split(b"\n") if line.strip(b" \t")]
    for line in lines:
        folder.bad("parquet.json", "MALFORMED_JSON" if is_utf8(line) else "INVALID_UTF8")


def is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def oversized(folder: Folder) -> None:
    """Records of 100 MB, alone and among others."""
    huge = b'{"id":1,"part":"' + b"x" * (100 * MIB) + b'"}'
    folder.write("one-record.json", huge)
    folder.lost("one-record.json", "RECORD_TOO_LARGE")
    folder.write("long-line.json", folder.good(), huge, b"\n", folder.good(), huge, b"\n")
    folder.lost("long-line.json", "RECORD_TOO_LARGE", 2)
    folder.write("zeros.json", folder.good(), b"\0" * (100 * MIB), b"\n", folder.good())
    folder.lost("zeros.json", "RECORD_TOO_LARGE")


def garbage_lines(folder: Folder) -> None:
    """Many malformed records, short and long: what is kept of them must be bounded too."""
    folder.write("short.json", b"".join(b"{broken %d\n" % line for line in range(300_000)), folder.good())
    folder.bad("short.json", "MALFORMED_JSON", 300_000)
    long = b"{broken " + b"\xe2\x82\xac" * 66_000 + b"\n"
    folder.write("long.json", *([long] * 1_000), folder.good())
    folder.bad("long.json", "MALFORMED_JSON", 1_000)
    longest = b"{broken " + b"y" * (15 * MIB) + b"\n"
    folder.write("longest.json", *([longest] * 10), folder.good())
    folder.bad("longest.json", "MALFORMED_JSON", 10)


def whole_file(kind: str, ids: list[int]) -> bytes:
    """A real file of a format with the columns id, part and amount."""
    table = pa.table({"id": ids, "part": [f"p{id % 3}" for id in ids], "amount": pa.array([id % 1000 for id in ids], pa.int32())})
    out = io.BytesIO()
    if kind == "parquet":
        pq.write_table(table, out, row_group_size=400)
    elif kind == "orc":
        orc.write_table(table, out)
    elif kind == "csv":
        csv.write_csv(table, out, csv.WriteOptions(include_header=False))
    else:
        write_avro(table, out)
    return out.getvalue()


def write_avro(table: pa.Table, out: io.BytesIO) -> None:
    """An Avro container file of blocks of 400 records, after the specification."""

    def long(number: int) -> bytes:
        number, coded = (number << 1) ^ (number >> 63), bytearray()
        while number > 0x7F:
            coded.append(number & 0x7F | 0x80)
            number >>= 7
        return bytes([*coded, number])

    def text(value: str | bytes) -> bytes:
        value = value.encode() if isinstance(value, str) else value
        return long(len(value)) + value

    fields = [{"name": name, "type": kind} for name, kind in (("id", "long"), ("part", "string"), ("amount", "int"))]
    schema = json.dumps({"type": "record", "name": "event", "fields": fields})
    sync = bytes(range(16))
    out.write(b"Obj\x01" + long(2) + text("avro.schema") + text(schema) + text("avro.codec") + text("null") + long(0) + sync)
    rows = table.to_pylist()
    for start in range(0, len(rows), 400):
        block = rows[start : start + 400]
        data = b"".join(long(row["id"]) + text(row["part"]) + long(row["amount"]) for row in block)
        out.write(long(len(block)) + long(len(data)) + data + sync)


def damaged_format(folder: Folder, kind: str) -> None:
    """Real files, files that only bear the name, and real files cut short or with random bytes inside."""
    for file in range(3):
        ids = list(itertools.islice(folder.ids, 1_000))
        folder.rows += ids
        folder.write(f"good-{file}.{kind}", whole_file(kind, ids))
    folder.write(f"empty.{kind}")
    whole = whole_file(kind, list(range(1_000_000, 1_001_000)))
    if kind == "csv":
        folder.write("wrong.csv", b"too,few\n" * 5, b"no number,p,1\n", b"\0" * 1_000 + b"\n", b"1,2,3,4\n")
        # A line of NULs is blank to Spark.
        folder.bad("wrong.csv", "MALFORMED_CSV", 6)
        folder.bad("wrong.csv", "TYPE_MISMATCH")
    else:
        damaged = {"noise": folder.random.randbytes(100_000), "one-byte": b"P", "zeros": bytes(100_000), "text": b"not a table\n" * 100}
        damaged |= {"only-begin": whole[:4], "headless": whole[50:-50], "twice-the-end": whole[:4] + whole[-200:]}
        # An Avro file is read block by block: whatever is whole in front of the cut arrives.
        cuts = (10, 100) if kind == "avro" else (10, 100, len(whole) // 2, len(whole) - 1)
        damaged |= {f"cut-{cut}": whole[:cut] for cut in cuts}
        for name, content in damaged.items():
            folder.write(f"{name}.{kind}", content)
            folder.lost(f"{name}.{kind}", "UNREADABLE_FILE")

    fuzzed = os.path.join(folder.root, "fuzzed")
    os.makedirs(fuzzed)
    for number in range(200):
        content = bytearray(whole)
        for _ in range(folder.random.randint(1, 8)):
            # Half of the damage hits the ends, where formats keep what they trust most.
            reach = 200 if folder.random.random() < 0.5 else len(content)
            at = folder.random.randrange(reach)
            content[at if folder.random.random() < 0.5 else len(content) - 1 - at] = folder.random.randrange(256)
        with open(os.path.join(fuzzed, f"{number:03}.{kind}"), "wb") as file:
            file.write(content)


def main() -> None:
    kind, root = sys.argv[1:]
    folder = Folder(root)
    if kind == "json":
        broken_records(folder)
        harmless(folder)
        damaged_files(folder)
        oversized(folder)
    elif kind == "lines":
        garbage_lines(folder)
    else:
        damaged_format(folder, kind)
    folder.finish()


if __name__ == "__main__":
    main()
