"""What a session has generated, and what that took."""

from __future__ import annotations

from dataclasses import dataclass

from logitkit.sessions.reuse import Reuse

__all__ = ["Generated", "GeneratedRow"]


@dataclass(frozen=True, slots=True)
class GeneratedRow:
    """The output of one prompt.

    Args:
        token_ids: The new tokens; EOS is the last if it came.
        text: Their text, without special tokens; "" where the session has no tokenizer.
        reuse: Which cached tokens stood for the beginning of the prompt, and the tokens that were left to do.
        prompt_tokens: Tokens of the prompt.
        positions_fed: Positions that ran through the model.
        forward_passes: In how many passes.
        forced_tokens: New tokens that the processor left no alternative to, and that had no pass of their own.
        approximate: Whether cached positions were used that a model of several layers would have computed otherwise.
    """

    token_ids: list[int]
    text: str
    reuse: Reuse
    prompt_tokens: int
    positions_fed: int
    forward_passes: int
    forced_tokens: int = 0
    approximate: bool = False

    @property
    def cached_tokens(self) -> int:
        """Tokens of the prompt that were cached."""
        return self.reuse.length

    @property
    def positions_saved(self) -> int:
        """Positions that the prompt alone would have fed besides: of a new text, all but the last token are fed."""
        return self.prompt_tokens + len(self.token_ids) - 1 - self.positions_fed

    @property
    def forward_passes_saved(self) -> int:
        """Passes that the prompt alone would have taken besides: one for each new token."""
        return len(self.token_ids) - self.forward_passes


@dataclass(frozen=True, slots=True)
class Generated:
    """The outputs of one call, a row for each prompt.

    Args:
        rows: In the order of the prompts.
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
        """Tokens of the prompts that were cached, of all rows."""
        return sum(row.cached_tokens for row in self.rows)

    @property
    def positions_fed(self) -> int:
        """Positions that ran through the model, of all rows."""
        return sum(row.positions_fed for row in self.rows)

    @property
    def forward_passes(self) -> int:
        """Passes through the model, of all rows."""
        return sum(row.forward_passes for row in self.rows)

    @property
    def positions_saved(self) -> int:
        """Positions that the prompts alone would have fed besides."""
        return sum(row.positions_saved for row in self.rows)

    @property
    def forward_passes_saved(self) -> int:
        """Passes that the prompts alone would have taken besides."""
        return sum(row.forward_passes_saved for row in self.rows)

    @property
    def approximate(self) -> bool:
        """Whether any row is approximate."""
        return any(row.approximate for row in self.rows)

    def __str__(self) -> str:
        return "\n".join(self.texts)
