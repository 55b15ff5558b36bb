"""The JSON values of `%json {...}` as rules.

A schema becomes a nested grammar: a tree that calls the objects and arrays of the schema. Each of them begins with its bracket. A
grammar has no counters and no strings that several places share, so these are written in place.
"""

from __future__ import annotations

from logitkit.compiler.nested_grammars.nested_grammar import NestedRule
from logitkit.compiler.nested_grammars.renumbered import renumbered
from logitkit.grammars.lark.guidance_options import check_guidance_options
from logitkit.json_schema.compile import schema_grammar
from logitkit.json_schema.document import load
from logitkit.json_schema.misspelt import misspelt
from logitkit.limits import Limits
from logitkit.patterns.charset import CharSet
from logitkit.patterns.construction import concatenate
from logitkit.patterns.syntax import Characters, Node

__all__ = ["schema_bodies"]


def schema_bodies(schema: str, limits: Limits, first: int) -> tuple[list[Node], list[str]]:
    """Return the trees of a schema, and what is suspicious in it.

    Args:
        schema: The schema, as JSON text.
        limits: Bounds on its automata.
        first: The rule that the first rule becomes.

    Returns:
        The tree of the whole value, and then those of rules `first`, `first + 1` and so on; and sentences.

    Raises:
        UnsupportedSchema: A keyword cannot be honoured exactly, or an option of LLGuidance.
        ConfigurationError: The schema is wrong, or no value satisfies it.
        PatternTooLarge: A limit is exceeded.
    """
    document = load(schema)
    check_guidance_options(document, limits)
    compiled = schema_grammar(document, limits, fragments=False)
    nested_grammar = compiled.nested_grammar
    assert not nested_grammar.words
    calls = range(first, first + len(nested_grammar.rules))
    trees = [nested_grammar.main]
    for rule in nested_grammar.rules:
        assert isinstance(rule, NestedRule)
        trees.append(concatenate([Characters(CharSet.single(ord(rule.opening))), rule.body]))
    unknown = misspelt(document)
    said = [f"%json ignores unknown keywords: {unknown}"] if unknown else []
    return [renumbered(tree, calls, ()) for tree in trees], [*said, *compiled.ignored]
