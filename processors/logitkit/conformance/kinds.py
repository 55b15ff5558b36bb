"""Check a registered kind of processor before a server takes requests for it."""

from __future__ import annotations

from functools import partial
from itertools import combinations

from logitkit.configuration.reading import from_config
from logitkit.configuration.registered import RegisteredKind
from logitkit.conformance.check import try_laws
from logitkit.conformance.laws import LAWS, shares_calls
from logitkit.errors import ConfigurationError, LogitkitError, ProcessorError
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["check_kind"]

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
