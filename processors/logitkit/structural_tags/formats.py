"""One format as a language: texts, schemas, patterns, tokens, and combinations of formats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from logitkit.errors import ConfigurationError, GrammarError, PatternSyntaxError, UnsupportedSchema
from logitkit.json_schema.layout import WIDEST_INDENT, Whitespace
from logitkit.languages.any_tokens import any_token
from logitkit.languages.combined import either, optional, repeat, sequence
from logitkit.languages.free_text import any_text
from logitkit.languages.grammars import grammar
from logitkit.languages.language import Language
from logitkit.languages.schemas import LocatedSchema, json_schema
from logitkit.languages.texts import SpecialToken, literal, regex, special
from logitkit.parameters.place import shown
from logitkit.structural_tags.document import JsonPart
from logitkit.structural_tags.xml_styles import STYLES, arguments_in

__all__ = ["FormatReader", "Surroundings", "excluded_tokens", "plain_formats", "schema_at"]

# Formats inside each other. Documents of models have about five levels.
DEEPEST = 64

# The most repetitions: what is larger could not be compiled.
MOST_TIMES = 1_000_000

# A limit of characters takes some states for each.
MOST_CHARACTERS = 100_000


@dataclass(frozen=True)
class Surroundings:
    """The surroundings of a format, as far as its language depends on them.

    Args:
        whitespace: The white space of JSON texts.
        formats: The reader of each type of format.
        ends: The texts that may end the nearest tag around it. Free text does not contain them.
        end_token: The token that ends the nearest tag around it. Free tokens do not contain it.
        depth: The number of formats around it.
    """

    whitespace: Whitespace
    formats: dict[str, FormatReader]
    ends: tuple[str, ...] = ()
    end_token: str | int | None = None
    depth: int = 0

    def read(self, part: JsonPart) -> Language:
        """Return the language of a format here.

        Raises:
            ConfigurationError: It is not such a format; the message has its path.
        """
        if not isinstance(part.value, dict):
            raise part.refuse("a format, which is an object with a 'type'")
        if "type" not in part.value:
            raise part.refused("the format lacks its 'type'; allowed are " + ", ".join(self.formats))
        name = part.value["type"]
        reader = self.formats.get(name) if isinstance(name, str) else None
        if reader is None:
            near = get_close_matches(name[:64], self.formats, n=1) if isinstance(name, str) else []
            hint = f"; did you mean {near[0]!r}?" if near else ";"
            allowed = ", ".join(self.formats)
            raise part.refused(f"the type {shown(name)} is not supported{hint} allowed are {allowed}")
        if self.depth == DEEPEST:
            raise part.refused(f"formats are nested more than {DEEPEST} levels deep; allowed are {DEEPEST}")
        return reader(part, replace(self, depth=self.depth + 1))


# Returns the language of a format at a place.
FormatReader = Callable[[JsonPart, Surroundings], Language]


def _const_string(part: JsonPart, _around: Surroundings) -> Language:
    part.check_fields(("type", "value"))
    return literal(part.text("value"))


def _json_schema(part: JsonPart, around: Surroundings) -> Language:
    optional_fields = ("style", "any_order", "max_whitespace_cnt", "excludes")
    part.check_fields(("type", "json_schema"), optional_fields)
    schema = _schema_in(part)
    style = part.value.get("style", "json")
    if not isinstance(style, str) or (style != "json" and style not in STYLES):
        raise part.inside("style").refuse(", ".join(map(repr, ("json", *STYLES))) + "; other styles are not supported")
    if part.texts("excludes"):
        raise part.inside("excludes").refuse("an empty list; put a 'pattern' without these texts into the schema")
    spaces = part.integer("max_whitespace_cnt", 0) if part.has("max_whitespace_cnt") else None
    # A line break and its indent are the longest white space.
    whitespace = around.whitespace if spaces is None or spaces > WIDEST_INDENT else "compact"
    any_order = part.flag("any_order")
    if style == "json":
        return schema_at(schema, whitespace, any_order)
    return _xml_at(schema, style, whitespace, any_order)


def _schema_in(part: JsonPart) -> JsonPart:
    schema = part.inside("json_schema")
    if not isinstance(schema.value, dict | bool):
        raise schema.refuse("a JSON Schema: an object, true or false")
    return schema


def schema_at(schema: JsonPart, whitespace: Whitespace, any_order: bool = False) -> Language:
    """Return the language of a schema in a document.

    Raises:
        ConfigurationError: It is not a schema.
    """
    try:
        return LocatedSchema(json_schema(schema.value, whitespace=whitespace, any_order=any_order), schema.path)
    except (ConfigurationError, UnsupportedSchema) as error:
        raise schema.refused(str(error)) from None


def _qwen_xml_parameter(part: JsonPart, around: Surroundings) -> Language:
    part.check_fields(("type", "json_schema"))
    return _xml_at(_schema_in(part), "qwen_xml", around.whitespace)


def _xml_at(schema: JsonPart, style: str, whitespace: Whitespace, any_order: bool = False) -> Language:
    """Return the language of arguments between tags."""
    try:
        return LocatedSchema(arguments_in(style, schema.value, whitespace, any_order), schema.path)
    except (ConfigurationError, UnsupportedSchema) as error:
        raise schema.refused(str(error)) from None


def _regex(part: JsonPart, _around: Surroundings) -> Language:
    part.check_fields(("type", "pattern"))
    pattern = part.text("pattern")
    try:
        return regex(pattern)
    except PatternSyntaxError as error:
        raise PatternSyntaxError(f"{part.path}.pattern: {error.reason}", error.pattern, error.position) from None


def _grammar(part: JsonPart, _around: Surroundings) -> Language:
    part.check_fields(("type", "grammar"))
    text = part.text("grammar")
    try:
        return grammar(text)
    except GrammarError as error:
        raise GrammarError(f"{part.path}.grammar: {error.reason}", error.grammar, error.position) from None


def _any_text(part: JsonPart, around: Surroundings) -> Language:
    part.check_fields(("type",), ("excludes", "max_tokens", "max_chars"))
    excluded = (*part.texts("excludes"), *around.ends)
    if not part.has("max_chars"):
        return _few_tokens(part, excluded)
    if part.has("max_tokens"):
        raise part.inside("max_tokens").refuse("null if 'max_chars' is given")
    most = part.integer("max_chars", 0)
    if most > MOST_CHARACTERS:
        raise part.inside("max_chars").refuse(f"an integer up to {MOST_CHARACTERS}")
    return regex(rf"[\s\S]{{0,{most}}}", exclude=excluded)


def _few_tokens(part: JsonPart, exclude: Sequence[str | SpecialToken]) -> Language:
    """Return free text with the maximum number of tokens in the optional field `max_tokens`."""
    most = part.integer("max_tokens", 0) if part.has("max_tokens") else None
    return literal("") if most == 0 else any_text(exclude=exclude, max_tokens=most)


def excluded_tokens(part: JsonPart) -> list[SpecialToken]:
    """Return the tokens in the optional field `exclude_tokens`."""
    return [special(item.token()) for item in part.items("exclude_tokens")] if part.has("exclude_tokens") else []


def _token(part: JsonPart, _around: Surroundings) -> Language:
    part.check_fields(("type", "token"))
    return special(part.inside("token").token())


def _exclude_token(part: JsonPart, around: Surroundings) -> Language:
    part.check_fields(("type",), ("exclude_tokens",))
    excluded = excluded_tokens(part)
    if around.end_token is not None:
        excluded.append(special(around.end_token))
    return any_token(exclude=excluded)


def _any_tokens(part: JsonPart, around: Surroundings) -> Language:
    part.check_fields(("type",), ("exclude_tokens", "max_tokens"))
    excluded = excluded_tokens(part)
    if around.end_token is not None:
        excluded.append(special(around.end_token))
    return _few_tokens(part, excluded)


def _sequence(part: JsonPart, around: Surroundings) -> Language:
    part.check_fields(("type", "elements"))
    return sequence(*[around.read(item) for item in part.items("elements", least=1)])


def _or(part: JsonPart, around: Surroundings) -> Language:
    part.check_fields(("type", "elements"))
    return either(*[around.read(item) for item in part.items("elements", least=1)])


def _content(part: JsonPart, around: Surroundings) -> Language:
    part.check_fields(("type", "content"))
    return around.read(part.inside("content"))


def _repeat(part: JsonPart, around: Surroundings) -> Language:
    part.check_fields(("type", "min", "max", "content"))
    least, most = part.integer("min", 0), part.integer("max", -1)
    if 0 <= most < least:
        raise part.inside("max").refuse(f"-1, which means no maximum, and integers from {least}, which is 'min'")
    for name, given in (("min", least), ("max", most)):
        if given > MOST_TIMES:
            raise part.inside(name).refuse(f"an integer up to {MOST_TIMES}")
    return repeat(around.read(part.inside("content")), least, None if most < 0 else most)


def plain_formats() -> dict[str, FormatReader]:
    """Return what reads each type of format that has no tags of its own."""
    return {
        "const_string": _const_string,
        "json_schema": _json_schema,
        "qwen_xml_parameter": _qwen_xml_parameter,
        "regex": _regex,
        "grammar": _grammar,
        "any_text": _any_text,
        "sequence": _sequence,
        "or": _or,
        "optional": lambda part, around: optional(_content(part, around)),
        "plus": lambda part, around: repeat(_content(part, around), 1),
        "star": lambda part, around: repeat(_content(part, around)),
        "repeat": _repeat,
        "token": _token,
        "exclude_token": _exclude_token,
        "any_tokens": _any_tokens,
    }
