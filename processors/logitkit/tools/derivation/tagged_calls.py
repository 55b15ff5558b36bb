r"""Derives the markers of calls whose arguments are members with names.

Members stand between tags, or as Python writes them:

    <tool_call>get_weather
    <arg_key>city</arg_key>
    <arg_value>Bonn</arg_value>
    </tool_call>

A call without arguments shows what stands around all members, one with a single member what stands around it, and one with two
members what stands between them. Members with values of other kinds show how those are written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, get_args

from logitkit.json_schema.layout import MemberOrder
from logitkit.json_schema.string_spellings import StringSpelling
from logitkit.languages.cdata import in_section
from logitkit.languages.keyword_arguments import ValueLiterals
from logitkit.languages.xml_arguments import Literals
from logitkit.tools.derivation.atoms import shared_end, shared_start
from logitkit.tools.derivation.delimited_calls import delimited_way, delimiter_between
from logitkit.tools.derivation.probes import FIRST, MARKUP, NAMES, SECOND, STRING, VALUES
from logitkit.tools.derivation.segments import CallMarkers, markers_of, segments_of
from logitkit.tools.derivation.turn_parts import not_derived
from logitkit.tools.formats.format_checks import Strings
from logitkit.tools.json_values import python_of_value, text_of_value

__all__ = ["TaggedCalls", "tagged_calls"]

CallTexts = Mapping[str, str]
# How literals, and strings in arrays and objects, are written.
_ValueWay: TypeAlias = tuple[Literals, StringSpelling]

# The string between quotes, by its spelling.
_QUOTED: Mapping[str, StringSpelling] = {
    text_of_value(STRING, strings=spelling): spelling for spelling in get_args(StringSpelling)
}
# How literals and strings may be written among arguments that are raw text, or have quotes.
_RAW_WAYS: Sequence[_ValueWay] = (
    ("json", "json"),
    ("python", "json"),
    ("json", "ascii"),
    ("python", "ascii"),
    ("python", "python"),
)


@dataclass(frozen=True)
class TaggedCalls:
    """The markers of calls, and what stands around their members.

    Args:
        arguments: `"xml"` if strings are raw text, `"python"` if they have quotes or delimiters.
        string_delimiter: The text around strings that have no escapes; None: there is none.
        bare_names: Whether names in objects stand without it.
        is_compact: Whether there is no white space in arrays and objects.
        cdata: The characters for which a string stands in a CDATA section.
    """

    arguments: str
    markers: CallMarkers
    parameter_begin: str
    parameter_end: str
    parameter_separator: str
    parameter_kinds: tuple[str, ...] = ()
    literals: ValueLiterals = "json"
    strings: Strings = "json"
    cdata: tuple[str, ...] = ()
    string_delimiter: str | None = None
    bare_names: bool = False
    is_compact: bool = False


@dataclass(frozen=True)
class _Member:
    """The texts before the name of a member, between name and value, and after the value, up to the end of the calls."""

    before: str
    inside: str
    after: str

    @classmethod
    def of(cls, text: str, start: int, name: str, value: str) -> _Member | None:
        named = text.find(name, start)
        valued = text.find(value, named + len(name))
        if named < 0 or valued < 0:
            return None
        return cls(text[start:named], text[named + len(name) : valued], text[valued + len(value) :])


def tagged_calls(texts: CallTexts, ids: tuple[str, ...], order: MemberOrder) -> TaggedCalls:
    """Return the markers of calls.

    Args:
        texts: The calls of the renderings, by the names of the probes.
        ids: The ids of the calls.
        order: In which order members come.

    Raises:
        ConfigurationError: A part cannot be read from them.
    """
    start = texts["empty"].find(NAMES[0]) + len(NAMES[0])
    member, string, delimiter = _string_member(texts, start)
    is_raw = string == STRING
    if texts["string"][:start] != texts["empty"][:start]:
        raise not_derived("calls with and without arguments begin differently", texts["empty"], texts["string"])
    after_name = texts["empty"][start:]
    name_end = shared_start(after_name, member.before)
    rest = after_name.removeprefix(name_end)
    begin = member.before.removeprefix(name_end)
    end = member.after.removesuffix(rest)
    if not member.after.endswith(rest):
        raise not_derived("calls with and without arguments end differently", texts["empty"], texts["string"])
    if is_raw and not end.strip():
        raise not_derived(
            "strings stand without quotes or tags, so it is not clear where they end", texts["string"], texts["two"]
        )
    between = _between(texts["two"], start, member, string)
    if between is None or not between.startswith(end) or not between.endswith(begin):
        raise not_derived("two arguments are written in another way than one", texts["string"], texts["two"])
    separator = between[len(end) : len(between) - len(begin)] if len(between) >= len(end) + len(begin) else None
    if separator is None:
        raise not_derived("it is not clear what stands between two arguments", texts["string"], texts["two"])
    inside, kinds = _kinds(texts, start, member)
    if not is_raw and (kinds or end.strip()):
        raise not_derived("strings with quotes stand between tags", texts["string"], texts["pinteger"])
    if delimiter is not None:
        literals, bare_names, is_compact = delimited_way(texts, start, inside, rest, delimiter, order)
        found = TaggedCalls("python", _markers(texts, ids, name_end), begin + "{name}" + inside, "", separator)
        return replace(
            found,
            literals=literals,
            strings="delimited",
            string_delimiter=delimiter,
            bare_names=bare_names,
            is_compact=is_compact,
        )
    literals, strings = _value_way(texts, start, end + rest, None if is_raw else _QUOTED[string])
    return TaggedCalls(
        "xml" if is_raw else "python",
        _markers(texts, ids, name_end),
        begin + "{name}" + inside,
        end,
        separator,
        kinds,
        literals,
        strings,
        tuple(
            one
            for one in MARKUP
            if is_raw and in_section(STRING + one + STRING, (one,)) in texts.get(f"markup {one}", "")
        ),
    )


def _string_member(texts: CallTexts, start: int) -> tuple[_Member, str, str | None]:
    """Return what stands around a member that is a string, the string as it is written, and its delimiter, None without one."""
    string = STRING
    member = _Member.of(texts["string"], start, FIRST, string)
    if member is None:
        string = next((text for text in _QUOTED if text in texts["string"]), STRING)
        member = _Member.of(texts["string"], start, FIRST, string)
    if member is None:
        raise not_derived(
            "the arguments are not a JSON object, and a string among them is written neither as it is nor as in JSON",
            texts["string"],
            texts["two"],
        )
    number = _Member.of(texts["pinteger"], start, "pinteger", json.dumps(VALUES["pinteger"]))
    delimiter = None
    if string == STRING and number is not None:
        delimiter = delimiter_between(texts, (member.inside, member.after), (number.inside, number.after))
    if delimiter is not None:
        string = delimiter + STRING + delimiter
        member = _Member.of(texts["string"], start, FIRST, string) or member
    return member, string, delimiter


def _between(text: str, start: int, member: _Member, string: str) -> str | None:
    """Return what stands between two members."""
    head = member.before + FIRST + member.inside + string
    second = text.find(SECOND + member.inside, start + len(head))
    return text[start + len(head) : second] if text.startswith(head, start) and second >= 0 else None


def _kinds(texts: CallTexts, start: int, member: _Member) -> tuple[str, tuple[str, ...]]:
    """Return what stands between a name and its value, and the words in it that say whether the value is a string."""
    name = "pinteger"
    other = _Member.of(texts[name], start, name, json.dumps(VALUES[name]))
    if other is None:
        raise not_derived("a number among the arguments is not written as in JSON", texts[name], texts["string"])
    if other.inside == member.inside:
        return member.inside, ()
    before, after = shared_start(member.inside, other.inside), shared_end(member.inside, other.inside)
    string = member.inside.removeprefix(before).removesuffix(after)
    words = {name: _word(texts[name], start, name, before, after) for name in VALUES}
    # In the order of `ToolFormat.parameter_kinds`.
    found = [words[name] for name in ("pinteger", "ptrue", "pnull", "pobject", "plist")]
    same = all(words[one] == words[two] for one, two in (("pinteger", "pnumber"), ("ptrue", "pfalse")))
    if not (string and all(found) and before and after and same):
        raise not_derived(
            "what stands before a number is not what stands before a string", texts["string"], texts[name]
        )
    others = found if len({*found}) > 1 else found[:1]
    return before + "{kind}" + after, (string, *others)


def _word(text: str, start: int, name: str, before: str, after: str) -> str:
    """Return the word between two texts after the name of a member; empty if there is none."""
    at = text.find(name + before, start)
    begin = at + len(name + before)
    end = text.find(after, begin) if after else -1
    return text[begin:end] if at >= 0 and end >= 0 else ""


def _value_way(texts: CallTexts, start: int, after: str, strings: StringSpelling | None) -> _ValueWay:
    """Return how literals and strings are written; check all kinds of values.

    Args:
        texts: The calls of the renderings.
        start: Where the text after a name begins in each.
        after: The text after a value.
        strings: How strings are written that are arguments themselves; None: as raw text.
    """
    ways = [way for way in _RAW_WAYS if strings in (None, way[1])]
    for name, value in VALUES.items():
        text = texts[name]
        at = text.find(name, start)
        written = text[at + len(name) :].removesuffix(after) if at >= 0 else ""
        fitting = [way for way in _RAW_WAYS if strings in (None, way[1]) and _is_written(written, value, way, strings)]
        if not fitting:
            raise not_derived(
                f"the value {json.dumps(value)} of an argument is not written as JSON", text, texts["string"]
            )
        ways = [way for way in ways if way in fitting]
    if not ways:
        raise not_derived(
            "some of true, false and null are written as in Python, and some as in JSON",
            texts["ptrue"],
            texts["pobject"],
        )
    return ways[0]


def _is_written(text: str, value: Any, way: _ValueWay, strings: StringSpelling | None) -> bool:
    """Whether a text ends with a value that is written in some way."""
    literals, inside = way
    if value is None or isinstance(value, bool):
        return text.endswith(text_of_value(value, literals))
    if inside == "python" or (strings is not None and literals == "python"):
        return text.endswith(python_of_value(value, inside))
    spelled = STRING[-1] not in json.dumps(value, ensure_ascii=False) or (STRING[-1] in text) == (inside == "json")
    return spelled and _ends_with_json(text, value)


def _ends_with_json(text: str, value: Any) -> bool:
    """Whether a text ends with a JSON value, in any white space."""
    first = json.dumps(value)[0]
    at = text.find(first)
    while at >= 0:
        try:
            if json.dumps(json.loads(text[at:])) == json.dumps(value):
                return True
        except (ValueError, RecursionError):
            pass
        at = text.find(first, at + 1)
    return False


def _markers(texts: CallTexts, ids: tuple[str, ...], name_end: str) -> CallMarkers:
    """Return the markers around calls, from calls without arguments."""
    text = texts.get("three empty", texts["empty"])
    count = 3 if "three empty" in texts else 1
    spans, at = [], 0
    for name in NAMES[:count]:
        start = text.find(name, at)
        stop = start + len(name)
        # The name may stand a second time, and calls may have numbers.
        after_name = re.compile(r"\d+".join(map(re.escape, re.split(r"\d+", name_end.replace(NAMES[0], name)))))
        found_end = after_name.match(text, stop)
        if start < 0 or found_end is None:
            raise not_derived("the names of three calls are not where that of one call is", texts["empty"], text)
        at = found_end.end()
        spans += [(start, stop), (at, at)]
    found = markers_of(segments_of(text, spans, ids), NAMES[:count])
    if found is None:
        raise not_derived("three calls are not written as one call is", texts["empty"], text)
    return found
