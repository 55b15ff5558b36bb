"""Arguments and outputs that cannot be replayed are refused, with the row, the step, and what to do."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

import logitkit as lk
from logitkit.errors import ArgumentTypeError, BatchMismatch, BrokenLogits, ConfigurationError, IllegalToken

V = lk.Vocabulary([b"a", b"b", b"\n", None, None], eos_ids=[3], special={"</s>": 3})
WORD = lk.Regex("[ab]{2}", V)
LOGITS = torch.zeros(2, 3, 5)


def replay(
    processor: Any = WORD, prompts: Any = ([], []), outputs: Any = ((0, 1, 3), (1,)), logits: Any = LOGITS, **more: Any
) -> Any:
    return lk.training.replay(processor, prompts, outputs, logits, **more)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"logits": [[1.0]]}, ArgumentTypeError, r"logits is of type list; give a torch tensor \[B, T, V\]"),
        ({"logits": LOGITS[0]}, ConfigurationError, r"logits has shape \[3, 5\] and torch.float32; give \[B, T, V\]"),
        ({"logits": LOGITS.long()}, ConfigurationError, "torch.int64"),
        ({"processor": lk.Regex}, ConfigurationError, "processor is the class Regex; create an instance"),
        ({"processor": [WORD]}, BatchMismatch, "processor is a list of 1, but logits have 2 rows"),
        ({"prompts": [[]]}, BatchMismatch, "prompts has 1 rows, but logits have 2"),
        ({"prompts": "ab"}, ArgumentTypeError, "prompts is of type str"),
        ({"prompts": [[0.5], []]}, ConfigurationError, r"prompts\[0\] contains 0.5; allowed are token ids"),
        ({"prompts": [0, 1]}, ArgumentTypeError, r"prompts\[0\] is not a list of token ids"),
        ({"prompts": torch.zeros(2, 1)}, ConfigurationError, "prompts is a torch.float32 tensor"),
        (
            {"outputs": torch.zeros(2, 4, dtype=torch.int64)},
            BatchMismatch,
            r"outputs has shape \[2, 4\], but logits \[2, 3\]",
        ),
        ({"outputs": torch.zeros(2, 3)}, ConfigurationError, "outputs is a torch.float32 tensor"),
        ({"outputs": [[0, 1, 3, 3], [1]]}, BatchMismatch, r"outputs\[0\] has 4 tokens, but logits have 3 steps"),
        ({"outputs": [[0]]}, BatchMismatch, "outputs has 1 rows"),
        ({"outputs": [[0, 5], [1]]}, ConfigurationError, r"outputs\[0\] is 5 at step 1, but the logits have 5 columns"),
        (
            {"outputs": [[0], [1, -1, 0]]},
            ConfigurationError,
            r"outputs\[1\] has padding \(-1\) at step 1, and the token 0 at step 2; padding is allowed at the end",
        ),
        (
            {"outputs": [[0], [4, 1]], "pad_id": 4},
            ConfigurationError,
            r"outputs\[1\] has padding \(pad_id 4\) at step 0",
        ),
        ({"outputs": [[0, 3, 1], [1]], "pad_id": 3}, ConfigurationError, r"padding \(pad_id 3\) at step 1"),
        ({"pad_id": -1}, ConfigurationError, "pad_id is -1; allowed are integers from 0"),
        ({"max_lengths": [3]}, BatchMismatch, "max_lengths has 1 numbers, but there are 2 rows"),
        ({"max_lengths": [3, 0]}, ConfigurationError, r"max_lengths\[1\] is 0"),
        ({"max_lengths": 3}, ArgumentTypeError, "max_lengths is 3; give one integer for each row"),
        ({"stream_ids": [3, 0.5]}, ConfigurationError, r"stream_ids\[1\] is 0.5"),
        (
            {"kept": torch.zeros(2, 3, 2, dtype=torch.int32)},
            ConfigurationError,
            r"kept has shape \[2, 3, 2\] and torch.int32; for logits",
        ),
        ({"kept": torch.zeros(2, 3, 1)}, ConfigurationError, r"give \[2, 3, 1\] of int32"),
        ({"kept": 5}, ArgumentTypeError, "kept is of type int"),
        ({"kept": [torch.zeros(2, 1, dtype=torch.int32)]}, ConfigurationError, r"kept has shape \[2, 1, 1\]"),
    ],
)
def test_arguments(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        replay(**arguments)


def test_an_illegal_token_is_named_with_what_forbids_it() -> None:
    with pytest.raises(IllegalToken, match=r"row 1, step 1: token 2 \('\\n'\) is forbidden by Regex") as caught:
        replay(outputs=[[0, 1, 3], [1, 2]])
    assert (caught.value.row, caught.value.step, caught.value.token) == (1, 1, 2)
    with pytest.raises(IllegalToken, match=r"row 0, step 1: token 3 \(</s>\) is forbidden by MinNewTokens"):
        replay(lk.chain(lk.Regex("[ab]*", V), lk.MinNewTokens(2, [3])), outputs=[[0, 3], [1]])
    with pytest.raises(IllegalToken, match=r"row 0, step 0: token 4 is forbidden by BanTokens"):
        replay(lk.BanTokens([4]), outputs=[[4], [1]])


def test_the_first_illegal_token_of_the_first_row_is_named() -> None:
    with pytest.raises(IllegalToken) as caught:
        replay([WORD, lk.Regex("b", V)], outputs=[[0, 3], [0]])
    assert (caught.value.row, caught.value.step) == (0, 1)


def test_a_token_outside_of_the_vocabulary_is_named_by_its_row_in_the_batch() -> None:
    logits = torch.zeros(3, 3, 8)
    for processor in (lk.ThinkingBudget(9, "b", V), lk.StopStrings(["b"], V)):
        with pytest.raises(
            IllegalToken, match=r"row 2, step 1: token 6 is not in the vocabulary.*from 0 to 4"
        ) as caught:
            replay([lk.Temperature(0.5), processor, processor], [[], [], []], [[6, 6], [0], [0, 6, 0]], logits)
        assert (caught.value.row, caught.value.step, caught.value.token) == (2, 1, 6)


def test_a_token_that_a_truncation_drops_now_asks_for_kept_sets() -> None:
    logits = torch.tensor([[[0.0, 1.0, 2.0]]])
    with pytest.raises(
        IllegalToken, match=r"token 0 is outside of what TopK keeps of the trainer's logits.*kept="
    ) as caught:
        lk.training.replay(lk.TopK(2), [[]], [[0]], logits)
    assert caught.value.token == 0
    kept = lk.training.kept(logits[:, 0], logits[:, 0].masked_fill(torch.tensor([[False, True, False]]), -torch.inf))
    found = lk.training.replay(lk.TopK(2), [[]], [[0]], logits, kept=[kept])
    assert found.log_probs.exp().tolist() == [[pytest.approx(1 / (1 + torch.e**2))]]


def test_kept_sets_must_be_those_of_the_tokens() -> None:
    logits = torch.zeros(1, 1, 5)
    sets = torch.tensor([[[0b00011]]], dtype=torch.int32)
    with pytest.raises(IllegalToken, match="token 2 is not among the tokens that the sampler kept"):
        lk.training.replay(lk.TopK(5), [[]], [[2]], logits, kept=sets)
    with pytest.raises(
        IllegalToken, match=r"token 1 \('b'\) is among the tokens that the sampler kept, but Regex forbids it"
    ):
        lk.training.replay(lk.Regex("a", V), [[]], [[0]], logits, kept=sets)


def test_masked_logits_are_not_those_of_a_model() -> None:
    logits = LOGITS.clone()
    logits[0, 1, 1] = -torch.inf
    with pytest.raises(IllegalToken, match=r"row 0, step 1: token 1 .* is at -inf in the logits themselves"):
        replay(logits=logits)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_broken_logits(value: float) -> None:
    logits = LOGITS.clone()
    logits[1, 2, 4] = value  # padding, which does not matter
    replay(logits=logits)
    logits[0, 2, 4] = value
    with pytest.raises(BrokenLogits, match="row 0 at step 2: a logit of the trainer's model is NaN or"):
        replay(logits=logits)
    logits[0, 2] = -torch.inf
    with pytest.raises(BrokenLogits, match="none is finite"):
        replay(logits=logits)


def test_a_processor_that_plans_ahead_asks_for_the_limits() -> None:
    ends = lk.ForcedEos([3])
    with pytest.warns(UserWarning, match=r"ForcedEos depends on the maximum length of a row.*max_lengths="):
        replay(ends, outputs=[[0, 1], [1]])
    assert replay(ends, outputs=[[0, 3], [1]], max_lengths=[2, 9]).forced.tolist() == [
        [False, True, False],
        [False] * 3,
    ]


def test_a_function_that_torch_cannot_differentiate_is_named() -> None:
    halve = lk.Stateless(lambda logits, context: torch.from_numpy(logits.numpy() / 2))
    assert replay(halve).log_probs.isfinite().all()
    with pytest.raises(
        ConfigurationError, match=r"torch must differentiate Stateless, but it fails .*logitkit.Role.CONSTRAINT"
    ):
        replay(halve, logits=LOGITS.clone().requires_grad_()).log_probs.sum().backward()


class Mute:
    """A processor of a user that returns +inf."""

    role: ClassVar[lk.Role] = lk.Role.BIAS

    def init_state(self, context: lk.Context) -> tuple[()]:
        return ()

    def advance(self, state: tuple[()], tokens: Tensor) -> tuple[()]:
        return state

    def process_logits(self, state: tuple[()], logits: Tensor, context: lk.Context) -> tuple[tuple[()], Tensor]:
        logits[:, 1] = torch.inf
        return state, logits


def test_a_processor_that_returns_infinity_is_named() -> None:
    with pytest.raises(IllegalToken, match=r"row 0, step 0: token 0 cannot be judged: Mute returns \+inf"):
        replay(Mute())


def test_what_reads_the_whole_row_between_two_truncations_needs_no_kept_sets() -> None:
    reader = lk.SynthIdWatermark([654], ngram_len=2)
    logits, kept = torch.zeros(1, 1, 4), torch.full((1, 1, 1), 3, dtype=torch.int32)
    chains: list[list[Any]] = [
        [lk.TopK(3), reader],
        [reader, lk.TopK(3)],
        [lk.TopK(3), lk.Temperature(2.0), lk.TopP(0.9)],
    ]
    for links in chains:
        lk.training.replay(lk.chain(*links), [[0]], [[1]], logits, kept=kept)
    between = lk.chain(lk.TopK(3), reader, lk.TopP(0.9))
    with pytest.raises(
        ConfigurationError, match="what SynthIdWatermark was given between TopK and TopP; put it after both"
    ):
        lk.training.replay(between, [[0]], [[1]], logits, kept=kept)
    lk.training.replay(between, [[0]], [[1]], logits)
