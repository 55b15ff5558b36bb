"""The masks of a peer beside ours on one pattern, with `re` to decide every difference."""

from __future__ import annotations

import codecs
import re
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import regex  # type: ignore[import-untyped]
import torch
from numpy.typing import NDArray

from benchmarks.peer import NotTaken, Peer, Rows
from benchmarks.peer_suites import judged_by
from benchmarks.peers import LIMITS, LLGuidance, Logitkit
from benchmarks.suite import Entry
from logitkit.compiler.bytes.byte_dfa import ByteDfa
from logitkit.compiler.language import pattern_dfa
from logitkit.vocabulary import Vocabulary

SAMPLES = 4  # tokens decided for each state and each kind of difference
DENIES, ALLOWS, DENIES_EOS, ALLOWS_EOS = (
    "denies a token",
    "allows a token",
    "denies the end",
    "allows the end",
)


@dataclass
class Verdicts:
    """The findings for one peer and one pattern.

    Args:
        states: Masks compared.
        differing: How many of them differed.
        tokens: Tokens on which they differed, by kind, in all states.
        right: Examples decided for us, by kind.
        wrong: Examples decided for the peer, as (text so far, token, deciding text).
        undecided: Examples that nothing decided.
        examples: The first example decided for us, by kind.
    """

    states: int = 0
    differing: int = 0
    tokens: Counter[str] = field(default_factory=Counter)
    right: Counter[str] = field(default_factory=Counter)
    wrong: list[tuple[str, str, str]] = field(default_factory=list)
    undecided: list[tuple[str, str]] = field(default_factory=list)
    examples: dict[str, tuple[str, str, str]] = field(default_factory=dict)


class Comparison:
    """Ours and a peer on one pattern.

    Args:
        ours: Our rows maker.
        peer: The peer.
        entry: The pattern.
        vocabulary: The tokens.
    """

    def __init__(self, ours: Logitkit, peer: Peer, entry: Entry, vocabulary: Vocabulary) -> None:
        self.peer = peer
        self.vocabulary = vocabulary
        self.eos = vocabulary.eos_ids[0]
        self.pattern = judged_by(entry)
        self.dfa = pattern_dfa(entry.pattern, LIMITS)
        self.ours = ours.start(ours.compile(entry.pattern), 1)
        self.compiled = peer.compile(entry.pattern)
        self.given = entry.pattern
        # The last id of a byte: where pieces come beside bytes, this is the piece, as a tokenizer would have it.
        self.byte_ids = {t[0]: i for i, t in enumerate(vocabulary.tokens) if t and len(t) == 1}
        self.found = Verdicts()

    def run(self, steps: int, report: Callable[[dict[str, Any]], None]) -> None:
        """Compare along random texts."""
        random = np.random.default_rng(1)
        rows = self._start()
        written: list[int] = []
        for step in range(steps):
            mine, theirs = self._mask(self.ours), self._mask(rows)
            self.found.states += 1
            self._decide(written, mine, theirs, random)
            if step % 10 == 0:
                report(vars(self.found))
            common = np.flatnonzero(mine & theirs)
            common = common[common != self.eos]
            token = int(random.choice(common)) if len(common) and not (mine[self.eos] and random.random() < 0.1) else -1
            try:
                rows.advance(torch.tensor([token]))
            except NotTaken as error:
                self._note(DENIES, written, token, str(error))
                rows, token = self._start(), -1
            self.ours.advance(torch.tensor([token]))
            written = [] if token == -1 else [*written, token]
        report(vars(self.found))

    def _start(self) -> Rows:
        # A matcher of LLGuidance is both the grammar and the place in a text.
        compiled = self.peer.compile(self.given) if isinstance(self.peer, LLGuidance) else self.compiled
        return self.peer.start(compiled, 1)

    def _mask(self, rows: Rows) -> NDArray[np.bool_]:
        logits = torch.zeros(1, self.vocabulary.size)
        rows.mask(logits)
        allowed: NDArray[np.bool_] = logits[0].numpy() == 0
        return allowed

    def _decide(
        self, written: list[int], mine: NDArray[np.bool_], theirs: NDArray[np.bool_], random: np.random.Generator
    ) -> None:
        if np.array_equal(mine, theirs):
            return
        self.found.differing += 1
        text = self.vocabulary.decode(written)
        if mine[self.eos] != theirs[self.eos]:
            kind = DENIES_EOS if mine[self.eos] else ALLOWS_EOS
            self.found.tokens[kind] += 1
            if self._matches(text) == bool(mine[self.eos]):
                self._note(kind, written, self.eos, _shown(text))
            else:
                self.found.wrong.append((_shown(text), "EOS", _shown(text)))
        decide = {DENIES: self._decide_denied, ALLOWS: self._decide_allowed}
        for kind, differing in ((DENIES, mine & ~theirs), (ALLOWS, theirs & ~mine)):
            tokens = np.flatnonzero(differing)
            tokens = tokens[tokens != self.eos]
            self.found.tokens[kind] += len(tokens)
            for token in random.permutation(tokens)[:SAMPLES].tolist():
                decide[kind](written, token)

    def _decide_denied(self, written: list[int], token: int) -> None:
        text = self.vocabulary.decode([*written, token])
        end = shortest_end(self.dfa, text)
        whole = text + (end or b"")
        if end is not None and self._matches(whole):
            self._note(DENIES, written, token, _shown(whole))
        else:
            self.found.wrong.append(
                (_shown(self.vocabulary.decode(written)), _shown(self._bytes(token)), _shown(whole))
            )

    def _decide_allowed(self, written: list[int], token: int) -> None:
        before, added = _shown(self.vocabulary.decode(written)), _shown(self._bytes(token))
        if self.vocabulary.tokens[token] is None:
            self._note(ALLOWS, written, token, "an id without text")
            return
        whole = self._peer_ends_as_before(written, token) or self._peer_goes_on([*written, token])
        if whole is not None:
            if self._matches(whole):
                self.found.wrong.append((before, added, _shown(whole)))
            else:
                self._note(ALLOWS, written, token, _shown(whole))
            return
        begun = self.vocabulary.decode([*written, token])
        text = _whole_characters(begun)
        if text is None:
            self._note(ALLOWS, written, token, "not UTF-8")
        elif regex.fullmatch(self.pattern, text, partial=True) is None:
            self._note(ALLOWS, written, token, "no text that begins so")
        else:
            self.found.undecided.append((before, added))

    def _peer_ends_as_before(self, written: list[int], token: int) -> bytes | None:
        """Return the text that goes on with the token and then ends as it could without it, if the peer accepts that."""
        end = shortest_end(self.dfa, self.vocabulary.decode(written)) or b""
        ids = [*written, token]
        rows = self._start()
        try:
            for i in ids:
                rows.advance(torch.tensor([i]))
            while (begun := self.vocabulary.decode(ids)) and not _is_utf8(begun):
                legal = self._mask(rows)
                inner = [i for i in map(self.byte_ids.get, range(0x80, 0xC0)) if i is not None and legal[i]]
                if not inner:
                    return None
                ids.append(inner[0])
                rows.advance(torch.tensor(inner[:1]))
            for i in (self.byte_ids[byte] for byte in end):
                ids.append(i)
                rows.advance(torch.tensor([i]))
        except NotTaken:
            return None
        return self.vocabulary.decode(ids) if self._mask(rows)[self.eos] else None

    def _peer_goes_on(self, ids: list[int]) -> bytes | None:
        """Return a whole text that the peer accepts and that begins so, if it soon finds one."""
        for seed in range(3):
            random = np.random.default_rng(seed)
            rows = self._start()
            written = list(ids)
            try:
                for token in ids:
                    rows.advance(torch.tensor([token]))
                for _ in range(60):
                    legal = self._mask(rows)
                    if legal[self.eos]:
                        return self.vocabulary.decode(written)
                    if not legal.any():
                        break
                    written.append(int(random.choice(np.flatnonzero(legal))))
                    rows.advance(torch.tensor(written[-1:]))
            except NotTaken:
                continue
        return None

    def _matches(self, text: bytes) -> bool:
        try:
            return re.fullmatch(self.pattern, text.decode()) is not None
        except UnicodeDecodeError:
            return False

    def _bytes(self, token: int) -> bytes:
        return self.vocabulary.tokens[token] or b""

    def _note(self, kind: str, written: list[int], token: int, deciding: str) -> None:
        self.found.right[kind] += 1
        added = "EOS" if token == self.eos else _shown(self._bytes(token))
        shown = (_shown(self.vocabulary.decode(written)), added, deciding)
        if kind not in self.found.examples or len("".join(shown)) < len("".join(self.found.examples[kind])):
            self.found.examples[kind] = shown


def shortest_end(dfa: ByteDfa, text: bytes) -> bytes | None:
    """Return the fewest bytes that complete a text, or None if it is dead."""
    start = dfa.run(text)
    letters = {int(c): b for b, c in reversed(list(enumerate(dfa.byte_class.tolist())))}
    reached: dict[int, tuple[int, int]] = {}
    queue = deque([start])
    while queue:
        state = queue.popleft()
        if dfa.accepting[state]:
            end = bytearray()
            while state != start:
                state, byte = reached[state]
                end.append(byte)
            return bytes(reversed(end))
        for symbol, target in enumerate(dfa.step[state].tolist()):
            if target > 0 and target != start and target not in reached:
                reached[target] = (state, letters[symbol])
                queue.append(target)
    return None


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _whole_characters(text: bytes) -> str | None:
    """Return the whole characters of a text that may end inside of one, or None if it is not the beginning of UTF-8."""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(text)
    except UnicodeDecodeError:
        return None


def _shown(text: bytes) -> str:
    """Write bytes so that they can be read and copied."""
    try:
        written = repr(text.decode())
    except UnicodeDecodeError:
        written = repr(text)
    return written if len(written) < 90 else f"{written[:40]} ... {written[-40:]}"
