"""From a processor to its JSON form."""

from __future__ import annotations

from typing import Any

from logitkit.composition.chain import Chain
from logitkit.configuration.registry import CHAIN, installed_kinds
from logitkit.constraints.intersection import Intersection
from logitkit.errors import ConfigurationError
from logitkit.protocol.kind import Kind
from logitkit.protocol.processor import Processor, name_of

__all__ = ["to_config"]


def to_config(processor: Processor[Any]) -> dict[str, Any]:
    """Return the JSON form of a processor: the inverse of `from_config`.

    Limits of patterns are none of a configuration's matters, and an `Intersection` comes back as the chain that makes it.

    Args:
        processor: A processor of this library, or a chain of such.

    Returns:
        What `json.dumps` takes.

    Raises:
        ConfigurationError: The processor has no JSON form, as a function has none.

    Example:
        >>> import logitkit as lk
        >>> lk.to_config(lk.chain(lk.Temperature(0.7), lk.RepetitionPenalty(1.1, window=64)))
        {'chain': [{'temperature': 0.7}, {'repetition_penalty': {'penalty': 1.1, 'window': 64}}]}
    """
    if not isinstance(processor, Chain | Intersection):
        return _single(processor)
    links = [_single(p) for p in _flat(processor)]
    names = [name for link in links for name in link]
    # One object says it all where its order is the canonical one, and no kind comes twice.
    if len(names) != 1 and names == [name for name in installed_kinds() if name in names]:
        return {name: value for link in links for name, value in link.items()}
    return {CHAIN: links}


def _flat(processor: Chain | Intersection) -> list[Processor[Any]]:
    if isinstance(processor, Intersection):
        return list(processor.parts)
    return [q for p in processor.processors for q in (_flat(p) if isinstance(p, Intersection) else [p])]


def _single(processor: Processor[Any]) -> dict[str, Any]:
    kinds = installed_kinds().values()
    kind = vars(type(processor)).get("kind") or next((k for k in kinds if k.make is type(processor)), None)
    if not isinstance(kind, Kind):
        known = ", ".join(k.made.__name__ for k in kinds if k.made is not None)
        raise ConfigurationError(
            f"a {name_of(processor)} has no JSON form; those that have are {known}, and chains of them"
        )
    return {kind.name: kind.write(processor, to_config)}
