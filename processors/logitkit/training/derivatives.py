"""How processed logits change with the given ones: what the backward pass needs to know of each processor.

Take a row with the logits 2 and -3. A constraint that forbids the second token returns 2 and -inf: each logit stays or becomes
-inf, so a gradient passes or does not. `FrequencyPenalty(0.5)` on the first token returns 1.5 and -3: the gradient passes
unchanged. `Temperature(0.5)` returns 4 and -6: every gradient is multiplied by 2. `RepetitionPenalty(2)` on both tokens returns
1 and -6: the gradient of a positive logit is halved, that of a negative one doubled.

No processor knows of training. Its role and its kind, which is the name in configurations, say which of these it is. Functions of
users, classes of users that do not only mask, and kinds that are not listed are differentiated by torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from functools import cache
from typing import Any

from logitkit.composition.conflicts import eos_ids_of
from logitkit.errors import ConfigurationError
from logitkit.protocol.declared import declares, truncates
from logitkit.protocol.processor import Processor, Role, name_of, role_of

__all__ = [
    "READING_ROWS",
    "Derivative",
    "check_between_truncations",
    "check_derivatives",
    "derivative_of",
    "end_ids",
    "is_shipped",
]


class Derivative(Enum):
    """How each processed logit of a row depends on the given ones.

    Args:
        SELECTION: It is the given logit or -inf. A row that ends has only EOS, at a logit that does not depend on the given ones.
        SHIFT: The given logit plus a number that depends on tokens only.
        ROW_SCALE: The given logit times a positive number, the same in the whole row.
        SIGN_SCALE: The given logit times a positive number, which depends on the token, earlier tokens and the logit's sign;
            1 for a token that neither the prompt nor the output has.
        COMPARED: The given logit, unchanged, or a number that does not depend on the given ones: for constraints and truncations
            of users.
        BY_TENSORS: Anything; torch differentiates the operations of a processor of logitkit, which write to no place twice.
        BY_TORCH: Anything; torch differentiates the operations of the processor, which a user wrote.
        UNKNOWN: A kind of logitkit that is not listed in this file.
    """

    SELECTION = "selection"
    SHIFT = "shift"
    ROW_SCALE = "row scale"
    SIGN_SCALE = "sign scale"
    COMPARED = "compared"
    BY_TENSORS = "by tensors"
    BY_TORCH = "by torch"
    UNKNOWN = "unknown"


# Those of which a processed logit may depend on all logits of the row, and so on which tokens are masked.
READING_ROWS = frozenset({Derivative.BY_TENSORS, Derivative.BY_TORCH})

# What is neither a constraint nor a truncation, by the name of its kind. Torch cannot differentiate operations that write to one
# place twice, as some of logitkit do, so a kind that is missing here has no gradient.
BY_KIND = {
    "logit_bias": Derivative.SHIFT,
    "sequence_bias": Derivative.SHIFT,
    "cite_from_prompt": Derivative.SHIFT,
    "length_control": Derivative.SHIFT,
    "frequency_penalty": Derivative.SHIFT,
    "presence_penalty": Derivative.SHIFT,
    "dry": Derivative.SHIFT,
    "repetition_penalty": Derivative.SIGN_SCALE,
    "encoder_repetition_penalty": Derivative.SIGN_SCALE,
    "length_decay": Derivative.BY_TENSORS,
    "temperature": Derivative.ROW_SCALE,
    "dynamic_temperature": Derivative.BY_TENSORS,
    "quadratic_smoothing": Derivative.BY_TENSORS,
    "kgw_watermark": Derivative.SHIFT,
    "synthid_watermark": Derivative.BY_TENSORS,
    "gumbel_watermark": Derivative.SELECTION,
}


def derivative_of(processor: Processor[Any]) -> Derivative:
    """Return how the processed logits of a processor depend on the given ones.

    Example:
        >>> import logitkit as lk
        >>> derivative_of(lk.TopK(5)), derivative_of(lk.Stateless(lambda logits, context: logits / 2))
        (<Derivative.SELECTION: 'selection'>, <Derivative.BY_TORCH: 'by torch'>)
    """
    masks, shipped = role_of(processor) in (Role.CONSTRAINT, Role.TRUNCATION), is_shipped(processor)
    if masks:
        return Derivative.SELECTION if shipped else Derivative.COMPARED
    if not shipped:
        return Derivative.BY_TORCH
    name = processor.kind.name if declares(processor, "kind") else ""  # type: ignore[attr-defined]
    return BY_KIND.get(name, Derivative.UNKNOWN)


def check_derivatives(processors: Iterable[Processor[Any]]) -> None:
    """Raise `ConfigurationError` if the derivative of a processor is unknown."""
    for processor in processors:
        if derivative_of(processor) is Derivative.UNKNOWN:
            raise ConfigurationError(
                f"replay does not know the derivative of {name_of(processor)}; for log-probabilities without a gradient, give "
                "logits.detach()"
            )


def check_between_truncations(processors: Sequence[Processor[Any]]) -> None:
    """Raise `ConfigurationError` if a processor between two truncations reads the whole row.

    A kept set is what both left together, so it does not tell what the processor was given.
    """
    first: Processor[Any] | None = None
    reader: Processor[Any] | None = None
    for processor in processors:
        if truncates(processor):
            if first is not None and reader is not None:
                raise ConfigurationError(
                    f"with kept sets, replay cannot tell what {name_of(reader)} was given between {name_of(first)} and "
                    f"{name_of(processor)}; put it after both, or replay without kept sets"
                )
            first = processor
        elif first is not None and derivative_of(processor) is Derivative.BY_TENSORS:
            reader = processor


def is_shipped(processor: Processor[Any]) -> bool:
    """Whether a class of logitkit processes the logits, and not a function or class of a user."""
    return _is_shipped_class(type(processor)) and declares(processor, "may_empty_rows")


@cache
def _is_shipped_class(kind: type) -> bool:
    definers = [next((c for c in kind.__mro__ if name in vars(c)), object) for name in STEPS]
    return not any(c is not object and c.__module__.partition(".")[0] != "logitkit" for c in definers)


# What a subclass of a user may override.
STEPS = ("process_logits", "_by_rows", "_by_tensors")


def end_ids(processor: Processor[Any], known: tuple[int, ...]) -> tuple[int, ...]:
    """Return the EOS ids of a processor of a chain, and those that the chain knows."""
    return tuple(dict.fromkeys((*eos_ids_of(processor), *known)))
