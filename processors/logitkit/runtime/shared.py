"""Compiled automata and registries, which all vocabularies with equal content share."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import TypeVar

from logitkit.budget import one_budget, spend_once, spent, took
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.limits import UNBOUNDED, Limits
from logitkit.runtime.automaton_files import AutomatonFiles
from logitkit.runtime.automaton_registry import AutomatonRegistry
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["Shared", "shared_by", "size_of"]

T = TypeVar("T")


class Shared:
    """A cache of compiled automata with limits, and two registries, whose slots mean the same on every device.

    Args:
        cached: The maximum number of compiled automata kept while no processor uses them; least recently used ones go first.
        cached_bytes: The maximum size of these in bytes.
    """

    def __init__(self, cached: int = 512, cached_bytes: int = 256 * 2**20) -> None:
        self.cached = cached
        self.cached_bytes = cached_bytes
        self._lock = threading.Lock()
        self._automata: OrderedDict[Hashable, TokenAutomaton] = OrderedDict()
        self._bytes = 0
        self._in_work: dict[Hashable, threading.Lock] = {}
        # Automata with stacks have a registry of their own: in common tables, rows without stacks would wait for them, and they
        # for those of long lists of banned strings.
        self.registry, self.stack_registry = AutomatonRegistry(), AutomatonRegistry(stacks=True)
        # Files through which other processes share compiled automata with this one, if there are any.
        self.files: AutomatonFiles | None = None
        self._others: dict[type, object] = {}

    def once(self, kind: type[T], make: Callable[[], T]) -> T:
        """Return the single object of a kind that belongs to the vocabulary, created on first use."""
        with self._lock:
            if kind not in self._others:
                self._others[kind] = make()
            return self._others[kind]  # type: ignore[return-value]

    def automaton(
        self, key: Hashable, compile_: Callable[[], TokenAutomaton], limits: Limits = UNBOUNDED
    ) -> TokenAutomaton:
        """Return the automaton compiled for a key; threads that ask for the same one at the same time compile it once.

        A cached automaton counts against limits as if it were compiled now, so that the total does not depend on what was
        compiled before.

        Args:
            key: Everything that the automaton depends on besides the vocabulary.
            compile_: Compiles it; an exception reaches the caller, and nothing is cached.
            limits: The limits on all steps of `compile_` together, unless a larger compilation has its own.

        Raises:
            PatternTooLarge: A limit is exceeded.
        """
        with self._lock:
            found = self._automata.get(key)
            if found is None:
                turn = self._in_work.setdefault(key, threading.Lock())
            else:
                self._automata.move_to_end(key)
        if found is None:
            found = self._made(key, compile_, limits, turn)
        spend_once(key, found.work)
        return found

    def _made(
        self, key: Hashable, compile_: Callable[[], TokenAutomaton], limits: Limits, turn: threading.Lock
    ) -> TokenAutomaton:
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
                    with one_budget(limits.work):
                        before = spent()
                        made = compile_()
                        made = replace(made, work=spent() - before)
                        # Counted by key below, like those of an automaton from the cache.
                        took(-made.work)
                    if files is not None:
                        files.write(key, made)
            finally:
                # In one step, so that other threads find either the compilation in progress or its result.
                with self._lock:
                    self._in_work.pop(key, None)
                    if made is not None:
                        self._keep(key, made)
            return made

    def _keep(self, key: Hashable, made: TokenAutomaton) -> None:
        before = self._automata.pop(key, None)
        self._automata[key] = made
        self._bytes += size_of(made) - (0 if before is None else size_of(before))
        while len(self._automata) > self.cached or (self._bytes > self.cached_bytes and len(self._automata) > 1):
            self._bytes -= size_of(self._automata.popitem(last=False)[1])


class SharedByPart(Shared):
    """The cache of a vocabulary without some tokens. Its automata are kept, counted and filed with those of the whole one.

    Args:
        whole: The cache of the whole vocabulary, with the registries of both, so that their rows share batches.
        name: The content key of the vocabulary.
    """

    def __init__(self, whole: Shared, name: str) -> None:
        super().__init__()
        self._whole, self._name = whole, name
        self.registry, self.stack_registry = whole.registry, whole.stack_registry

    def automaton(
        self, key: Hashable, compile_: Callable[[], TokenAutomaton], limits: Limits = UNBOUNDED
    ) -> TokenAutomaton:
        """Return the automaton compiled for a key; see `Shared.automaton`."""
        return self._whole.automaton((self._name, key), compile_, limits)


def size_of(automaton: TokenAutomaton) -> int:
    """Return the size of an automaton in bytes once it has been used."""
    # The first mask adds the order of tokens by class: four bytes per token.
    return automaton.nbytes + automaton.class_of.nbytes + 4 * len(automaton.class_of)


_shared: weakref.WeakValueDictionary[str, Shared] = weakref.WeakValueDictionary()
_shared_lock = threading.Lock()


def shared_by(vocabulary: Vocabulary) -> Shared:
    """Return the object shared by all vocabularies equal to this one, as long as any of them is alive."""
    # The vocabulary itself keeps it as an attribute; an equal vocabulary finds it by content, once.
    found: Shared | None = vocabulary.__dict__.get("_shared")
    if found is None:
        name = vocabulary.content_key
        made = Shared() if vocabulary.whole is None else SharedByPart(shared_by(vocabulary.whole), name)
        with _shared_lock:
            found = _shared.setdefault(name, made)
        vocabulary.__dict__["_shared"] = found
    return found
