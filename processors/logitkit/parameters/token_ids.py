"""Forms of token ids, and of values for each of them: numbers by token, and the transitions of an automaton."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from logitkit.errors import ConfigurationError
from logitkit.parameters.form import Form
from logitkit.parameters.forms import ListOf, elements
from logitkit.parameters.numbers import LARGEST, Integer
from logitkit.parameters.place import Place
from logitkit.parameters.scalars import as_integer

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["BySequence", "ByToken", "Moves", "State", "TokenId", "TokenIds", "checked_id", "checked_ids"]


def checked_id(name: str, given: object) -> int:
    """Return a token id; `name` is the argument's name, for the error."""
    found = as_integer(given)
    if found is None or not 0 <= found <= LARGEST:
        raise ConfigurationError(f"{name} has {given!r}; allowed are token ids, integers from 0 to {LARGEST}")
    return found


def checked_ids(name: str, given: object) -> tuple[int, ...]:
    """Return token ids in the given order; `name` is the argument's name, for the error."""
    return tuple(checked_id(name, i) for i in elements(name, given, "token ids"))


@dataclass(frozen=True, slots=True)
class TokenId(Form):
    """A token id of the vocabulary."""

    allowed = "a token id of the vocabulary, an integer from 0"
    types = (int,)
    described: ClassVar[dict[str, Any]] = {"type": "integer", "minimum": 0}

    def read(self, value: Any, place: Place) -> int:
        """Return the id."""
        return Integer(0, place.vocabulary.size - 1).read(value, place)

    def write(self, value: int) -> int:
        """Return the id.

        Raises:
            ConfigurationError: It is a list, one value for each of several rows.
        """
        if not self.fits(value):
            raise ConfigurationError(f"{value!r} is for several rows; a configuration describes a single row")
        return value


@dataclass(frozen=True, slots=True)
class TokenIds(ListOf):
    """Token ids, which a processor stores sorted and without duplicates.

    In a state they are [B, N] int32, padded with -1 at the end.
    """

    form: Form = TokenId()
    least: int = 1
    alone: bool = False

    def check(self, name: str, given: Any) -> tuple[int, ...]:
        """Return the ids sorted and without duplicates; with `alone`, an argument may be a single id."""
        several = [given] if self.alone and as_integer(given) is not None else given
        ids = tuple(sorted(set(checked_ids(name, several))))
        if len(ids) < self.least:
            raise ConfigurationError(f"{name} is empty; give at least one token id")
        return ids

    def read(self, value: Any, place: Place) -> list[Any]:
        """Return the ids."""
        # There may be hundreds of thousands, and their places are needed only for errors.
        if (
            type(value) is list
            and set(map(type, value)) == {int}
            and 0 <= min(value) <= max(value) < place.vocabulary.size
        ):
            return [*value]
        return ListOf.read(self, value, place)

    def problem(self, name: str, values: Tensor) -> str | None:
        """Report ids that are not ascending, or below -1."""
        if bool((values < -1).any()):
            return f"{name} has a token id below -1"
        before, after = values[:, :-1], values[:, 1:]
        rise = (after == -1) | ((before >= 0) & (after > before))
        return None if bool(rise.all()) else f"{name} has ids that are not in ascending order"


@dataclass(frozen=True, slots=True)
class ByToken(Form):
    """A map from token ids, which are strings in JSON."""

    form: Form

    types = (Mapping,)

    @property
    def allowed(self) -> str:
        """The allowed JSON values, in words."""
        return f"an object whose keys are token ids, each with {self.form.allowed}"

    def read(self, value: Any, place: Place) -> dict[int, Any]:
        """Return the map."""
        found = {}
        for key, given in Form.read(self, value, place).items():
            # Each number has exactly one accepted spelling, so that no token occurs twice.
            written = isinstance(key, str) and re.fullmatch("0|[1-9][0-9]{0,9}", key)
            if not written and not TokenId().fits(key):
                raise place.refuse(value, self.allowed)
            token = TokenId().read(int(key), place.inside(key))
            found[token] = self.form.read(given, place.inside(key))
        return found

    def write(self, value: Mapping[int, Any]) -> dict[str, Any]:
        """Return the object."""
        return {str(token): self.form.write(given) for token, given in value.items()}

    def schema(self) -> dict[str, Any]:
        """Describe it."""
        names = {"pattern": "^(0|[1-9][0-9]*)$"}
        return {"type": "object", "propertyNames": names, "additionalProperties": self.form.schema()}


@dataclass(frozen=True, slots=True)
class BySequence(Form):
    """A map from sequences of token ids, which is a list of pairs in JSON."""

    form: Form

    types = (list, tuple)

    @property
    def allowed(self) -> str:
        """The allowed JSON values, in words."""
        return f"a list of pairs [token ids, value], each value {self.form.allowed}"

    def read(self, value: Any, place: Place) -> dict[tuple[int, ...], Any]:
        """Return the map."""
        found: dict[tuple[int, ...], Any] = {}
        for i, pair in enumerate(Form.read(self, value, place)):
            inside = place.inside(i)
            if not self.fits(pair) or len(pair) != 2:
                raise inside.refuse(pair, "a pair [token ids, value]")
            ids = tuple(ListOf(TokenId(), 1).read(pair[0], inside.inside(0)))
            if ids in found:
                raise inside.refuse(pair, "only one pair for each sequence; an earlier pair has the same")
            found[ids] = self.form.read(pair[1], inside.inside(1))
        return found

    def write(self, value: Mapping[tuple[int, ...], Any]) -> list[Any]:
        """Return the list."""
        return [[list(ids), self.form.write(given)] for ids, given in value.items()]

    def schema(self) -> dict[str, Any]:
        """Describe it."""
        pair = [ListOf(TokenId(), 1).schema(), self.form.schema()]
        return {"type": "array", "items": {"type": "array", "prefixItems": pair, "items": False, "minItems": 2}}


class State(Form):
    """The name of a state: an integer or a string."""

    allowed = "a state, an integer or a string"
    types = (int, str)
    described: ClassVar[dict[str, Any]] = {"type": ["integer", "string"]}

    def write(self, value: Any) -> int | str:
        """Return the name.

        Raises:
            ConfigurationError: The name has no JSON form.
        """
        if not self.fits(value):
            raise ConfigurationError(f"the state {value!r} has no JSON form; name states by integers or strings")
        state: int | str = value
        return state


class Moves(Form):
    """The transitions of an automaton: a list of `[state, token id, next state]`."""

    allowed = "a list of moves [state, token id, next state]"
    types = (list, tuple)

    def read(self, value: Any, place: Place) -> dict[tuple[int | str, int], int | str]:
        """Return the next states by state and token."""
        moves = {}
        for i, move in enumerate(super().read(value, place)):
            inside = place.inside(i)
            if not self.fits(move) or len(move) != 3:
                raise inside.refuse(move, "a move [state, token id, next state]")
            source, target = (State().read(move[k], inside.inside(k)) for k in (0, 2))
            token = TokenId().read(move[1], inside.inside(1))
            if (source, token) in moves:
                raise inside.refuse(move, "only one move for each state and token; an earlier move has the same")
            moves[source, token] = target
        return moves

    def write(self, value: Mapping[tuple[Any, int], Any]) -> list[list[int | str]]:
        """Return the list."""
        return [[State().write(source), token, State().write(target)] for (source, token), target in value.items()]

    def schema(self) -> dict[str, Any]:
        """Describe it."""
        move = [State().schema(), TokenId().schema(), State().schema()]
        return {"type": "array", "items": {"type": "array", "prefixItems": move, "items": False, "minItems": 3}}
