"""The output of a session, and the work that it took."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from logitkit.sessions.reuse import Reuse

__all__ = ["Generated", "GeneratedRow"]


@dataclass(frozen=True, slots=True)
class GeneratedRow:
    """The output of one prompt.

    Args:
        token_ids: The new tokens, including a final EOS.
        text: The text that they add to the prompt, up to a stop that ended it, without special tokens and without an incomplete
            character at the end; "" if the session has no tokenizer.
        reuse: The cached tokens that replaced the beginning of the prompt, and the remaining tokens.
        prompt_tokens: The number of tokens in the prompt.
        positions_fed: The number of positions that ran through the model.
        forward_passes: The number of forward passes.
        forced_tokens: The number of new tokens that had no legal alternative, and so needed no separate forward pass.
        approximate: Whether the model used cached positions that it would have computed differently without the cache.
        finished: Why the row ended. `"eos"`: the model chose to end it, or it contains only padding. `"closed"`: a constraint
            allowed nothing more, because the text is complete or, with `closing`, because the token limit is reached.
            `"stop: X"`: the tokens contain the stop X, before which the text ends. `"loop"`: the tokens end with a loop, at which
            `LoopStop` ended the row; the text contains it. `"conflict"`: the processors allowed no token, or a constraint does
            not allow the text to end there, whichever processor ended it, so the text is incomplete.
            `"length"`: it was cut off at the token limit.
        log_probs: The log-probability of each new token after the processor, 0 for a forced one; of beams, the processed
            log-probability by which they are ranked. None unless asked for.
        log_prob: The sum of these, for beams always; else None unless asked for. -inf marks a beam for which there was no
            other text.
        kept: The tokens that the processor kept at each step, [T, ceil(V / 32)] int32 as `logitkit.training.kept` packs them;
            None unless asked for.
    """

    token_ids: list[int]
    text: str
    reuse: Reuse
    prompt_tokens: int
    positions_fed: int
    forward_passes: int
    forced_tokens: int = 0
    approximate: bool = False
    finished: str = "eos"
    log_probs: list[float] | None = None
    log_prob: float | None = None
    kept: Tensor | None = field(default=None, compare=False, repr=False)

    @property
    def cached_tokens(self) -> int:
        """The number of prompt tokens that were cached."""
        return self.reuse.length

    @property
    def positions_saved(self) -> int:
        """The number of positions saved: without the cache, the prompt and all new tokens but the last would be fed."""
        return max(self.prompt_tokens + len(self.token_ids) - 1, 0) - self.positions_fed

    @property
    def forward_passes_saved(self) -> int:
        """The number of forward passes saved, compared with one for each new token."""
        return len(self.token_ids) - self.forward_passes


@dataclass(frozen=True, slots=True)
class Generated:
    """The outputs of one call.

    Args:
        rows: The rows, in the order of the prompts: all samples or beams of the first prompt, then those of the second.
    """

    rows: tuple[GeneratedRow, ...]

    @property
    def token_ids(self) -> list[list[int]]:
        """The new tokens of each row."""
        return [row.token_ids for row in self.rows]

    @property
    def texts(self) -> list[str]:
        """The text of each row."""
        return [row.text for row in self.rows]

    @property
    def text(self) -> str:
        """The text of the first row."""
        return self.rows[0].text

    @property
    def cached_tokens(self) -> int:
        """The number of prompt tokens that were cached, in all rows."""
        return sum(row.cached_tokens for row in self.rows)

    @property
    def positions_fed(self) -> int:
        """The number of positions that ran through the model, in all rows."""
        return sum(row.positions_fed for row in self.rows)

    @property
    def forward_passes(self) -> int:
        """The number of forward passes, for all rows."""
        return sum(row.forward_passes for row in self.rows)

    @property
    def positions_saved(self) -> int:
        """The number of positions saved by the cache, in all rows."""
        return sum(row.positions_saved for row in self.rows)

    @property
    def forward_passes_saved(self) -> int:
        """The number of forward passes saved, for all rows."""
        return sum(row.forward_passes_saved for row in self.rows)

    @property
    def approximate(self) -> bool:
        """Whether any row is approximate."""
        return any(row.approximate for row in self.rows)

    def __str__(self) -> str:
        return "\n".join(self.texts)
