"""The rules of the history resolver, one by one; random mixtures of them are in `test_history_random`."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import logitkit as lk
from logitkit.errors import BatchMismatch, ConfigurationError
from logitkit.history import HistoryResolver, host_rows, lineage, resolver
from logitkit.history.device_rows import DeviceRows
from logitkit.history.rows import Shown
from tests.core.ledger import Ledger, LedgerState, rows_of

Rows = list[list[int]]
Sequences = list[tuple[list[int], list[int]]]


@pytest.fixture(autouse=True, params=["host", "device"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run every test with the code for the CPU and with that for devices."""
    if request.param == "device":
        for module in (resolver, lineage):
            monkeypatch.setattr(module, "keep_rows", DeviceRows)
    return str(request.param)


class Hook:
    """What an adapter does: show ids, get states."""

    def __init__(self, **arguments: Any) -> None:
        self.ledger = arguments.pop("processor", None) or Ledger()
        self.resolver: HistoryResolver[LedgerState] = HistoryResolver(self.ledger, **arguments)

    def resolve(self, rows: Rows | Tensor, columns: int = 50) -> tuple[LedgerState, lk.Context]:
        ids = rows if isinstance(rows, Tensor) else torch.tensor(rows, dtype=torch.int64)
        return self.resolver.resolve(ids, vocabulary_size=columns)

    def __call__(self, *rows: list[int]) -> Sequences:
        return rows_of(self.resolve(list(rows))[0])

    def calls(self) -> list[int | str]:
        """What the processor was called for since this was last asked."""
        calls = list(self.ledger.calls)
        self.ledger.calls.clear()
        return calls


def begun(*rows: list[int]) -> Sequences:
    return [(row, []) for row in rows]


class TestOneTokenMore:
    def test_is_one_advance_by_one_token(self) -> None:
        hook = Hook()
        history = [[1, 2], [3, 4]]
        hook(*history)
        assert hook.calls() == ["init"]
        for token in range(60):
            history = [[*row, token] for row in history]
            hook(*history)
            assert hook.calls() == [1]

    def test_shares_the_prompt_between_contexts(self) -> None:
        hook = Hook()
        first, second = (hook.resolve(rows)[1] for rows in ([[1, 2]], [[1, 2, 3]]))
        assert first.prompt is second.prompt
        assert (first.lengths.tolist(), second.lengths.tolist()) == ([2], [3])

    def test_appends_a_column_and_copies_nothing_else(self) -> None:
        hook = Hook()
        history = torch.arange(40)[None].repeat(3, 1)
        hook.resolve(history)
        buffers = set()
        for token in range(100):
            history = torch.cat((history, torch.full((3, 1), token)), 1)
            hook.resolve(history)
            buffers.add(hook.resolver._lineages[0].rows.tokens.data_ptr())
        assert len(buffers) <= 2
        assert hook.resolver._lineages[0].rows.tokens.shape[1] <= 2 * history.shape[1]

    def test_of_an_empty_prompt(self) -> None:
        hook = Hook()
        assert hook([], []) == begun([], [])
        assert hook([1], [2]) == [([], [1]), ([], [2])]
        assert hook([2, 3], [1, 3]) == [([], [2, 3]), ([], [1, 3])]
        assert hook.calls() == ["init", 1, 1]


class TestAgain:
    def test_a_repeated_call_costs_nothing(self) -> None:
        hook = Hook()
        hook([1])
        hook([1, 2])
        hook.calls()
        assert hook([1, 2]) == [([1], [2])]
        assert hook([1]) == [([1], [])]
        assert hook.calls() == []

    def test_a_rejected_draft_is_taken_back_without_a_replay_from_the_prompt(self) -> None:
        hook = Hook()
        history = list(range(30))
        hook(history)
        for token in range(50):
            history.append(token)
            hook(history)
        hook.calls()
        for rejected in range(1, 21):
            for n in range(rejected + 1):
                hook([*history, *[3] * n])
            drafted = hook.calls()
            assert drafted == [1] * len(drafted)
            for n in range(rejected):
                assert hook([*history, *[3] * n]) == [(history[:30], history[30:] + [3] * n)]
            history += [*[3] * (rejected - 1), 4]
            assert hook(history) == [(history[:30], history[30:])]
            replayed = hook.calls()
            assert all(type(call) is int and call < 8 for call in replayed)
            assert len(replayed) <= rejected + 1

    def test_rewound_far_it_is_one_advance_from_the_prompt(self) -> None:
        hook = Hook()
        for n in range(151):
            hook([7, *[1] * n])
        hook.calls()
        assert hook([7, *[1] * 50]) == [([7], [1] * 50)]
        assert hook.calls() == [50]

    def test_what_a_draft_left_stays_alive(self) -> None:
        hook = Hook()
        for history in ([1], [1, 2], [1, 2, 3], [1, 2, 4], [1, 2, 4, 5]):
            hook(history)
        assert hook([1, 2, 3, 6]) == [([1], [2, 3, 6])]
        assert hook([1, 2, 4, 5, 6]) == [([1], [2, 4, 5, 6])]
        assert "init" not in hook.calls()[1:]

    def test_an_assistant_of_another_size_skips_the_token_that_the_target_added(self) -> None:
        hook = Hook()
        for history in ([1], [1, 2], [1, 2, 3]):
            hook.resolve([history], columns=64)
        for history in ([1], [1, 2], [1, 2, 3], [1, 2, 3, 4]):
            hook.resolve([history], columns=50)
        state, context = hook.resolve([[1, 2, 3, 4]], columns=64)
        assert rows_of(state) == [([1], [2, 3, 4])]
        assert context.vocabulary_size == 64

    def test_a_draft_of_one_model_does_not_reach_the_states_of_another(self) -> None:
        hook = Hook()
        for history in ([1], [1, 2], [1, 2, 3], [1, 2, 3, 3]):
            hook.resolve([history], columns=64)
        for history in ([1], [1, 2], [1, 2, 4], [1, 2, 4, 4]):
            hook.resolve([history], columns=50)
        assert rows_of(hook.resolve([[1, 2, 4, 4]], columns=64)[0]) == [([1], [2, 4, 4])]
        assert rows_of(hook.resolve([[1, 2, 3, 3]], columns=50)[0]) == [([1], [2, 3, 3])]


class TestRows:
    def test_beams_follow_their_parents(self) -> None:
        hook = Hook()
        hook([9], [9], [9])
        hook([9, 1], [9, 2], [9, 3])
        hook.calls()
        assert hook([9, 3, 1], [9, 1, 1], [9, 1, 2]) == [([9], [3, 1]), ([9], [1, 1]), ([9], [1, 2])]
        assert hook.calls() == [1]
        assert hook([9, 1, 2, 5], [9, 3, 1, 5], [9, 1, 2, 6])[0] == ([9], [1, 2, 5])
        assert hook.calls() == [1]
        assert len(hook.resolver._lineages) == 1

    def test_of_equal_parents_that_of_the_same_index_is_continued(self) -> None:
        hook = Hook()
        hook([9], [9], [9], [9])
        hook([9, 1], [9, 2], [9, 1], [9, 2])
        state, _ = hook.resolve([[9, 2, 5], [9, 2, 6], [9, 1, 7], [9, 2, 8]])
        assert state.stream.tolist() == [1, 1, 2, 3]

    def test_more_rows_of_a_prompt_shown_before_have_streams_of_their_own(self) -> None:
        hook = Hook()
        hook([9])
        assert hook.resolve([[9], [9], [9]])[0].stream.tolist() == [0, 1, 2]

    def test_rows_of_different_prompts_may_be_dropped_and_repeated(self) -> None:
        hook = Hook()
        hook([1, 1], [2, 2])
        hook([1, 1, 5], [2, 2, 5])
        state, context = hook.resolve([[2, 2, 5, 6], [2, 2, 5, 7], [1, 1, 5, 8]])
        assert rows_of(state) == [([2, 2], [5, 6]), ([2, 2], [5, 7]), ([1, 1], [5, 8])]
        assert context.prompt.tolist() == [[2, 2], [2, 2], [1, 1]]
        state, context = hook.resolve([[1, 1, 5, 8, 9], [2, 2, 5, 6, 9], [2, 2, 5, 6, 8]])
        assert rows_of(state) == [([1, 1], [5, 8, 9]), ([2, 2], [5, 6, 9]), ([2, 2], [5, 6, 8])]
        assert context.prompt.tolist() == [[1, 1], [2, 2], [2, 2]]

    def test_sequences_that_take_turns_stay_apart(self) -> None:
        hook = Hook()
        hook([1])
        hook([1])
        hook([1, 2])
        hook([1, 3])
        hook([1, 2, 2])
        assert hook([1, 3, 2]) == [([1], [3, 2])]
        assert hook([1, 2, 2, 3]) == [([1], [2, 2, 3])]
        assert hook.calls() == ["init", 1, 1, 1, 1, 1]

    def test_as_many_sequences_as_the_capacity_take_turns(self) -> None:
        hook = Hook(capacity=64)
        histories = [[7, n] for n in range(64)]
        for token in range(5):
            for history in histories:
                assert hook(history) == [(history[:2], history[2:])]
                history.append(token)
        assert hook.calls().count("init") == 64

    def test_that_differ_in_one_old_token_only(self) -> None:
        tail = list(range(60))
        hook = Hook()
        hook([1, *tail], [2, *tail], [3, *tail])
        hook([1, *tail, 5], [2, *tail, 5], [3, *tail, 5])
        moved = hook([3, *tail, 5, 6], [3, *tail, 5, 6], [1, *tail, 5, 6])
        assert moved == [([first, *tail], [5, 6]) for first in (3, 3, 1)]
        assert hook([4, *tail, 5, 6, 7], [3, *tail, 5, 6, 7], [1, *tail, 5, 6, 7]) == begun(
            *([first, *tail, 5, 6, 7] for first in (4, 3, 1))
        )

    def test_with_equal_hashes_stay_apart(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(host_rows, "hashes_of", lambda rows, keys: [0] * len(rows))
        hook = Hook()
        hook([1, 1], [2, 2], [3, 3])
        hook([1, 1, 5], [2, 2, 5], [3, 3, 5])
        moved = hook([2, 2, 5, 6], [3, 3, 5, 6], [1, 1, 5, 6])
        assert moved == [([2, 2], [5, 6]), ([3, 3], [5, 6]), ([1, 1], [5, 6])]
        assert hook([2, 2, 5, 6, 7], [1, 1, 5, 6, 7]) == [([2, 2], [5, 6, 7]), ([1, 1], [5, 6, 7])]
        other = [4, 4, 5, 6, 7]
        assert hook([2, 2, 5, 6, 7], other, [1, 1, 5, 6, 7])[1] == (other, [])


class TestNewGeneration:
    @pytest.mark.parametrize(
        "prompt",
        [[5, 6, 7, 8, 1, 2], [5, 6], [5], [5, 6, 9], [9, 9, 9, 9], [5, 6, 9, 8]],
        ids=["longer by two", "shorter", "much shorter", "other end", "unrelated", "other within the prompt"],
    )
    def test_is_every_other_history(self, prompt: list[int]) -> None:
        hook = Hook()
        hook([5, 6, 7])
        hook([5, 6, 7, 8])
        assert hook(prompt) == begun(prompt)
        assert hook([*prompt, 3]) == [(prompt, [3])]
        assert hook([5, 6, 7, 8, 4]) == [([5, 6, 7], [8, 4])]

    def test_takes_all_rows_when_one_is_new(self) -> None:
        hook = Hook()
        hook([1, 1], [2, 2])
        hook([1, 1, 5], [2, 2, 5])
        assert hook([1, 1, 5, 6], [3, 3, 5, 6]) == begun([1, 1, 5, 6], [3, 3, 5, 6])

    def test_is_not_recognised_when_it_is_the_last_history_and_one_token(self) -> None:
        """The one case that ids do not tell: a continuation, unless the caller says otherwise."""
        chat, turn = [1, 2, 3], [1, 2, 3, 4]
        hook = Hook()
        hook([1, 2])
        hook(chat)
        assert hook(turn) == [([1, 2], [3, 4])]

        told = Hook()
        told([1, 2])
        told(chat)
        told.resolver.new_generation()
        assert told(turn) == begun(turn)
        assert told([*turn, 5]) == [(turn, [5])]

        given = Hook(prompt=torch.tensor([turn]))
        assert given(turn) == begun(turn)

    def test_forgets_everything(self) -> None:
        hook = Hook()
        hook([1])
        hook([1, 2])
        hook.resolver.new_generation()
        assert hook([1, 2]) == begun([1, 2])
        assert hook([1, 2, 3]) == [([1, 2], [3])]


class TestGivenPrompt:
    def test_continues_however_much_longer(self) -> None:
        hook = Hook(prompt=torch.tensor([[1, 2]]))
        assert hook([1, 2, 3, 4, 5]) == [([1, 2], [3, 4, 5])]
        assert hook([1, 2, 3, 4, 5, 6, 7]) == [([1, 2], [3, 4, 5, 6, 7])]
        assert hook([1, 2]) == begun([1, 2])
        assert hook([1, 2, 9, 9, 9, 9]) == [([1, 2], [9, 9, 9, 9])]
        assert hook.calls() == ["init", 3, 2, "init", 4]

    def test_of_several_lengths(self) -> None:
        prompt = torch.tensor([[1, 2, 3], [4, -1, -1]])
        for arguments in ({}, {"prompt_lengths": torch.tensor([3, 1])}):
            hook = Hook(prompt=prompt, **arguments)
            state, context = hook.resolve([[1, 2, 3, 5], [4, 6, 7, 8]])
            assert rows_of(state) == [([1, 2, 3], [5]), ([4], [6, 7, 8])]
            assert context.prompt.tolist() == prompt.tolist()
            assert (context.prompt_lengths.tolist(), context.lengths.tolist()) == ([3, 1], [4, 4])

    def test_tells_rows_of_equal_ids_apart(self) -> None:
        """One prompt is the other and what was said after it: every row keeps to its own."""
        hook = Hook(prompt=torch.tensor([[1, -1], [1, 2]]))
        assert hook([1, 2], [1, 2], [1, 2], [1, 2]) == [([1], [2])] * 2 + [([1, 2], [])] * 2
        hook([1, 2, 3], [1, 2, 4], [1, 2, 4], [1, 2, 3])
        moved = hook([1, 2, 4, 5], [1, 2, 3, 5], [1, 2, 3, 5], [1, 2, 3, 6])
        assert moved == [([1], [2, 4, 5]), ([1], [2, 3, 5]), ([1, 2], [3, 5]), ([1, 2], [3, 6])]
        assert hook.calls() == ["init", 1, 1, 1]

    def test_behind_left_pads(self) -> None:
        hook = Hook(prompt=torch.tensor([[1, 2], [3, -1]]), skip=torch.tensor([0, 1]))
        assert hook([1, 2, 5], [0, 3, 5]) == [([1, 2], [5]), ([3], [5])]

    def test_must_be_what_the_engine_shows(self) -> None:
        hook = Hook(prompt=torch.tensor([[1, 2], [3, 4]]), skip=torch.tensor([1, 0]))
        with pytest.raises(ConfigurationError, match=r"row 0 .* at position 2 it has id 9, the prompt has 2"):
            hook([0, 1, 9], [3, 4, 9])
        with pytest.raises(ConfigurationError, match=r"row 0 has 1 ids after 1 pads, but its prompt has 2"):
            hook([0, 1], [3, 4])
        with pytest.raises(BatchMismatch, match=r"shows 3 rows, but (skip|prompt) has 2"):
            hook([0, 1, 2], [3, 4, 9], [3, 4, 9])
        assert hook([0, 1, 2], [3, 4, 9]) == [([1, 2], []), ([3, 4], [9])]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"prompt": torch.tensor([1, 2])}, r"prompt is a torch.int64 tensor of shape \[2\]"),
            ({"prompt": [[1, 2]]}, r"prompt is a list"),
            ({"prompt": torch.tensor([[1.0]])}, r"prompt is a torch.float32 tensor"),
            ({"prompt": torch.zeros(0, 3, dtype=torch.int64)}, r"prompt has no rows"),
            ({"prompt": torch.tensor([[-1, 2]])}, r"on the right only"),
            ({"prompt_lengths": torch.tensor([1])}, r"without prompt"),
            (
                {"prompt": torch.tensor([[1, -1]]), "prompt_lengths": torch.tensor([2])},
                r"prompt_lengths is 2 for row 0",
            ),
            (
                {"prompt": torch.tensor([[1, 2]]), "prompt_lengths": torch.tensor([2, 2])},
                r"2 numbers for the 1 rows",
            ),
            ({"skip": torch.tensor([-1])}, r"skip is \[-1\]"),
            ({"skip": 3}, r"skip is a int"),
            ({"capacity": 0}, r"capacity is 0"),
        ],
    )
    def test_and_other_arguments_are_checked(self, arguments: dict[str, Any], message: str) -> None:
        with pytest.raises(ConfigurationError, match=message):
            Hook(**arguments)


class TestLeftPads:
    def test_do_not_belong_to_the_prompt(self) -> None:
        for skip in (torch.tensor([0, 2]), lambda ids: (ids == 0).cumprod(1).sum(1)):
            hook = Hook(skip=skip)
            state, context = hook.resolve([[1, 2, 3], [0, 0, 4]])
            assert rows_of(state) == begun([1, 2, 3], [4])
            assert context.prompt.tolist() == [[1, 2, 3], [4, -1, -1]]
            assert (context.prompt_lengths.tolist(), context.lengths.tolist()) == ([3, 1], [3, 1])
            state, context = hook.resolve([[1, 2, 3, 0], [0, 0, 4, 0]])
            assert rows_of(state) == [([1, 2, 3], [0]), ([4], [0])]
            assert context.lengths.tolist() == [4, 2]

    def test_alone_are_an_empty_prompt(self) -> None:
        hook = Hook(skip=lambda ids: (ids == 0).cumprod(1).sum(1))
        state, context = hook.resolve([[0, 0], [0, 0]])
        assert rows_of(state) == begun([], [])
        assert context.prompt.shape == (2, 0)
        assert hook([0, 0, 0], [0, 0, 1]) == [([], [0]), ([], [1])]

    def test_of_another_number_are_another_prompt(self) -> None:
        hook = Hook(skip=lambda ids: (ids == 0).cumprod(1).sum(1))
        hook([0, 0, 4])
        assert hook([0, 4]) == begun([4])
        assert hook([0, 0, 0, 4]) == begun([4])

    def test_tell_rows_of_equal_ids_apart(self) -> None:
        hook = Hook(skip=torch.tensor([0, 1]))
        assert hook([7, 1], [7, 1], [7, 1], [7, 1]) == begun([7, 1], [7, 1], [1], [1])
        hook([7, 1, 2], [7, 1, 3], [7, 1, 3], [7, 1, 2])
        assert hook([7, 1, 3, 4], [7, 1, 3, 5], [7, 1, 3, 4], [7, 1, 2, 4]) == [
            ([7, 1], [3, 4]),
            ([7, 1], [3, 5]),
            ([1], [3, 4]),
            ([1], [2, 4]),
        ]
        assert hook.calls() == ["init", 1, 1]

    def test_tell_rows_apart_even_if_all_hashes_are_equal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(host_rows, "hashes_of", lambda rows, keys: [0] * len(rows))
        self.test_tell_rows_of_equal_ids_apart()

    def test_must_fit(self) -> None:
        with pytest.raises(ConfigurationError, match=r"row 1 has 2 ids, but skip says that 3"):
            Hook(skip=torch.tensor([0, 3]))([1, 2], [3, 4])
        with pytest.raises(BatchMismatch, match=r"shows 3 rows, but skip has 2"):
            Hook(skip=torch.tensor([0, 1]))([1, 2], [3, 4], [5, 6])
        with pytest.raises(BatchMismatch, match=r"skip returned 1 numbers for 2 rows"):
            Hook(skip=lambda ids: torch.tensor([0]))([1, 2], [3, 4])
        with pytest.raises(ConfigurationError, match=r"the result of skip is a torch.float32 tensor"):
            Hook(skip=lambda ids: torch.zeros(2))([1, 2], [3, 4])


class TestInput:
    @pytest.mark.parametrize(
        ("ids", "message"),
        [
            (torch.tensor([1, 2]), r"of shape \[2\]"),
            (torch.tensor([[1.0]]), r"torch.float32"),
            (torch.tensor([[True]]), r"torch.bool"),
            (torch.zeros(0, 2, dtype=torch.int64), r"of shape \[0, 2\]"),
            ([[1]], r"ids is a list"),
        ],
    )
    def test_of_another_kind_is_refused(self, ids: Any, message: str) -> None:
        with pytest.raises(ConfigurationError, match=message):
            HistoryResolver(Ledger()).resolve(ids, vocabulary_size=9)

    def test_with_negative_ids_is_refused(self) -> None:
        hook = Hook()
        with pytest.raises(ConfigurationError, match=r"row 1 has the id -1 at position 0"):
            hook([1, 2], [-1, 2])
        hook([1], [2])
        with pytest.raises(ConfigurationError, match=r"row 0 has the id -5 at position 1"):
            hook([1, -5], [2, 3])
        assert hook([1, 5], [2, 3]) == [([1], [5]), ([2], [3])]

    def test_may_be_overwritten_afterwards(self) -> None:
        """Even by a processor that keeps the tokens it is given, nothing of the caller's buffer is kept."""

        class Last(NamedTuple):
            token: Tensor

        class Keeper:
            def init_state(self, context: lk.Context) -> Last:
                return Last(torch.full((context.batch_size,), -1))

            def advance(self, state: Last, tokens: Tensor) -> Last:
                return Last(tokens)

            def process_logits(self, state: Last, logits: Tensor, context: lk.Context) -> tuple[Last, Tensor]:
                return state, logits

        keeper = HistoryResolver(Keeper())
        buffer = torch.tensor([[1, 2, 3], [4, 5, 6]])
        _, context = keeper.resolve(buffer[:, :1], vocabulary_size=9)
        second, _ = keeper.resolve(buffer[:, :2], vocabulary_size=9)
        third, _ = keeper.resolve(buffer, vocabulary_size=9)
        again, _ = keeper.resolve(buffer[:, :2], vocabulary_size=9)
        buffer.zero_()
        assert context.prompt.tolist() == [[1], [4]]
        assert [s.token.tolist() for s in (second, third, again)] == [[2, 5], [3, 6], [2, 5]]

    def test_may_come_from_inference_mode(self) -> None:
        hook = Hook()
        with torch.inference_mode():
            hook([1], [1])
            hook([1, 2], [1, 3])
        assert hook([1, 3, 4], [1, 3, 5]) == [([1], [3, 4]), ([1], [3, 5])]

    def test_passes_the_longest_length_on(self) -> None:
        assert Hook(max_length=77).resolve([[1]])[1].max_length == 77


@pytest.mark.parametrize(
    "rows",
    [
        [[1, 1, 5, 13], [2, 2, 5, 6]],
        [[2, 2, 5, 13], [1, 1, 5, 6]],
        [[1, 1, 5, 13]],
        [[1, 1, 13], [2, 2, 13]],
    ],
    ids=["one more", "other order", "fewer rows", "rewound"],
)
def test_a_processor_that_fails_changes_nothing(rows: Rows) -> None:
    hook = Hook(processor=Ledger(fail_on=13))
    hook([1, 1], [2, 2])
    hook([1, 1, 5], [2, 2, 5])
    with pytest.raises(RuntimeError, match="fails"):
        hook(*rows)
    assert hook([1, 1, 5, 6], [2, 2, 5, 6]) == [([1, 1], [5, 6]), ([2, 2], [5, 6])]
    fine = [[7 if token == 13 else token for token in row] for row in rows]
    assert hook(*fine) == [(row[:2], row[2:]) for row in fine]
    assert "init" not in hook.calls()[1:]


@dataclass(frozen=True)
class Watched:
    """A processor whose living states can be counted."""

    alive: weakref.WeakSet[Tensor]

    def state(self, rows: int) -> tuple[Tensor]:
        made = torch.zeros(rows)
        self.alive.add(made)
        return (made,)

    def init_state(self, context: lk.Context) -> tuple[Tensor]:
        return self.state(context.batch_size)

    def advance(self, state: tuple[Tensor], tokens: Tensor) -> tuple[Tensor]:
        return self.state(len(tokens))

    def process_logits(self, state: Any, logits: Tensor, context: lk.Context) -> tuple[Any, Tensor]:
        return state, logits


class TestMemory:
    def test_of_one_long_generation_is_a_few_states(self) -> None:
        alive: weakref.WeakSet[Tensor] = weakref.WeakSet()
        watched: HistoryResolver[Any] = HistoryResolver(Watched(alive))
        ids = torch.randint(0, 9, (2, 3000), generator=torch.Generator().manual_seed(1))
        for length in range(1, 3000):
            watched.resolve(ids[:, :length], vocabulary_size=9)
        gc.collect()
        assert len(alive) <= 25

    @pytest.mark.parametrize("rows", [1, 4, 40])
    def test_of_thousands_of_generations_is_bounded(self, rows: int) -> None:
        alive: weakref.WeakSet[Tensor] = weakref.WeakSet()
        watched: HistoryResolver[Any] = HistoryResolver(Watched(alive), capacity=16)
        draws = np.random.default_rng(1)
        for number in range(1200):
            ids = torch.from_numpy(np.concatenate((np.full((rows, 1), number), draws.integers(0, 3, (rows, 9))), 1))
            for length in (4, 5, 6, 6, 5, 6, 7):
                watched.resolve(ids[:, :length], vocabulary_size=9)
            watched.resolve(ids[:, torch.tensor([0, 1, 2, 3, 4, 7])], vocabulary_size=9)
        gc.collect()
        lineages = watched._lineages
        limit = max(16, 2 * rows)
        assert sum(one.rows.count for one in lineages) <= limit
        # A first state and a newest one each, and the last states of four.
        assert len(alive) <= 2 * len(lineages) + 4 * 24

    def test_of_drafts_is_bounded(self) -> None:
        alive: weakref.WeakSet[Tensor] = weakref.WeakSet()
        watched: HistoryResolver[Any] = HistoryResolver(Watched(alive), capacity=16)
        history = [1]
        for step in range(300):
            for n in range(12):
                watched.resolve(torch.tensor([history + [2] * n]), vocabulary_size=9)
            history.append(3 + step % 2)
            watched.resolve(torch.tensor([history]), vocabulary_size=9)
        gc.collect()
        assert len(watched._lineages) <= 16
        assert len(alive) <= 1 + 12 + 4 * 24

    def test_a_forgotten_history_is_a_new_prompt(self) -> None:
        hook = Hook(capacity=2)
        for history in ([1], [1, 1], [2], [3]):
            hook(history)
        assert hook([1, 1, 1]) == begun([1, 1, 1])


class HostReads(TorchDispatchMode):
    """Count what would wait for a device: values that leave it."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in (torch.ops.aten.equal.default, torch.ops.aten._local_scalar_dense.default):
            self.count += 1
        return func(*args, **(kwargs or {}))


def refuse(name: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError(f"the fast path calls Tensor.{name}, which waits for a device")

    return call


def test_a_step_reads_one_scalar_from_a_device(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if place == "host":
        # There a step reads none through torch: the ids are a numpy view.
        allowed = 0
    else:
        allowed = 1
        # As on a device, ids have no view for numpy.
        monkeypatch.setattr(resolver, "Shown", OnDevice)
    hook: HistoryResolver[Any] = HistoryResolver(lk.Stateless(lambda logits, context: logits))
    ids = torch.randint(0, 9, (4, 300), generator=torch.Generator().manual_seed(1))
    hook.resolve(ids[:, :200], vocabulary_size=9)
    if place == "device":
        for name in ("cpu", "tolist", "numpy", "item"):
            monkeypatch.setattr(Tensor, name, refuse(name))
    for length in range(201, 301):
        with HostReads() as reads:
            hook.resolve(ids[:, :length], vocabulary_size=9)
        assert reads.count == allowed


class OnDevice(Shown):
    """The ids of a call, out of numpy's reach."""

    __slots__ = ()

    def __init__(self, ids: Tensor) -> None:
        self.ids, self.array = ids, None
        self.rows, self.length = ids.shape
