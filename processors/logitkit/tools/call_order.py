"""Which calls one turn may have, by the names of their tools: how many, none twice, and some only after others.

This is a finite automaton over the names of tools. Its states know how many calls there were, which tools were called if none may
be called twice, and which tools have become allowed by the calls of others. By hand, for the tools `confirm` and `pay`, where
`pay` may come only after `confirm`:

    state  before              `confirm` leads to  `pay` leads to
    0      nothing             1                   -
    1      confirm was called  1                   1

Once a call is allowed, it stays allowed, unless no tool may be called twice. So no order of calls leads to a dead end, as long as
each tool can be called at all, which `CallOrder.check` finds out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

from logitkit.errors import ConfigurationError
from logitkit.limits import Limits
from logitkit.parameters.place import shown
from logitkit.parameters.scalars import as_integer

__all__ = ["CallOrder", "OrderStates", "allowed_after_of", "counts_of"]

# The automaton of a language has at least this many states for each call that stands in it.
STATES_A_CALL = 4


class OrderStates(NamedTuple):
    """The automaton. State 0 is the one before the first call.

    Args:
        moves: For each state, the tools that may be called, by the state after the call.
        may_end: Whether the calls may end in each state.
    """

    moves: list[dict[int, list[str]]]
    may_end: list[bool]


@dataclass(frozen=True)
class CallOrder:
    """Which calls a turn with calls may have.

    Args:
        least: The minimum number of calls, from 1.
        most: Their maximum number; None: there is none.
        unique: Whether no tool is called twice.
        after: Tools that may come only after others, each with those of which one must have been called before.

    Example:
        >>> order = CallOrder(most=2, after=(("pay", ("confirm",)),))
        >>> order.problem([], "pay")
        "the tool 'pay' is called before 'confirm', after which alone it is allowed"
        >>> order.problem(["confirm", "confirm"], "pay")
        'there are more than 2 calls in the turn'
    """

    least: int = 1
    most: int | None = None
    unique: bool = False
    after: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether any calls may follow one another, or there is only one, so that no states are needed."""
        return self.least <= 1 and self.most in (None, 1) and not self.unique and not self.after

    def check(self, names: Sequence[str]) -> None:
        """Refuse an order by which some tool can never be called.

        Args:
            names: The tools that may be called.

        Raises:
            ConfigurationError: One of them cannot be called, or there cannot be as many calls as there must be.
        """
        if self.unique and self.least > len(names):
            raise ConfigurationError(
                f"a turn has at least {self.least} calls, and with unique=True at most {len(names)}, the number of tools that "
                "may be called; give a smaller minimum to parallel_calls, or more tools"
            )
        # How many calls must come before one of each tool, found in the order of these numbers.
        later, ready = {name for name, _ in self.after}, self._allows(names)
        needs = {name: 0 for name in names if name not in later}
        todo = list(needs)
        for name in todo:
            for other in ready.get(name, ()):
                if other not in needs:
                    needs[other] = needs[name] + 1
                    todo.append(other)
        for name in names:
            if name not in needs:
                raise ConfigurationError(
                    f"the tool {name!r} is allowed only after {self._others(name)}, which cannot be called before it; add such a "
                    "tool to 'choice', or change allowed_after"
                )
            if self.most is not None and needs[name] >= self.most:
                raise ConfigurationError(
                    f"the tool {name!r} needs {needs[name]} calls before it (allowed_after), but a turn has at most {self.most}; "
                    "allow more with parallel_calls=(least, most), or leave the tool out of 'choice'"
                )

    def _allows(self, names: Sequence[str]) -> dict[str, list[str]]:
        """Return for each tool the tools that become allowed by a call of it."""
        found: dict[str, list[str]] = {}
        known = {*names}
        for name, others in self.after:
            if name in known:
                for other in others:
                    found.setdefault(other, []).append(name)
        return found

    def _others(self, name: str) -> str:
        return " or ".join(map(repr, dict(self.after)[name]))

    def problem(self, before: Sequence[str], name: str) -> str | None:
        """Return why a tool cannot be called now, None if it can.

        Args:
            before: The names of the tools of the calls before it.
            name: The tool.
        """
        if self.most is not None and len(before) >= self.most:
            return f"there are more than {self.most} calls in the turn"
        if self.unique and name in before:
            return f"the tool {name!r} is called twice"
        others = dict(self.after).get(name)
        if others is not None and not {*others}.intersection(before):
            return f"the tool {name!r} is called before {self._others(name)}, after which alone it is allowed"
        return None

    def missing(self, count: int) -> str | None:
        """Return why the calls of a turn cannot end, None if they can or there are none.

        Args:
            count: How many calls there are.
        """
        if 0 < count < self.least:
            return f"the turn has {count} of at least {self.least} calls"
        return None

    def states(self, names: Sequence[str], limits: Limits) -> OrderStates:
        """Return the automaton.

        Args:
            names: The tools that may be called.
            limits: Bounds on the automaton of the language in which the calls stand.

        Raises:
            PatternTooLarge: A limit would be exceeded.
        """
        # For each tool, the bit of itself if it matters, the bit that it needs, and the bits of what becomes allowed after it.
        # Tools that need the same share a bit.
        bits: dict[tuple[str, ...], int] = {}
        needs = {name: bits.setdefault(others, 1 << len(bits)) for name, others in self.after}
        own = {name: 1 << number if self.unique else 0 for number, name in enumerate(names)}
        gives = dict.fromkeys(names, 0) | {
            name: reduce(or_, {needs[other] for other in others}) for name, others in self._allows(names).items()
        }
        counted = self.least if self.most is None else self.most
        found = OrderStates([], [])
        number = {(0, 0, 0): 0}
        todo = [*number]
        calls = 0
        for count, used, allowed in todo:
            row: dict[int, list[str]] = {}
            for name in names if count != self.most else ():
                if used & own[name] or needs.get(name, 0) & ~allowed:
                    continue
                later = min(count + 1, counted)
                # After the last call, nothing else matters.
                state = (later, 0, 0) if later == self.most else (later, used | own[name], allowed | gives[name])
                if state not in number:
                    number[state] = len(number)
                    todo.append(state)
                row.setdefault(number[state], []).append(name)
            found.moves.append(row)
            found.may_end.append(count >= self.least)
            # Tools after which everything is the same stand in the automaton of the language once.
            calls += sum(map(len, row.values())) if len(row) > 1 else 1
            limits.check_states(STATES_A_CALL * calls)
            limits.spend(len(names))
        return found

    def advice(self, count: int) -> str:
        """Return what to do if the automaton is too large.

        Args:
            count: How many tools may be called.
        """
        given = {"unique=True": self.unique, "allowed_after": self.after, "parallel_calls": self.least > 1 or self.most}
        because = " and ".join(name for name, value in given.items() if value)
        return (
            f"with {because}, it has states for the order of the calls of {count} tools: allow fewer calls with "
            "parallel_calls=(least, most), fewer tools with 'choice', or leave an option out"
        )


def counts_of(given: object) -> tuple[int, int | None] | bool | None:
    """Return how many calls a turn with calls may have, as it is given to `parallel_calls`: the least and the greatest number.

    Returns:
        Both numbers, of which the second may be None for no limit; or the bool that was given; None if all numbers are allowed.

    Raises:
        ConfigurationError: It is neither a bool nor such a pair.
    """
    if given is None or isinstance(given, bool):
        return given
    pair: list[Any] = list(given) if isinstance(given, list | tuple) else []
    if len(pair) == 2:
        least, most = as_integer(pair[0]), None if pair[1] is None else as_integer(pair[1])
        if least is not None and least >= 0 and (pair[1] is None or (most is not None and most >= max(least, 1))):
            return None if least < 2 and most is None else (max(least, 1), most)
    raise ConfigurationError(
        f"parallel_calls is {shown(given)}; allowed are True, False, and a pair of the least and the greatest number of calls, "
        "such as (1, 3), or (2, None) for at least two"
    )


def allowed_after_of(given: object, names: Collection[str]) -> tuple[tuple[str, tuple[str, ...]], ...] | None:
    """Return which tools may come only after others, as given to `allowed_after`, as pairs; None: there are no such tools.

    Args:
        given: Names of tools, each with the name of another, or with several of which one must have been called.
        names: The names of all tools.

    Raises:
        ConfigurationError: It is something else.
    """
    if given is None:
        return None
    try:
        pairs = dict(given).items()  # type: ignore[call-overload]
    except (TypeError, ValueError):
        pairs = None
    if pairs is None:
        raise ConfigurationError(
            f"allowed_after is {shown(given)}; allowed is a dict with the names of tools, each with a list of the tools of which "
            "one must come before it, such as {'pay': ['confirm']}"
        )
    found = []
    for name, value in pairs:
        others = [value] if isinstance(value, str) else list(value) if isinstance(value, Iterable) else []
        wrong = next((one for one in (name, *others) if not isinstance(one, str) or one not in names), None)
        if not others or wrong is not None:
            problem = f"names {wrong!r}, which is not a tool" if others else f"has {shown(value)} for {shown(name)}"
            some = ", ".join(map(repr, sorted(names)[:20]))
            raise ConfigurationError(
                f"allowed_after {problem}; allowed are lists of names of tools that are not empty, here of {some}"
            )
        found.append((name, tuple(dict.fromkeys(others))))
    return tuple(found) or None
