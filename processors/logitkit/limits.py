"""Limits on the size of an automaton and on the work of building it."""

from __future__ import annotations

from dataclasses import dataclass

from logitkit.budget import spend, spent, too_much_work
from logitkit.errors import ConfigurationError, PatternTooLarge
from logitkit.parameters.scalars import as_integer

__all__ = ["Limits", "check_limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on the cost of compiling one pattern. The defaults suit a server that accepts patterns from its users.

    Args:
        states: The maximum number of states, in the automaton over characters and in the one over bytes.
        work: The maximum number of construction steps, weighted by their cost (positions visited, moves made, pairs of token
            class and state). Five million take about a second; one million, about 50 MB.

    Raises:
        ConfigurationError: A bound is not a positive integer.

    Example:
        >>> import logitkit as lk
        >>> vocabulary = lk.Vocabulary([b"a", b"b", None], eos_ids=[2])
        >>> lk.Regex("(a|b)*a(a|b){9}", vocabulary, limits=lk.Limits(states=100))
        Traceback (most recent call last):
            ...
        logitkit.errors.PatternTooLarge: the automaton has more than 100 states; simplify the pattern, or pass \
limits=Limits(states=...) with a larger number
    """

    states: int = 50_000
    work: int = 7_000_000

    def __post_init__(self) -> None:
        for name in ("states", "work"):
            given = getattr(self, name)
            bound = as_integer(given)
            if bound is None or bound < 1:
                raise ConfigurationError(f"{name} is {given!r}; allowed are integers from 1")
            object.__setattr__(self, name, bound)

    def check_states(self, count: int) -> None:
        """Raise `PatternTooLarge` if there are more states than allowed."""
        if count > self.states:
            raise PatternTooLarge(
                f"the automaton has more than {self.states} states; simplify the pattern, or pass "
                "limits=Limits(states=...) with a larger number"
            )

    def check_length(self, longest: int, steps: int) -> None:
        """Raise `PatternTooLarge` if a text is too long to be read byte by byte, at `steps` steps per byte."""
        self.check_states(longest + 1)
        self.spend(longest * steps)

    def check_work(self, steps: int) -> None:
        """Raise `PatternTooLarge` if these steps and those already counted exceed the limit."""
        if steps + spent() > self.work:
            raise too_much_work(self.work)

    def spend(self, steps: int) -> None:
        """Count steps against the compilation's shared budget, if there is one, and check it."""
        spend(steps)
        self.check_work(0)


DEFAULT_LIMITS = Limits()

UNBOUNDED = Limits(states=2**31, work=2**62)
"""For input whose size was limited when it was given."""


def check_limits(limits: object) -> None:
    """Raise `ConfigurationError` if the value is not a `Limits`."""
    if not isinstance(limits, Limits):
        raise ConfigurationError(f"limits is {limits!r}; give logitkit.Limits(states=..., work=...)")
