"""`replay`: the log-probabilities of sampled tokens under a trainer's logits, with the processors of the sampler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from logitkit.protocol.processor import Processor
from logitkit.training.derivatives import check_between_truncations, check_derivatives
from logitkit.training.differentiable import LogProbs
from logitkit.training.faults import first_fault
from logitkit.training.rollouts import Rollouts, checked_kept, checked_logits

__all__ = ["Replayed", "replay"]


class Replayed(NamedTuple):
    """The result of `replay`, zero or False at padding.

    Args:
        log_probs: [B, T] float32 (float64 for logits of 64 bits), the log-probability of each token in the distribution from
            which it was sampled, as the trainer's logits make it. Differentiable in the logits.
        forced: [B, T] bool, whether it was the only token that the processors left. Its log-probability is 0, and so is its
            gradient: leave it out of means over tokens.
        log_mass: [B, T] in the dtype of `log_probs`, the logarithm of the probability that constraints alone kept, relative to
            the logits that entered them: 0 if they kept everything. No gradient.
    """

    log_probs: Tensor
    forced: Tensor
    log_mass: Tensor


def replay(
    processor: Processor[Any] | Sequence[Processor[Any]],
    prompts: Tensor | Sequence[Sequence[int]],
    outputs: Tensor | Sequence[Sequence[int]],
    logits: Tensor,
    kept: Tensor | Sequence[Tensor] | None = None,
    max_lengths: Tensor | Sequence[int] | None = None,
    stream_ids: Tensor | Sequence[int] | None = None,
    pad_id: int | None = None,
) -> Replayed:
    """Return the log-probabilities of sampled tokens, with the processors that they were sampled with.

    Masks, penalties and biases depend on tokens only, and are replayed exactly. What depends on logits, such as `TopP`, is
    computed from the trainer's logits, or taken from `kept`. Logits are processed in blocks, so no copy of all of them is made.

    Args:
        processor: The processor or chain that sampled, including temperature and truncation; or a list of one for each row.
        prompts: [B, P] token ids, padded with -1 or `pad_id` on any side; or B lists of ids.
        outputs: [B, T] the sampled token ids, padded with -1 or `pad_id` at the end; or B lists of at most T ids. If `pad_id` is
            an EOS that the processor knows, the first one of a row is its end, and not padding.
        logits: [B, T, V] floating point, the trainer's logits; `logits[:, t]` predicts `outputs[:, t]`. They stay unchanged.
        kept: [B, T, ceil(V / 32)] int32, the tokens that the sampler kept, or one [B, ceil(V / 32)] for each step, as `kept`
            packs them. Truncations (and `Temperature(0)`) then do not run.
        max_lengths: [B] the maximum number of tokens of each row, prompt included, if the sampler knew it.
        stream_ids: [B] the random stream of each row, which `Xtc` reads. Default: its index.
        pad_id: The token id of padding.

    Returns:
        The log-probabilities, the forced tokens, and the mass that constraints kept.

    Raises:
        IllegalToken: The processors forbid a token of an output, or `kept` lacks it; the error knows row, step and token.
        BrokenLogits: The trainer's logits at a token have NaN or +inf, or none is finite.
        ConfigurationError: An argument has a shape, dtype or value that is not allowed, or padding is followed by a token; or
            `kept` is given, and a processor that reads the whole row, such as `SynthIdWatermark`, is between two truncations.
        BatchMismatch: Arguments differ in their numbers of rows or steps.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> vocabulary = lk.Vocabulary([b"a", b"b", None], eos_ids=[2])
        >>> logits = torch.zeros(1, 2, 3, requires_grad=True)
        >>> result = lk.training.replay(lk.Regex("[ab]", vocabulary), [[]], [[1, 2]], logits)
        >>> [round(number, 3) for number in result.log_probs.exp().tolist()[0]], result.forced.tolist()
        ([0.5, 1.0], [[False, True]])
        >>> result.log_probs.sum().backward()
        >>> logits.grad[0, 0]
        tensor([-0.5000,  0.5000, -0.0000])

    Source: DeepSeek-AI, DeepSeek-V3.2 (2025), section 3.1, for truncation masks.
    """
    options = (kept, max_lengths, stream_ids, pad_id)
    if torch.compiler.is_compiling():
        # The graph ends here and goes on after it: processors read values on the host. Decorated instead, this module would
        # import the compiler.
        eager: Callable[..., Replayed] = torch.compiler.disable(_replayed)  # type: ignore[no-untyped-call]
        return eager(processor, prompts, outputs, logits, *options)
    return _replayed(processor, prompts, outputs, logits, *options)


def _replayed(
    processor: Any,
    prompts: Any,
    outputs: Any,
    logits: Any,
    kept: Any,
    max_lengths: Any,
    stream_ids: Any,
    pad_id: int | None,
) -> Replayed:
    logits = checked_logits(logits)
    sets = checked_kept(kept, logits)
    rollouts = Rollouts.of(processor, prompts, outputs, logits, max_lengths, stream_ids, pad_id)
    if sets is not None:
        for group in rollouts.groups:
            check_between_truncations(group.chain.processors)
    if logits.requires_grad and torch.is_grad_enabled():
        check_derivatives(p for group in rollouts.groups for p in group.chain.processors)
    log_probs, forced, log_mass, faults = LogProbs.apply(logits, sets, rollouts)  # type: ignore[no-untyped-call]
    # The only value that the host reads of a device.
    if bool(faults.any()):
        raise first_fault(faults, logits, sets, rollouts)
    return Replayed(log_probs, forced, log_mass)
