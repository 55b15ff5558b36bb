"""Build a processor from a configuration in JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from logitkit.budget import one_budget
from logitkit.composition.chain import Chain, chain
from logitkit.configuration.registry import CHAIN, installed_kinds, problem_with
from logitkit.errors import ConfigurationError
from logitkit.limits import DEFAULT_LIMITS, Limits, check_limits
from logitkit.parameters.place import Place
from logitkit.protocol.kind import unknown_key
from logitkit.protocol.processor import Processor
from logitkit.runtime.compiled_language import check_has_eos
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["from_config"]


def from_config(
    config: Mapping[str, Any], vocabulary: Vocabulary, *, limits: Limits = DEFAULT_LIMITS
) -> Processor[Any]:
    """Build a processor from a configuration, its JSON form.

    Each key names a processor, as in `{"regex": "[0-9]+", "repetition_penalty": {"penalty": 1.1, "window": 64}}`. If one
    parameter is enough, its value may be written alone. Several keys make a chain in the canonical order, whatever the order of
    the keys: biases, penalties, constraints, temperature, truncation, watermarks. `{"chain": [{...}, {...}]}` keeps another
    order, and allows the same key twice.

    A configuration may come from an untrusted source: it cannot run code, read files, or take more time or memory than the limits
    allow. It may have 64 processors, which share `limits.work`; one that was compiled before counts as if it were compiled again.

    Args:
        config: A mapping, as returned by `json.loads`. `config_schema` returns the JSON Schema of the format.
        vocabulary: The vocabulary.
        limits: The limits on the cost of compiling all patterns together.

    Returns:
        The processor of a single kind, or else the chain.

    Raises:
        ConfigurationError: A key is unknown, or a value has the wrong type or is out of range; the message names the key, the
            value and the allowed values.
        PatternSyntaxError: A pattern is not valid.
        PatternTooLarge: An automaton would exceed a limit.
        VocabularyError: The vocabulary has no EOS id, or lacks something that a processor needs.

    Example:
        >>> import logitkit as lk
        >>> vocabulary = lk.Vocabulary([b"0", b"1", None], eos_ids=[2])
        >>> both = lk.from_config({"regex": "[01]{2}", "repetition_penalty": 1.1}, vocabulary)
        >>> [type(p).__name__ for p in both.processors]
        ['RepetitionPenalty', 'Regex']
        >>> lk.from_config({"repetition_penalty": "high"}, vocabulary)
        Traceback (most recent call last):
            ...
        logitkit.errors.ConfigurationError: config['repetition_penalty'] is 'high'; allowed is a number from 0.0001 to 10000
    """
    check_has_eos(vocabulary)
    check_limits(limits)
    with one_budget(limits.work):
        return read(config, Place("config", vocabulary, limits, _read_inside))


def read(config: object, place: Place) -> Processor[Any]:
    """Return the processor of the configuration at a place."""
    if not isinstance(config, Mapping):
        raise _refused(config, place, "an object whose keys are kinds of processors")
    kinds = installed_kinds()
    for key in config:
        if key not in kinds and key != CHAIN:
            reason = problem_with(key)
            if reason is not None:
                raise ConfigurationError(f"{place.path}: {reason}")
            raise unknown_key(place, key, {**kinds, CHAIN: None})
    if CHAIN in config:
        return _chain(config, place)
    # `kinds` has the canonical order.
    made = [kind.read(config[name], place.inside(name)) for name, kind in kinds.items() if name in config]
    return made[0] if len(made) == 1 else _joined(made, place)


def _read_inside(config: object, place: Place) -> Processor[Any]:
    """Return the processor of a configuration inside another one."""
    made = read(config, place)
    # A chain of constraints holds only their intersection.
    return made.processors[0] if isinstance(made, Chain) and len(made.processors) == 1 else made


def _chain(config: Mapping[str, Any], place: Place) -> Processor[Any]:
    if len(config) > 1:
        raise ConfigurationError(f"{place.path} has {CHAIN!r} and other keys; put the other keys into the chain")
    links, inside = config[CHAIN], place.inside(CHAIN).nested()
    if not isinstance(links, list | tuple):
        raise _refused(links, inside, "a list of configurations")
    return _joined([read(link, inside.inside(i)) for i, link in enumerate(links)], inside)


def _refused(value: object, place: Place, allowed: str) -> ConfigurationError:
    """Return the error for a value that is not a configuration; it is not shown if it names a kind with secrets."""
    secrets = [
        name for name, kind in installed_kinds().items() if any(form.secret for form in kind.parameters.values())
    ]
    try:
        text = repr(value) if isinstance(value, list | tuple | Mapping) else ""
    except (RecursionError, ValueError):
        return place.refuse(value, allowed, secret=True)
    return place.refuse(value, allowed, secret=any(name in text for name in secrets))


def _joined(processors: list[Processor[Any]], place: Place) -> Processor[Any]:
    try:
        return chain(*processors, limits=place.limits, eos_ids=place.vocabulary.eos_ids)
    except ConfigurationError as error:
        raise place.refused(error) from None
