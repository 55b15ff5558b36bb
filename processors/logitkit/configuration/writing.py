"""Write a processor as a configuration in JSON, and the JSON Schema of configurations."""

from __future__ import annotations

from typing import Any

from logitkit.composition.chain import Chain
from logitkit.configuration.registry import CHAIN, installed_kinds
from logitkit.constraints.intersection import Intersection
from logitkit.errors import ConfigurationError
from logitkit.protocol.kind import Kind
from logitkit.protocol.processor import Processor, name_of

__all__ = ["config_schema", "to_config"]


def to_config(processor: Processor[Any]) -> dict[str, Any]:
    """Return the JSON form of a processor: the inverse of `from_config`.

    Limits are not part of a configuration. An `Intersection` is written as the chain of its parts.

    Args:
        processor: A processor of this library, a registered one, or a chain of them.

    Returns:
        A dictionary for `json.dumps`.

    Raises:
        ConfigurationError: The processor has no JSON form; functions, for example, have none.

    Example:
        >>> import logitkit as lk
        >>> lk.to_config(lk.chain(lk.Temperature(0.7), lk.RepetitionPenalty(1.1, window=64)))
        {'chain': [{'temperature': 0.7}, {'repetition_penalty': {'penalty': 1.1, 'window': 64}}]}
    """
    if not isinstance(processor, Chain | Intersection):
        return _single(processor)
    links = [_single(p) for p in _flat(processor)]
    names = [name for link in links for name in link]
    # A single object is enough if the order is canonical and no kind comes twice.
    if len(names) != 1 and names == [name for name in installed_kinds() if name in names]:
        return {name: value for link in links for name, value in link.items()}
    return {CHAIN: links}


def _flat(processor: Processor[Any]) -> list[Processor[Any]]:
    if isinstance(processor, Chain):
        return [part for link in processor.processors for part in _flat(link)]
    return list(processor.parts) if isinstance(processor, Intersection) else [processor]


def _single(processor: Processor[Any]) -> dict[str, Any]:
    kinds = installed_kinds().values()
    kind = vars(type(processor)).get("kind") or next((k for k in kinds if k.make is type(processor)), None)
    if not isinstance(kind, Kind):
        known = ", ".join(k.made.__name__ for k in kinds if k.made is not None)
        raise ConfigurationError(
            f"a {name_of(processor)} has no JSON form; those that have are {known}, and chains of them"
        )
    return {kind.name: kind.write(processor, to_config)}


def config_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of configurations for `from_config`.

    It cannot express every rule: that a pattern parses, that an id is in the vocabulary, that the order of a chain is valid.

    Returns:
        The schema, with a definition for each kind of processor.

    Example:
        >>> import logitkit as lk
        >>> lk.config_schema()["$defs"]["top_k"]["anyOf"][0]["type"]
        'integer'
    """
    kinds = installed_kinds()
    references = {name: {"$ref": f"#/$defs/{name}"} for name in kinds}
    single = {"type": "object", "properties": references, "additionalProperties": False}
    links = {
        "type": "object",
        "properties": {CHAIN: {"type": "array", "items": {"$ref": "#/$defs/config"}}},
        "required": [CHAIN],
        "additionalProperties": False,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A configuration of logitkit",
        "$ref": "#/$defs/config",
        "$defs": {"config": {"anyOf": [single, links]}} | {name: kind.schema() for name, kind in kinds.items()},
    }
