"""The base class of all processors whose automaton is in a registry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from logitkit.lazy import lazy
from logitkit.protocol.described import Described
from logitkit.runtime.automaton_registry import AutomatonHandle, AutomatonRegistry
from logitkit.runtime.shared import shared_by
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["RegistryUser"]


class RegistryUser(Described):
    """An object whose automaton occupies a slot in a registry from first use until the object is destroyed.

    Subclasses define `vocabulary` and `automaton`.
    """

    vocabulary: Vocabulary

    if TYPE_CHECKING:

        @property
        def automaton(self) -> Any:
            """The automaton, of the type that the registry holds."""

    @lazy
    def registry(self) -> AutomatonRegistry:
        """The registry that states refer to, on every device."""
        return shared_by(self.vocabulary).registry

    @lazy
    def _handle(self) -> AutomatonHandle:
        return self.registry.register(self.automaton)

    def handle(self) -> AutomatonHandle:
        """Return the handle of the automaton's slot in the registry, kept as long as this object lives."""
        return self._handle

    def __getstate__(self) -> dict[str, Any]:
        # A copy, perhaps in another process, registers its automaton again and recomputes the cached values.
        return {name: value for name, value in self.__dict__.items() if name != "registry" and not name.startswith("_")}
