"""Compares the masks of a constraint with a plain matcher, after every sequence of tokens that leads somewhere new."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any
from unittest import mock

import pytest
import torch

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit.languages import Language
from logitkit.protocol.state import select
from tests.languages.matcher import Matcher, Text

__all__ = ["Judge", "TooMany", "accepts", "compare", "masks_of", "rows_of"]

NEVER = 10**9


class TooMany(Exception):
    """The language has more texts that differ than are tried."""


class Judge:
    """Which tokens are legal, worked out from all texts that the tokens can spell.

    A token is legal if some tokens after it make the text complete.

    Args:
        matcher: Says which texts belong to the language.
        most: The most texts that differ in how they may go on.
        shown: The tokens that are looked at, and enough to complete any text; all, unless given.
    """

    def __init__(self, matcher: Matcher, most: int = 1500, shown: Iterable[int] | None = None) -> None:
        self.matcher, self.most = matcher, most
        self.ends = set(matcher.vocabulary.eos_ids)
        self._legal_ends: dict[Text, set[int]] = {}
        self.tokens = [t for t in shown or range(matcher.vocabulary.size) if t not in self.ends]

    @cached_property
    def moves(self) -> dict[Text, dict[int, Text]]:
        """Where each token leads from each text that can be begun."""
        found: dict[Text, dict[int, Text]] = {}
        todo = [self.matcher.start()]
        while todo:
            text = todo.pop()
            if text in found:
                continue
            if len(found) >= self.most:
                raise TooMany
            row = {token: self.matcher.after(text, token) for token in self.tokens}
            found[text] = {token: after for token, after in row.items() if after.ways}
            todo.extend(found[text].values())
        return found

    @cached_property
    def needed(self) -> dict[Text, int]:
        """How many tokens complete each text, at least; `NEVER` if none do."""
        before: dict[Text, list[Text]] = {text: [] for text in self.moves}
        for text, row in self.moves.items():
            for after in row.values():
                before[after].append(text)
        fresh = [text for text in self.moves if self.legal_ends(text)]
        found = dict.fromkeys(self.moves, NEVER) | dict.fromkeys(fresh, 0)
        while fresh:
            reached = [(other, found[text] + 1) for text in fresh for other in before[text] if found[other] == NEVER]
            found.update(reached)
            fresh = [text for text, _ in reached]
        return found

    def legal_ends(self, text: Text) -> set[int]:
        """Return the EOS ids that may follow a text.

        Those that the language names are part of the text that they complete. The others follow a complete text; if there are
        none, and no EOS id is part of the text, then all do.
        """
        if text not in self._legal_ends:
            named = self.matcher.named_ends
            found = {end for end in named if self.matcher.after(text, end).is_complete}
            if text.is_complete:
                found |= self.ends - named
            self._legal_ends[text] = found or (self.ends if text.is_complete else set())
        return self._legal_ends[text]

    def legal(self, text: Text, left: int = NEVER) -> set[int]:
        """Return the tokens that may follow a text, if no more than `most` may follow."""
        following = {
            t for t, after in self.moves[text].items() if self.needed[after] < left and self.needed[after] < NEVER
        }
        return following | self.legal_ends(text)


def masks_of(constraint: Any, state: Any, context: lk.Context) -> torch.Tensor:
    """Return which tokens a constraint allows, [B, V] bool, on the host and by tensors alone."""
    logits = torch.zeros(len(context.lengths), constraint.vocabulary.size)
    by_rows = constraint.process_logits(state, logits.clone(), context)[1]
    with mock.patch.object(torch.compiler, "is_compiling", return_value=True):
        by_tensors = constraint.process_logits(state, logits.clone(), context)[1]
    assert torch.equal(by_rows, by_tensors)
    allowed: torch.Tensor = by_rows == 0
    return allowed


def compare(
    language: Language,
    vocabulary: lk.Vocabulary,
    *,
    most: int = 1500,
    shown: Iterable[int] | None = None,
    closing: bool | int = False,
    **options: Any,
) -> int:
    """Compare all masks of a language; return after how many different texts.

    Raises:
        TooMany: The language has more different texts than `most`.
    """
    judge = Judge(Matcher(language, vocabulary, options.get("max_depth", 32) + 1), most, shown)
    start = judge.matcher.start()
    needed = judge.needed[start]
    if needed == NEVER or (closing and needed > closing):
        with pytest.raises(ConfigurationError):
            language.constraint(vocabulary, closing=closing, **options)
        return 0
    constraint = language.constraint(vocabulary, closing=closing, **options)
    context = lk.Context.of([[]], vocabulary_size=vocabulary.size)
    state = constraint.init_state(context)
    texts: list[tuple[Text, int, list[int]]] = [(start, closing or NEVER, [])]
    met: set[Any] = {(start, *rows_of(state)[0], closing or NEVER)}
    while texts:
        context = lk.Context.of([[]] * len(texts), vocabulary_size=vocabulary.size)
        masks = masks_of(constraint, state, context)
        ending = [(row, end) for row, (text, _, _) in enumerate(texts) for end in sorted(judge.legal_ends(text))]
        if ending:
            ended = constraint.advance(
                select(state, torch.tensor([r for r, _ in ending])), torch.tensor([e for _, e in ending])
            )
            assert constraint.is_finished(ended).all()
        rows, tokens, following = [], [], []
        for number, ((text, left, said), mask) in enumerate(zip(texts, masks, strict=True)):
            legal = judge.legal(text, left)
            found = set(mask.nonzero().flatten().tolist()) & {*judge.tokens, *judge.ends}
            assert found == legal, (said, "legal but masked:", legal - found, "allowed but illegal:", found - legal)
            for token in sorted(legal - judge.ends):
                rows.append(number)
                tokens.append(token)
                following.append((judge.moves[text][token], left - 1 if left < NEVER else left, [*said, token]))
        if not rows:
            break
        state = constraint.advance(select(state, torch.tensor(rows)), torch.tensor(tokens))
        fresh = []
        for number, ((text, left, _), row) in enumerate(zip(following, rows_of(state), strict=True)):
            key = text, *row, left
            if key not in met:
                met.add(key)
                fresh.append(number)
        if len(met) > 4 * most:
            raise TooMany
        texts = [following[number] for number in fresh]
        if not fresh:
            break
        state = select(state, torch.tensor(fresh))
    return len(judge.moves)


def rows_of(state: Any) -> list[tuple[int, ...]]:
    """Return each row of a state as numbers."""
    now, stack = state.at.state, state.stack
    flat = torch.cat([now[:, None], stack.reshape(len(now), -1).to(torch.int64)], 1)
    return [tuple(row) for row in flat.tolist()]


def accepts(constraint: Any, text: bytes) -> bool:
    """Return whether a constraint allows a text and then EOS, for a vocabulary in which each byte is the token of its number."""
    size = constraint.vocabulary.size
    context = lk.Context.of([[]], vocabulary_size=size)
    state = constraint.init_state(context)
    for token in (*text, *constraint.vocabulary.eos_ids):
        if constraint.process_logits(state, torch.zeros(1, size), context)[1][0, token] != 0:
            return False
        state = constraint.advance(state, torch.tensor([token]))
    return True
