"""Cuts renderings of calls at names and arguments, and reads the markers from what is left."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from logitkit.tools.derivation.atoms import shared_end, shared_start
from logitkit.tools.derivation.probes import ProbeCall
from logitkit.tools.formats.call_ids import ID, NUMBER

__all__ = ["CallMarkers", "json_markers", "markers_of", "segments_of"]

_DIGITS = re.compile(r"(\d+)")
# Arguments begin at most this far after a name.
_NEAR = 300


@dataclass(frozen=True)
class CallMarkers:
    """The markers around names and arguments."""

    calls_begin: str
    call_begin: str
    name_end: str
    call_end: str
    separator: str | None
    calls_end: str
    name_again: str | None = None


def json_span(text: str, start: int, wanted: Mapping[str, Any]) -> tuple[int, int, bool] | None:
    """Return where arguments stand as JSON, and whether they stand in a JSON string; None if they do not.

    Args:
        text: The text.
        start: They stand after this place.
        wanted: The arguments.
    """
    decoder = json.JSONDecoder()
    for found in re.finditer(r'[{"]', text[start : start + _NEAR]):
        at = start + found.start()
        try:
            value, end = decoder.raw_decode(text, at)
            if found.group() == '"':
                value = json.loads(value)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and _same(value, dict(wanted)):
            return at, end, found.group() == '"'
    return None


def _same(value: Any, wanted: Any) -> bool:
    # In Python, True equals 1.
    return json.dumps(value, sort_keys=True) == json.dumps(wanted, sort_keys=True)


def segments_of(text: str, spans: Sequence[tuple[int, int]], ids: Sequence[str]) -> list[str]:
    """Return what stands before, between and after the spans, with ids as `{id}`."""
    starts = [0, *(stop for _, stop in spans)]
    stops = [*(start for start, _ in spans), len(text)]
    names = re.compile("|".join(map(re.escape, ids)))
    return [names.sub(ID, text[start:stop]) for start, stop in zip(starts, stops, strict=True)]


def numbered(texts: Sequence[str], first: int) -> str | None:
    """Return the text of which these are the first ones, with `{number}` for what counts; None if there is none.

    Args:
        texts: The texts of calls, one after another.
        first: The number of the first one; numbers may also begin one higher.

    Example:
        >>> numbered(["f:0>", "f:1>"], 0), numbered(["a2", "a2"], 0), numbered(["a", "b"], 0)
        ('f:{number}>', 'a2', None)
    """
    if len(set(texts)) == 1:
        return texts[0]
    cut = [_DIGITS.split(text) for text in texts]
    if len({len(pieces) for pieces in cut}) > 1:
        return None
    found = ""
    for place, pieces in enumerate(zip(*cut, strict=True)):
        if len(set(pieces)) == 1:
            found += pieces[0]
        elif place % 2 and any(
            list(pieces) == [str(number) for number in range(begin, begin + len(pieces))]
            for begin in (first, first + 1)
        ):
            found += NUMBER
        else:
            return None
    return found


def markers_of(segments: Sequence[str], names: Sequence[str]) -> CallMarkers | None:
    """Return the markers around names and arguments; None if they are not the same for all calls.

    Args:
        segments: The texts before a name, between a name and its arguments, and so on, up to the one after the last
            arguments. One call has three.
        names: The names of the calls, which may stand again before the arguments.
    """
    first, last = segments[0], segments[-1]
    after_names = [text.split(name) for text, name in zip(segments[1::2], names, strict=True)]
    if len({len(pieces) for pieces in after_names}) > 1 or len(after_names[0]) > 2:
        return None
    ends = [numbered(texts, 0) for texts in zip(*after_names, strict=True)]
    name_end, name_again = ends[0], ends[-1]
    if name_end is None or name_again is None:
        return None
    again = name_again if len(ends) > 1 else None
    between = segments[2:-1:2]
    if not between:
        return CallMarkers("", first, name_end, last, None, "", again)
    middle = numbered(between, 1)
    if middle is None:
        return None
    if NUMBER in middle:
        # The first call has the number before.
        after = middle.rpartition(NUMBER)[2]
        digits = re.search(r"\d+$", first.removesuffix(after)) if first.endswith(after) else None
        if digits is None:
            return None
        first = first[: digits.start()] + NUMBER + after
    call_begin = _begin_of(first, middle)
    rest = middle.removesuffix(call_begin)
    call_end = shared_start(rest, last)
    return CallMarkers(
        first.removesuffix(call_begin),
        call_begin,
        name_end,
        call_end,
        rest.removeprefix(call_end),
        last.removeprefix(call_end),
        again,
    )


def _begin_of(first: str, middle: str) -> str:
    """Return what each call begins with: the end of what stands before the first name and between two calls."""
    found = shared_end(first, middle)
    # White space between calls is theirs, but all that stands before the first call belongs to it.
    return found if found == first else found.lstrip("\n")


def spans_of_json_calls(text: str, calls: Sequence[ProbeCall]) -> tuple[list[tuple[int, int]], bool] | None:
    """Return where the names and the arguments of calls stand, in turn, and whether the arguments are JSON strings.

    Returns:
        None if they do not stand there as JSON.
    """
    at, found, kinds = 0, [], set()
    for call in calls:
        start = text.find(call.name, at)
        stop = start + len(call.name)
        span = json_span(text, stop, call.arguments) if start >= 0 else None
        if span is None:
            return None
        kinds.add(span[2])
        found += [(start, stop), span[:2]]
        at = span[1]
    return (found, kinds.pop()) if len(kinds) == 1 else None


def json_markers(text: str, calls: Sequence[ProbeCall], ids: Sequence[str]) -> tuple[CallMarkers, bool] | None:
    """Return the markers of calls, and whether arguments are JSON strings; None if they are not calls with JSON objects."""
    found = spans_of_json_calls(text, calls)
    names = [call.name for call in calls]
    markers = markers_of(segments_of(text, found[0], ids), names) if found is not None else None
    return (markers, found[1]) if markers is not None and found is not None else None
