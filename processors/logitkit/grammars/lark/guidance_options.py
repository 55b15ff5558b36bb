"""LLGuidance's options for the spelling of JSON, under `x-guidance` in a schema.

Texts are always written compactly, with `,` and `:`. An option that allows this, and perhaps more, changes nothing here. One that
asks for another spelling is refused.
"""

from __future__ import annotations

from logitkit.compiler.text_language import TextLanguage
from logitkit.errors import PatternSyntaxError, UnsupportedSchema
from logitkit.json_schema.document import Json
from logitkit.limits import Limits

__all__ = ["check_guidance_options"]

# They allow more than the schema says, or more white space.
_WIDER = {
    *("coerce_one_of", "json_allow_general_unicode_escapes", "lenient"),
    *("whitespace_flexible", "whitespace_pattern"),
}
# Patterns that the signs between items, and after a key, must match.
_SIGNS = {"item_separator": ",", "key_separator": ":"}
# The escapes of the texts that are written.
_ESCAPES = {*'nrbtf\\"u'}


def check_guidance_options(schema: Json, limits: Limits) -> None:
    """Check that the texts of a schema satisfy its options.

    Args:
        schema: The schema, in which `x-guidance` counts at the top only.
        limits: Bounds on the automata of separators.

    Raises:
        UnsupportedSchema: An option asks for another spelling, or is unknown.
        PatternTooLarge: A limit is exceeded.
    """
    options = schema.get("x-guidance") if isinstance(schema, dict) else None
    if options is None:
        return
    if not isinstance(options, dict):
        raise UnsupportedSchema("it is not an object; leave it out", "#", "x-guidance")
    for name, value in options.items():
        if name in _SIGNS and not _matches(value, _SIGNS[name], limits):
            instead = f"{value!r} does not match {_SIGNS[name]!r}, as values are written here"
        elif name == "json_allowed_escapes" and not (
            value is None or (isinstance(value, str) and {*value} >= _ESCAPES)
        ):
            instead = (
                f"{value!r} lacks some of the escapes with which strings are written here: {''.join(sorted(_ESCAPES))}"
            )
        elif name not in {*_WIDER, *_SIGNS, "json_allowed_escapes"}:
            instead = "this is not an option of LLGuidance"
        else:
            continue
        raise UnsupportedSchema(f"{instead}; leave it out", "#/x-guidance", name)


def _matches(pattern: Json, sign: str, limits: Limits) -> bool:
    if not isinstance(pattern, str):
        return False
    try:
        return TextLanguage.of_pattern(pattern, limits).contains(sign)
    except PatternSyntaxError:
        return False
