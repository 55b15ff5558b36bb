"""Replay of a few tokens, with numbers that are worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import logitkit as lk

# Tokens "a", "b", "c", and EOS.
V = lk.Vocabulary([b"a", b"b", b"c", None], eos_ids=[3])
LOGITS = torch.tensor([[[0.5, 0.2, 0.2, 0.1], [0.1, 0.4, 0.3, 0.2]]]).log()


def replayed(
    processor: lk.Processor, output: list[int], logits: Tensor = LOGITS, prompt: tuple[int, ...] = ()
) -> lk.training.Replayed:
    return lk.training.replay(processor, [prompt], [output], logits)


def numbers(found: Tensor) -> list[float]:
    return [round(math.exp(number), 6) for number in found[0].tolist()]


def test_a_constraint_renormalizes_and_says_how_much_it_kept() -> None:
    # At first "a" (0.5) and "b" (0.2) are legal; then only EOS.
    found = replayed(lk.Regex("[ab]", V), [1, 3])
    assert numbers(found.log_probs) == [round(0.2 / 0.7, 6), 1.0]
    assert numbers(found.log_mass) == [0.7, 0.2]
    assert found.forced.tolist() == [[False, True]]


def test_two_constraints_share_one_mass() -> None:
    # "a" (0.5) is left of all; then "b" (0.4) and EOS (0.2).
    found = replayed(lk.chain(lk.BanTokens([2]), lk.Dfa({(0, 0): 1, (1, 1): 1}, 0, {1}, V)), [0, 1])
    assert numbers(found.log_probs) == [1.0, round(0.4 / 0.6, 6)]
    assert numbers(found.log_mass) == [0.5, 0.6]
    assert found.forced.tolist() == [[True, False]]


def test_the_mass_is_relative_to_the_logits_that_enter_the_constraint() -> None:
    # A bias of log 2 makes "b" as likely as 0.4 in 1.2, and the constraint keeps 0.9 of that.
    found = replayed(lk.chain(lk.LogitBias({1: math.log(2)}), lk.BanTokens([2, 3])), [1])
    assert numbers(found.log_mass)[0] == round(0.9 / 1.2, 6)
    assert numbers(found.log_probs)[0] == round(0.4 / 0.9, 6)


def test_neither_temperature_nor_truncation_is_a_constraint() -> None:
    found = replayed(lk.chain(lk.Temperature(0.5), lk.TopK(2)), [0])
    # Squares of 0.5, 0.2 and 0.2: the two best tie with a third.
    assert numbers(found.log_probs)[0] == round(0.25 / 0.33, 6)
    assert numbers(found.log_mass)[0] == 1.0


def test_a_penalty_counts_the_prompt_and_the_output_so_far() -> None:
    logits = torch.tensor([[[2.0, -1.0, 0.0, 0.0], [2.0, -1.0, 0.0, 0.0]]])
    found = replayed(lk.RepetitionPenalty(2.0), [1, 0], logits, prompt=(0,))
    first = math.exp(1.0) + math.exp(-1.0) + 2
    second = math.exp(1.0) + math.exp(-2.0) + 2
    assert numbers(found.log_probs) == [round(math.exp(-1.0) / first, 6), round(math.exp(1.0) / second, 6)]


@pytest.mark.parametrize(
    ("processor", "logits", "expected"),
    [
        # The derivative of log p("b") by the logits: 1 for "b" less the probabilities, scaled.
        (lk.BanTokens([2]), [0.5, 0.2, 0.2, 0.1], [-0.625, 0.75, 0.0, -0.125]),
        (lk.Temperature(0.5), [0.5, 0.25, 0.25, 0.25], [-8 / 7, 12 / 7, -2 / 7, -2 / 7]),
        (lk.FrequencyPenalty(1.0), [0.5, 0.25, 0.125, 0.125], [-0.5, 0.75, -0.125, -0.125]),
    ],
    ids=["mask", "scale", "shift"],
)
def test_gradients(processor: lk.Processor, logits: list[float], expected: list[float]) -> None:
    given = torch.tensor([[logits]], dtype=torch.float64).log().requires_grad_()
    replayed(processor, [1], given).log_probs.sum().backward()
    assert given.grad is not None
    torch.testing.assert_close(given.grad[0, 0], torch.tensor(expected, dtype=torch.float64), atol=1e-7, rtol=0)


def test_the_gradient_of_a_repetition_penalty_depends_on_the_sign() -> None:
    given = torch.tensor([[[2.0, -1.0, 0.0, 0.0]]], dtype=torch.float64).requires_grad_()
    replayed(lk.RepetitionPenalty(2.0), [2], given, prompt=(0, 1, 3)).log_probs.sum().backward()
    chances = torch.tensor([1.0, -2.0, 0.0, 0.0], dtype=torch.float64).softmax(0)
    # Positive logits and zero are divided by 2, negative ones doubled; "c" did not occur.
    slopes = torch.tensor([0.5, 2.0, 1.0, 0.5], dtype=torch.float64)
    assert given.grad is not None
    torch.testing.assert_close(given.grad[0, 0], (torch.eye(4, dtype=torch.float64)[2] - chances) * slopes)


def test_a_token_of_the_prompt_that_is_not_a_column_has_no_gradient() -> None:
    logits = torch.tensor([[[2.0, -1.0, 0.5, -0.5]]] * 2).requires_grad_()
    penalty = lk.RepetitionPenalty(2.0, include_prompt=False)
    # A place that does not exist: 5 would be token 1 of the next row.
    lk.training.replay(penalty, [[5], [9]], [[1], [1]], logits).log_probs.sum().backward()
    assert logits.grad is not None
    expected = torch.eye(4)[1] - logits[0, 0].detach().softmax(0)
    torch.testing.assert_close(logits.grad, expected.expand(2, 1, 4))


def test_a_row_that_must_end_carries_no_signal() -> None:
    # No second "a" is legal and the prompt is over: the chain ends the row with EOS, at a logit that the model has no part in.
    given = LOGITS.clone().requires_grad_()
    found = replayed(lk.chain(lk.BanTokens([0, 1, 2]), lk.BanTokens([3]), eos_ids=[3]), [3], given)
    found.log_probs.sum().backward()
    assert found.log_probs[0, 0] == 0
    assert found.forced[0, 0]
    assert numbers(found.log_mass)[0] == 0.1
    assert given.grad is not None
    assert not given.grad.any()


def test_one_of_several_ends_of_a_row_without_a_token_has_no_gradient() -> None:
    given = LOGITS.clone().requires_grad_()
    found = replayed(lk.chain(lk.BanTokens([0, 1]), lk.BanTokens([2, 3]), eos_ids=[2, 3]), [3], given)
    found.log_probs.sum().backward()
    assert numbers(found.log_probs)[0] == 0.5
    assert numbers(found.log_mass)[0] == 0.3
    assert given.grad is not None
    assert not given.grad.any()


def test_each_row_may_have_a_processor_of_its_own() -> None:
    logits, outputs = LOGITS.repeat(3, 1, 1), [[0, 3], [1], [2, 3]]
    each: list[lk.Processor] = [lk.Regex("a", V), lk.Temperature(1.0), lk.Regex("c", V)]
    found = lk.training.replay(each, [[], [0], []], outputs, logits)
    for row, processor in enumerate(each):
        alone = lk.training.replay(processor, [[]], [outputs[row]], logits[row : row + 1])
        for together, one in zip(found, alone, strict=True):
            assert torch.equal(together[row], one[0])


def test_padding_is_zero_and_has_no_gradient() -> None:
    given = LOGITS.repeat(2, 1, 1).requires_grad_()
    found = lk.training.replay(lk.Temperature(0.5), [[], []], torch.tensor([[1, 0], [0, -1]]), given)
    found.log_probs.sum().backward()
    assert found.log_probs[1, 1] == found.log_mass[1, 1] == 0
    assert given.grad is not None
    assert not given.grad[1, 1].any()
    assert given.grad[1, 0].any()


def test_the_first_end_counts_if_padding_is_an_end() -> None:
    outputs = torch.tensor([[0, 3], [3, 3]])
    found = lk.training.replay(lk.Regex("a?", V), [[], []], outputs, LOGITS.repeat(2, 1, 1), pad_id=3)
    assert numbers(found.log_probs) == [round(0.5 / 0.6, 6), 1.0]
    assert found.forced.tolist() == [[False, True], [False, False]]
    assert found.log_probs[1].exp().tolist() == pytest.approx([0.1 / 0.6, 1.0])


def test_prompts_may_be_padded_on_any_side() -> None:
    logits = torch.tensor([[[2.0, 1.0, 0.0, -1.0]]]).repeat(4, 1, 1)
    padded = torch.tensor([[3, 3, 0, 1], [0, 1, 3, 3], [-1, 0, 1, -1], [0, 1, -1, -1]])
    found = lk.training.replay(lk.RepetitionPenalty(3.0), padded, [[2]] * 4, logits, pad_id=3)
    plain = lk.training.replay(lk.RepetitionPenalty(3.0), [[0, 1]] * 4, [[2]] * 4, logits)
    assert torch.equal(found.log_probs, plain.log_probs)


def test_no_rows_and_no_steps() -> None:
    for rows, steps in ((0, 2), (2, 0), (0, 0)):
        logits = torch.zeros(rows, steps, 4, requires_grad=True)
        found = lk.training.replay(lk.Regex("a", V), [[]] * rows, [[]] * rows, logits)
        assert found.log_probs.shape == (rows, steps)
        found.log_probs.sum().backward()


@pytest.mark.parametrize(
    "reshaping",
    [*(lk.DynamicTemperature(0.5, 1.5, exponent) for exponent in (0.5, 1.0, 2.0)), lk.QuadraticSmoothing(0.3)],
    ids=repr,
)
def test_what_depends_on_all_logits_has_a_gradient_beside_bans(reshaping: lk.Processor) -> None:
    chain = lk.chain(lk.AllowTokens([1, 2, 4]), reshaping)
    logits = torch.tensor([[[0.3, 1.0, -0.5, 2.0, 0.2, 0.0]]], dtype=torch.float64, requires_grad=True)

    def chosen(given: torch.Tensor) -> torch.Tensor:
        return lk.training.replay(chain, [[0]], [[2]], given).log_probs.sum()

    chosen(logits).backward()
    assert logits.grad is not None
    small = 1e-5
    for column in range(6):
        shift = torch.zeros(1, 1, 6, dtype=torch.float64)
        shift[..., column] = small
        with torch.no_grad():
            slope = (chosen(logits + shift) - chosen(logits - shift)) / (2 * small)
        assert logits.grad[0, 0, column].item() == pytest.approx(slope.item(), abs=1e-6)


def test_what_depends_on_all_logits_reads_those_that_a_truncation_kept() -> None:
    chain = lk.chain(lk.BanTokens([5]), lk.TopK(3), lk.SynthIdWatermark([654, 400, 836], ngram_len=2))
    context, logits = lk.Context.of([[0]], 6), torch.tensor([[0.3, 1.0, -0.5, 2.0, 0.2, 9.0]])
    made = chain.process_logits(chain.init_state(context), logits.clone(), context)[1]
    kept = lk.training.kept(logits, made)
    for sets in (None, kept[:, None]):
        found = lk.training.replay(chain, [[0]], [[1]], logits[:, None], kept=sets)
        assert found.log_probs[0, 0].item() == pytest.approx(made[0].log_softmax(0)[1].item(), abs=1e-5)
        # The mass that the ban left, whatever the truncation did.
        assert found.log_mass[0, 0].item() == pytest.approx(logits[0].log_softmax(0)[:5].logsumexp(0).item(), abs=1e-5)


def test_a_forced_token_has_the_log_probability_zero_without_rounding() -> None:
    logits = torch.randn(40, 1, 4, generator=torch.Generator().manual_seed(0))
    tokens = [[row % 3] for row in range(40)]
    # Three tokens are legal by the pattern, and one by the set; or one by the constraint alone.
    kept = torch.tensor([[[1 << token]] for (token,) in tokens], dtype=torch.int32)
    for processor, sets in ((lk.Regex("[abc]", V), kept), ([lk.AllowTokens(token) for token in tokens], None)):
        found = lk.training.replay(processor, [[]] * 40, tokens, logits, kept=sets)
        assert found.forced.all()
        assert found.log_probs.tolist() == [[0.0]] * 40
