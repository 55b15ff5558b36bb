"""Detection: how much more a text follows the key of a watermark than chance would let it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.composition.chain import Chain, members
from logitkit.errors import ConfigurationError
from logitkit.parameters.scalars import checked_integer
from logitkit.protocol.processor import Processor, check_is_processor, name_of
from logitkit.watermarks import scores
from logitkit.watermarks.gumbel import GumbelWatermark
from logitkit.watermarks.kgw import KgwWatermark
from logitkit.watermarks.scored_tokens import first_occurrences, forced_tokens, ngrams_of, rows_without_padding
from logitkit.watermarks.synthid import SynthIdWatermark

__all__ = ["Detection", "Watermark", "detect", "synthid_bits", "text_score"]

# No model has a third of it. The schemes of transformers permute all columns, and keep a bool of each for 256 tokens.
MOST_COLUMNS = 2**20

Watermark = KgwWatermark | SynthIdWatermark | GumbelWatermark


@dataclass(frozen=True, eq=False)
class Detection:
    """The result of a detector, one value for each text.

    Args:
        scored: [B] int64, how many tokens were scored.
        score: [B] float64. `KgwWatermark`: how many of them are green. `SynthIdWatermark`: the weighted mean of their random
            bits. `GumbelWatermark`: the sum of -log(1 - u) over their random numbers.
        z: [B] float64, the distance of the score from its mean without a watermark, in standard deviations; 0 if nothing was
            scored.
        p_value: [B] float64, the chance of such a score, or a greater one, without a watermark; 1 if nothing was scored.
    """

    scored: Tensor
    score: Tensor
    z: Tensor
    p_value: Tensor


def detect(
    watermark: Processor[Any],
    tokens: Tensor | Sequence[Sequence[int]],
    *,
    constraint: Processor[Any] | None = None,
    eos_ids: Sequence[int] = (),
    vocabulary_size: int | None = None,
    count_repeats: bool = False,
) -> Detection:
    """Return how likely it is that texts have a watermark.

    Over random keys, a text without a watermark has a p-value below 0.001 once in 1,000 times. To call a text marked, choose how
    many false alarms are acceptable, and compare the p-value with that.

    Args:
        watermark: The processor with which the texts may have been written, with its key; or a chain with one of them.
        tokens: The texts without their prompts: a list of lists of token ids, or [B, T] integers, -1 = none.
        constraint: The constraint with which they were written: tokens that it forced are left out. For a chain with
            constraints, give the chain.
        eos_ids: The ids that end a text: they and all after them are left out.
        vocabulary_size: The number of columns of the model's logits, which `KgwWatermark` needs for the schemes of transformers.
        count_repeats: Whether to score every occurrence of an n-gram, which raises false alarms for texts that repeat
            themselves. By default, only the first one counts: of the n-gram for `KgwWatermark`, and of the context for the
            others, since they do not mark a token after a context that has been there.

    Returns:
        The score, z-score and p-value of each text.

    Raises:
        ConfigurationError: An argument is not allowed.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> watermark = lk.KgwWatermark(key=1234, ratio=0.5, bias=20.0)
        >>> context, ids = lk.Context.of([[0]], vocabulary_size=100), []
        >>> state = watermark.init_state(context)
        >>> for step in range(50):
        ...     logits = torch.randn(1, 100, generator=torch.Generator().manual_seed(step))
        ...     ids.append(int(watermark.process_logits(state, logits, context)[1].argmax()))
        ...     state = watermark.advance(state, torch.tensor(ids[-1:]))
        >>> found = lk.watermarks.detect(watermark, [ids, list(range(50))])
        >>> found.scored.tolist(), (found.p_value < 1e-6).tolist()
        ([49, 49], [True, False])

    Source: the papers of the three processors. The z-score of `KgwWatermark` is that of transformers' WatermarkDetector; its
    p-value is exact, while transformers' follows from a normal distribution.
    """
    found = _watermark_of(watermark)
    if vocabulary_size is not None:
        vocabulary_size = checked_integer("vocabulary_size", vocabulary_size, 1, MOST_COLUMNS)
    rows = rows_without_padding(tokens, eos_ids)
    forced = [np.zeros(len(line), np.bool_) for line in rows]
    if constraint is not None:
        check_is_processor(constraint, "constraint")
        forced = forced_tokens(constraint, rows)
    parts = [
        text_score(found, line, skipped, vocabulary_size, count_repeats)
        for line, skipped in zip(rows, forced, strict=True)
    ]
    results = [result for _, result in parts]
    score, z, p_value = (
        torch.tensor([getattr(result, name) for result in results], dtype=torch.float64)
        for name in ("score", "z", "p_value")
    )
    return Detection(torch.tensor([count for count, _ in parts], dtype=torch.int64), score, z, p_value)


def text_score(
    watermark: Watermark,
    line: NDArray[np.int64],
    skipped: NDArray[np.bool_],
    columns: int | None = None,
    count_repeats: bool = False,
) -> tuple[int, scores.Significance]:
    """Return how many tokens of a text were scored, and their significance.

    Args:
        watermark: The processor.
        line: [T] the tokens of the text.
        skipped: [T] bool, which tokens are left out.
        columns: See `vocabulary_size` of `detect`.
        count_repeats: See `detect`.
    """
    ngrams, first = _ngrams(watermark, line)
    scored = ngrams[(first | count_repeats) & ~skipped[len(line) - len(ngrams) :]]
    return len(scored), _significance(watermark, scored, columns)


def synthid_bits(
    watermark: SynthIdWatermark, tokens: Tensor | Sequence[Sequence[int]], *, eos_ids: Sequence[int] = ()
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the random bits of each text, from which a trained detector, such as transformers' Bayesian one, computes its score.

    Args:
        watermark: The processor.
        tokens: The texts; see `detect`.
        eos_ids: The ids that end a text; see `detect`.

    Yields:
        [N, D] int64, the bits of all n-grams of a text, and [N] bool, whether the context of each is there for the first time.

    Example:
        >>> import logitkit as lk
        >>> watermark = lk.SynthIdWatermark(keys=[654, 400, 836], ngram_len=2)
        >>> bits, first = next(lk.watermarks.synthid_bits(watermark, [[5, 6, 5, 7]]))
        >>> bits.shape, first.tolist()
        (torch.Size([3, 3]), [True, True, False])
    """
    for line in rows_without_padding(tokens, eos_ids):
        ngrams, first = _ngrams(watermark, line)
        yield torch.from_numpy(scores.bits_of(watermark, ngrams).astype(np.int64)), torch.from_numpy(first)


def _watermark_of(processor: Processor[Any]) -> Watermark:
    check_is_processor(processor, "watermark", "or rather a watermark")
    found = [p for p in members(processor) if isinstance(p, Watermark)]
    if len(found) != 1:
        given = "chain" if isinstance(processor, Chain) else name_of(processor)
        raise ConfigurationError(
            f"watermark is a {given} with {len(found)} watermarks; give a KgwWatermark, SynthIdWatermark or GumbelWatermark, "
            "or a chain with one of them"
        )
    return found[0]


def _ngrams(watermark: Watermark, line: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the n-grams of a text that have a score, [N, W], and which of them count if repeats do not, [N] bool."""
    if isinstance(watermark, SynthIdWatermark):
        ngrams = ngrams_of(line, watermark.ngram_len)
        return ngrams, first_occurrences(ngrams[:, :-1])
    if isinstance(watermark, GumbelWatermark):
        ngrams = ngrams_of(line, watermark.context_width + 1)
        return ngrams, first_occurrences(ngrams[:, :-1])
    ngrams = ngrams_of(line, watermark.context_width + (watermark.scheme != "selfhash"))
    return ngrams, first_occurrences(ngrams)


def _significance(watermark: Watermark, ngrams: NDArray[np.int64], columns: int | None) -> scores.Significance:
    contexts, tokens = ngrams[:, :-1], ngrams[:, -1]
    if isinstance(watermark, SynthIdWatermark):
        return scores.synthid_significance(watermark, scores.bits_of(watermark, ngrams))
    if isinstance(watermark, GumbelWatermark):
        return scores.marks_of(watermark, contexts, tokens)
    return scores.kgw_significance(watermark, scores.green_of(watermark, contexts, tokens, columns), columns)
