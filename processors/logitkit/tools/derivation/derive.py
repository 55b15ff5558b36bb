"""Derives a format of tool calls from what a chat template renders."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from logitkit.errors import ConfigurationError
from logitkit.tools.derivation.atoms import atoms, first_tag, is_tag
from logitkit.tools.derivation.delimited_calls import member_order
from logitkit.tools.derivation.probes import (
    ANSWER,
    FIRST,
    FULL,
    IDS,
    LONG_IDS,
    MARKUP,
    NAMED_IDS,
    NAMES,
    PREAMBLE,
    REASONING,
    SECOND,
    STRING,
    UPPER,
    VALUES,
    Conversation,
    ProbeCall,
)
from logitkit.tools.derivation.reasoning_markers import KEYS, reasoning_markers
from logitkit.tools.derivation.rendering import Rendered, TemplateRenderer
from logitkit.tools.derivation.segments import CallMarkers, json_markers
from logitkit.tools.derivation.tagged_calls import tagged_calls
from logitkit.tools.derivation.turn_parts import TurnParts, not_derived, reply_of
from logitkit.tools.formats.call_ids import ID
from logitkit.tools.formats.tool_format import ToolFormat

__all__ = ["Derived", "Way", "derived"]

_FULL = [ProbeCall(name, FULL) for name in NAMES]
_EMPTY = [ProbeCall(name, {}) for name in NAMES]
_STRING = ProbeCall(NAMES[0], {FIRST: STRING})
_NO_CALLS = "the template does not write calls"
# Chats that are rendered to find the calls, and then what is asked of the way in which the arguments are given.
PROBES: Mapping[str, Conversation] = {
    "prompt": Conversation(is_prompt=True),
    "answer": Conversation(content=ANSWER),
    "one": Conversation(_FULL[:1]),
    "three": Conversation(_FULL),
    "long ids": Conversation(_FULL[:1], ids=LONG_IDS),
    "preamble": Conversation(_FULL[:1], PREAMBLE),
    "empty": Conversation(_EMPTY[:1]),
    "three empty": Conversation(_EMPTY),
    "string": Conversation([_STRING]),
    "two": Conversation([ProbeCall(NAMES[0], {FIRST: STRING, SECOND: STRING})]),
    "swapped": Conversation([ProbeCall(NAMES[0], {SECOND: STRING, FIRST: STRING})]),
    "cased": Conversation([ProbeCall(NAMES[0], {UPPER: STRING, FIRST: STRING})]),
    **{name: Conversation([ProbeCall(NAMES[0], {name: value})]) for name, value in VALUES.items()},
    **{f"markup {one}": Conversation([ProbeCall(NAMES[0], {FIRST: STRING + one + STRING})]) for one in MARKUP},
    **{key: Conversation(_FULL[:1], reasoning=REASONING, reasoning_key=key) for key in KEYS},
}


@dataclass(frozen=True)
class Derived:
    """A format that was derived, not proved yet.

    Args:
        form: The format.
        parts: The texts around the calls in renderings.
        way: How calls are given to the template.
    """

    form: ToolFormat
    parts: TurnParts
    way: Way


@dataclass(frozen=True)
class Way:
    """One way to give calls to the template.

    Args:
        as_text: Whether arguments are JSON text.
        ids: The ids of calls.
        content: The text of a turn with calls only.
        as_parts: Whether texts are lists of parts.
        is_flat: Whether a call has its name and arguments directly, not in a `function`.
        is_followed: Whether another question follows.
    """

    as_text: bool = False
    ids: tuple[str, ...] = IDS
    content: str | None = ""
    as_parts: bool = False
    is_flat: bool = False
    is_followed: bool = False


_WAYS = (
    *(Way(as_text, content=content) for as_text in (False, True) for content in ("", None)),
    *(Way(as_text, NAMED_IDS) for as_text in (False, True)),
    *(Way(as_text, is_flat=True) for as_text in (False, True)),
    *(Way(as_text, as_parts=True) for as_text in (False, True)),
    *(Way(as_text, is_followed=True) for as_text in (False, True)),
)


def derived(renderer: TemplateRenderer, special: Mapping[str, str], names: frozenset[str]) -> Derived:
    """Derive a format.

    Args:
        renderer: The template.
        special: The texts of `bos_token` and `eos_token`.
        names: The names of the special tokens of the tokenizer; empty if there is none.

    Raises:
        ConfigurationError: A part cannot be derived.
    """
    problems: list[ConfigurationError] = []
    writes_dicts = writes_last_calls = False
    for way in _WAYS:
        if way.as_text and writes_dicts:
            # It writes text in another way than arguments.
            continue
        if way.is_followed and writes_last_calls:
            # Such a turn ends where the rendering does, so nothing needs to follow it.
            continue
        found = _rendered(renderer, way, special)
        writes_dicts = writes_dicts or (not way.as_text and _writes_dicts(found))
        try:
            writes_last_calls = writes_last_calls or NAMES[0] in reply_of(found["one"])
            if str(FULL) in reply_of(found["one"]):
                # The template expects text.
                what = "arguments are written as Python shows a dict"
                raise not_derived(what, reply_of(found["one"]), reply_of(found["empty"]))
            return _of(found, way, names)
        except ConfigurationError as error:
            problems.append(error)
    raise min(problems, key=_silence)


def _silence(problem: ConfigurationError) -> int:
    """Return how little an error says: 0 if it shows calls, 1 if a text without calls, and 2 if nothing was rendered."""
    says_little = (_NO_CALLS, "could not be rendered")
    return max((rank for rank, text in enumerate(says_little, 1) if text in str(problem)), default=0)


def _ends_alike(parts: TurnParts) -> bool:
    """Whether a turn with calls ends as an answer does, but for white space."""
    end, other = parts.end.lstrip(), parts.answer_end.lstrip()
    return end == other or (first_tag(end) is not None and first_tag(end) == first_tag(other))


def _writes_dicts(found: Mapping[str, Rendered]) -> bool:
    """Whether a template that was given arguments as dicts writes them in a way of its own, not as Python shows a dict."""
    text = reply_of(found["one"])
    return NAMES[0] in text and str(FULL) not in text


def _rendered(renderer: TemplateRenderer, way: Way, special: Mapping[str, str]) -> dict[str, Rendered]:
    asked = [
        replace(
            probe,
            ids=way.ids if probe.ids == IDS else probe.ids,
            content=way.content if probe.content == "" else probe.content,
            as_parts=way.as_parts,
            is_flat=way.is_flat,
            is_followed=way.is_followed,
        ).variables(way.as_text, special)
        for probe in PROBES.values()
    ]
    return dict(zip(PROBES, renderer.render(asked), strict=True))


def _of(found: Mapping[str, Rendered], way: Way, names: frozenset[str]) -> Derived:
    """Derive a format from renderings."""
    for name in ("answer", "one"):
        if found[name].text is None:
            raise ConfigurationError(
                "the format of tool calls cannot be derived from the chat template: a chat could not be rendered "
                f"({found[name].error}). Give a ToolFormat(...), or the name of a format"
            )
    replies = {name: reply_of(rendered) for name, rendered in found.items() if rendered.text is not None}
    if NAMES[0] not in replies["one"]:
        raise not_derived(_NO_CALLS, replies["one"], replies["answer"])
    parts = TurnParts.of(replies["answer"], replies["one"], replies.get("prompt", ""), NAMES[0])
    if way.is_followed and not _ends_alike(parts):
        # The next question hides what ends a turn with calls, so it would be taken for a part of the calls.
        what = "a turn with calls before another question does not end as an answer does"
        raise not_derived(what, replies["one"], replies["answer"])
    reasoning = reasoning_markers(parts, replies)
    if reasoning is not None:
        # Some templates write empty reasoning before calls.
        around = r"\s*".join(map(re.escape, (reasoning[0].strip(), reasoning[1])))
        nothing = re.match(rf"\s*{around}", parts.calls_in(replies["one"]) or "")
        parts = parts.with_header(nothing.group()) if nothing else parts
    calls = parts.calls_in(replies["one"]) or ""
    # White space before calls belongs to no call.
    lead = calls[: len(calls) - len(calls.lstrip())]
    if "\n" not in lead and first_tag(calls.lstrip()) is None:
        # A space may be all that is between a role and a call.
        lead = ""
    parts = parts.with_header(lead) if lead else parts
    markers, fields = _calls(parts, replies, way)
    if reasoning is not None:
        # Where a new message begins after the reasoning, the model has to write all of it.
        in_prompt = replies.get("prompt", "").rstrip().endswith(reasoning[0].rstrip())
        opened = not in_prompt and len([atom for atom in atoms(reasoning[1]) if is_tag(atom)]) > 1
        fields |= {
            "reasoning_begin": reasoning[0],
            "reasoning_end": reasoning[1],
            "reasoning_opened": opened,
        }
    fields["leading_space"] = _leading_space(parts, lead, replies)
    return Derived(_format(markers, fields, parts, replies, names), parts, way)


def _calls(parts: TurnParts, replies: Mapping[str, str], way: Way) -> tuple[CallMarkers, dict[str, Any]]:
    """Return the markers of calls, and how their arguments are written, as parameters of a format."""
    texts = {name: text for name, reply in replies.items() if (text := parts.calls_in(reply)) is not None}
    # A template that allows one call in a turn raises, or writes the first one only.
    several = NAMES[2] in texts.get("three", "")
    found = json_markers(texts["three"] if several else texts["one"], _FULL if several else _FULL[:1], way.ids)
    if found is not None:
        markers, in_string = found
        # Indented JSON has lines.
        lines = "\n" in texts["one"].partition(NAMES[0])[2].partition(FIRST)[0].removeprefix(markers.name_end)
        fields: dict[str, Any] = {"arguments": "json_string"} if in_string else {}
        if STRING[-1] not in texts["one"]:
            fields["strings"] = "ascii"
        if (order := member_order(texts)) != "schema":
            fields["member_order"] = order
        return markers, {**fields, "whitespace": "bounded"} if lines else fields
    if several and json_markers(texts["one"], _FULL[:1], way.ids) is not None:
        raise not_derived("three calls are not written as one call is", texts["one"], texts["three"])
    for name in ("empty", "string", "two", *VALUES):
        if name not in texts:
            what = f"a call {_described(name)} is not written as others are"
            raise not_derived(what, replies["one"], replies.get(name, ""))
    if not several:
        texts.pop("three empty", None)
    order = member_order(texts)
    tagged = tagged_calls(texts, way.ids, order)
    return tagged.markers, {
        "arguments": tagged.arguments,
        "parameter_begin": tagged.parameter_begin,
        **({"parameter_end": tagged.parameter_end} if tagged.arguments == "xml" else {}),
        "parameter_separator": tagged.parameter_separator,
        "parameter_kinds": tagged.parameter_kinds,
        "literals": tagged.literals,
        "strings": tagged.strings,
        "cdata": tagged.cdata,
        "string_delimiter": tagged.string_delimiter,
        "bare_names": tagged.bare_names,
        "member_order": order,
        **({"whitespace": "compact"} if tagged.is_compact else {}),
    }


def _described(name: str) -> str:
    return {"empty": "without arguments", "string": "with a string", "two": "with two strings"}.get(
        name, f"with the argument {VALUES.get(name)!r}"
    )


def _format(
    markers: CallMarkers, fields: Mapping[str, Any], parts: TurnParts, replies: Mapping[str, str], names: frozenset[str]
) -> ToolFormat:
    """Return the format with some markers."""
    begins = markers.calls_begin or markers.call_begin
    trigger = first_tag(begins) or (_before_json(begins) if begins.startswith("<") else None)
    if trigger is not None and any(text.lstrip().startswith(trigger) for text in (parts.end, parts.answer_end)):
        # A tag that also ends turns begins calls only together with what follows it.
        trigger = _before_json(begins)
    separator, end = markers.separator, first_tag(parts.end.lstrip())
    if separator is not None and end is not None and end in separator:
        # Each call is a turn of its own.
        separator = None
    ids = any(ID in text for text in (markers.call_begin, markers.name_end, markers.name_again or "", markers.call_end))
    form = ToolFormat(
        name="derived",
        calls_begin=markers.calls_begin,
        call_begin=markers.call_begin,
        name_end=markers.name_end,
        name_again=markers.name_again,
        call_end=markers.call_end,
        calls_end=markers.calls_end,
        separator=separator,
        trigger=trigger,
        text_begin=parts.text_begin if trigger is None else "",
        id_length=len(IDS[0]) if ids and LONG_IDS[0] not in replies.get("long ids", "") else None,
        **fields,
    )
    tokens = [name for name in sorted(names) if any(name in text for text in form.fixed_texts)]
    if trigger is not None and trigger not in tokens and any(name in trigger for name in tokens):
        # Free text ends at a trigger, however it is written.
        tokens = [name for name in tokens if name not in trigger]
    return replace(form, tokens=tuple(tokens))


def _leading_space(parts: TurnParts, lead: str, replies: Mapping[str, str]) -> str:
    """Return the white space before calls that is not part of the prompt."""
    prompt = replies.get("prompt", "")
    if prompt and parts.header.startswith(prompt):
        gap = parts.header[len(prompt) :]
        if not gap.strip():
            return gap
    return lead


def _before_json(text: str) -> str:
    """Return the part of a marker before the first bracket, brace or quote of JSON."""
    found = ""
    for atom in atoms(text):
        if atom in ("{", "[", '"'):
            break
        found += atom
    return found or text
