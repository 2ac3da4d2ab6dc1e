"""Which calls there are: `on(frame)(function, call, …)` in the modules of `cases/`."""

import collections
import dataclasses
import importlib
import pathlib

from frames import FRAMES


@dataclasses.dataclass(frozen=True)
class Call:
    """A call of one function: a Python expression that gives a column, columns or a frame, with `df` the frame that it runs over."""

    area: str
    function: str
    text: str
    frame: str
    by: str
    conf: tuple
    types_only: bool

    def name(self):
        """What the call is listed under: its text, and what is unusual about the way in which it runs."""
        notes = [f"over {self.frame}" + (f" by {self.by}" if self.by else "")]
        notes += [f"{key}={value}" for key, value in self.conf]
        return f"{self.text}  [{', '.join(notes)}]"


CALLS = []
_area = None
LEGACY = {"spark.sql.ansi.enabled": "false"}


def on(frame, by="", **defaults):
    """Calls over a frame, grouped `by` a column. `ansi=False` turns ANSI off, `conf` sets more, `types_only` leaves the values out."""
    assert frame in FRAMES, frame

    def calls(function, *texts, ansi=True, conf=None, types_only=False):
        settings = {**defaults.get("conf", {}), **({} if ansi else LEGACY), **(conf or {})}
        for text in texts:
            CALLS.append(Call(_area, function, text, frame, by, tuple(sorted(settings.items())), types_only))

    return calls


def load():
    """All calls, in the order in which they are written."""
    global _area
    if not CALLS:
        for file in sorted((pathlib.Path(__file__).parent / "cases").glob("[a-z]*.py")):
            _area = file.stem
            importlib.import_module(f"cases.{file.stem}")
        counts = collections.Counter((call.function, call.name()) for call in CALLS)
        twice = [name for name, count in counts.items() if count > 1]
        assert not twice, f"calls that are there twice: {twice}"
    return CALLS
