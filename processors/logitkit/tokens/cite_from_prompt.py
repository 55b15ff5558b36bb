"""CiteFromPrompt: tokens of the prompt become more likely, and more so in the order in which they stand there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple, Self

import torch
from torch import Tensor

from logitkit.parameters import TokenIds
from logitkit.protocol.calls import check_tokens
from logitkit.protocol.context import Context
from logitkit.protocol.described import per_row
from logitkit.protocol.kind import Kind, Role
from logitkit.protocol.state import Fill
from logitkit.runtime.host_logits import HostAndDevice, HostLogits
from logitkit.runtime.latest_tokens import with_tokens
from logitkit.tokens.bias import BIAS
from logitkit.tokens.id_lists import id_tensor
from logitkit.tokens.raised import raise_row, raise_tensors
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["CiteFromPrompt", "CiteFromPromptState"]


class CiteFromPromptState(NamedTuple):
    """The prompt of each row, the last token of its output, and the bonuses.

    Args:
        prompt: [B, P] int32, padded with -1 at the end: 4 bytes for each token.
        eos_ids: [B, N] int32, ascending, padded with -1 at the end.
        latest: [B, 1] int32, the last token of the output, or -1.
        bonus: [B] float64, from -1e4 to 1e4; 0 changes nothing.
        next_bonus: [B] float64, from -1e4 to 1e4; 0 changes nothing.
    """

    prompt: Annotated[Tensor, Fill(-1)]
    eos_ids: Annotated[Tensor, Fill(-1), TokenIds()]
    latest: Tensor
    bonus: Annotated[Tensor, BIAS]
    next_bonus: Annotated[Tensor, BIAS]

    def problem(self) -> str | None:
        """Describe an impossible value in a state read from a file, or return None."""
        if bool((self.prompt < -1).any()) or bool((self.latest < -1).any()):
            return "a token id is below -1"
        return None if self.latest.shape[1] == 1 else "it has more than one last token"


@dataclass(frozen=True)
class CiteFromPrompt(HostAndDevice[CiteFromPromptState]):
    """Add a number to the logits of all tokens of the prompt and of EOS, and another to those that follow the last token there.

    So a model that has begun to quote its prompt goes on quoting it. Each token gets either number once, however often it
    occurs. Finite logits stay finite.

    Args:
        bonus: The number to add, from -1e4 to 1e4; negative numbers keep the output away from the prompt.
        next_bonus: The number to add to tokens that follow the last token of the output somewhere in the prompt, from -1e4 to
            1e4.
        eos_ids: The id or ids that get the bonus too, so that texts do not become longer; it may be empty.

    Raises:
        ConfigurationError: A number or an id is not in range.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> quoting = lk.CiteFromPrompt(1.0, next_bonus=5.0)
        >>> context = lk.Context.of([[0, 1]], vocabulary_size=4)
        >>> state = quoting.advance(quoting.init_state(context), torch.tensor([0]))
        >>> quoting.process_logits(state, torch.zeros(1, 4), context)[1]
        tensor([[1., 6., 0., 0.]])

    Source: CiteFromPromptLogitsProcessor of NVIDIA's logits-processor-zoo, which returns the same results.
    """

    bonus: float
    next_bonus: float = 0.0
    eos_ids: Sequence[int] | int = ()

    role = Role.BIAS
    kind = Kind(
        "cite_from_prompt",
        {"bonus": BIAS, "next_bonus": BIAS, "eos_ids": TokenIds(least=0, alone=True)},
        main="bonus",
        order=20,
        neutral={"bonus": 0.0},
    )
    may_empty_rows = False
    reads_prompt = True

    @classmethod
    def configured(
        cls, bonus: float, vocabulary: Vocabulary, next_bonus: float = 0.0, eos_ids: Sequence[int] | None = None
    ) -> Self:
        """Create one from a configuration, which may leave out the EOS ids: then they are those of the vocabulary."""
        return cls(bonus, next_bonus, vocabulary.eos_ids if eos_ids is None else eos_ids)

    def init_state(self, context: Context) -> CiteFromPromptState:
        """Return the initial state of the rows."""
        rows, device = context.batch_size, context.device
        return CiteFromPromptState(
            context.prompt.to(torch.int32),
            id_tensor([self.eos_ids] * rows, device),  # type: ignore[list-item]
            torch.full((rows, 1), -1, dtype=torch.int32, device=device),
            per_row(context, self.bonus),
            per_row(context, self.next_bonus),
        )

    def advance(self, state: CiteFromPromptState, tokens: Tensor) -> CiteFromPromptState:
        """Return the state after `tokens`, [B] or [B, T] int64 with -1 for none."""
        check_tokens("CiteFromPrompt", state.bonus.shape[0], tokens)
        return state._replace(latest=with_tokens(state.latest, tokens, torch.ones_like(state.bonus)))

    def _by_rows(self, state: CiteFromPromptState, logits: Tensor) -> Tensor:
        host, listed, following = HostLogits.of(logits), _cited(state).numpy(), _following(state).numpy()
        for row, (bonus, more) in enumerate(zip(state.bonus.tolist(), state.next_bonus.tolist(), strict=True)):
            for ids, amount in ((listed[row], bonus), (following[row], more)):
                raise_row(host, row, ids[ids >= 0], amount)
        return logits

    def _by_tensors(self, state: CiteFromPromptState, logits: Tensor) -> Tensor:
        return raise_tensors(raise_tensors(logits, _cited(state), state.bonus), _following(state), state.next_bonus)


def _cited(state: CiteFromPromptState) -> Tensor:
    """Return the tokens that get the bonus, [B, N] int32, -1 for none."""
    return torch.cat([state.prompt, state.eos_ids], 1)


def _following(state: CiteFromPromptState) -> Tensor:
    """Return the tokens of the prompt after the last token of the output, [B, N] int32, -1 for none."""
    there = (state.prompt[:, :-1] == state.latest) & (state.latest >= 0)
    return torch.where(there, state.prompt[:, 1:], -1)
