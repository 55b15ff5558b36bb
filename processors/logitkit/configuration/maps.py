"""Values of a configuration that are maps in Python: numbers by token id, and the moves of a hand-written automaton."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from logitkit.configuration.forms import Form, TokenId
from logitkit.configuration.place import Place
from logitkit.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class ByToken:
    """A map from token ids, which JSON writes as strings."""

    form: Form

    @property
    def allowed(self) -> str:
        """What is allowed, in words."""
        return f"an object whose keys are token ids, each with {self.form.allowed}"

    def fits(self, value: object) -> bool:
        """Whether it is an object."""
        return isinstance(value, Mapping)

    def read(self, value: Any, place: Place) -> dict[int, Any]:
        """Return the map."""
        if not isinstance(value, Mapping):
            raise place.refuse(value, self.allowed)
        found = {}
        for key, given in value.items():
            # One way to write a number, so that no token comes twice.
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


class State:
    """The name of a state: an integer or a string."""

    allowed = "a state, an integer or a string"

    def fits(self, value: object) -> bool:
        """Whether it is one of these."""
        return isinstance(value, int | str) and not isinstance(value, bool)

    def read(self, value: Any, place: Place) -> int | str:
        """Return the name."""
        if not self.fits(value):
            raise place.refuse(value, self.allowed)
        state: int | str = value
        return state

    def write(self, value: Any) -> int | str:
        """Return the name.

        Raises:
            ConfigurationError: JSON cannot write it.
        """
        if not self.fits(value):
            raise ConfigurationError(f"the state {value!r} has no JSON form; name states by integers or strings")
        state: int | str = value
        return state

    def schema(self) -> dict[str, Any]:
        """Describe it."""
        return {"type": ["integer", "string"]}


class Moves:
    """The moves of an automaton: a list of `[state, token id, next state]`."""

    allowed = "a list of moves [state, token id, next state]"

    def fits(self, value: object) -> bool:
        """Whether it is a list."""
        return isinstance(value, list | tuple)

    def read(self, value: Any, place: Place) -> dict[tuple[int | str, int], int | str]:
        """Return the moves by state and token."""
        if not self.fits(value):
            raise place.refuse(value, self.allowed)
        moves = {}
        for i, move in enumerate(value):
            inside = place.inside(i)
            if not self.fits(move) or len(move) != 3:
                raise inside.refuse(move, "a move [state, token id, next state]")
            source, target = (State().read(move[k], inside.inside(k)) for k in (0, 2))
            token = TokenId().read(move[1], inside.inside(1))
            if (source, token) in moves:
                raise inside.refuse(move, "one move from a state by a token; another stands before it")
            moves[source, token] = target
        return moves

    def write(self, value: Mapping[tuple[Any, int], Any]) -> list[list[int | str]]:
        """Return the list."""
        return [[State().write(source), token, State().write(target)] for (source, token), target in value.items()]

    def schema(self) -> dict[str, Any]:
        """Describe it."""
        move = [State().schema(), TokenId().schema(), State().schema()]
        return {"type": "array", "items": {"type": "array", "prefixItems": move, "items": False, "minItems": 3}}
