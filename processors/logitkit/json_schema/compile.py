"""From a schema to the nested grammar of its language."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from logitkit.budget import spent
from logitkit.compiler.nested_grammars.nested_grammar import NestedGrammar
from logitkit.errors import ConfigurationError, PatternTooLarge, UnsupportedSchema
from logitkit.json_schema.conjunction import NOTHING
from logitkit.json_schema.document import Json
from logitkit.json_schema.layout import AS_A_PART, Layout, MemberOrder, Whitespace, any_order_option
from logitkit.json_schema.left_out import LeftOut
from logitkit.json_schema.reader import Reader
from logitkit.json_schema.references import References
from logitkit.json_schema.string_spellings import StringSpelling
from logitkit.json_schema.writer import nested_grammar_of
from logitkit.limits import Limits


class Compiled(NamedTuple):
    """The language of a schema.

    Args:
        nested_grammar: Its texts.
        dropped: A message about each keyword that has been left out.
        ignored: A message about each format that is taken for an annotation.
    """

    nested_grammar: NestedGrammar
    dropped: tuple[str, ...]
    ignored: tuple[str, ...]


def schema_grammar(
    schema: Json,
    limits: Limits,
    whitespace: Whitespace = "compact",
    lax: bool = False,
    fragments: bool = True,
    strict_formats: bool = False,
    longest: int = 0,
    called_root: bool = False,
    any_order: bool = False,
    closing: bool = False,
    resources: Mapping[str, Json] | None = None,
    forgets: str | None = AS_A_PART,
    free_of: tuple[str, ...] = (),
    strings: StringSpelling = "json",
    member_order: MemberOrder = "schema",
) -> Compiled:
    """Compile a loaded schema.

    Args:
        schema: As `document.load` returns it.
        limits: Bounds on the automata of strings and numbers.
        whitespace: The white space around members and items.
        lax: Whether to leave out what cannot be honoured.
        fragments: Whether strings are rules, unless they are few.
        strict_formats: Whether to refuse formats that are unknown or not enforced, or describe no value that is possible.
        longest: The most characters of a token, if the characters of strings may be counted and many items called in blocks;
            0 if they may not.
        called_root: Whether an object or array that is the whole value is to be a rule.
        any_order: Whether the members of objects may come in any order.
        closing: Whether a text that has begun must be completed within a number of tokens.
        resources: The other documents, by URI.
        forgets: Where it is that a row cannot remember the items of arrays and the names of objects, as an error says it; None:
            it can.
        free_of: Texts that occur in no string and no name of a member.
        strings: How strings are written; only those of JSON may be rules.
        member_order: In which order members come.

    Raises:
        UnsupportedSchema: A keyword cannot be honoured exactly.
        ConfigurationError: The schema is wrong, or no value satisfies it.
    """
    fragments &= strings == "json"
    # A row may get stuck if too few tokens are left for another item.
    forgets = "in one language with a grammar" if not fragments else "with 'closing'" if closing else forgets
    # Equal items could be written in several orders, and a row could get stuck after members that leave no others.
    option = any_order_option(any_order, member_order)
    forgets_items = f"with {option}" if option and fragments and not closing else forgets
    left_out = LeftOut(lax, limits.work, advises=True)
    references = References.of(schema, left_out, resources)
    while True:
        before = spent()
        reader = Reader(references, limits, left_out, strict_formats, longest > 0, free_of)
        try:
            layout = Layout(whitespace, any_order, longest > 0, closing, forgets_items, forgets, strings=strings)
            layout = replace(layout, member_order=member_order)
            nested_grammar = _nested_grammar(reader, layout, fragments, longest, called_root)
            return Compiled(nested_grammar, tuple(left_out.reasons.values()), tuple(reader.ignored))
        except UnsupportedSchema as error:
            # The reader leaves out what it meets. A few keywords are found only when all that they depend on is written.
            if not left_out.add(error, before):
                raise
        except PatternTooLarge:
            # Which keyword asks for too many states is known where each length has states of its own.
            if not longest or spent() > limits.work:
                raise
            longest = 0


def _nested_grammar(reader: Reader, layout: Layout, fragments: bool, longest: int, called_root: bool) -> NestedGrammar:
    root = reader.conjunction(reader.references.resources[""])
    nested_grammar = None
    if root != NOTHING:
        nested_grammar = nested_grammar_of(root, reader, layout, fragments, longest, called_root)
    if nested_grammar is None:
        raise ConfigurationError("no value satisfies the schema, so nothing could be generated")
    return nested_grammar
