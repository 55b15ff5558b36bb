"""The cached sequences of a session, and their reuse for a prompt; some can be continued without a copy."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from logitkit.sessions.prefix_tree import Entry, Match, PrefixTree
from logitkit.sessions.reuse import Reuse, plan_reuse
from logitkit_adapters.sessions.media_prompt import cached_ids
from logitkit_adapters.sessions.sequence import CachedSequence, SavedSequence, SequenceEngine

__all__ = ["Begun", "CachedSequences", "ReadySequences"]


class ReadySequences:
    """Sequences that are not in use, by their tokens.

    Args:
        room: The maximum number of tokens of all sequences except the last one.
        held: The sequences, the last one at the end.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self.held: OrderedDict[tuple[int, ...], CachedSequence] = OrderedDict()
        self._tokens = 0

    def hold(self, sequence: CachedSequence) -> None:
        """Add a sequence as the last one; evicts the oldest ones if they exceed the limit."""
        tokens = sequence.tokens
        self.take(tokens)
        self.held[tokens] = sequence
        self._tokens += len(tokens)
        while self._tokens - len(tokens) > self._room:
            gone, _ = self.held.popitem(last=False)
            self._tokens -= len(gone)

    def take(self, tokens: tuple[int, ...]) -> CachedSequence | None:
        """Remove and return a sequence, or return None if it is not here."""
        sequence = self.held.pop(tokens, None)
        if sequence is not None:
            self._tokens -= len(tokens)
        return sequence

    def clear(self) -> None:
        """Hold none."""
        self.held.clear()
        self._tokens = 0


# The number of tokens of sequences, besides the last one, that can be continued without a copy.
READY = 4096


@dataclass(frozen=True)
class CachedEntry:
    """A cache in the tree.

    Args:
        saved: The cache.
        approximate: Whether positions in it were shifted, or computed from shifted ones, in a model deep enough for that to
            matter.
    """

    saved: SavedSequence
    approximate: bool


class Begun(NamedTuple):
    """The cached beginning of a prompt.

    Args:
        sequence: A sequence of that beginning.
        reuse: The cached tokens that it comes from.
        approximate: Whether it was computed after another beginning.
    """

    sequence: CachedSequence
    reuse: Reuse
    approximate: bool


class CachedSequences:
    """The caches of several conversations, limited in tokens.

    Args:
        engine: The model.
        max_tokens: The maximum number of cached tokens; shared prefixes count once, and the least recently used sequences are
            evicted first. The beginning of a longer sequence is kept if its cache can be cut.
        rolling: Whether positions may be shifted.
    """

    name = "cached tokens"

    def __init__(self, engine: SequenceEngine, max_tokens: int, rolling: bool) -> None:
        self._engine = engine
        self._max_tokens = max_tokens
        self._tree: PrefixTree[CachedEntry] = PrefixTree(max_tokens)
        self._rolling = rolling
        # Whether a cache can be cut to its first positions: a property of the model, so the same for all its caches.
        self._are_cuttable = True
        self._last: tuple[int, ...] = ()
        self._prompt: list[int] = []
        self._ready = ReadySequences(READY)

    @property
    def tokens(self) -> int:
        """The number of cached tokens."""
        return self._tree.tokens

    @property
    def position(self) -> int:
        """The number of tokens in the last cached sequence; 0 if it has been evicted."""
        last = self._last
        return len(last) if self._tree.get(last) is not None else 0

    def shared(self, prompt: list[int]) -> int:
        """Return how many tokens at the start of a prompt are cached, not counting its last token."""
        ids = cached_ids(prompt)
        return next((self._engine.reusable(ids, match.shared) for match in self._candidates(ids[:-1])), 0)

    def begin(self, prompt: list[int]) -> Begun:
        """Return the cached part of a prompt, except for its last token."""
        if self._rolling:
            rolled = self._roll(prompt)
            if rolled is not None:
                return rolled
        ids = cached_ids(prompt)
        is_same, self._prompt = ids == self._prompt, ids
        for entry, found in self._candidates(ids[:-1]):
            shared = self._engine.reusable(ids, found)
            is_sample = is_same and entry.tokens == self._last
            # Where restoring moves a cache, computing a short beginning again costs less than what would be lost.
            if not shared or (self._engine.moves and 2 * shared < len(entry.tokens) and not is_sample):
                continue
            sequence = self._resumed(entry, shared) or self._engine.restore(entry.value.saved, shared)
            if sequence is not None:
                self._use(entry, sequence)
                return Begun(sequence, Reuse(0, shared, prompt[shared:]), entry.value.approximate)
        return Begun(self._engine.new(), Reuse(0, 0, list(prompt)), False)

    def keep(self, sequence: CachedSequence, approximate: bool) -> None:
        """Cache a sequence as the last one; it replaces the sequences that it extends."""
        saved = sequence.save() if self._fits(sequence) else None
        self._last = tokens = sequence.tokens
        self._ready.take(tokens)
        if saved is None or not tokens:
            return
        self._are_cuttable = saved.is_cuttable
        if saved.is_cuttable:
            for entry, shared in self._tree.beginnings(tokens):
                if shared < len(tokens) and entry.value.approximate == approximate:
                    self._discard(entry.tokens)
        for entry in self._tree.put(tokens, CachedEntry(saved, approximate)):
            self._ready.take(entry.tokens)
        if self._engine.resumes:
            self._ready.hold(sequence)

    def rewind(self, length: int) -> None:
        """Cut the last cached sequence to its first tokens, or remove it if its cache cannot be cut."""
        entry = self._tree.get(self._last)
        if entry is None or length == len(self._last):
            return
        kept = entry.value
        sequence = self._engine.restore(kept.saved, length)
        saved = None if sequence is None else sequence.save()
        self._discard(self._last)
        self._last = self._last[:length]
        if saved is not None:
            self._tree.put(self._last, CachedEntry(saved, kept.approximate))
        if kept.approximate:
            self._engine.forget()

    def clear(self) -> None:
        """Remove all sequences, and also what the engine itself may mistake for the cache of some tokens."""
        if any(entry.value.approximate for entry in self._tree.entries()):
            self._engine.forget()
        self._tree.clear()
        self._last = ()
        self._ready.clear()

    def _fits(self, sequence: CachedSequence) -> bool:
        """Cut a sequence that is too long to cache; return False if its cache cannot be cut, or nothing may be cached."""
        return sequence.length <= self._max_tokens or (self._max_tokens > 0 and sequence.trim(self._max_tokens))

    def _candidates(self, tokens: list[int]) -> Iterable[Match[CachedEntry]]:
        """Return the caches that a prompt can continue, the most useful first."""
        return self._tree.matches(tokens) if self._are_cuttable else self._tree.beginnings(tokens)

    def _use(self, entry: Entry[CachedEntry], sequence: CachedSequence) -> None:
        """Mark a cache as used by a restored sequence, which may have moved it and dropped its rest."""
        saved = sequence.save() if self._engine.moves and sequence.length < len(entry.tokens) else None
        if saved is None:
            self._tree.touch(entry)
            return
        self._discard(entry.tokens)
        self._tree.put(saved.tokens, CachedEntry(saved, entry.value.approximate))
        if self._last == entry.tokens:
            self._last = saved.tokens

    def _discard(self, tokens: tuple[int, ...]) -> None:
        self._tree.discard(tokens)
        self._ready.take(tokens)

    def _resumed(self, entry: Entry[CachedEntry], length: int) -> CachedSequence | None:
        """Return the first tokens of a sequence that is ready for use, without a copy."""
        if length < len(entry.tokens) and entry.tokens != self._last:
            # The ready sequence may belong to another conversation with the same beginning, which may still continue.
            return None
        # If this raises, the state of the sequence is unknown.
        sequence = self._ready.take(entry.tokens)
        return None if sequence is None else self._engine.resume(sequence, length)

    def _roll(self, prompt: list[int]) -> Begun | None:
        """Return a beginning with shifted positions, if it is longer than the common prefix."""
        ids = cached_ids(prompt)
        plans = [(plan_reuse(entry.tokens, ids, rolling=True), entry) for entry in self._tree.entries()]
        plan, entry = max(plans, key=lambda found: found[0].length, default=(Reuse(0, 0, prompt), None))
        if entry is None or plan.start == 0 or plan.length <= self.shared(prompt):
            return None
        sequence = self._engine.restore(entry.value.saved, plan.start + plan.length)
        if sequence is None or not sequence.shift(plan.start):
            return None
        self._tree.touch(entry)
        return Begun(sequence, plan, entry.value.approximate or self._engine.layers > 1)
