"""From a schema to the network of its language."""

from __future__ import annotations

from typing import NamedTuple

from logitkit.budget import spent, took
from logitkit.compiler.networks.network import Network
from logitkit.errors import ConfigurationError, UnsupportedSchema
from logitkit.json_schema.conjunction import NOTHING
from logitkit.json_schema.document import Json
from logitkit.json_schema.layout import Layout, Whitespace
from logitkit.json_schema.reader import Reader
from logitkit.json_schema.references import References
from logitkit.json_schema.writer import network_of
from logitkit.limits import Limits

# So many keywords may be left out, each of which means to begin anew.
MOST_DROPPED = 32


class Compiled(NamedTuple):
    """The language of a schema.

    Args:
        network: Its texts.
        dropped: What is said about each keyword that has been left out.
        ignored: What is said about each format that is taken for an annotation.
    """

    network: Network
    dropped: tuple[str, ...]
    ignored: tuple[str, ...]


def schema_network(
    schema: Json,
    limits: Limits,
    whitespace: Whitespace = "compact",
    lax: bool = False,
    apart: bool = False,
    leaves: bool = True,
    strict_formats: bool = False,
) -> Compiled:
    """Compile a loaded schema.

    Args:
        schema: As `document.load` returns it.
        limits: Bounds on the automata of strings and numbers.
        whitespace: What is written around members and items.
        lax: Whether to leave out what cannot be honoured.
        apart: Whether all objects and arrays are definitions.
        leaves: Whether strings are definitions, unless they are few.
        strict_formats: Whether to refuse formats that are unknown, or describe no value that is possible.

    Raises:
        UnsupportedSchema: A keyword cannot be honoured exactly.
        ConfigurationError: The schema is wrong, or no value satisfies it.
    """
    dropped: dict[tuple[str, str | None], str] = {}
    in_vain = 0
    while True:
        before = spent()
        try:
            reader = Reader(References.of(schema), limits, frozenset(dropped), strict_formats)
            return Compiled(_network(reader, whitespace, apart, leaves), tuple(dropped.values()), tuple(reader.ignored))
        except UnsupportedSchema as error:
            left_out = error.pointer, error.keyword
            if not lax or error.pointer is None or left_out in dropped:
                raise
            if len(dropped) >= MOST_DROPPED:
                reason = f"lax=True leaves out at most {MOST_DROPPED} keywords, and this is one more; remove them from the schema"
                raise UnsupportedSchema(f"{error.reason} ({reason})", *left_out) from None
            if in_vain > limits.work:
                reason = "lax=True has begun anew until that took more steps than the limit; remove such keywords from the schema"
                raise UnsupportedSchema(f"{error.reason} ({reason})", *left_out) from None
            dropped[error.pointer, error.keyword] = str(error)
            # What was done in vain has a limit of its own, or nothing would be left after what is too large.
            in_vain += spent() - before
            took(before - spent())


def _network(reader: Reader, whitespace: Whitespace, apart: bool, leaves: bool) -> Network:
    root = reader.conjunction(reader.references.resources[""])
    network = None if root == NOTHING else network_of(root, reader, Layout(whitespace), apart, leaves)
    if network is None:
        raise ConfigurationError("no value satisfies the schema, so nothing could be generated")
    return network
