"""Find a small case on which a processor, or a registered kind of processor, breaks a law of the protocol."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import combinations
from random import Random
from typing import Any

from logitkit.configuration.reading import from_config
from logitkit.configuration.registered import RegisteredKind
from logitkit.conformance.cases import Case, drawn, shrunk
from logitkit.conformance.laws import LAWS, Law, shares_calls
from logitkit.conformance.runs import LawBroken, legal_tokens
from logitkit.errors import ConfigurationError, LogitkitError, ProcessorError
from logitkit.parameters.scalars import checked_integer
from logitkit.protocol.processor import Processor, check_is_processor, name_of
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["check_kind", "check_processor", "try_laws"]


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


# With a large vocabulary, each case can take seconds.
CASES = 3


def check_kind(kind: RegisteredKind, vocabulary: Vocabulary, cases: int = CASES) -> None:
    """Build the examples of a kind, and check each against the laws of the protocol.

    If the kind declares `parameters_in_state`, its examples must also be able to run each other's rows.

    Args:
        kind: The kind.
        vocabulary: The vocabulary of the engine.
        cases: The number of random batches for each example.

    Raises:
        ProcessorError: A processor breaks a law, or its parameters are not in the state.
        ConfigurationError: The factory refuses an example, or `parameters_in_state` is declared without two different examples.
    """
    try:
        made = [from_config({kind.name: example}, vocabulary) for example in kind.examples]
        for processor in made:
            try_laws(processor, vocabulary, LAWS, cases)
        if kind.parameters_in_state:
            pairs = [(one, other) for one, other in combinations(made, 2) if one != other]
            if not pairs:
                raise ConfigurationError(
                    "parameters_in_state can only be checked with two different examples; give two"
                )
            for one, other in pairs:
                try_laws(one, vocabulary, {"all parameters are in the state": partial(shares_calls, other)}, cases)
    except LogitkitError as error:
        kind_of_error = ProcessorError if isinstance(error, ProcessorError) else ConfigurationError
        raise kind_of_error(f"the registered processor {kind.name!r} cannot be served: {error}") from error
