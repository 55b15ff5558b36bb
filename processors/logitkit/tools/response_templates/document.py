"""A response template as data: checked, with its patterns read, and without what cannot be expressed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from logitkit.errors import ConfigurationError
from logitkit.tools.response_templates.anchors import FieldAnchor, literal_anchor, pattern_anchor

__all__ = ["Field", "ResponseTemplate", "not_expressed"]

CALLS, CONTENT = "tool_calls", "content"
# Templates name the field of reasoning in one of these ways.
REASONING = ("reasoning_content", "thinking", "reasoning")
_KEYS = ("version", "defaults", "fields", "start_anchor", "start_anchor_pattern")
_FIELD_KEYS = (
    *("open", "open_pattern", "close", "close_pattern", "content", "content_args", "repeats", "join", "optional"),
    *("transform", "transform_each"),
)
PARSERS = ("json", "xml-inline", "python-call-list")
_OTHER_PARSERS = ("text", "int", "float", "bool", "kv-lines")
_ARGUMENTS = {
    "json": ("unquoted_keys", "string_delims", "allow_non_json", "strip"),
    "xml-inline": ("tag_pattern", "value_parser", "merge_duplicates", "strip"),
    "python-call-list": (),
    "text": ("strip",),
}
_PLACEHOLDER = re.compile(r"\{(\w+(?:\.\w+)*)\}")
# Larger templates are refused before they are read.
MOST_TEXT = 20_000


def not_expressed(what: str, why: str) -> ConfigurationError:
    """Return the error of a part of a response template that a format cannot express."""
    return ConfigurationError(
        f"the format of tool calls cannot be read from the response template: {what} {why}. Give a chat template, a "
        "ToolFormat(...), or the name of a format"
    )


@dataclass(frozen=True)
class Field:
    """One field of a response.

    Args:
        name: Its name.
        open: Its beginning; None: it holds the text outside of other fields.
        close: Its end; None: that of the response.
        parser: How its text is parsed.
        arguments: The arguments of the parser.
        repeats: Whether it may stand several times, as a list.
        join: The text between the texts of a field that repeats; None: they are a list.
        transform: How the parsed value is changed; None: it is not.
        is_each: Whether each item of a list is changed.
    """

    name: str
    open: FieldAnchor | None
    close: FieldAnchor | None
    parser: str = "text"
    arguments: Mapping[str, Any] | None = None
    repeats: bool = False
    join: str | None = None
    transform: Any = None
    is_each: bool = False

    @property
    def delimiter(self) -> str | None:
        """The text around strings in JSON whose names have no quotes; None if it is JSON."""
        return _delimiter(self.arguments) if self.parser == "json" else None


@dataclass(frozen=True)
class ResponseTemplate:
    """A response template: the field of calls, and those of text and reasoning if there are any."""

    calls: Field
    content: Field | None
    reasoning: Field | None

    @property
    def fields(self) -> Iterator[Field]:
        """The fields."""
        yield from (field for field in (self.calls, self.content, self.reasoning) if field is not None)

    @classmethod
    def of(cls, given: object) -> ResponseTemplate:
        """Check a response template and read it.

        Raises:
            ConfigurationError: It is not a response template, or has a part that a format cannot express.
        """
        template = _checked(given)
        found = {str(name): _field(str(name), field) for name, field in template.get("fields", {}).items()}
        if CALLS not in found:
            raise not_expressed("it", f"has no field {CALLS!r}")
        unknown = [name for name in found if name not in (CALLS, CONTENT, *REASONING)]
        if unknown:
            raise not_expressed(
                f"the field {unknown[0]!r}", f"is not one of {CALLS}, {CONTENT}, {', '.join(REASONING)}"
            )
        thoughts = [name for name in REASONING if name in found]
        if len(thoughts) > 1:
            raise not_expressed(f"the fields {thoughts[0]!r} and {thoughts[1]!r}", "are both for reasoning")
        result = cls(found[CALLS], found.get(CONTENT), found[thoughts[0]] if thoughts else None)
        result.check()
        return result

    def check(self) -> None:
        """Refuse fields that a format cannot express.

        Raises:
            ConfigurationError: There is one.
        """
        for field in (self.calls, self.reasoning):
            if field is not None and field.open is None:
                raise not_expressed(
                    f"the field {field.name!r}", "has no 'open', so it is all that is in no other field"
                )
        for field in (self.content, self.reasoning):
            if field is not None and (field.parser != "text" or field.transform is not None):
                raise not_expressed(
                    f"the field {field.name!r}", "is not text: it has another 'content', or a 'transform'"
                )
            if field is not None and field.repeats and field.join is None:
                raise not_expressed(f"the field {field.name!r}", "is a list of texts: it 'repeats' without 'join'")
        if self.calls.parser not in PARSERS:
            raise not_expressed(
                f"'content' of the field {CALLS!r}", f"is {self.calls.parser!r}; read are {', '.join(PARSERS)}"
            )


def _checked(given: object) -> Mapping[str, Any]:
    """Return a response template whose outer parts are right."""
    template = _mapping("the response template", given)
    if _size(template) > MOST_TEXT:
        raise ConfigurationError(
            f"the response template has more than {MOST_TEXT} characters; it would take long to read"
        )
    _check_keys("the response template", template, _KEYS)
    if template.get("version", 1) != 1:
        raise ConfigurationError(f"the version of the response template is {template['version']!r}; allowed is 1")
    _mapping("'defaults' of the response template", template.get("defaults", {}))
    _mapping("'fields' of the response template", template.get("fields", {}))
    return template


def _field(name: str, given: object) -> Field:
    place = f"the field {name!r} of the response template"
    field = _mapping(place, given)
    _check_keys(place, field, _FIELD_KEYS)
    parser = field.get("content", "text")
    if parser not in (*PARSERS, *_OTHER_PARSERS):
        raise ConfigurationError(
            f"'content' of {place} is {parser!r}; allowed are {', '.join((*PARSERS, *_OTHER_PARSERS))}"
        )
    for key in ("repeats", "optional", "transform_each"):
        if not isinstance(field.get(key, False), bool):
            raise ConfigurationError(f"{key!r} of {place} is {field[key]!r}; allowed are true and false")
    if not field.get("optional", True):
        raise not_expressed(f"the field {name!r}", "is not 'optional', although a turn may lack it")
    join, transform = field.get("join"), field.get("transform")
    if join is not None and (not isinstance(join, str) or not field.get("repeats")):
        raise ConfigurationError(f"'join' of {place} is {join!r}; allowed is text, and only with 'repeats'")
    if field.get("transform_each") and transform is None:
        raise ConfigurationError(f"{place} has 'transform_each', but no 'transform'")
    opening, closing = _anchor(place, field, "open"), _anchor(place, field, "close")
    groups = [group for anchor in (opening, closing) if anchor is not None for group, _ in anchor.groups]
    if transform is None and groups:
        raise ConfigurationError(
            f"{place} has the group {groups[0]!r} in a pattern, but no 'transform' that would use it"
        )
    for text in _texts(transform):
        if _PLACEHOLDER.search(text) and not _PLACEHOLDER.fullmatch(text):
            raise ConfigurationError(
                f"'transform' of {place} has {text!r}; allowed are texts without names in braces, and one such name alone"
            )
    return Field(
        name,
        opening,
        closing,
        parser,
        _arguments(name, place, parser, field.get("content_args", {})),
        field.get("repeats", False),
        join,
        transform,
        field.get("transform_each", False),
    )


def _anchor(place: str, field: Mapping[str, Any], key: str) -> FieldAnchor | None:
    literal, pattern = field.get(key), field.get(f"{key}_pattern")
    if key in field and f"{key}_pattern" in field:
        raise ConfigurationError(f"{place} has both {key!r} and '{key}_pattern'; allowed is one of them")
    if f"{key}_pattern" in field:
        if not isinstance(pattern, str):
            raise ConfigurationError(f"'{key}_pattern' of {place} is {pattern!r}; allowed is the text of a pattern")
        return pattern_anchor(pattern, f"'{key}_pattern' of {place}")
    if key not in field:
        return None
    texts = [literal] if isinstance(literal, str) else literal
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) and text for text in texts):
        raise ConfigurationError(
            f"{key!r} of {place} is {literal!r}; allowed is a text, or a list of texts, none empty"
        )
    return literal_anchor(texts)


def _arguments(name: str, place: str, parser: str, given: object) -> Mapping[str, Any]:
    arguments = _mapping(f"'content_args' of {place}", given)
    unknown = [key for key in arguments if key not in _ARGUMENTS.get(parser, ())]
    if unknown:
        raise not_expressed(f"{unknown[0]!r} in 'content_args' of the field {name!r}", f"is not known of {parser!r}")
    if arguments.get("unquoted_keys") or arguments.get("string_delims"):
        key = "unquoted_keys" if arguments.get("unquoted_keys") else "string_delims"
        if name != CALLS or not arguments.get("unquoted_keys") or _delimiter(arguments) is None:
            raise not_expressed(
                f"{key!r} in 'content_args' of the field {name!r}",
                f"is for texts that are not JSON; in {CALLS!r}, both 'unquoted_keys' and 'string_delims' are read, the "
                "latter with one pair of equal texts",
            )
    inner = arguments.get("value_parser")
    if inner is not None:
        inner = _mapping(f"'value_parser' of {place}", inner)
        kind, options = inner.get("name", "text"), _mapping(f"'args' of {place}", inner.get("args", {}))
        if kind not in ("json", "text"):
            raise not_expressed(f"'value_parser' of the field {name!r}", f"is {kind!r}; read are 'json' and 'text'")
        _arguments(name, place, kind, options)
        if kind == "json" and not options.get("allow_non_json"):
            raise not_expressed(f"'value_parser' of the field {name!r}", "is 'json' without 'allow_non_json'")
    if parser == "xml-inline" and not isinstance(arguments.get("tag_pattern"), str):
        raise ConfigurationError(f"'content_args' of {place} has no 'tag_pattern', which is the text of a pattern")
    return arguments


def _delimiter(arguments: Mapping[str, Any] | None) -> str | None:
    """Return the text around strings; None if there is none, or several."""
    match (arguments or {}).get("string_delims"):
        case [[str() as begin, str() as end]] if begin and begin == end:
            return begin
    return None


def _mapping(place: str, given: object) -> Mapping[str, Any]:
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        raise ConfigurationError(f"{place} is of type {type(given).__name__}; allowed is an object with names")
    return given


def _check_keys(place: str, given: Mapping[str, Any], allowed: tuple[str, ...]) -> None:
    unknown = [key for key in given if key not in allowed]
    if unknown:
        raise ConfigurationError(f"{place} has the unknown key {unknown[0]!r}; allowed are {', '.join(allowed)}")


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts of a value, without its keys; the value has been measured, so it is not nested deeply."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for inside in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(inside)


def _size(value: Any) -> int:
    """Return how many characters a value has, roughly; one that nests deeply has too many."""
    total, todo = 0, [(value, 0)]
    while todo and total <= MOST_TEXT:
        item, depth = todo.pop()
        total += MOST_TEXT if depth > 50 else len(item) + 1 if isinstance(item, str) else 1
        if isinstance(item, Mapping):
            todo += [(inside, depth + 1) for pair in item.items() for inside in pair]
        elif isinstance(item, list | tuple):
            todo += [(inside, depth + 1) for inside in item]
    return total
