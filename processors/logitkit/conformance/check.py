"""Find a small case on which a processor breaks a law of the protocol."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from random import Random
from typing import Any

from logitkit.conformance.cases import Case, drawn, shrunk
from logitkit.conformance.laws import LAWS, Law
from logitkit.conformance.runs import LawBroken, legal_tokens
from logitkit.errors import ProcessorError
from logitkit.parameters.integers import checked_integer
from logitkit.protocol.processor import Processor, check_is_processor, name_of
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["check_processor", "try_laws"]


def check_processor(processor: Processor[Any], vocabulary: Vocabulary, *, examples: int = 30, seed: int = 0) -> None:
    """Check a processor against the laws of the protocol, on random batches.

    A processor that keeps the laws gives the same results with beam search, speculation, preemption and other requests in its
    batch. The laws:

    - No method changes its arguments or the processor; `process_logits` may overwrite the logits.
    - The structure, dtypes and shapes of results stay the same.
    - No NaN or +inf is returned.
    - Tokens may be `[B]` or `[B, T]`, and -1 changes nothing.
    - A replay of all tokens at once gives the same as one token at a time.
    - `process_logits` gives the same when it is called again.
    - Rows do not depend on one another, so rows may be selected and repeated before a run or after it.
    - States of prompts of different lengths may be concatenated.
    - A batch may have no rows.

    Floating-point results may differ by rounding, but must have -inf at the same places.

    Args:
        processor: The processor.
        vocabulary: Its vocabulary, which decides how many columns the logits have.
        examples: The number of random batches, from 1.
        seed: The seed of the batches, from 0.

    Raises:
        ProcessorError: The processor breaks a law. The message has the law, the difference, and the smallest case that shows it.
        ConfigurationError: An argument is not allowed.

    Example:
        >>> from dataclasses import dataclass
        >>> import logitkit as lk
        >>> vocabulary = lk.Vocabulary([b"a", b"b", None], eos_ids=[2])
        >>> lk.check_processor(lk.RepetitionPenalty(1.1), vocabulary)
        >>> @dataclass(frozen=True)
        ... class Shifted:
        ...     def init_state(self, context):
        ...         return ()
        ...
        ...     def advance(self, state, tokens):
        ...         return state
        ...
        ...     def process_logits(self, state, logits, context):
        ...         return state, logits + len(logits)  # depends on the other rows
        >>> lk.check_processor(Shifted(), vocabulary)
        Traceback (most recent call last):
            ...
        logitkit.errors.ProcessorError: Shifted breaks the law "rows are independent": with rows picked after and before the run,
        after 0 tokens, logit 0 of row 0 is 1 and 2. The smallest case: prompts [[]], tokens [[]], logits of zero in
        torch.float32, rows [0, 0] picked
    """
    check_is_processor(processor)
    checked_integer("examples", examples, 1, 10**6)
    checked_integer("seed", seed, 0, 2**63 - 1)
    try_laws(processor, vocabulary, LAWS, examples, seed)


def try_laws(
    processor: Processor[Any], vocabulary: Vocabulary, laws: Mapping[str, Law], examples: int, seed: int = 0
) -> None:
    """Raise `ProcessorError` for the first law that a processor breaks on random cases."""
    numbers = Random(seed)  # noqa: S311 - no secret
    for _ in range(examples):
        case = drawn(numbers, vocabulary.size, partial(legal_tokens, processor, numbers))
        for name, law in laws.items():
            error_on = partial(_broken, law, processor)
            if error_on(case):
                smallest = shrunk(case, error_on)
                raise _report(processor, name, error_on(smallest), smallest)


def _broken(law: Law, processor: Processor[Any], case: Case) -> Exception | None:
    """Return the error with which a processor breaks a law on a case, or None."""
    try:
        law(processor, case)
    except Exception as error:  # noqa: BLE001 - whatever the processor raises
        return error
    return None


def _report(processor: Processor[Any], name: str, found: Exception | None, case: Case) -> ProcessorError:
    difference = str(found) if isinstance(found, LawBroken) else f"{type(found).__name__}: {found}"
    error = ProcessorError(f'{name_of(processor)} breaks the law "{name}": {difference}. The smallest case: {case}')
    error.__cause__ = None if isinstance(found, LawBroken) else found
    return error
