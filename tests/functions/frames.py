"""The rows over which the sample calls run: small frames with nulls, empty values, extremes and every type."""

import datetime
from decimal import Decimal

UTC = datetime.timezone.utc


def _instant(text):
    return datetime.datetime.fromisoformat(text).replace(tzinfo=UTC)


def _wall(text):
    return datetime.datetime.fromisoformat(text)


def _date(text):
    return datetime.date.fromisoformat(text)


NAN, INF = float("nan"), float("inf")

# name -> (schema, rows)
FRAMES = {
    "one": ("id int", [(1,)]),
    "numbers": (
        "i int, l bigint, h smallint, y tinyint, d double, f float, n decimal(10,2), w decimal(38,18), z int, s string, t boolean",
        [
            (1, 10, 2, 3, 0.5, 1.5, Decimal("1.25"), Decimal("0.000000000000000001"), 2, "12", True),
            (-7, -9007199254740993, -3, -8, -2.75, -0.25, Decimal("-3.50"), Decimal("-123.456"), 0, "-3.7", False),
            (0, 0, 0, 0, 0.0, -0.0, Decimal("0.00"), Decimal("0"), 1, " 42 ", None),
            (None, None, None, None, None, None, None, None, None, None, None),
            (123456, 4611686018427387904, 1000, 100, 1e10, 3.25, Decimal("99999.99"), Decimal("12345678901234567890.5"), 3, "1e2", True),
            (12, 12, 12, 12, NAN, INF, Decimal("2.50"), Decimal("2.5"), -5, "0", False),
        ],
    ),
    "small": (
        "i int, l bigint, d double, n decimal(10,2), p int",
        [(1, 2, 0.25, Decimal("0.50"), 2), (5, 3, 0.5, Decimal("1.75"), 3), (None, None, None, None, None), (20, 60, 1.0, Decimal("10.00"), 1)],
    ),
    "texts": (
        "a string, b string, p string, n int, x binary",
        [
            ("Hello World", "World", "[a-z]+", 3, b"abc"),
            ("", "", "", 0, b""),
            ("Straße ÄÖü", "ß", "^S.*e", 5, b"\x00\xff"),
            ("aXbXc", "X", "X", -2, b"\xe2\x82\xac"),
            (None, None, None, None, None),
            ("日本語 text😀", "本", "\\d+", 100, b"1234567890123456"),
            ("  pad  ", " ", "(pad)", 1, b" pad "),
        ],
    ),
    "times": (
        "ts timestamp, n timestamp_ntz, d date, s string, i int, c string",
        [
            (_instant("2024-02-29 13:45:30.123456"), _wall("2024-02-29 13:45:30.123456"), _date("2024-02-29"), "2024-02-29 13:45:30", 1, "13:45:30.5"),
            (_instant("1969-12-31 23:59:59.999999"), _wall("1969-12-31 23:59:59.999999"), _date("1969-12-31"), "1969-12-31", -1, "23:59:59.999999"),
            (_instant("1500-03-01 00:00:00"), _wall("1500-03-01 00:00:00"), _date("1500-03-01"), "1500-03-01 00:00:01", 0, "00:00"),
            (None, None, None, None, None, None),
            (_instant("2000-01-01 00:00:00"), _wall("2000-01-01 00:00:00"), _date("2000-01-01"), "2000-1-1", 40, "7:05:09"),
            (_instant("2023-11-05 09:30:00"), _wall("2023-11-05 09:30:00"), _date("2023-11-05"), "2023-11-05T09:30:00.25+02:00", 12, "12:00:00"),
        ],
    ),
    "nested": (
        "a array<int>, b array<int>, s array<string>, d array<double>, m map<string,int>, k map<int,string>, r struct<x:int,y:string>, "
        "aa array<array<int>>, ra array<struct<x:int,y:string>>, e array<struct<key:string,value:int>>, i int",
        [
            ([3, 1, 2], [2, 4], ["b", "a", "c"], [1.5, -0.5], {"a": 1, "b": 2}, {1: "x", 2: "y"}, (1, "p"), [[1, 2], [3]], [(1, "a"), (2, "b")], [("k", 1), ("l", 2)], 1),
            ([], [], [], [], {}, {}, (None, None), [], [], [], 2),
            ([1, None, 1, 5], [None, 1], ["a", None, "a"], [NAN, 0.0, None], {"b": None}, {3: None}, (3, ""), [[], [None, 7]], [(None, "z")], [("m", None)], -1),
            (None, None, None, None, None, None, None, None, None, None, None),
            ([2, 2, 2], [9], ["z", "", "ä"], [0.0, -0.0, 2.0], {"c": 3, "a": 7, "": 0}, {7: "z", 0: ""}, (9, "ö"), [[5], [], [6, 5]], [(9, None), (1, "q")], [("a", 1)], 3),
        ],
    ),
    "sales": (
        "g string, i int, l bigint, d double, f float, n decimal(10,2), s string, t boolean, b binary, q int, h smallint",
        [
            ("a", 3, 30, 1.5, 0.5, Decimal("1.25"), "x", True, b"ab", 1, 1),
            ("b", 1, -5, -2.0, 2.5, Decimal("10.00"), "y", True, b"cd", 2, -2),
            ("a", 7, 9000000000, 4.25, 1.0, Decimal("-3.10"), "x", False, b"", 1, 3),
            ("a", None, None, None, None, None, None, None, None, 3, None),
            ("b", 1, 12, 8.0, -1.5, Decimal("0.05"), "ä", True, b"ef", 4, 7),
            ("c", None, None, None, None, None, None, None, None, 1, None),
            ("a", -4, 0, 0.0, 3.0, Decimal("99.99"), "", True, b"ab", 2, 100),
            ("b", 12, 7, 3.5, 0.25, Decimal("7.77"), "Z", True, b"zz", 5, 0),
        ],
    ),
    "documents": (
        "j string, c string, x string, n int",
        [
            ('{"a": 1, "b": "t", "c": [1, 2.5, null], "d": {"e": true}}', "1,abc,2.5", "<r><a>1</a><b>t</b><a>2</a></r>", 1),
            ('{"a": "x", "b": null}', '"q,r",,x', "<r k='v'><a>x</a><c><d>1.5</d></c></r>", 2),
            ("[1, 2, 3]", "", "<r/>", 3),
            ("not json", "a", "<r><a>", 4),
            (None, None, None, None),
            ('"text"', "9,z", "<r><a/><b>7</b></r>", 5),
            ('{"a": 12345678901234567890, "b": 1.50, "z": "ä\\n"}', "-4,\\,3", "<r><b>ä &amp; b</b></r>", 6),
        ],
    ),
    "urls": (
        "u string, k string",
        [
            ("http://user:pw@spark.apache.org:80/path/to;p=1?query=1&b=two%20x#Ref", "query"),
            ("https://example.com", "b"),
            ("inva lid://user:pass@host/file;param?query;p2", "query"),
            ("mailto:someone@example.com", "x"),
            ("a b+c&d=é/%20%zz", "d"),
            (None, None),
        ],
    ),
}
