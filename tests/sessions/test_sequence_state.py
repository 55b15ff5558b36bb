"""Indexing, adding, packing, saving: on tokens alone."""

from __future__ import annotations

import warnings
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import pytest
import torch

import logitkit as lk
from logitkit import SequenceState
from logitkit.errors import BatchMismatch, ConfigurationError, SampleMismatch, StateFileError
from logitkit.sessions.packing import Packing
from logitkit.sessions.sequence_parts import CacheDropped
from tests.sessions.spelling import Pieces, state_of

ROWS = [[97, 98, 99, 100], [101, 102], [103, 104, 105], [106]]


class ListPort:
    """Caches that are lists of what each column was computed from."""

    kind = "lists"

    def repacked(self, cache: list[list[int]], packing: Packing) -> list[list[int]]:
        places = zip(packing.rows.tolist(), packing.columns[:, : packing.cached].tolist(), strict=True)
        return [[cache[row][c] if c >= 0 else -1 for c in columns] for row, columns in places]

    def batched(self, states: Any, paddings: Any, cached: int) -> list[list[int]]:
        pairs = zip(states, paddings, strict=True)
        return [([-1] * padding + row)[:cached] for state, padding in pairs for row in state.kv_cache]

    def save(self, cache: Any, folder: Any) -> bool:
        return False


def cached(state: SequenceState, columns: int) -> SequenceState:
    """Return the state with a cache of its first columns."""
    ids = torch.where(state.attention_masks == 1, state.token_ids, -1)[:, :columns]
    return replace(state, kv_cache=ids.tolist(), cached=columns, port=ListPort())


def check_cache(state: SequenceState) -> None:
    """Every cached column was computed from the token that stands there, and its row has all before it."""
    if state.cached == 0:
        assert state.kv_cache is None
        return
    assert [len(row) for row in state.kv_cache] == [state.cached] * len(state)
    for held, ids, mask in zip(state.kv_cache, state.token_ids.tolist(), state.attention_masks.tolist(), strict=True):
        assert [i if m else -1 for i, m in zip(ids[: len(held)], mask, strict=False)] == held


@pytest.mark.parametrize("samples", [1, 2, 4])
def test_keys_select_rows(samples: int) -> None:
    state = state_of(ROWS, samples)
    batch = 4 // samples
    for b in range(batch):
        for s in range(samples):
            key = (*([b] if batch > 1 else []), *([s] if samples > 1 else []), slice(None))
            found = state[key]
            assert (found.rows, found.batch_size, found.num_samples) == ((tuple(ROWS[b * samples + s]),), 1, 1)
            assert found.weights.tolist() == [[-float(b * samples + s)]]
            assert state.tokens[key].rows == found.rows


def test_slices_of_prompts_and_samples() -> None:
    state = state_of(ROWS, 2)
    assert state[:, 1, :2].rows == ((101, 102), (106,))
    assert state[:, 1, :2].weights.tolist() == [[-1.0], [-3.0]]
    assert state[-1:, :, :].rows == ((103, 104, 105), (106,))
    assert state[-1, -2, 1:].rows == ((104, 105),)
    assert state[:, :, :].rows == state.rows


def test_every_row_of_a_slice_follows_its_own_length() -> None:
    state = state_of(ROWS, 4)
    assert list(state[:, :-1]) == ["abc", "e", "gh", ""]
    assert list(state[:, :2]) == ["ab", "ef", "gh", "j"]
    assert state.tokens[:, 0].rows == ((97,), (101,), (103,), (106,))
    assert state.tokens[:, -1].rows == ((100,), (102,), (105,), (106,))


@pytest.mark.parametrize(
    ("rows", "samples", "key"),
    [
        (1, 1, (0, slice(None))),
        (1, 1, ()),
        (2, 2, slice(None)),
        (2, 2, (0, 0, 0)),
        (2, 1, 0),
        (4, 2, (0, slice(None))),
        (4, 2, (0, 0, 0, 0)),
        (1, 1, 4),
        (1, 1, -5),
        (2, 1, (2, slice(None))),
        (2, 2, (-3, slice(None))),
        (4, 1, (slice(None), 2)),
        (4, 1, (slice(3, 3), slice(None))),
        (1, 1, slice(0, 3, 1)),
        (1, 1, slice(None, None, 2)),
        (1, 1, slice(None, None, -1)),
        (2, 1, (slice(None, None, 2), slice(None))),
        (1, 1, 1.0),
        (1, 1, "a"),
        (1, 1, True),
        (1, 1, None),
        (1, 1, slice("a", None)),
    ],
)
def test_wrong_keys(rows: int, samples: int, key: Any) -> None:
    state = state_of(ROWS[:rows], samples)
    with pytest.raises(IndexError):
        state[key]
    with pytest.raises(IndexError):
        state.tokens[key]


def test_an_error_names_what_was_given_and_what_is_taken() -> None:
    with pytest.raises(IndexError, match=r"2 keys .* 2 prompts and 2 samples, .* takes 3: state\[batch, sample, ids\]"):
        state_of(ROWS, 2)[0, 0]
    with pytest.raises(IndexError, match=r"index 4 is out of range: there are 4 tokens"):
        state_of(ROWS[:1]).tokens[4]


@pytest.mark.parametrize("samples", [1, 2, 4])
@pytest.mark.parametrize("stop", [1, 2, 3, 9, -1])
def test_every_prefix_keeps_the_cache(samples: int, stop: int) -> None:
    state = cached(state_of(ROWS, samples), 3)
    keys = (slice(None),) * (1 if samples in (1, 4) else 2)
    for view in (state, state.tokens):
        part = view[(*keys, slice(stop))]
        lengths = [len(row[:stop]) for row in ROWS]
        assert part.rows == tuple(tuple(row[:stop]) for row in ROWS)
        check_cache(part)
        # One column of the whole is not cached: the last of every row.
        assert part.cached == min(
            max(lengths), max(lengths) - max(n - len(r) + 1 for n, r in zip(lengths, ROWS, strict=True))
        )
        # Pads stand on the left only.
        assert all(mask == sorted(mask) for mask in part.attention_masks.tolist())


def test_a_slice_that_does_not_begin_at_0_drops_the_cache_with_one_warning() -> None:
    state = cached(state_of(ROWS, 2), 3)
    for view in (state, state.tokens):
        with pytest.warns(CacheDropped, match="begins at 1") as caught:
            part = view[:, :, 1:]
        assert (len(caught), part.kv_cache, part.cached) == (1, None, 0)
        assert caught[0].filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            part[:, :, 1:]  # no cache, nothing to drop
    assert state.kv_cache is not None


def test_a_slice_that_turns_out_to_begin_at_0_keeps_it() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_cache(cached(state_of(ROWS[:1]), 3)[-4:2])


def test_states_do_not_change() -> None:
    state = cached(state_of(ROWS, 2), 3)
    before = [t.clone() for t in (state.token_ids, state.weights, state.attention_masks)]
    state[:, :, :2] + "x"
    state + state
    assert all(map(torch.equal, before, (state.token_ids, state.weights, state.attention_masks)))
    with pytest.raises(FrozenInstanceError):
        state.weights = before[1]  # type: ignore[misc]


def test_states_are_added_row_by_row() -> None:
    rows = [[*row, 120, 121] for row in ROWS]
    left, right = cached(state_of(rows, 2), 5), state_of(ROWS[::-1], 2)
    both = left + right
    assert both.rows == tuple((*a, *b) for a, b in zip(rows, ROWS[::-1], strict=True))
    assert both.weights.tolist() == [[0.0, -2.0], [-4.0, -6.0]]
    check_cache(both)
    # At most 4 tokens come to a row, and one that was not cached before.
    assert (both.token_ids.shape[1] - both.cached, both.cached) == (5, 2)


def test_one_bos() -> None:
    one = state_of([Pieces().encode("ab")])
    assert (one + "c").rows == ((256, 97, 98, 99),)
    assert (one + one).rows == ((256, 97, 98, 97, 98),)
    assert (one.tokens[:0] + "c").rows == ((256, 99),)
    assert (one[1:] + one).rows == ((98, 97, 98),)


def test_a_text_is_added_to_every_row_and_is_prompt() -> None:
    state = cached(state_of(ROWS, 2), 4) + "é"
    assert (list(state), state.cached) == (["abcdé", "efé", "ghié", "jé"], 4)
    assert state.weights.tolist() == [[0.0, 0.0]] * 2
    assert state.prompt_lengths.tolist() == [6, 4, 5, 3]
    check_cache(state)
    assert (state_of(ROWS[:1]) + "").weights.tolist() == [[0.0]]


def test_only_states_and_texts_are_added() -> None:
    with pytest.raises(TypeError):
        state_of(ROWS) + 1


def test_mismatches_name_both_numbers() -> None:
    with pytest.raises(BatchMismatch, match=r"4 prompts and one of 2"):
        state_of(ROWS) + state_of(ROWS[:2])
    with pytest.raises(SampleMismatch, match=r"4 samples and one of 2"):
        state_of(ROWS, 4) + state_of(ROWS[:2], 2)
    with pytest.raises(BatchMismatch, match=r"\[1, 4\]"):
        SequenceState(torch.zeros(1, 4, dtype=torch.int64), torch.zeros(1, 1), torch.zeros(1, 3, dtype=torch.int64))
    with pytest.raises(BatchMismatch, match="2 rows"):
        SequenceState(torch.zeros(2, 4, dtype=torch.int64), torch.zeros(1, 1), torch.zeros(2, 4, dtype=torch.int64))


def test_fan_out_is_in_repeat_interleave_order() -> None:
    state = cached(state_of(ROWS[:2]), 3).fan_out(2)
    assert (state.rows, state.weights.tolist()) == (tuple(tuple(ROWS[i]) for i in (0, 0, 1, 1)), [[0, 0], [-1, -1]])
    check_cache(state)
    with pytest.raises(SampleMismatch, match="the state has 2; select one of them"):
        state.fan_out(3)
    with pytest.raises(ConfigurationError, match="samples is 0"):
        state[:, 0, :].fan_out(0)


def test_list_and_str() -> None:
    assert list(state_of(ROWS, 2)) == ["abcd", "ef", "ghi", "j"]
    assert len(state_of(ROWS, 2)) == 4
    assert str(state_of(ROWS[:1])) == "abcd"
    assert str(state_of(ROWS[:2])) == "[0] abcd\n[1] ef"
    assert str(state_of(ROWS[:2], 2)) == "[0] abcd\n[1] ef"
    assert str(state_of(ROWS, 2)) == "[0, 0] abcd\n[0, 1] ef\n[1, 0] ghi\n[1, 1] j"
    assert repr(state_of(ROWS, 2)) == "SequenceState(2 prompts x 2 samples, 1 to 4 tokens each, no cache)"


def test_holes_and_ids_that_look_like_pads() -> None:
    ids = torch.tensor([[0, 7, 0, 0, 7], [7, 0, 7, 7, 7]])
    masks = torch.tensor([[0, 1, 1, 0, 1], [1, 1, 0, 0, 0]])
    state = SequenceState(ids, torch.zeros(2, 1), masks, None, Pieces())
    assert state.rows == ((7, 0, 7), (7, 0))
    part = state.tokens[:, :]
    assert (part.rows, part.attention_masks.tolist()) == (state.rows, [[1, 1, 1], [0, 1, 1]])


def test_save_and_load(tmp_path: Path) -> None:
    penalty = lk.RepetitionPenalty(1.5)
    given = state_of(ROWS, 2)
    after = penalty.init_state(lk.Context.of(ROWS, vocabulary_size=258))
    replace(given, processor=penalty, processor_state=after, prompt_lengths=torch.tensor([1, 2, 3, 0])).save(
        tmp_path / "a"
    )
    kind = Pieces()
    found = SequenceState.load(tmp_path / "a", kind, penalty)
    assert (found.rows, found.weights.tolist(), found.tokenizer) == (given.rows, given.weights.tolist(), kind)
    assert torch.equal(found.attention_masks, given.attention_masks)
    assert found.prompt_lengths.tolist() == [1, 2, 3, 0]
    assert all(map(torch.equal, found.processor_state.occurred, after.occurred))
    assert SequenceState.load(tmp_path / "a", kind).processor_state is None
    with pytest.raises(StateFileError, match="Temperature"):
        SequenceState.load(tmp_path / "a", kind, lk.Temperature(1.0))
    # A state without a processor removes the other state's files.
    given.save(tmp_path / "a")
    assert SequenceState.load(tmp_path / "a", kind, penalty).processor_state is None


def test_a_folder_without_a_saved_state(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="sequence"):
        SequenceState.load(tmp_path)
    state_of(ROWS).save(tmp_path)
    file = tmp_path / "sequence.safetensors"
    data = file.read_bytes()
    for broken in (b"", data[:50], data[:-8], data.replace(b"token_ids", b"tokenzids"), data[:-8] + b"\x07" * 8):
        file.write_bytes(broken)
        with pytest.raises(StateFileError, match="cannot load a sequence"):
            SequenceState.load(tmp_path)
