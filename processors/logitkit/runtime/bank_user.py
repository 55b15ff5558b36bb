"""The base class of all processors whose automaton is in a bank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from logitkit.protocol.described import Described
from logitkit.runtime.bank import Bank, Lease
from logitkit.runtime.shared import shared_by
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["BankUser"]


class BankUser(Described):
    """An object whose automaton occupies a slot in a bank from first use until the object is destroyed.

    Subclasses define `vocabulary` and `automaton`. Whatever is kept here has a name that begins with an underscore, so that
    copies do without it.
    """

    vocabulary: Vocabulary

    if TYPE_CHECKING:

        @property
        def automaton(self) -> Any:
            """The automaton, of the type that the bank holds."""

    @property
    def bank(self) -> Bank:
        """The bank that states refer to, on every device."""
        # Kept by `lease`: a `cached_property` has a lock in Python 3.11, which a compiled graph cannot take.
        found: Bank | None = self.__dict__.get("_bank")
        return shared_by(self.vocabulary).bank if found is None else found

    def lease(self) -> Lease:
        """Return the lease of the automaton's slot in the bank, kept as long as this object lives."""
        found: Lease | None = self.__dict__.get("_lease")
        if found is None:
            bank = self.__dict__.setdefault("_bank", self.bank)
            found = self.__dict__.setdefault("_lease", bank.lease(self.automaton))
        return found

    def __getstate__(self) -> dict[str, Any]:
        # A copy, perhaps in another process, leases its own slot and recomputes the cached values.
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_")}
