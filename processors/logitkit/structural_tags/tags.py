"""Tags, and free text in which triggers start tags; free text with a maximum number of tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from logitkit.languages.combined import either, repeat, sequence
from logitkit.languages.free_text import any_text
from logitkit.languages.language import Language
from logitkit.languages.texts import SpecialToken, choice, literal, special
from logitkit.structural_tags.document import JsonPart
from logitkit.structural_tags.formats import FormatReader, Surroundings, excluded_tokens, schema_at
from logitkit.structural_tags.triggered import Marker, Start, TriggeredText

__all__ = ["legacy_tags", "limited_text", "tag_formats"]


def limited_text(part: JsonPart, ends: Sequence[str | SpecialToken]) -> Language | None:
    """Return the language of a tag's content and end, if the content is free text with a maximum number of tokens.

    Args:
        part: The content.
        ends: The texts that may end the tag, not empty.

    Raises:
        ConfigurationError: It is not such a format; the message has its path.
    """
    kind = part.value.get("type") if isinstance(part.value, dict) else None
    if kind not in ("any_text", "any_tokens") or not part.has("max_tokens"):
        return None
    own = ("excludes", "max_chars") if kind == "any_text" else ("exclude_tokens",)
    part.check_fields(("type",), (*own, "max_tokens"))
    if part.has("max_chars"):
        raise part.inside("max_tokens").refuse("null if 'max_chars' is given")
    most = part.integer("max_tokens", 0)
    # The content holds none of the ends, so it holds nothing that an end is a part of.
    given: list[str | SpecialToken] = [*part.texts("excludes"), *excluded_tokens(part)]
    excluded = [one for one in given if not any(_is_in(end, one) for end in ends)]
    if any(_overlap(one, end) for one in excluded for end in ends):
        raise part.inside("excludes").refuse(
            "a list of texts that do not overlap the end of the tag, if 'max_tokens' is given"
        )
    if not most:
        return either(*ends)
    return any_text(until=ends, exclude=excluded, max_tokens=most)


def _is_in(one: str | SpecialToken, other: str | SpecialToken) -> bool:
    return one in other if isinstance(one, str) and isinstance(other, str) else one == other


def _overlap(excluded: str | SpecialToken, end: str | SpecialToken) -> bool:
    """Whether an excluded text may occur in the end of a tag, or go over into it."""
    if not isinstance(excluded, str) or not isinstance(end, str):
        return False
    return excluded in end or any(end.startswith(excluded[at:]) for at in range(1, len(excluded)))


@dataclass(frozen=True, slots=True)
class ReadTag:
    """A tag that has been read.

    Args:
        part: Its place.
        begin: The text or the token that it begins with.
        rest: The language after the beginning: content and end.
    """

    part: JsonPart
    begin: Marker
    rest: Language

    @property
    def language(self) -> Language:
        """The language of the whole tag."""
        return sequence(literal(self.begin) if isinstance(self.begin, str) else self.begin, self.rest)


def _read_tag(part: JsonPart, around: Surroundings) -> ReadTag:
    part.check_fields(("begin", "content", "end"), ("type",))
    if part.value.get("type", "tag") != "tag":
        raise part.inside("type").refuse("'tag'")
    begin = _begin(part.inside("begin"))
    end = part.inside("end")
    if isinstance(end.value, dict):
        token = _token_of(end)
        last: Language = special(token)
        ends: list[Marker] = [special(token)]
        inside = replace(around, ends=(), end_token=token)
    else:
        texts = _end_texts(end)
        last = choice(texts) if len(texts) > 1 else literal(texts[0])
        ends = [*texts]
        inside = replace(around, ends=tuple(text for text in texts if text), end_token=None)
    content = part.inside("content")
    limited = limited_text(content, ends) if all(ends) else None
    return ReadTag(part, begin, limited or sequence(inside.read(content), last))


def _begin(part: JsonPart) -> Marker:
    if isinstance(part.value, dict):
        return special(_token_of(part))
    if not isinstance(part.value, str):
        raise part.refuse("a text or a token format")
    part.check_text()
    return str(part.value)


def _token_of(part: JsonPart) -> str | int:
    """Return the token of a token format."""
    part.check_fields(("token",), ("type",))
    if part.value.get("type", "token") != "token":
        raise part.inside("type").refuse("'token'")
    return part.inside("token").token()


def _end_texts(part: JsonPart) -> tuple[str, ...]:
    if isinstance(part.value, list) and part.value:
        several = [JsonPart(f"{part.path}[{number}]", text) for number, text in enumerate(part.value)]
    elif isinstance(part.value, str):
        several = [part]
    else:
        raise part.refuse("a text, a list with at least one text, or a token format")
    for text in several:
        text.check_text()
    return tuple(text.value for text in several)


def _tag(part: JsonPart, around: Surroundings) -> Language:
    return _read_tag(part, around).language


def _tags(part: JsonPart, around: Surroundings) -> list[ReadTag]:
    return [_read_tag(item, around) for item in part.items("tags", least=1)]


def _tags_with_separator(part: JsonPart, around: Surroundings) -> Language:
    part.check_fields(("type", "tags", "separator"), ("at_least_one", "stop_after_first"))
    tags = either(*[tag.language for tag in _tags(part, around)])
    least, most = int(part.flag("at_least_one")), 1 if part.flag("stop_after_first") else None
    return repeat(tags, least, most, part.text("separator") or None)


def _triggered_tags(part: JsonPart, around: Surroundings) -> Language:
    part.check_fields(("type", "triggers", "tags"), ("at_least_one", "stop_after_first", "excludes"))
    part.items("triggers", least=1)
    excluded = (*part.texts("excludes"), *around.ends)
    return _triggered(part, _tags(part, around), part.texts("triggers"), excluded)


def _token_triggered_tags(part: JsonPart, around: Surroundings) -> Language:
    part.check_fields(("type", "trigger_tokens", "tags"), ("at_least_one", "stop_after_first", "exclude_tokens"))
    triggers = [special(item.token()) for item in part.items("trigger_tokens", least=1)]
    excluded = excluded_tokens(part)
    if around.end_token is not None:
        excluded.append(special(around.end_token))
    return _triggered(part, _tags(part, around), triggers, excluded)


def _triggered(part: JsonPart, tags: list[ReadTag], triggers: Iterable[Marker], excluded: Iterable[Marker]) -> Language:
    """Return the language of free text with tags in it, or of a tag first if there must be one."""
    at_least_one, stop = part.flag("at_least_one"), part.flag("stop_after_first")
    known = tuple(dict.fromkeys(triggers))
    starts = [Start(_trigger_of(tag, known), tag.begin, tag.rest) for tag in tags]
    first = either(*[tag.language for tag in tags])
    if at_least_one and stop:
        return first
    # Nothing may follow a trigger without tags.
    unused = [trigger for trigger in known if all(start.trigger != trigger for start in starts)]
    free = TriggeredText(tuple(starts), stop, (*excluded, *unused))
    return sequence(first, free) if at_least_one else free


def _trigger_of(tag: ReadTag, triggers: tuple[Marker, ...]) -> Marker:
    found = [trigger for trigger in triggers if _begins_with(tag.begin, trigger)]
    if len(found) != 1:
        number = "starts with several" if found else "does not start with any"
        hint = "" if isinstance(tag.begin, str) else ", named in the same way, by text or by id"
        raise tag.part.inside("begin").refused(
            f"{_named(tag.begin)} {number} of the triggers {', '.join(map(_named, found or triggers))}; exactly one is "
            f"allowed{hint}"
        )
    return found[0]


def _begins_with(begin: Marker, trigger: Marker) -> bool:
    if isinstance(begin, str) and isinstance(trigger, str):
        return begin.startswith(trigger)
    return begin == trigger


def _named(marker: Marker) -> str:
    return repr(marker) if isinstance(marker, str) else f"the token {marker.token!r}"


def _text_dispatch(part: JsonPart, around: Surroundings) -> Language:
    part.check_fields(("type", "rules"), ("loop", "excludes"))
    starts = []
    for pattern, content in _rules(part):
        pattern.check_text(may_be_empty=False)
        starts.append(Start(pattern.value, pattern.value, around.read(content)))
    return TriggeredText(tuple(starts), not part.flag("loop", True), part.texts("excludes"))


def _token_dispatch(part: JsonPart, around: Surroundings) -> Language:
    part.check_fields(("type", "rules"), ("loop", "exclude_tokens"))
    starts = []
    for item, content in _rules(part):
        token = special(item.token())
        starts.append(Start(token, token, around.read(content)))
    return TriggeredText(tuple(starts), not part.flag("loop", True), tuple(excluded_tokens(part)))


def _rules(part: JsonPart) -> list[tuple[JsonPart, JsonPart]]:
    found = []
    for rule in part.items("rules", least=1):
        if not isinstance(rule.value, list) or len(rule.value) != 2:
            raise rule.refuse("a list of two: a trigger, and the format that it starts")
        start, content = rule.value
        found.append((JsonPart(f"{rule.path}[0]", start), JsonPart(f"{rule.path}[1]", content)))
    return found


def legacy_tags(document: JsonPart, around: Surroundings) -> Language:
    """Return the language of a document in the older form, with `structures` and `triggers`.

    Raises:
        ConfigurationError: It is not such a document.
    """
    document.check_fields(("structures", "triggers"), ("type",))
    document.items("triggers", least=1)
    tags = []
    for item in document.items("structures", least=1):
        item.check_fields(("begin", "schema", "end"))
        schema = item.inside("schema")
        if not isinstance(schema.value, dict | bool | str):
            raise schema.refuse("a JSON Schema: an object, true, false, or its text")
        rest = sequence(schema_at(schema, around.whitespace), item.text("end"))
        tags.append(ReadTag(item, item.text("begin"), rest))
    return _triggered(document, tags, document.texts("triggers"), ())


def tag_formats() -> dict[str, FormatReader]:
    """Return what reads each type of format that has tags, or texts that start formats."""
    return {
        "tag": _tag,
        "triggered_tags": _triggered_tags,
        "tags_with_separator": _tags_with_separator,
        "dispatch": _text_dispatch,
        "token_triggered_tags": _token_triggered_tags,
        "token_dispatch": _token_dispatch,
    }
