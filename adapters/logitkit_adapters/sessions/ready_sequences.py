"""Sequences that can be continued without a copy: the last one, and earlier ones up to a limit."""

from __future__ import annotations

from collections import OrderedDict

from logitkit_adapters.sessions.sequence import CachedSequence

__all__ = ["ReadySequences"]


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
