"""The JSON values of `%json {...}` as rules, with LLGuidance's options for their spelling."""

from __future__ import annotations

from logitkit.compiler.nested_grammars.nested_grammar import NestedRule, renumbered
from logitkit.compiler.text_language import TextLanguage
from logitkit.errors import PatternSyntaxError, UnsupportedSchema
from logitkit.json_schema.compile import schema_grammar
from logitkit.json_schema.document import Json, load
from logitkit.json_schema.misspelt import misspelt
from logitkit.json_schema.string_text import ESCAPED, SHORT
from logitkit.limits import Limits
from logitkit.patterns.charset import CharSet
from logitkit.patterns.construction import concatenate
from logitkit.patterns.syntax import Characters, Node

__all__ = ["check_guidance_options", "schema_bodies"]

# They allow more than the schema says, or more white space.
_WIDER = {
    *("coerce_one_of", "json_allow_general_unicode_escapes", "lenient"),
    *("whitespace_flexible", "whitespace_pattern"),
}
# Patterns that the signs between items, and after a key, must match.
_SIGNS = {"item_separator": ",", "key_separator": ":"}
_ESCAPES = 'nrbtf\\"u'


def check_guidance_options(schema: Json, limits: Limits) -> tuple[str, ...]:
    r"""Check that the texts of a schema satisfy its options, and return the characters that no string may hold.

    Without an escape, a string cannot hold the characters that are written with it here: without `n`, it has no line feed,
    although LLGuidance also writes it as `\u000a`.

    Args:
        schema: The schema, in which `x-guidance` counts at the top only.
        limits: Bounds on the automata of separators.

    Raises:
        UnsupportedSchema: An option asks for another spelling, or is unknown.
        PatternTooLarge: A limit is exceeded.
    """
    options = schema.get("x-guidance") if isinstance(schema, dict) else None
    if options is None:
        return ()
    if not isinstance(options, dict):
        raise UnsupportedSchema("it is not an object; leave it out", "#", "x-guidance")
    for name, value in options.items():
        if name in _SIGNS and not _matches(value, _SIGNS[name], limits):
            instead = f"{value!r} does not match {_SIGNS[name]!r}, as values are written here"
        elif name == "json_allowed_escapes" and not (
            value is None or (isinstance(value, str) and {*value} <= {*_ESCAPES})
        ):
            instead = f"{value!r} is not a text of the escapes {_ESCAPES}"
        elif name not in {*_WIDER, *_SIGNS, "json_allowed_escapes"}:
            instead = "this is not an option of LLGuidance"
        else:
            continue
        raise UnsupportedSchema(f"{instead}; leave it out", "#/x-guidance", name)
    allowed = options.get("json_allowed_escapes")
    if not isinstance(allowed, str):
        return ()
    return tuple([chr(c) for c in range(0x80) if c in ESCAPED and SHORT.get(c, "u") not in allowed])


def _matches(pattern: Json, sign: str, limits: Limits) -> bool:
    if not isinstance(pattern, str):
        return False
    try:
        return TextLanguage.of_pattern(pattern, limits).contains(sign)
    except PatternSyntaxError:
        return False


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
    without = check_guidance_options(document, limits)
    try:
        compiled = schema_grammar(document, limits, fragments=False, free_of=without)
    except UnsupportedSchema as error:
        # Without what `lax=True` would leave out: `%json` has no such option.
        raise UnsupportedSchema(error.reason, error.pointer, error.keyword) from None
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
