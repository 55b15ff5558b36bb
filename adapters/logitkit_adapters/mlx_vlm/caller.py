"""The functions of mlx-vlm that call hooks, and what their variables say."""

from __future__ import annotations

from types import FrameType
from typing import Any

from logitkit_adapters.mlx.caller import Caller

__all__ = ["CALLER", "MlxVlmCaller"]


class MlxVlmCaller(Caller):
    """`generate_step`, and the batches of prompts and of generated tokens in mlx-vlm; see `Caller` for the methods."""

    engine, module, row = "mlx-vlm", "mlx_vlm.generate.ar", "i"
    has_modes_without_hooks = True

    def starts_row(self, frame: FrameType) -> bool:
        """Whether it is a batch of prompts, which chooses their first tokens."""
        return frame.f_code.co_name == "generate"

    def __init__(self) -> None:
        # The lines of `generate_step` that choose tokens after the first one.
        self._later: set[int] = set()

    def why_tokens_are_unprocessed(self, frame: FrameType) -> str | None:
        """Return why later tokens are chosen without the hook: by a draft model, or for a thinking budget."""
        near = frame if frame.f_globals.get("__name__") == self.module else next(self.frames(), None)
        if near is None:
            return None
        if near.f_code.co_name == "_step" and "self" not in near.f_code.co_varnames:
            # The step of `generate_step`, which is a function of its own.
            near = near.f_back
            if near is None or near.f_lineno in self._later:
                return None
        variables = near.f_locals
        if "n" in variables:
            # Reading all variables takes longer than the rest of a hook, and the first token has been checked.
            self._later.add(near.f_lineno)
        batch = variables.get("self")
        if any(model is not None for model in (variables.get("draft_model"), getattr(batch, "draft_model", None))):
            return "calls no processor after the first token if it has a draft model; leave out draft_model"
        budgets = (variables.get("thinking_budget_criteria"), getattr(batch, "thinking_budget_criteria", None))
        if any(map(_has_budget, budgets)):
            return (
                "replaces tokens after the hook if it has a thinking budget; leave out thinking_budget, and put "
                "logitkit.ThinkingBudget(...) into the chain"
            )
        return None


def _has_budget(criteria: Any) -> bool:
    return any(each is not None for each in criteria) if isinstance(criteria, list) else criteria is not None


CALLER = MlxVlmCaller()
