"""What all processors with an automaton in a bank share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from logitkit.automata.bank import Bank, Lease
from logitkit.automata.shared import shared_by
from logitkit.vocabulary import Vocabulary

__all__ = ["Leased"]


class Leased:
    """An object whose automaton has a place in a bank from the first use on, as long as the object lives.

    Subclasses have a `vocabulary` and an `automaton`.
    """

    vocabulary: Vocabulary

    if TYPE_CHECKING:

        @property
        def automaton(self) -> Any:
            """The automaton; what kind of, is the bank's matter."""

    @property
    def bank(self) -> Bank:
        """The bank that states refer to, whatever device they are on."""
        return shared_by(self.vocabulary).bank

    def lease(self) -> Lease:
        """Return the place of the automaton in the bank; it stays taken as long as this object lives."""
        found: Lease | None = self.__dict__.get("_lease")
        if found is None:
            found = self.__dict__.setdefault("_lease", self.bank.lease(self.automaton))
        return found

    def __getstate__(self) -> dict[str, Any]:
        # A copy, perhaps in another process, takes its own place in a bank, and works out again what was worked out.
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_")}
