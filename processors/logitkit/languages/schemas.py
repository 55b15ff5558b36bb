"""The language of the JSON values that satisfy a schema, whose errors name the place in something larger."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, ClassVar, get_args

from logitkit.budget import one_budget, outside_budget, spend, spent
from logitkit.compiler.bounded_cache import BoundedCache
from logitkit.errors import ConfigurationError, UnsupportedSchema
from logitkit.json_schema.compile import Compiled, schema_grammar
from logitkit.json_schema.document import key_of, load
from logitkit.json_schema.layout import MemberOrder, Whitespace
from logitkit.json_schema.string_spellings import StringSpelling
from logitkit.languages.language import Language
from logitkit.languages.language_writer import LanguageWriter, SchemaOptions
from logitkit.limits import Limits
from logitkit.patterns.syntax import Node

__all__ = ["JsonValue", "LocatedSchema", "json_schema"]


@dataclass(frozen=True)
class LocatedSchema(Language):
    """The language of a schema at a place; the schema is only compiled when the vocabulary is known.

    Args:
        value: The language.
        path: The path of the schema, for example in a structural tag.
    """

    value: Language
    path: str

    @property
    def parts(self) -> tuple[Language, ...]:
        """The language that it stands for."""
        return (self.value,)

    def tree(self, writer: LanguageWriter) -> Node:
        """Return the syntax tree.

        Raises:
            UnsupportedSchema: A keyword cannot be enforced exactly.
            ConfigurationError: No value satisfies the schema, or the schema is not valid.
        """
        try:
            return self.value.tree(writer)
        except UnsupportedSchema as error:
            # Without what `lax=True` would leave out: tools and structural tags have no such option.
            pointer = self.path if error.pointer is None else self.path + error.pointer
            if error.pointer and not error.pointer.startswith("#"):
                pointer = f"{error.pointer}, to which {self.path} refers"
            raise UnsupportedSchema(error.reason, pointer, error.keyword) from None
        except ConfigurationError as error:
            raise ConfigurationError(f"{self.path}: {error}") from None


# The nested grammars that are kept. One takes a few bytes for each step of work on it.
REMEMBERED_BYTES = 64 * 2**20
BYTES_A_STEP = 8

_known: BoundedCache[Hashable, tuple[Compiled, int]] = BoundedCache(REMEMBERED_BYTES)
_lock = Lock()


@dataclass(frozen=True)
class JsonValue(Language):
    """A JSON value; see `json_schema`.

    Args:
        resources: The documents that the schema refers to, loaded, by URI.
        free_of: Texts that occur in no string and no name of a member.
        strings: How strings are written.
        member_order: In which order members come, as in `ToolFormat`.
    """

    is_schema: ClassVar[bool] = True

    schema: Any = field(compare=False)
    whitespace: Whitespace = "compact"
    lax: bool = False
    strict_formats: bool = False
    any_order: bool = False
    resources: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)
    free_of: tuple[str, ...] = field(default=(), repr=False)
    strings: StringSpelling = field(default="json", repr=False)
    member_order: MemberOrder = field(default="schema", repr=False)
    content: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema", load(self.schema))
        whole = [self.schema, dict(self.resources)] if self.resources else self.schema
        object.__setattr__(self, "content", key_of(whole))

    def tree(self, writer: LanguageWriter) -> Node:
        """Return the syntax tree."""
        own = self.content, self.whitespace, self.lax, self.strict_formats, self.any_order, self.free_of, self.strings
        key = (*own, self.member_order, writer.options)
        return writer.value(key, self._compiled(key, writer.limits, writer.options))

    def _compiled(self, key: Hashable, limits: Limits, options: SchemaOptions) -> Compiled:
        """Return the nested grammar of the schema; what is known counts against limits as if it were worked out now."""
        known = _known.get((key, limits))
        if known is None:
            with outside_budget(), one_budget(limits.work):
                made = schema_grammar(
                    self.schema,
                    limits,
                    self.whitespace,
                    self.lax,
                    fragments=options.fragments,
                    strict_formats=self.strict_formats,
                    # Only characters of strings as in JSON can be counted.
                    longest=options.longest if self.strings == "json" else 0,
                    called_root=options.called,
                    any_order=self.any_order,
                    closing=options.closing,
                    resources=self.resources,
                    forgets=options.forgets,
                    free_of=self.free_of,
                    strings=self.strings,
                    member_order=self.member_order,
                )
                work = spent()
            known = made, work
            with _lock:
                _known.keep((key, limits), known, BYTES_A_STEP * work + len(self.content))
        spend(known[1])
        return known[0]


def json_schema(
    schema: object,
    *,
    whitespace: Whitespace = "compact",
    lax: bool = False,
    strict_formats: bool = False,
    any_order: bool = False,
) -> JsonValue:
    """Return the language of the JSON texts that satisfy a schema.

    Args:
        schema: A dict, true or false, JSON text, a pydantic model class, or another Python type, as in `JsonSchema`.
        whitespace: `"compact"`, `"spaced"` or `"bounded"`, as in `JsonSchema`.
        lax: Whether to leave out the keywords that cannot be enforced exactly.
        strict_formats: Whether to refuse a `format` that is ignored otherwise, as in `JsonSchema`.
        any_order: Whether the members of objects may come in any order, as in `JsonSchema`. Where a row cannot remember names, as
            in a part of another language, an object may then have at most 8 listed names.

    Raises:
        ConfigurationError: An argument is not allowed.

    Example:
        >>> json_schema({"type": "integer"})
        JsonValue(schema={'type': 'integer'}, whitespace='compact', lax=False, strict_formats=False, any_order=False)
    """
    if whitespace not in get_args(Whitespace):
        raise ConfigurationError(
            f"whitespace is {whitespace!r}; allowed are {', '.join(map(repr, get_args(Whitespace)))}"
        )
    for name, given in (("lax", lax), ("strict_formats", strict_formats), ("any_order", any_order)):
        if not isinstance(given, bool):
            raise ConfigurationError(f"{name} is {given!r}; allowed are True and False")
    return JsonValue(schema, whitespace, lax, strict_formats, any_order)
