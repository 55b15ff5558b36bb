"""Beam search over rows that are being written."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from logitkit.sessions.token_choice import best_continuations, without_twins
from logitkit_adapters.sessions.batches.protocol import BatchRun
from logitkit_adapters.sessions.written_rows import WrittenRows

__all__ = ["BeamSearch"]


class Hypothesis(NamedTuple):
    """A text that is complete, unless a better one takes its place.

    Args:
        score: Its weight, divided by a power of its length.
        weight: The sum of its log-probabilities.
        row: The row that it is, or that it becomes by the token.
        token: The last token, or -1 if it is there already.
    """

    score: float
    weight: float
    row: int
    token: int = -1


class BeamSearch:
    """The search: of each prompt as many beams go on as are asked for, and as many complete texts are kept, the best ones.

    Rows are the beams of all prompts, and after them the complete texts. A prompt is done once the best beam has no better a
    score than the worst of its complete texts.

    Args:
        rows: The rows that beams begin with.
        run: Their run.
        beams: Of each prompt.
        length_penalty: The score of a text is the sum of its log-probabilities over this power of its length since the prompt, an
            EOS counted.

    Source: Wu and others, Google's Neural Machine Translation System, 2016, https://arxiv.org/abs/1609.08144, section 7; what
    is kept and when it ends is as in transformers with `early_stopping=False`.
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
        """Let every beam grow by a token."""
        rows, beams, count = self._rows, self._beams, self._count
        likelihood = logits.log_softmax(1)
        scores = rows.processed(likelihood)[:count]
        best, parents, tokens = best_continuations(
            rows.weights[:count].reshape(-1, beams), scores, beams * (1 + len(rows.ends))
        )
        is_end = torch.isin(tokens, rows.ends) | is_last
        reached = self._scores(best, 1, parents).tolist()
        going: list[Hypothesis] = []
        for prompt, is_open in enumerate(self._is_open):
            found = [
                Hypothesis(*values)
                for values in zip(
                    reached[prompt],
                    best[prompt].tolist(),
                    parents[prompt].tolist(),
                    tokens[prompt].tolist(),
                    strict=True,
                )
            ]
            alive = [
                h for h, ends in zip(found, is_end[prompt].tolist(), strict=True) if not ends and h.weight > -torch.inf
            ]
            dead = [Hypothesis(-torch.inf, -torch.inf, prompt * beams)] * beams
            going += [*(alive if is_open else []), *dead][:beams]
            if is_open:
                ended = zip(found[:beams], is_end[prompt].tolist(), strict=False)
                complete = [h for h, ends in ended if ends and h.weight > -torch.inf]
                self._kept[prompt] = sorted([*self._kept[prompt], *complete], key=lambda h: -h.score)[:beams]
        self._grow(going)
        self._close()

    def finish(self) -> None:
        """Leave the complete texts alone, best first; a weight of -inf marks those for which there was no other text."""
        order: list[Hypothesis] = []
        for prompt, kept in enumerate(self._kept):
            first = kept[0].row if kept else prompt * self._beams
            order += [*kept, *[Hypothesis(-torch.inf, -torch.inf, first)] * self._beams][: self._beams]
        self._take([h.row for h in order])
        self._rows.weights = self._rows.weights.new_tensor([h.weight for h in order])

    def _grow(self, going: list[Hypothesis]) -> None:
        """Make rows of the beams and the complete texts, each with its next token."""
        kept = [h for group in self._kept for h in group]
        self._take([h.row for h in (*going, *kept)])
        place = self._count
        for prompt, group in enumerate(self._kept):
            self._kept[prompt] = [h._replace(row=place + i, token=-1) for i, h in enumerate(group)]
            place += len(group)
        rows = self._rows
        # What a beam draws depends on its place, whatever row it goes on from.
        streams = torch.nn.functional.pad(self._streams, (0, len(kept)))
        rows.context = replace(rows.context, stream_ids=streams)
        before, rows.weights = rows.weights, rows.weights.new_tensor([h.weight for h in (*going, *kept)])
        rows.append(torch.tensor([h.token for h in (*going, *kept)], device=rows.ids.device), before)

    def _close(self) -> None:
        """Find the prompts whose beams can become no better than what they have."""
        best = self._scores(self._rows.weights[: self._count], 0).reshape(-1, self._beams).amax(1).tolist()
        for prompt, kept in enumerate(self._kept):
            worst = kept[-1].score if len(kept) == self._beams else -torch.inf
            if best[prompt] <= worst and self._is_open[prompt]:
                self._is_open[prompt] = False
                self._rows.ended[prompt * self._beams : (prompt + 1) * self._beams] = True

    def _scores(self, weights: Tensor, more: int, rows: Tensor | None = None) -> Tensor:
        """Return weights over lengths; rows are those of the weights by default."""
        lengths = self._rows.lengths - self._rows.prompt_lengths + more
        lengths = lengths[: len(weights)] if rows is None else lengths[rows]
        return weights / lengths.clamp(min=1).to(weights.dtype) ** self._penalty

    def _take(self, rows: list[int]) -> None:
        if rows != list(range(len(self._rows.ids))):
            taken = torch.tensor(rows, device=self._rows.ids.device)
            self._run.select(taken)
            self._rows.keep(taken)
