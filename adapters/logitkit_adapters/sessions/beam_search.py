"""Beam search over rows being generated."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from logitkit.sessions.token_choice import best_continuations, without_twins
from logitkit_adapters.sessions.batch import BatchRun
from logitkit_adapters.sessions.written_rows import WrittenRows

__all__ = ["BeamSearch"]


class Hypothesis(NamedTuple):
    """A complete text, kept unless a better one replaces it.

    Args:
        score: Its weight divided by a power of its length.
        weight: The sum of its log-probabilities.
        row: The row of the text, or the row that it extends by the token.
        token: The last token, or -1 if it is already part of the row.
    """

    score: float
    weight: float
    row: int
    token: int = -1


class BeamSearch:
    """The search. For each prompt, the best `beams` beams continue, and the best `beams` complete texts are kept.

    The rows are the beams of all prompts, followed by the complete texts. A prompt is done when its best beam cannot score
    better than the worst of its complete texts.

    Args:
        rows: The rows that the beams start from.
        run: The run of these rows.
        beams: The number of beams per prompt.
        length_penalty: The score of a text is the sum of its log-probabilities divided by this power of its length after the
            prompt, including EOS.

    Source: Wu and others, Google's Neural Machine Translation System, 2016, https://arxiv.org/abs/1609.08144, section 7; the
        kept texts and the end of the search are as in transformers with `early_stopping=False`.
    """

    def __init__(self, rows: WrittenRows, run: BatchRun, beams: int, length_penalty: float) -> None:
        self._rows, self._run, self._beams, self._penalty = rows, run, beams, length_penalty
        self._count = len(rows.ids)
        self._streams = rows.context.streams
        weights = without_twins(rows.weights.reshape(-1, beams), rows.before.rows).reshape(-1)
        complete = rows.finished.nonzero()[:, 0].tolist()
        scores = self._scores(weights, 1).tolist()
        self._kept: list[list[Hypothesis]] = [[] for _ in range(self._count // beams)]
        for place, row in enumerate(complete, self._count):
            if scores[row] > -torch.inf:
                self._kept[row // beams].append(Hypothesis(scores[row], float(weights[row]), place))
        self._is_open = [True] * len(self._kept)
        if complete:
            self._take([*range(self._count), *complete])
        rows.weights = torch.cat([weights.masked_fill(rows.finished[: self._count], -torch.inf), weights[complete]])

    def step(self, logits: Tensor, is_last: bool) -> None:
        """Extend every beam by a token."""
        rows, beams, count = self._rows, self._beams, self._count
        scores = rows.processed(rows.likelihood(logits))[:count]
        best, parents, tokens = best_continuations(
            rows.weights[:count].reshape(-1, beams), scores, beams * (1 + len(rows.ends))
        )
        is_end = torch.isin(tokens, rows.ends) | is_last
        columns = [column.tolist() for column in (self._scores(best, 1, parents), best, parents, tokens, is_end)]
        rows.raise_broken()
        going: list[Hypothesis] = []
        for prompt, is_open in enumerate(self._is_open):
            # Best first, with the weights that stand for no text at the end.
            values = zip(*(column[prompt] for column in columns), strict=True)
            found = [(Hypothesis(*value), ends) for *value, ends in values if is_open and value[1] > -torch.inf]
            complete = [h for h, ends in found[:beams] if ends]
            self._kept[prompt] = sorted([*self._kept[prompt], *complete], key=lambda h: -h.score)[:beams]
            dead = [Hypothesis(-torch.inf, -torch.inf, prompt * beams)] * beams
            going += [*(h for h, ends in found if not ends), *dead][:beams]
        self._grow(going)
        self._close()

    def finish(self) -> None:
        """Keep only the complete texts, best first; a weight of -inf marks those for which there was no other text."""
        order: list[Hypothesis] = []
        for prompt, kept in enumerate(self._kept):
            first = kept[0].row if kept else prompt * self._beams
            order += [*kept, *[Hypothesis(-torch.inf, -torch.inf, first)] * self._beams][: self._beams]
        self._take([h.row for h in order])
        self._rows.weights = self._rows.weights.new_tensor([h.weight for h in order])

    def _grow(self, going: list[Hypothesis]) -> None:
        """Replace the rows with the beams and the complete texts, each extended by its next token."""
        kept = [h for group in self._kept for h in group]
        self._take([h.row for h in (*going, *kept)])
        place = self._count
        for prompt, group in enumerate(self._kept):
            self._kept[prompt] = [h._replace(row=place + i, token=-1) for i, h in enumerate(group)]
            place += len(group)
        rows = self._rows
        # The random stream of a beam depends on its rank, not on the row that it continues.
        streams = torch.nn.functional.pad(self._streams, (0, len(kept)))
        rows.context = replace(rows.context, stream_ids=streams)
        before, rows.weights = rows.weights, rows.weights.new_tensor([h.weight for h in (*going, *kept)])
        tokens = torch.tensor([h.token for h in (*going, *kept)], device=rows.ids.device)
        rows.append(tokens, before, rows.weights - before)

    def _close(self) -> None:
        """Mark the prompts whose beams can no longer improve on their complete texts."""
        best = self._scores(self._rows.weights[: self._count], 0).reshape(-1, self._beams).amax(1).tolist()
        for prompt, kept in enumerate(self._kept):
            worst = kept[-1].score if len(kept) == self._beams else -torch.inf
            if best[prompt] <= worst and self._is_open[prompt]:
                self._is_open[prompt] = False
                self._rows.ended[prompt * self._beams : (prompt + 1) * self._beams] = True

    def _scores(self, weights: Tensor, more: int, rows: Tensor | None = None) -> Tensor:
        """Return weights divided by lengths; the rows default to those of the weights."""
        lengths = self._rows.lengths - self._rows.prompt_lengths + more
        lengths = lengths[: len(weights)] if rows is None else lengths[rows]
        return weights / lengths.clamp(min=1).to(weights.dtype) ** self._penalty

    def _take(self, rows: list[int]) -> None:
        if rows != list(range(len(self._rows.ids))):
            taken = torch.tensor(rows, device=self._rows.ids.device)
            self._run.select(taken)
            self._rows.keep(taken)
