"""What is computed once for all vocabularies of equal content: compiled automata and banks."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TypeVar

from logitkit.automata.automaton_files import AutomatonFiles
from logitkit.automata.bank import Bank
from logitkit.automata.token_automaton import TokenAutomaton
from logitkit.vocabulary import Vocabulary

__all__ = ["Shared", "shared_by"]

T = TypeVar("T")


class Shared:
    """A bounded cache of compiled automata, and one bank: a slot means the same on every device.

    Args:
        cached: Most compiled automata that are kept though no processor uses them; the least recently used go first.
        cached_bytes: Most bytes that they may take.
    """

    def __init__(self, cached: int = 512, cached_bytes: int = 256 * 2**20) -> None:
        self.cached = cached
        self.cached_bytes = cached_bytes
        self._lock = threading.Lock()
        self._automata: OrderedDict[Hashable, TokenAutomaton] = OrderedDict()
        self._bytes = 0
        self._in_work: dict[Hashable, threading.Lock] = {}
        self.bank = Bank()
        # Where other processes find what is compiled here, if there are any, and the other way round.
        self.files: AutomatonFiles | None = None
        self._others: dict[type, object] = {}

    def once(self, kind: type[T], make: Callable[[], T]) -> T:
        """Return the one object of a kind that goes with the vocabulary, made when it is first asked for."""
        found = self._others.get(kind)
        if found is None:
            with self._lock:
                found = self._others.get(kind)
                if found is None:
                    found = self._others[kind] = make()
        return found  # type: ignore[return-value]

    def automaton(self, key: Hashable, compile_: Callable[[], TokenAutomaton]) -> TokenAutomaton:
        """Return the automaton compiled for a key; threads that ask for the same one at once compile it once.

        Args:
            key: Everything that the automaton depends on besides the vocabulary.
            compile_: Makes it; an exception reaches the caller and nothing is cached.
        """
        with self._lock:
            found = self._automata.get(key)
            if found is not None:
                self._automata.move_to_end(key)
                return found
            turn = self._in_work.setdefault(key, threading.Lock())
        with turn:
            with self._lock:
                found = self._automata.get(key)
            if found is not None:
                return found
            made: TokenAutomaton | None = None
            try:
                files = self.files
                made = None if files is None else files.read(key)
                if made is None:
                    made = compile_()
                    if files is not None:
                        files.write(key, made)
            finally:
                # In one step: whoever comes now finds either the work or its result.
                with self._lock:
                    self._in_work.pop(key, None)
                    if made is not None:
                        self._keep(key, made)
            return made

    def _keep(self, key: Hashable, made: TokenAutomaton) -> None:
        before = self._automata.pop(key, None)
        self._automata[key] = made
        self._bytes += _size(made) - (0 if before is None else _size(before))
        while len(self._automata) > self.cached or (self._bytes > self.cached_bytes and len(self._automata) > 1):
            self._bytes -= _size(self._automata.popitem(last=False)[1])


def _size(automaton: TokenAutomaton) -> int:
    # Four bytes more a token for the order by class, which the first mask makes.
    return automaton.nbytes + automaton.class_of.nbytes + 4 * len(automaton.class_of)


_shared: weakref.WeakValueDictionary[str, Shared] = weakref.WeakValueDictionary()
_shared_lock = threading.Lock()


def shared_by(vocabulary: Vocabulary) -> Shared:
    """Return what all vocabularies equal to this one share, as long as any of them is alive."""
    # On the vocabulary itself it is one attribute look-up; equal ones find it by content, once.
    found: Shared | None = vocabulary.__dict__.get("_shared")
    if found is None:
        with _shared_lock:
            found = _shared.setdefault(vocabulary.content_key, Shared())
        vocabulary.__dict__["_shared"] = found
    return found
