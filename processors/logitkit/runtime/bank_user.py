"""The base class of all processors whose automaton is in a bank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from logitkit.lazy import lazy
from logitkit.protocol.described import Described
from logitkit.runtime.bank import Bank, Lease
from logitkit.runtime.shared import shared_by
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["BankUser"]


class BankUser(Described):
    """An object whose automaton occupies a slot in a bank from first use until the object is destroyed.

    Subclasses define `vocabulary` and `automaton`.
    """

    vocabulary: Vocabulary

    if TYPE_CHECKING:

        @property
        def automaton(self) -> Any:
            """The automaton, of the type that the bank holds."""

    @lazy
    def bank(self) -> Bank:
        """The bank that states refer to, on every device."""
        return shared_by(self.vocabulary).bank

    @lazy
    def _lease(self) -> Lease:
        return self.bank.lease(self.automaton)

    def lease(self) -> Lease:
        """Return the lease of the automaton's slot in the bank, kept as long as this object lives."""
        return self._lease

    def __getstate__(self) -> dict[str, Any]:
        # A copy, perhaps in another process, leases its own slot and recomputes the cached values.
        return {name: value for name, value in self.__dict__.items() if name != "bank" and not name.startswith("_")}
