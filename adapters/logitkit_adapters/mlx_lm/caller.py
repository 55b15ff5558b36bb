"""The functions of mlx-lm that call hooks, and what their variables say."""

from __future__ import annotations

from types import FrameType

from logitkit_adapters.mlx.caller import Caller

__all__ = ["CALLER", "MlxLmCaller"]


class MlxLmCaller(Caller):
    """`generate_step`, `speculative_generate_step`, and the batches of mlx-lm; see `Caller` for the methods."""

    engine, module, row = "mlx-lm", "mlx_lm.generate", "e"

    def uncertain_tokens(self) -> int:
        """Return the number of drafts, which are in the cache before it is known whether they are accepted."""
        speculative = (f for f in self.frames() if f.f_code.co_name == "speculative_generate_step")
        return next((int(frame.f_locals.get("num_draft_tokens", 0)) for frame in speculative), 0)

    def starts_row(self, frame: FrameType) -> bool:
        """Whether a batch is being created, since it then makes its first step, on prompts."""
        return frame.f_back is not None and frame.f_back.f_code.co_name == "__init__"

    def why_tokens_are_missing(self) -> str | None:
        """Return why a hook in its first call does not see every token of the output, or None if it does."""
        for frame in self.frames():
            name, variables = frame.f_code.co_name, frame.f_locals
            # It counts the tokens that it has chosen.
            if name == "generate_step" and "n" in variables:
                return "chose the first token without it, as with input_embeddings and no tokens; give mlx-lm the tokens too"
            if name == "speculative_generate_step" and variables.get("num_draft_tokens", 1) < 1:
                return (
                    "shows it the last token only, as with num_draft_tokens=0; ask for drafts, or give no draft_model"
                )
        return None


CALLER = MlxLmCaller()
