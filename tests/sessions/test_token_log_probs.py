"""The log-probabilities of generated tokens equal those of an independent pass, also after slices, sums and files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

import logitkit as lk
from logitkit import SequenceState
from logitkit.errors import BatchMismatch, StateFileError
from logitkit.sessions.sequence_parts import CacheDropped, carried
from logitkit_adapters.sessions import continuous
from tests.adapters.demo import model, tokenizer, vocabulary
from tests.sessions.continuation import PROMPT, PROMPTS
from tests.sessions.engines import ENGINES, loaded
from tests.sessions.spelling import state_of
from tests.sessions.transformers_generator import choice, generator


def of_rows(state: SequenceState) -> list[list[float]]:
    """Return the values of the tokens of each row, and check that all others have none."""
    masks = state.attention_masks == 1
    assert state.token_log_probs[~masks].isnan().all()
    return [values[mask].tolist() for values, mask in zip(state.token_log_probs, masks, strict=True)]


def computed(row: tuple[int, ...]) -> list[float]:
    """Return the log-probability of each token but the first, by a pass over the whole row."""
    with torch.no_grad():
        likelihood = model()(input_ids=torch.tensor([row]), use_cache=False).logits[0].log_softmax(1)
    return [float(likelihood[n - 1, token]) for n, token in enumerate(row) if n]


def check(state: SequenceState, unknown: list[int]) -> None:
    """Compare all but the first tokens of each row with an independent pass."""
    for row, values, prompt in zip(state.rows, of_rows(state), unknown, strict=True):
        assert all(value != value for value in values[:prompt])
        assert values[prompt:] == pytest.approx(computed(row)[prompt - 1 :], abs=1e-4)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("samples", [1, 2])
def test_they_equal_an_independent_pass(engine: str, samples: int) -> None:
    more: dict[str, Any] = {"num_samples": 2, "seed": 3} if samples > 1 else {}
    state = continuous(*loaded(engine), **more)(PROMPTS, max_new_tokens=7)
    check(state, state.prompt_lengths.tolist())
    sums = state.token_log_probs.nansum(1).reshape(state.open_weights.shape)
    torch.testing.assert_close(sums, state.open_weights, rtol=0, atol=1e-4)


def test_a_processor_does_not_count_and_eos_has_none() -> None:
    state = choice(" yes", " certainly not")(PROMPTS)
    assert state.finished.all()
    check(state, state.prompt_lengths.tolist())
    torch.testing.assert_close(state.token_log_probs.nansum(1)[:, None], state.open_weights)
    assert (state.weights < state.open_weights).all()


def test_those_of_beams_add_up_to_their_weights() -> None:
    state = generator(num_beams=3, max_new_tokens=6)(PROMPTS)
    sums = state.token_log_probs.nansum(1).reshape(3, 3)
    there = state.weights > -torch.inf
    torch.testing.assert_close(sums[there], state.open_weights[there], rtol=0, atol=1e-4)
    check(state, state.prompt_lengths.tolist())


def test_slices_sums_and_continuations_keep_them() -> None:
    text = generator()
    state = text(PROMPTS, max_new_tokens=6)
    prompts = state.prompt_lengths.tolist()
    longer = text(state, max_new_tokens=4)
    check(longer, prompts)
    check(longer.tokens[:, :-3], prompts)
    check(longer[:, :-1][[2, 0], ...], [prompts[2], prompts[0]])
    check(text(longer.tokens[:, :-4], max_new_tokens=3), prompts)
    check(text(PROMPT, max_new_tokens=5).fan_out(3), [prompts[0]] * 3)
    # A sum keeps those of both sides, as they were generated.
    right = text("The price", max_new_tokens=5)
    both = text(PROMPT, max_new_tokens=3) + right
    (values,), (ours,) = of_rows(both), of_rows(right)
    assert values[-5:] == ours[-5:]
    assert values[-6] != values[-6]
    torch.testing.assert_close(both.token_log_probs.nansum(1)[:, None], both.open_weights)
    # A text, or a part from the middle, counts as a prompt.
    assert (state + " and").token_log_probs.isnan().all()
    with pytest.warns(CacheDropped):
        assert state[:, 2:].token_log_probs.isnan().all()


def test_a_part_from_the_middle_before_generated_tokens_is_continued_with_a_bos() -> None:
    text = generator()
    with pytest.warns(CacheDropped):
        part = text(PROMPT, max_new_tokens=3)[5:]
    right = text("Item:", max_new_tokens=4)
    (values,) = of_rows(text(part + right, max_new_tokens=2))
    assert values[-6:-2] == of_rows(right)[0][-4:]
    assert sum(value == value for value in values) == 6


def test_files_keep_them_and_those_without_still_load(tmp_path: Path) -> None:
    pattern = lk.Regex(r" \d{4}-\d\d-\d\d.", vocabulary())
    state = continuous(model(), tokenizer(), pattern)(PROMPTS, max_new_tokens=4)
    state.save(tmp_path)
    torch.testing.assert_close(SequenceState.load(tmp_path).token_log_probs, state.token_log_probs, equal_nan=True)
    file = tmp_path / "sequence.safetensors"
    with safe_open(file, framework="pt") as opened:
        notes = opened.metadata()
        tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    values = tensors.pop("token_log_probs")
    save_file(tensors, file, notes)
    old = SequenceState.load(tmp_path, tokenizer())
    assert old.rows == state.rows
    assert old.token_log_probs.isnan().all()
    check(generator()(old, max_new_tokens=3), [len(row) for row in old.rows])
    save_file({**tensors, "token_log_probs": values[:, 1:].contiguous()}, file, notes)
    with pytest.raises(StateFileError, match="token_log_probs has the shape"):
        SequenceState.load(tmp_path)


def test_they_are_carried_to_the_tokens_with_which_both_rows_end() -> None:
    state = replace(state_of([[5, 97, 98, 99]]), token_log_probs=torch.tensor([[-4.0, -3.0, -2.0, -1.0]]))
    wanted = {(99,): [-1.0], (98, 99): [-2.0, -1.0], (7, 98, 99): [-2.0, -1.0], (98,): [], (): [], (97, 7, 99): [-1.0]}
    assert {tokens: carried(state, 0, tokens) for tokens in wanted} == wanted
    assert carried(state, 0, (1, 2, 5, 97, 98, 99)) == [-4.0, -3.0, -2.0, -1.0]


def test_their_shape_is_that_of_the_tokens() -> None:
    state = state_of([[97, 98], [99]])
    with pytest.raises(BatchMismatch, match=r"token_log_probs has the shape \[2, 1\] and token_ids \[2, 2\]"):
        SequenceState(state.token_ids, state.weights, state.attention_masks, token_log_probs=torch.zeros(2, 1))
