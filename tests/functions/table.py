"""The table of functions, `docs/functions.md`."""

import re

HEAD = """# Functions

Written by `cargo xtask functions --write`: sample calls of every public function of `pyspark.sql.functions` 4.2 (`tests/functions/cases`), compared
with what Spark 4.2 gave: names, types and nullability of columns, rows, error conditions and SQLSTATEs.

"""


def status(calls):
    """`same (n/n calls)`, `differs (k/n calls)` or `UNRESOLVED_ROUTINE`."""
    differing = [outcome for _, told, outcome in calls if told]
    if not differing:
        return f"same ({len(calls)}/{len(calls)} calls)"
    unresolved = [outcome for outcome in differing if outcome.get("error") == "UNRESOLVED_ROUTINE"]
    if unresolved and len(unresolved) == len(differing):
        return f"UNRESOLVED_ROUTINE ({len(calls) - len(differing)}/{len(calls)} calls)"
    return f"differs ({len(calls) - len(differing)}/{len(calls)} calls)"


def written(found):
    """The table for `{function: [(call, difference or None, outcome)]}`."""
    areas = {}
    for function, calls in found.items():
        areas.setdefault(calls[0][0].area, []).append((function, calls))
    same = sum(status(calls).startswith("same") for calls in found.values())
    total = sum(map(len, found.values()))
    agree = sum(told is None for calls in found.values() for _, told, _ in calls)
    out = HEAD + f"**{same} of {len(found)} functions are the same in every call; {agree} of {total} calls are.**\n"
    for area, functions in areas.items():
        out += f"\n## {area.replace('_', ' ').capitalize()}\n\n| function | status | what differs |\n|---|---|---|\n"
        for function, calls in functions:
            reasons = [f"`{call.text}`: {told}" for call, told, _ in calls if told]
            out += f"| `{function}` | {status(calls)} | {cell('; '.join(reasons[:2]), 240)} |\n"
    return out


def cell(text, limit):
    text = text if len(text) <= limit else text[: limit - 1] + "…"
    return text.replace("|", "\\|").replace("\n", " ")


def worse(known, now):
    """The functions of which fewer calls are the same than the known table says, or that it does not list."""
    before, after = counts(known), counts(now)
    return [f"{name}: {after[name]} of its calls, not {before.get(name, 0)}, are the same" for name in after if after[name] < before.get(name, 0)]


def counts(text):
    """How many calls are the same, by function."""
    found = {}
    for name, stated in re.findall(r"^\| `(\w+)` \| ([^|]*) \|", text, re.MULTILINE):
        number = re.search(r"\((\d+)/", stated)
        found[name] = int(number.group(1)) if number else 0
    return found
