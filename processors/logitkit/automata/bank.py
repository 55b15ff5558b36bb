"""The automata of one vocabulary: rows with different automata are handled together."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Hashable
from contextlib import nullcontext

import torch

from logitkit.automata.bank_layout import BankLayout
from logitkit.automata.bank_tables import BankTables
from logitkit.automata.mask_cache import MaskCache
from logitkit.automata.row_mask import RowMask
from logitkit.automata.token_automaton import TokenAutomaton
from logitkit.automata.tracing import prepare_trace, traced_as, tracing_waits
from logitkit.errors import BankFull, StaleAutomaton

__all__ = ["Bank", "Lease"]

# Slot 0 allows every id, text or not, for ever: the row of a request without a constraint.
NEUTRAL = 0


class Lease:
    """Keeps an automaton in its bank; when the last reference to it is gone, its slot is free.

    Args:
        bank: The bank.
        automaton: The automaton.
        slot: Its place in the bank.
        generation: Tells it from automata that had the slot before.
    """

    __slots__ = ("__weakref__", "automaton", "bank", "generation", "slot")

    def __init__(self, bank: Bank, automaton: TokenAutomaton, slot: int, generation: int) -> None:
        self.bank = bank
        self.automaton = automaton
        self.slot = slot
        self.generation = generation


class Bank:
    """Slots with automata, the masks of their visited states (CPU), and their tables as tensors (on each device in use).

    Thread-safe. Automata come and go while states of others are in use; a state whose automaton has gone is detected by its
    generation.

    Args:
        mask_bytes: Most bytes that the masks of visited states may take; the least recently used go first.
        automaton_bytes: Most bytes that the automata may take, on the host; tables on a device take up to twice that.
    """

    def __init__(self, mask_bytes: int = 256 * 2**20, automaton_bytes: int = 2 * 2**30) -> None:
        self.automaton_bytes = automaton_bytes
        self._automata_size = 0
        self.automata: list[TokenAutomaton | None] = [None]
        self.generations: list[int] = [0]
        self._lock = threading.RLock()
        self._free: list[int] = []
        self._leases: weakref.WeakValueDictionary[int, Lease] = weakref.WeakValueDictionary()
        # Slots whose automata may be equal, to be looked at: a collection in the midst of a change may leave some out of date.
        self._alike: dict[Hashable, set[int]] = {}
        self._masks = MaskCache(mask_bytes)
        self._layouts: dict[torch.device, BankLayout] = {}
        # Slots that are not yet on a device as they are here.
        self._changed: dict[torch.device, set[int]] = {}
        self._traced: set[torch.device] = set()
        self.number = traced_as(self)

    @property
    def mask_bytes(self) -> int:
        """Most bytes that the masks of visited states may take."""
        return self._masks.limit

    @mask_bytes.setter
    def mask_bytes(self, limit: int) -> None:
        self._masks.limit = limit

    def lease(self, automaton: TokenAutomaton) -> Lease:
        """Put an automaton into the bank, or find the equal one that is there.

        Raises:
            BankFull: There is no room for another automaton.
        """
        # Taken before the bank's own, as by a trace.
        with tracing_waits() if self._traced else nullcontext(), self._lock:
            for slot in [*self._alike.get(automaton.sizes, ())]:
                lease = self._leases.get(slot)
                if lease is not None and lease.automaton.equals(automaton):
                    return lease
            size = self.size_of(automaton)
            if self._automata_size + size > self.automaton_bytes and self._leases:
                raise BankFull(
                    f"the automata in use with this vocabulary take {self._automata_size:,} bytes, and another one of {size:,} "
                    f"would exceed {self.automaton_bytes:,}; drop processors that are no longer needed, or use equal ones"
                )
            self._automata_size += size
            if self._free:
                slot = self._free.pop()
                self.automata[slot] = automaton
            else:
                slot = len(self.automata)
                self.automata.append(automaton)
                self.generations.append(0)
            lease = Lease(self, automaton, slot, self.generations[slot])
            self._leases[slot] = lease
            self._alike[automaton.sizes] = {*self._alike.get(automaton.sizes, ()), slot}
            self._has_changed(slot)
            weakref.finalize(lease, self._release, slot).atexit = False
            for device in self._traced:
                self.build_tables(device)
            return lease

    def _has_changed(self, slot: int) -> None:
        for slots in [*self._changed.values()]:
            slots.add(slot)

    def find(self, content_key: str) -> Lease | None:
        """Return the lease of the automaton with this key, if it is in the bank."""
        return next((lease for lease in [*self._leases.values()] if lease.automaton.content_key == content_key), None)

    def _release(self, slot: int) -> None:
        with self._lock:
            automaton = self.automata[slot]
            assert automaton is not None
            others = self._alike.pop(automaton.sizes, set()) - {slot}
            if others:
                self._alike[automaton.sizes] = others
            self._automata_size -= self.size_of(automaton)
            self.automata[slot] = None
            self.generations[slot] += 1
            self._free.append(slot)
            self._has_changed(slot)
            self._masks.drop_slot(slot)

    def automaton(self, slot: int, generation: int) -> TokenAutomaton:
        """Return the automaton that a state refers to.

        Raises:
            StaleAutomaton: All processors that used it are gone.
        """
        if 0 < slot < len(self.automata) and self.generations[slot] == generation:
            found = self.automata[slot]
            if found is not None:
                return found
        raise StaleAutomaton(
            f"a state refers to automaton {slot} (generation {generation}), which is no longer in the bank; keep the processor "
            "that made the state (Regex, Choice, ...) alive as long as the state is used"
        )

    def mask(self, slot: int, generation: int, state: Hashable) -> RowMask:
        """Return the mask of a state, from the cache or made now."""
        # With the generation, since a collection may free the slot while its mask is being made.
        key = (slot, generation, state)
        with self._lock:
            found = self._masks.get(key)
            if found is not None and self.generations[slot] == generation:
                return found
            automaton = self.automaton(slot, generation)
            found = self._masks.get(key)
            if found is not None:
                return found
            made = self.mask_of(automaton, state)
            self._masks.put(key, made)
        return made

    def mask_of(self, automaton: TokenAutomaton, state: Hashable) -> RowMask:
        """Work out the mask of a state."""
        assert isinstance(state, int)
        return RowMask.of(automaton, state)

    @property
    def tables(self) -> BankTables:
        """The tables of all automata as tensors on the CPU; see `tables_on`."""
        return self.tables_on(torch.device("cpu"))

    def tables_on(self, device: torch.device) -> BankTables:
        """Return the tables of all automata as tensors on a device.

        A graph that is traced takes them as inputs. It cannot bring them up to date when it runs: `lease` does, from the first
        trace on.
        Until a freed slot is leased again, a graph may so find the automaton that was there, which its own states alone name.
        """
        if torch.compiler.is_compiling():
            prepare_trace(self.number, str(device))
            return self._layouts[device].tables
        return self.build_tables(device)

    def build_tables(self, device: torch.device) -> BankTables:
        """Return the tables on a device, with all changes of the bank since."""
        # Tables made under inference_mode could not be written to outside of it.
        with self._lock, torch.inference_mode(False):
            layout = self._layouts.get(device)
            if layout is None:
                layout = self._lay_out(device)
            # Garbage collection may free a slot meanwhile, even in this thread: then it is among those that changed.
            changed = self._changed[device]
            try:
                while changed:
                    slot = changed.pop()
                    automaton = self.automata[slot]
                    table = None if automaton is None else self.table_of(automaton)
                    if not layout.put(slot, table, self.generations[slot]):
                        layout = self._lay_out(device)
            except BaseException:
                # What was not written, for want of memory say, would be missing for ever.
                self._layouts.pop(device, None)
                raise
            return layout.tables

    def table_of(self, automaton: TokenAutomaton) -> TokenAutomaton:
        """Return the table that stands for an automaton on devices."""
        return automaton

    def new_layout(self, device: torch.device) -> BankLayout:
        """Lay out the tables of all slots anew."""
        automata = [None if a is None else self.table_of(a) for a in [*self.automata]]
        return BankLayout(automata, [*self.generations], device)

    def _lay_out(self, device: torch.device) -> BankLayout:
        # The same set, which a loop over the changes may be at.
        self._changed.setdefault(device, set()).clear()
        layout = self._layouts[device] = self.new_layout(device)
        return layout

    def trace(self, device: torch.device) -> None:
        """Have the tables ready from now on whenever the bank changes, as a compiled graph needs."""
        with self._lock:
            self._traced.add(device)
            self.build_tables(device)

    def size_of(self, automaton: TokenAutomaton) -> int:
        """Return the bytes that an automaton takes."""
        return automaton.nbytes + automaton.class_of.nbytes

    def nbytes(self) -> int:
        """Return the bytes that automata, cached masks and the tables on devices take now."""
        tables = sum(layout.tables.nbytes() for layout in [*self._layouts.values()])
        return self._automata_size + self._masks.nbytes + tables
