"""The sequences that a session keeps cached, and what a prompt takes of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from logitkit.sessions.prefix_tree import Entry, PrefixTree
from logitkit.sessions.reuse import Reuse, plan_reuse
from logitkit_adapters.sessions.sequences import CachedSequence, SavedSequence, SequenceEngine

__all__ = ["Begun", "CachedSequences"]

# Tokens of sequences, besides the last one, that are kept ready to go on from without a copy.
READY = 4096


@dataclass(frozen=True)
class Kept:
    """A cache in the tree.

    Args:
        saved: The cache.
        approximate: Whether positions in it were shifted, or computed from such, and a model of its depth minds.
    """

    saved: SavedSequence
    approximate: bool


class Begun(NamedTuple):
    """A beginning of a prompt, out of what is cached.

    Args:
        sequence: It holds that beginning.
        reuse: Where it is from.
        approximate: Whether it was cached for another beginning.
    """

    sequence: CachedSequence
    reuse: Reuse
    approximate: bool


class CachedSequences:
    """Caches of several conversations, bounded by tokens.

    Args:
        engine: The model.
        max_tokens: Most tokens that are kept; those that several have in common count once, and the least recently used go first.
        rolling: Whether positions may be shifted.
    """

    def __init__(self, engine: SequenceEngine, max_tokens: int, rolling: bool) -> None:
        self._engine = engine
        self._tree: PrefixTree[Kept] = PrefixTree(max_tokens)
        self._rolling = rolling
        self._last: tuple[int, ...] = ()
        # Those that need not be copied to go on, by their tokens; the one that was kept last is the last.
        self._live: dict[tuple[int, ...], CachedSequence] = {}

    @property
    def tokens(self) -> int:
        """Tokens that are cached now."""
        return self._tree.tokens

    @property
    def position(self) -> int:
        """Tokens of the sequence that was kept last; 0 if it has gone."""
        return len(self._last) if self._tree.get(self._last) is not None else 0

    def shared(self, prompt: list[int]) -> int:
        """Return how many tokens a prompt begins with that are cached, the last one left out."""
        return next((match.shared for match in self._tree.matches(prompt[:-1])), 0)

    def begin(self, prompt: list[int]) -> Begun:
        """Return as much of a prompt as is cached, but for its last token."""
        if self._rolling:
            rolled = self._roll(prompt)
            if rolled is not None:
                return rolled
        for entry, shared in self._tree.matches(prompt[:-1]):
            sequence = self._resumed(entry, shared) or self._engine.restore(entry.value.saved, shared)
            if sequence is not None:
                self._tree.touch(entry)
                return Begun(sequence, Reuse(0, shared, prompt[shared:]), entry.value.approximate)
        return Begun(self._engine.new(), Reuse(0, 0, list(prompt)), False)

    def keep(self, sequence: CachedSequence, approximate: bool) -> None:
        """Keep a sequence as the last one, in place of those that it goes on from."""
        saved, tokens = sequence.save(), sequence.tokens
        self._live.pop(tokens, None)
        if saved is None:
            return
        if saved.is_cuttable:
            for entry in self._beginnings(tokens):
                if entry.value.approximate == approximate:
                    self._tree.discard(entry.tokens)
        self._tree.put(tokens, Kept(saved, approximate))
        self._last = tokens
        self._hold_ready(sequence)

    def rewind(self, length: int) -> None:
        """Keep the first tokens only of the sequence that was kept last; none if its cache cannot be cut."""
        entry = self._tree.get(self._last)
        if entry is None or length == len(self._last):
            return
        kept = entry.value
        sequence = self._engine.restore(kept.saved, length)
        saved = None if sequence is None else sequence.save()
        self._tree.discard(self._last)
        self._live.pop(self._last, None)
        self._last = self._last[:length]
        if saved is not None:
            self._tree.put(self._last, Kept(saved, kept.approximate))

    def clear(self) -> None:
        """Let all go; what the engine itself holds of it too, if it is not what it seems."""
        if any(entry.value.approximate for entry in self._tree.entries()):
            self._engine.forget()
        self._tree.clear()
        self._last = ()
        self._live.clear()

    def _hold_ready(self, sequence: CachedSequence) -> None:
        """Keep a sequence to go on from, and of those before it, the last ones, as many as there is room for."""
        if self._engine.resumes:
            self._live[sequence.tokens] = sequence
        room = READY
        for tokens in reversed([*self._live]):
            if tokens != self._last:
                room -= len(tokens)
            if room < 0 or self._tree.get(tokens) is None:
                del self._live[tokens]

    def _resumed(self, entry: Entry[Kept], length: int) -> CachedSequence | None:
        """Return the first tokens of a sequence that is ready: nothing is copied then."""
        if length < len(entry.tokens) and entry.tokens != self._last:
            # Another conversation that begins alike: its own may go on yet.
            return None
        # What it will have become if something is raised, nobody knows.
        sequence = self._live.pop(entry.tokens, None)
        return None if sequence is None else self._engine.resume(sequence, length)

    def _roll(self, prompt: list[int]) -> Begun | None:
        """Return a beginning whose positions were shifted, if that is more than the common prefix."""
        plans = [(plan_reuse(entry.tokens, prompt, rolling=True), entry) for entry in self._tree.entries()]
        plan, entry = max(plans, key=lambda found: found[0].length, default=(Reuse(0, 0, prompt), None))
        if entry is None or plan.start == 0 or plan.length <= self.shared(prompt):
            return None
        sequence = self._engine.restore(entry.value.saved, plan.start + plan.length)
        if sequence is None or not sequence.shift(plan.start):
            return None
        self._tree.touch(entry)
        return Begun(sequence, plan, entry.value.approximate or self._engine.layers > 1)

    def _beginnings(self, tokens: tuple[int, ...]) -> list[Entry[Kept]]:
        return [entry for entry, shared in self._tree.matches(tokens) if shared == len(entry.tokens) < len(tokens)]
