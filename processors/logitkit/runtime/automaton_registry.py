"""The registry: all automata of one vocabulary, so that rows with different automata are processed together."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Hashable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from logitkit.compiler.tokens.tables.mask_key import MaskKey
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.errors import BankFull, BatchMismatch, StaleAutomaton
from logitkit.runtime.mask_cache import MaskCache
from logitkit.runtime.registry_layout import RegistryLayout
from logitkit.runtime.registry_tables import RegistryTables
from logitkit.runtime.row_mask import RowMask
from logitkit.runtime.slot_generation import SlotGeneration
from logitkit.runtime.tracing import prepare_trace, traced_as, tracing_waits

__all__ = ["AutomatonHandle", "AutomatonRegistry"]

# Slot 0 always allows every id, with or without text: the row of a request without a constraint.
NEUTRAL = 0

MIXED_REGISTRIES = (
    "rows of constraints that may nest, such as JsonSchema, next to rows of others, such as Regex; keep each sort in a batch of "
    "its own, or make all of them nest: languages.regex(pattern).constraint(vocabulary) in place of Regex(pattern, vocabulary)"
)


@dataclass(slots=True, weakref_slot=True, eq=False)
class AutomatonHandle:
    """Keeps an automaton in its registry; the slot is freed when the last reference to the handle is gone.

    Args:
        registry: The registry.
        automaton: The automaton.
        slot: The automaton's slot in the registry.
        generation: Distinguishes it from earlier automata in the slot.
    """

    registry: AutomatonRegistry
    automaton: TokenAutomaton
    slot: int
    generation: int


class AutomatonRegistry:
    """Slots with automata, the masks of their visited states (CPU), and their tables as tensors (on each device in use).

    Thread-safe. Automata come and go while states of others are in use; the generation reveals a state whose automaton no
    longer exists.

    Args:
        mask_bytes: The memory limit of the masks of visited states; the least recently used are dropped first.
        automaton_bytes: The memory limit of the automata on the host; tables on a device take up to twice as much.
        stacks: Whether automata may have stacks. On devices, each of their states lists all that it does, or all rows of a batch
            would wait for those that fall back.
    """

    # The ids that end a sequence, and the id of padding or None, if they are not those of the automata.
    ends: tuple[Sequence[int], int | None] | None = None

    def __init__(self, mask_bytes: int = 256 * 2**20, automaton_bytes: int = 2 * 2**30, stacks: bool = False) -> None:
        self.stacks = stacks
        self.automaton_bytes = automaton_bytes
        self._automata_size = 0
        self.automata: list[TokenAutomaton | None] = [None]
        self.generations: list[int] = [SlotGeneration.NEUTRAL]
        self._lock = threading.RLock()
        self._free: list[int] = []
        self._handles: weakref.WeakValueDictionary[int, AutomatonHandle] = weakref.WeakValueDictionary()
        # Slots whose automata may be equal, to be compared: a garbage collection during a change may leave some out of date.
        self._alike: dict[Hashable, set[int]] = {}
        self.masks = MaskCache(mask_bytes)
        # The rows of the last step on the host, as numbers: `HostRows`, which knows of registries.
        self.last_rows: Any = None
        self._layouts: dict[torch.device, RegistryLayout] = {}
        # Slots whose tables on a device are out of date.
        self._changed: dict[torch.device, set[int]] = {}
        # The tables of which nothing is out of date.
        self._current: dict[torch.device, RegistryLayout] = {}
        # Tables that graphs of CUDA read where they are, even after others have taken their place.
        self._captured: set[RegistryLayout] = set()
        self._traced: set[torch.device] = set()
        self.trace_name = traced_as(self)

    def register(self, automaton: TokenAutomaton) -> AutomatonHandle:
        """Put an automaton into the registry, or find the equal one that is already there.

        Raises:
            BankFull: There is no memory left for another automaton.
        """
        # Acquired before the registry's own lock, in the same order as in a trace.
        with tracing_waits() if self._traced else nullcontext(), self._lock:
            for slot in [*self._alike.get(automaton.sizes, ())]:
                handle = self._handles.get(slot)
                if handle is not None and handle.automaton.equals(automaton):
                    return handle
            size = self.size_of(automaton)
            if self._automata_size + size > self.automaton_bytes and self._handles:
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
                self.generations.append(SlotGeneration.first(stacks=self.stacks))
            handle = AutomatonHandle(self, automaton, slot, self.generations[slot])
            self._handles[slot] = handle
            self._alike[automaton.sizes] = {*self._alike.get(automaton.sizes, ()), slot}
            self._has_changed(slot)
            weakref.finalize(handle, self._release, slot).atexit = False
            for device in self._traced:
                self.build_tables(device)
            return handle

    def _has_changed(self, slot: int) -> None:
        for slots in [*self._changed.values()]:
            slots.add(slot)
        self._current.clear()

    def find(self, content_key: str) -> AutomatonHandle | None:
        """Return the handle of the automaton with this content key, if it is in the registry."""
        return next(
            (handle for handle in [*self._handles.values()] if handle.automaton.content_key == content_key), None
        )

    def _release(self, slot: int) -> None:
        with self._lock:
            automaton = self.automata[slot]
            assert automaton is not None
            others = self._alike.pop(automaton.sizes, set()) - {slot}
            if others:
                self._alike[automaton.sizes] = others
            self._automata_size -= self.size_of(automaton)
            self.automata[slot] = None
            self.generations[slot] = SlotGeneration.after(self.generations[slot])
            self._free.append(slot)
            self._has_changed(slot)
            self.masks.drop_slot(slot)
            # They hold masks too.
            self.last_rows = None

    def automaton(self, slot: int, generation: int) -> Any:
        """Return the automaton that a state refers to, of the type that the registry holds.

        Raises:
            BatchMismatch: The automaton is in another registry.
            StaleAutomaton: All processors that used it are gone.
        """
        if 0 < slot < len(self.automata) and self.generations[slot] == generation:
            found = self.automata[slot]
            if found is not None:
                return found
        if SlotGeneration.has_stacks(generation) != self.stacks:
            raise BatchMismatch(f"a state has {MIXED_REGISTRIES}")
        raise StaleAutomaton(
            f"a state refers to automaton {slot} (generation {generation}), no longer in the registry; keep the processor "
            "that made the state (Regex, Choice, ...) alive as long as the state is used"
        )

    def mask(
        self, slot: int, generation: int, mask_key: MaskKey | int | tuple[tuple[MaskKey | int, ...], ...]
    ) -> RowMask:
        """Return the mask of a state, of one together with its stack, or of keys in each layer; cached or newly computed."""
        # With the generation, since a garbage collection may free the slot while the mask is computed.
        key = (slot, generation, mask_key)
        with self._lock:
            # At every step of every row, so without a call in between.
            visited = self.masks.visited
            found = visited.get(key)
            if found is not None and self.generations[slot] == generation:
                visited.move_to_end(key)
                return found
            automaton = self.automaton(slot, generation)
            made = self.mask_of(automaton, mask_key)
            self.masks.put(key, made)
        return made

    def mask_of(
        self, automaton: TokenAutomaton, mask_key: MaskKey | int | tuple[tuple[MaskKey | int, ...], ...]
    ) -> RowMask:
        """Compute the mask of a state, of one together with its stack, or of keys in each layer."""
        if isinstance(mask_key, int):
            return RowMask.of(automaton, mask_key)
        if not isinstance(mask_key, MaskKey):
            return RowMask.allowing(automaton, automaton.legal_in_layers(mask_key))
        return RowMask.allowing(automaton, automaton.legal(mask_key))

    @property
    def tables(self) -> RegistryTables:
        """The tables of all automata as tensors on the CPU; see `tables_on`."""
        return self.tables_on(torch.device("cpu"))

    def tables_on(self, device: torch.device) -> RegistryTables:
        """Return the tables of all automata as tensors on a device; see `layout_on`."""
        return self.layout_on(device).tables

    def layout_on(self, device: torch.device) -> RegistryLayout:
        """Return the tables of all automata on a device, including all changes to the registry.

        A traced graph takes them as inputs. It cannot update them when it runs, so from the first trace on, `register` does.
        Until a freed slot is taken again, a graph may still find the old automaton in it, but only through that automaton's own
        states. In the same way, tables stay for a CUDA graph that is captured with them. Rows of automata that these lack end.
        """
        if torch.compiler.is_compiling():
            prepare_trace(self.trace_name, str(device))
            return self._layouts[device]
        layout = self.build_tables(device)
        if layout.is_being_captured():
            self._captured.add(layout)
        return layout

    def build_tables(self, device: torch.device) -> RegistryLayout:
        """Return the tables on a device, including all changes to the registry since the last call."""
        # At every step, so without a lock. Tables come here only when they are written.
        current = self._current.get(device)
        if current is not None:
            return current
        # Tables created under inference_mode could not be written outside of it.
        with self._lock, torch.inference_mode(False):
            layout = self._layouts.get(device)
            new = layout is None
            if layout is None:
                layout = self._lay_out(device)
            # A garbage collection may free a slot meanwhile, even in this thread; the slot is then among the changed ones.
            changed = self._changed[device]
            written = new or bool(changed)
            try:
                while changed:
                    slot = changed.pop()
                    automaton = self.automata[slot]
                    table = None if automaton is None else self.table_of(automaton)
                    if not layout.put(slot, table, self.generations[slot]):
                        layout = self._lay_out(device)
            except BaseException:
                # Otherwise slots that were not written, for lack of memory for example, would be missing permanently.
                self._layouts.pop(device, None)
                raise
            if written:
                layout.settle()
            self._current[device] = layout
            # In this order, since a garbage collection may free a slot in between.
            if changed:
                self._current.clear()
            return layout

    def table_of(self, automaton: TokenAutomaton) -> TokenAutomaton:
        """Return the token table that represents an automaton on devices."""
        return automaton.without_fallback() if self.stacks else automaton

    def new_layout(self, device: torch.device) -> RegistryLayout:
        """Lay out the tables of all slots from the start."""
        automata = [None if a is None else self.table_of(a) for a in [*self.automata]]
        return RegistryLayout(automata, [*self.generations], device, self.ends)

    def _lay_out(self, device: torch.device) -> RegistryLayout:
        # Assigned in place: a loop over the changes may hold this very set.
        self._changed.setdefault(device, set()).clear()
        layout = self._layouts[device] = self.new_layout(device)
        return layout

    def trace(self, device: torch.device) -> None:
        """From now on, update the tables whenever the registry changes, as a compiled graph requires."""
        with self._lock:
            self._traced.add(device)
            self.build_tables(device)

    def size_of(self, automaton: TokenAutomaton) -> int:
        """Return the size of an automaton in bytes."""
        return automaton.nbytes + automaton.class_of.nbytes

    def nbytes(self) -> int:
        """Return the total size of the automata, cached masks and tables on devices, in bytes."""
        tables = sum(layout.nbytes() for layout in {*self._layouts.values(), *self._captured})
        return self._automata_size + self.masks.nbytes + tables
