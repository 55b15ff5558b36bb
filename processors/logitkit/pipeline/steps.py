"""The steps of the canonical order that a processor takes, at most one of each."""

from __future__ import annotations

from typing import Any

from logitkit.chain import Chain
from logitkit.configuration.kinds import KINDS
from logitkit.constraints.constraint import AutomatonConstraint
from logitkit.constraints.pushdown_constraint import PushdownConstraint
from logitkit.errors import ConfigurationError
from logitkit.pipeline.ending import Ending
from logitkit.processor import Processor, batch_size_of, name_of
from logitkit.sampling.temperature import Temperature

__all__ = ["ORDER", "steps_of"]


# All languages are two steps, whose automata share a state each.
LANGUAGES = (AutomatonConstraint, PushdownConstraint)


def _step(made: type) -> type:
    return next((language for language in LANGUAGES if issubclass(made, language)), made)


def _order() -> tuple[type, ...]:
    steps = [_step(kind.made) for kind in KINDS.values()]
    # A chain ends rows behind the last processor that may ban, which all stand before the first that scales.
    return tuple(dict.fromkeys(step for made in steps for step in ((Ending, made) if made is Temperature else (made,))))


# The classes of the steps.
ORDER = _order()


def steps_of(processor: Processor[Any]) -> dict[type, Processor[Any]]:
    """Return the processors of a processor's steps.

    Args:
        processor: One that `from_config` makes.

    Returns:
        A processor by each of its steps, in their order.

    Raises:
        ConfigurationError: Its order is not the canonical one, a step comes twice, or one is no kind of a configuration or is
            made for the rows of one batch.

    Example:
        >>> import logitkit as lk
        >>> list(steps_of(lk.chain(lk.RepetitionPenalty(1.1), lk.TopK(5))).values())
        [RepetitionPenalty(penalty=1.1, window=None, include_prompt=True), TopK(k=5, min_tokens_to_keep=1)]
    """
    links = processor.processors if isinstance(processor, Chain) else (processor,)
    found: dict[type, Processor[Any]] = {}
    last = -1
    for link in links:
        step = _step(type(link))
        if step not in ORDER:
            raise ConfigurationError(f"a {name_of(link)} is no kind of a configuration, so rows with it share no batch")
        if batch_size_of(link) is not None:
            raise ConfigurationError(
                f"{name_of(link)} has something for each row of one batch; a request is one row, so give it one list of ids"
            )
        place = ORDER.index(step)
        if place <= last:
            raise ConfigurationError(
                f"{name_of(link)} stands behind {name_of(links[len(found) - 1])}, and requests that share a batch take the steps "
                f"of the canonical order, each once: {_names()}; leave out 'chain', or put what it lists into this order"
            )
        found[step], last = link, place
    if isinstance(processor, Chain) and processor.ending_ids:
        found[Ending] = Ending(processor.ending_ids)
    return {step: found[step] for step in ORDER if step in found}


def _names() -> str:
    names: dict[type, str] = {AutomatonConstraint: "a language", PushdownConstraint: "a JSON schema"}
    return ", ".join(names.get(step, step.__name__) for step in ORDER if step is not Ending)
