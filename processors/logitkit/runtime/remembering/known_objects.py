"""The objects that have been written: an equal one takes the text of the first.

The problem: `{"a":1,"b":2}` and `{"b":2,"a":1}` are equal, so the members say which text to take. A position is a value, and must
not copy all objects for each new one. So they are kept in layers, the largest first, and a new one is merged with layers that
are not larger: each object is copied a few times, however many there are.

By hand: after three objects, there is a layer of two and one of one. The fourth makes one layer of four.

Invariants: each layer is larger than the next one. An object is in one layer only.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

__all__ = ["KnownObjects", "Member", "Members", "Names"]

# The texts of a name and of its value.
Member: TypeAlias = tuple[bytes, bytes]
Members: TypeAlias = frozenset[Member]
# The names of the members of an object, in their order.
Names: TypeAlias = tuple[bytes, ...]


class KnownObjects(NamedTuple):
    """Objects of several members.

    Args:
        layers: The text of each, by its members.
        orders: All names that objects have, in their orders: mostly one.
    """

    layers: tuple[dict[Members, bytes], ...] = ()
    orders: frozenset[Names] = frozenset()

    def get(self, members: Members) -> bytes | None:
        """Return the text of an object, or None if it is not known."""
        return next((layer[members] for layer in self.layers if members in layer), None)

    def plus(self, members: Members, names: Names, text: bytes) -> KnownObjects:
        """Return the objects with another one."""
        layers, added = [*self.layers], {members: text}
        while layers and len(layers[-1]) <= len(added):
            added = {**layers.pop(), **added}
        orders = self.orders if names in self.orders else self.orders | {names}
        return KnownObjects((*layers, added), orders)

    def has_other_order(self, names: Names) -> bool:
        """Whether an object has some names and does not begin with them, or with the first ones and then others."""
        return any(order[: len(names)] != names and {*names} <= {*order} for order in self.orders)
