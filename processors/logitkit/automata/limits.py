"""How large an automaton may become before a pattern is refused."""

from __future__ import annotations

from dataclasses import dataclass

from logitkit.automata.budget import spend, spent
from logitkit.errors import ConfigurationError, PatternTooLarge
from logitkit.integers import as_integer

__all__ = ["Limits", "check_limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what compiling one pattern may cost; the defaults suit a server that takes patterns from its users.

    Args:
        states: States of the automaton, over characters and over bytes.
        work: Elementary steps of the construction, weighted by what they cost (positions visited, moves made, pairs
            of token class and state): about a second for each five million of them, and 50 MB for each million.

    Raises:
        ConfigurationError: A bound is not a positive integer.

    Example:
        >>> import logitkit as lk
        >>> vocabulary = lk.Vocabulary([b"a", b"b", None], eos_ids=[2])
        >>> lk.Regex("(a|b)*a(a|b){9}", vocabulary, limits=Limits(states=100))
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
        """Raise `PatternTooLarge` if a text is too long to be read byte by byte, at so many steps for each."""
        self.check_states(longest + 1)
        self.spend(longest * steps)

    def check_work(self, steps: int) -> None:
        """Raise `PatternTooLarge` if more steps were taken than allowed, with those that were spent before."""
        if steps + spent() > self.work:
            raise PatternTooLarge(
                f"compiling the pattern takes more than {self.work} steps; simplify the pattern, or pass "
                "limits=Limits(work=...) with a larger number"
            )

    def spend(self, steps: int) -> None:
        """Count steps against the budget of the compilation, if it has one for all its parts, and check it."""
        spend(steps)
        self.check_work(0)


DEFAULT_LIMITS = Limits()


def check_limits(limits: object) -> None:
    """Raise `ConfigurationError` for anything but `Limits`."""
    if not isinstance(limits, Limits):
        raise ConfigurationError(f"limits is {limits!r}; give logitkit.Limits(states=..., work=...)")
