"""From the JSON form to a processor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from logitkit.automata.limits import DEFAULT_LIMITS, Limits, check_limits
from logitkit.chain import chain
from logitkit.configuration.kind import unknown_key
from logitkit.configuration.kinds import CHAIN, KINDS
from logitkit.configuration.place import Place
from logitkit.constraints.constraint import check_has_eos
from logitkit.errors import ConfigurationError
from logitkit.processor import Processor
from logitkit.vocabulary import Vocabulary

__all__ = ["from_config"]


def from_config(
    config: Mapping[str, Any], vocabulary: Vocabulary, *, limits: Limits = DEFAULT_LIMITS
) -> Processor[Any]:
    """Make a processor of its JSON form.

    Each key is a kind of processor, as in `{"regex": "[0-9]+", "repetition_penalty": {"penalty": 1.1, "window": 64}}`; a
    parameter that says all may stand alone. Several keys make a chain in the canonical order, whatever the order of the
    keys: biases, penalties, constraints, temperature, truncation. `{"chain": [{...}, {...}]}` keeps another order, and
    allows a kind twice.

    Nothing in a configuration runs code, reads files, or takes more time or memory than the limits allow each of its
    processors, of which there may be 64: it may come from anyone.

    Args:
        config: What `json.loads` gives. The format is published as a JSON Schema, see `config_schema`.
        vocabulary: The tokens.
        limits: Bounds on what each pattern may cost.

    Returns:
        The processor of a single kind, or else the chain.

    Raises:
        ConfigurationError: A key is unknown, or a value of a wrong type or out of its range; the message names key, value and
            what is allowed.
        PatternSyntaxError: A pattern is not valid.
        PatternTooLarge: An automaton would exceed a limit.
        VocabularyError: The vocabulary has no EOS id, or lacks what a processor needs.

    Example:
        >>> import logitkit as lk
        >>> vocabulary = lk.Vocabulary([b"0", b"1", None], eos_ids=[2])
        >>> both = from_config({"regex": "[01]{2}", "repetition_penalty": 1.1}, vocabulary)
        >>> [type(p).__name__ for p in both.processors]
        ['RepetitionPenalty', 'Regex']
        >>> from_config({"repetition_penalty": "high"}, vocabulary)
        Traceback (most recent call last):
            ...
        logitkit.errors.ConfigurationError: config['repetition_penalty'] is 'high'; allowed is a number from 0.0001 to 10000
    """
    check_has_eos(vocabulary)
    check_limits(limits)
    return read(config, Place("config", vocabulary, limits))


def read(config: object, place: Place) -> Processor[Any]:
    """Return the processor that a configuration at some place stands for."""
    if not isinstance(config, Mapping):
        raise place.refuse(config, "an object whose keys are kinds of processors")
    for key in config:
        if key not in KINDS and key != CHAIN:
            raise unknown_key(place, key, {**KINDS, CHAIN: None})
    if CHAIN in config:
        return _chain(config, place)
    # In the order of the table, which is the canonical one.
    made = [kind.read(config[name], place.inside(name)) for name, kind in KINDS.items() if name in config]
    return made[0] if len(made) == 1 else _joined(made, place)


def _chain(config: Mapping[str, Any], place: Place) -> Processor[Any]:
    if len(config) > 1:
        raise ConfigurationError(f"{place.path} has {CHAIN!r} and other keys; put these into the chain")
    links, inside = config[CHAIN], place.inside(CHAIN).nested()
    if not isinstance(links, list | tuple):
        raise inside.refuse(links, "a list of configurations")
    return _joined([read(link, inside.inside(i)) for i, link in enumerate(links)], inside)


def _joined(processors: list[Processor[Any]], place: Place) -> Processor[Any]:
    try:
        return chain(*processors, limits=place.limits, eos_ids=place.vocabulary.eos_ids)
    except ConfigurationError as error:
        raise place.refused(error) from None
