"""`lk.check_processor`: every processor of the registry keeps the laws, and one that breaks a law is named with a small case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

import logitkit as lk
from logitkit.errors import ConfigurationError, ProcessorError
from tests.core.misbehaving import BROKEN
from tests.registry import ROWS, Row, vocabulary

SMALL = lk.Vocabulary([b"a", b"b", b"c", b"d", None], eos_ids=[4])


class Newest(NamedTuple):
    token: Tensor  # [B] int64


@dataclass(frozen=True)
class NoDoubles:
    """Bans the newest token, as it should be done."""

    def init_state(self, context: lk.Context) -> Any:
        return Newest(torch.full((context.batch_size,), -1, device=context.device))

    def advance(self, state: Any, tokens: Tensor) -> Any:
        newest = state.token
        for column in lk.token_columns(tokens):
            newest = torch.where(column >= 0, column, newest)
        return Newest(newest)

    def process_logits(self, state: Any, logits: Tensor, context: lk.Context) -> Any:
        columns = torch.arange(logits.shape[1], device=logits.device)
        return state, logits.masked_fill(columns == state.token[:, None], -torch.inf)


class WritesToState(NoDoubles):
    def advance(self, state: Any, tokens: Tensor) -> Any:
        state.token.copy_(super().advance(state, tokens).token)
        return state


class WritesAroundTorch(NoDoubles):
    """Not seen by torch's count of writes."""

    def advance(self, state: Any, tokens: Tensor) -> Any:
        state.token.numpy()[:] = super().advance(state, tokens).token
        return Newest(state.token.clone())


class WritesToTokens(NoDoubles):
    def advance(self, state: Any, tokens: Tensor) -> Any:
        after = super().advance(state, tokens)
        tokens[tokens < 0] = 0
        return after


class WritesToLengths(NoDoubles):
    def process_logits(self, state: Any, logits: Tensor, context: lk.Context) -> Any:
        context.lengths.add_(1)
        return state, logits


@dataclass(frozen=True)
class CountsItsCalls(NoDoubles):
    seen: Tensor = field(default_factory=lambda: torch.zeros(1), compare=False)

    def advance(self, state: Any, tokens: Tensor) -> Any:
        self.seen.add_(1)
        return super().advance(state, tokens)


class WantsColumns(NoDoubles):
    def advance(self, state: Any, tokens: Tensor) -> Any:
        last = tokens[:, -1]
        return Newest(torch.where(last >= 0, last, state.token))


class SeesTheLastColumnOnly(NoDoubles):
    def advance(self, state: Any, tokens: Tensor) -> Any:
        return super().advance(state, lk.token_columns(tokens)[-1] if tokens.numel() else tokens)


class TakesMissingTokens(NoDoubles):
    def advance(self, state: Any, tokens: Tensor) -> Any:
        columns = lk.token_columns(tokens)
        return Newest(columns[-1]) if columns else state


class MakesNan(NoDoubles):
    def process_logits(self, state: Any, logits: Tensor, context: lk.Context) -> Any:
        return state, logits - logits


class ForcesByInfinity(NoDoubles):
    def process_logits(self, state: Any, logits: Tensor, context: lk.Context) -> Any:
        logits[:, 0] = torch.inf
        return state, logits


class WidensLogits(NoDoubles):
    def process_logits(self, state: Any, logits: Tensor, context: lk.Context) -> Any:
        return state, logits.double()


class LooksAtOtherRows(NoDoubles):
    def process_logits(self, state: Any, logits: Tensor, context: lk.Context) -> Any:
        return state, logits + (state.token == state.token[:1]).to(logits.dtype)[:, None]


class Draws(NoDoubles):
    def process_logits(self, state: Any, logits: Tensor, context: lk.Context) -> Any:
        return state, logits + torch.rand(1).to(logits.dtype)


class NeedsRows(NoDoubles):
    def advance(self, state: Any, tokens: Tensor) -> Any:
        return super().advance(state, tokens.reshape(len(state.token), -1))


class Prompt(NamedTuple):
    tokens: Tensor  # [B, P] int64; without a fill value, so that shorter prompts are padded with token 0


class PaddedPrompt(NamedTuple):
    tokens: Annotated[Tensor, lk.Fill(-1)]


@dataclass(frozen=True)
class BansPrompt:
    """Bans what the prompt has, from a state that is padded with what it declares."""

    state: Any = PaddedPrompt

    def init_state(self, context: lk.Context) -> Any:
        return self.state(context.prompt)

    def advance(self, state: Any, tokens: Tensor) -> Any:
        return state

    def process_logits(self, state: Any, logits: Tensor, context: lk.Context) -> Any:
        found = (state.tokens[:, :, None] == torch.arange(logits.shape[1])).any(1)
        return state, logits.masked_fill(found, -torch.inf)


@dataclass(frozen=True)
class Fails(NoDoubles):
    """Fails once a token has come twice in a row."""

    def advance(self, state: Any, tokens: Tensor) -> Any:
        for column in lk.token_columns(tokens):
            if ((column == state.token) & (column >= 0)).any():
                raise KeyError("twice")
            state = super().advance(state, column)
        return state


LAWS: dict[Callable[[], Any], str] = {
    WritesToState: r'"results keep their structure, dtype and shape": .*WritesToState.advance wrote to the state',
    WritesAroundTorch: '"arguments are left unchanged, except the logits": advance writes to the state',
    WritesToTokens: '"arguments are left unchanged, except the logits": advance writes to the tokens',
    WritesToLengths: '"arguments are left unchanged, except the logits": process_logits writes to the lengths',
    CountsItsCalls: "a method changes the processor's attribute seen",
    WantsColumns: r"\"tokens may be \[B\] or \[B, T\]\"|IndexError",
    SeesTheLastColumnOnly: '"tokens may be|"-1 is not a token',
    TakesMissingTokens: '"-1 is not a token": before and after tokens that are all -1, of shape',
    MakesNan: r'"no NaN or \+inf is returned": after 0 tokens logit \d+ of row \d is NaN',
    ForcesByInfinity: r'"no NaN or \+inf is returned": after 0 tokens logit 0 of row \d is \+inf',
    WidensLogits: "returned logits of shape .*torch.float64; it was given",
    LooksAtOtherRows: '"rows are independent": with rows picked',
    Draws: '"a replay gives the same result": in a run and in the same run again, after 0 tokens',
    NeedsRows: '"there may be no rows": RuntimeError: cannot reshape',
    lambda: BansPrompt(Prompt): '"batches may be joined": alone and in a batch, after',
    Fails: "KeyError: 'twice'",
}


@pytest.mark.parametrize(("make", "message"), list(LAWS.items()), ids=lambda value: getattr(value, "__name__", ""))
def test_a_broken_law_is_named(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ProcessorError, match=message):
        lk.check_processor(make(), SMALL)


@pytest.mark.parametrize("processor", [NoDoubles(), BansPrompt(), lk.Stateless(lambda logits, context: logits / 2)])
def test_a_sound_processor_passes(processor: lk.Processor[Any]) -> None:
    lk.check_processor(processor, SMALL)


@pytest.mark.parametrize("name", BROKEN)
def test_what_breaks_the_protocol_breaks_a_law(name: str) -> None:
    processor, _ = BROKEN[name]
    with pytest.raises(ProcessorError, match=f"{type(processor).__name__} breaks the law"):
        lk.check_processor(processor, SMALL)


def test_the_smallest_case_is_small() -> None:
    with pytest.raises(ProcessorError) as caught:
        lk.check_processor(Fails(), SMALL)
    # Two equal tokens, and nothing else.
    assert str(caught.value).endswith(
        "The smallest case: prompts [[]], tokens [[0, 0]], logits of zero in torch.float32"
    )
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(ProcessorError, match=r"prompts \[\[\], \[0\]\], tokens \[\[\], \[\]\], logits of zero"):
        lk.check_processor(BansPrompt(Prompt), SMALL)


def test_the_same_seed_finds_the_same_case() -> None:
    said = []
    for seed in (0, 0, 5):
        with pytest.raises(ProcessorError) as caught:
            lk.check_processor(TakesMissingTokens(), SMALL, seed=seed)
        said.append(str(caught.value))
    assert said[0] == said[1]


@pytest.mark.parametrize(("seed", "row"), list(enumerate(ROWS)), ids=str)
def test_every_processor_of_the_registry_keeps_the_laws(seed: int, row: Row) -> None:
    lk.check_processor(row.processor, vocabulary(), examples=1, seed=seed)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((NoDoubles, SMALL), "processor is the class NoDoubles"),
        ((5, SMALL), "processor is of type int"),
    ],
)
def test_other_arguments_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        lk.check_processor(*arguments)
    with pytest.raises(ConfigurationError, match="examples is 0"):
        lk.check_processor(NoDoubles(), SMALL, examples=0)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("order", ["reversed", "read-only"])
def test_arrays_in_any_layout_may_be_attributes(order: str) -> None:
    array = np.arange(5)[::-1]
    if order == "read-only":
        array = np.arange(5)
        array.setflags(write=False)

    @dataclass(frozen=True)
    class WithArray(NoDoubles):
        numbers: Any = field(default=None, compare=False)

    lk.check_processor(WithArray(array), SMALL)
