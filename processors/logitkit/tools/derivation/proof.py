"""Proves a derived format: random calls that the template renders are accepted and read back, and not with a marker changed.

The judge is the template. It renders sets of random calls that derivation has not seen; the constraint with `choice="required"`
has to accept each set, and the reader has to return the same calls. Then one byte of a marker is changed in each. The result has
to be refused, unless it spells another legal form, which is read as other calls.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

from logitkit.errors import ConfigurationError
from logitkit.runtime.walk import Walk
from logitkit.tools.derivation.derive import Derived
from logitkit.tools.derivation.probes import Conversation, ProbeCall
from logitkit.tools.derivation.rendering import Rendered, TemplateRenderer
from logitkit.tools.derivation.turn_parts import not_derived, reply_of
from logitkit.tools.formats.tool_format import ToolFormat
from logitkit.tools.named_text import text_vocabulary
from logitkit.tools.tools import Tools
from logitkit.tools.turn import ToolCall
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["PROOFS", "proved"]

# How many sets of calls are rendered.
PROOFS = 200

_TEXT = {"type": "string", "description": "A text."}
_TOOLS: Mapping[str, Mapping[str, Any]] = {
    "find_place": {"place": _TEXT, "limit": {"type": "integer", "description": "A number."}},
    "note.save": {
        "text": _TEXT,
        "tags": {"type": "array", "items": {"type": "string"}, "description": "Texts."},
        "more": {
            "type": "object",
            "properties": {"deep": {"type": "array", "items": {"type": "integer"}}, "on": {"type": "boolean"}},
            "additionalProperties": False,
            "description": "More.",
        },
        "rate": {"type": "number", "description": "A number."},
        "done": {"type": "boolean", "description": "Whether it is done."},
    },
    "ping-2": {},
}
_SCHEMAS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": "A tool.",
            "parameters": {"type": "object", "properties": dict(members), "required": []},
        },
    }
    for name, members in _TOOLS.items()
]
_TEXTS = (
    *("", " ", "plain", "two words", "5", "true", "null", "None", '{"a": 1}', "[1]", "a\nb", "\n", " x ", "tab\there"),
    *(
        '"',
        "'",
        "\\",
        '\\"',
        "\\n",
        "a\\u00e9",
        "é",
        "😀",
        "\u2028",
        "</",
        "<x>",
        "&amp;",
        "{{ x }}",
        "{% x %}",
        "a, b=2)",
        "`",
    ),
)


def proved(renderer: TemplateRenderer, found: Derived, special: Mapping[str, str]) -> None:
    """Prove a format.

    Raises:
        ConfigurationError: A set of calls is not accepted, is read as others, or is accepted with a marker changed.
    """
    form = found.form
    draw = random.Random(20250101)  # noqa: S311 - the same calls each time
    sets = [_calls(draw, form) for _ in range(PROOFS)]
    asked = [
        Conversation(
            calls,
            found.way.content,
            ids=_ids(draw, found, calls),
            as_parts=found.way.as_parts,
            is_flat=found.way.is_flat,
            is_followed=found.way.is_followed,
            tools=_SCHEMAS,
        ).variables(found.way.as_text, special)
        for calls in sets
    ]
    judge = _Judge(form)
    for calls, rendered in zip(sets, renderer.render(asked), strict=True):
        text = _text_of(rendered, found, calls, judge)
        judge.accepts(text, calls)
        judge.refuses_changed(text, calls, draw)


def _calls(draw: random.Random, form: ToolFormat) -> list[ProbeCall]:
    count = 1 if form.separator is None else draw.choice((1, 1, 2, 3))
    names = [draw.choice([*_TOOLS]) for _ in range(count)]
    return [ProbeCall(name, _arguments(draw, name, form)) for name in names]


def _arguments(draw: random.Random, name: str, form: ToolFormat) -> dict[str, Any]:
    def text() -> str:
        found = draw.choice(_TEXTS) + (draw.choice(_TEXTS) if draw.random() < 0.3 else "")
        # Raw text cannot contain what ends it.
        ends = [form.parameter_ends.marker] if form.arguments == "xml" else []
        return "plain" if any(end in found for end in (*ends, *form.excluded_texts)) else found

    values: dict[str, Any] = {
        "place": text(),
        "limit": draw.choice((0, 7, -3, 10**12)),
        "text": text(),
        "tags": [text() for _ in range(draw.randrange(3))],
        "more": draw.choice(({}, {"deep": [1, -2]}, {"deep": [], "on": False})),
        "rate": draw.choice((0.5, -2, 1e-9, 3.25)),
        "done": draw.random() < 0.5,
    }
    members = [member for member in _TOOLS[name] if draw.random() < 0.7]
    return {member: values[member] for member in members}


def _ids(draw: random.Random, found: Derived, calls: Sequence[ProbeCall]) -> tuple[str, ...]:
    if any(":" in id_ for id_ in found.way.ids):
        return tuple(f"functions.{call.name}:{number}" for number, call in enumerate(calls))
    return tuple("".join(draw.choices("abcXYZ019", k=9)) for _ in calls)


def _text_of(rendered: Rendered, found: Derived, calls: Sequence[ProbeCall], judge: _Judge) -> str:
    reply = reply_of(rendered)
    text = found.parts.calls_in(reply)
    if text is None:
        shown = json.dumps([(call.name, call.arguments) for call in calls], ensure_ascii=False)
        raise not_derived(
            f"the calls {shown} are written in another way ({rendered.error or 'see below'})",
            reply,
            written=judge.written(calls),
        )
    return text


class _Judge:
    """Judges texts by the constraint and the reader of a format."""

    def __init__(self, form: ToolFormat) -> None:
        self.form = form
        self.tools = Tools(_SCHEMAS, form, choice="required")
        self.vocabulary: Vocabulary = text_vocabulary(form.tokens)
        self.start = Walk.start(self.tools.constraint(self.vocabulary).automaton)

    def accepts(self, text: str, calls: Sequence[ProbeCall]) -> None:
        """Check that a text is accepted, and read as the same calls."""
        turn = self.tools.parse(self.form.leading_space + text)
        wanted = [(call.name, dict(call.arguments)) for call in calls]
        if turn.outside_at is not None or turn.problem is not None or turn.text.strip():
            place = turn.outside_at if turn.outside_at is not None else turn.broken_at
            raise not_derived(
                f"the calls are not of the derived format from character {place} on", text, written=self.written(calls)
            )
        if not _equal(turn.calls, wanted):
            read = json.dumps([(call.name, call.arguments) for call in turn.calls], ensure_ascii=False)
            meant = json.dumps(wanted, ensure_ascii=False)
            what = f"the calls {meant} would be read as {read}"
            raise not_derived(what, text, written=self.written(calls))

    def refuses_changed(self, text: str, calls: Sequence[ProbeCall], draw: random.Random) -> None:
        """Check that a text is refused with one byte of a marker changed, unless it is then read as other calls."""
        places = self.marker_places(text, calls)
        if not places:
            return
        at = draw.choice(places)
        other = draw.choice([letter for letter in "xQ0 <" if letter != text[at]])
        changed = text[:at] + other + text[at + 1 :]
        if not self.allows(changed):
            return
        turn = self.tools.parse(changed)
        if turn.complete and _equal(turn.calls, [(call.name, dict(call.arguments)) for call in calls]):
            what = f"with character {at} changed to {other!r}, the same calls are still accepted"
            raise not_derived(what, text)

    def allows(self, text: str) -> bool:
        """Whether the constraint allows a text as a whole turn."""
        walk, at = self.start, 0
        names = sorted(self.vocabulary.special, key=len, reverse=True)
        while at < len(text):
            name = next((name for name in names if text.startswith(name, at)), None)
            tokens = [self.vocabulary.special[name]] if name else list(text[at].encode())
            for token in tokens:
                walk = walk.after(token)
                if not walk.is_live:
                    return False
            at += len(name or text[at])
        return bool(walk.may_end())

    def marker_places(self, text: str, calls: Sequence[ProbeCall]) -> list[int]:
        """Return the places of characters that belong to markers: not to names, arguments, ids, numbers or white space around."""
        pieces = [piece for piece in self.form.fixed_texts if piece.strip()]
        places: set[int] = set()
        at = 0
        for call in calls:
            # The text before the name, which values cannot hide.
            start = text.find(call.name, at)
            if start < 0:
                break
            for piece in pieces:
                begin = text.rfind(piece, at, start + 1)
                if begin >= 0 and begin + len(piece) == start:
                    places.update(range(begin, start))
            after = start + len(call.name)
            for piece in pieces:
                if text.startswith(piece, after):
                    places.update(range(after, after + len(piece)))
            at = after
        for piece in pieces:
            if text.endswith(piece):
                places.update(range(len(text) - len(piece), len(text)))
        return sorted(places)

    def written(self, calls: Sequence[ProbeCall]) -> str:
        """Return calls as the format writes them, for an error."""
        try:
            return self.tools.write([ToolCall(call.name, call.arguments) for call in calls])
        except ConfigurationError:
            return ""


def _equal(calls: Sequence[ToolCall], wanted: Sequence[tuple[str, dict[str, Any]]]) -> bool:
    read = [(call.name, dict(call.arguments)) for call in calls]
    # In Python, 1 equals 1.0 and True; the order of members does not matter.
    return json.dumps(read, sort_keys=True) == json.dumps(wanted, sort_keys=True)
