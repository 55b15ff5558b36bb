"""Sequences that take turns in one hook, one row a call."""

from __future__ import annotations

import torch

from tests.core.history.hook import Hook
from tests.core.ledger import rows_of


class TestTurns:
    def test_many_sequences_go_on_with_their_own(self) -> None:
        hook = Hook()
        generator = torch.Generator().manual_seed(0)
        histories = [[row, *torch.randint(9, (row % 3,), generator=generator).tolist()] for row in range(10, 50)]
        prompts = [list(history) for history in histories]
        for _ in range(12):
            for history, prompt in zip(histories, prompts, strict=True):
                assert hook(history) == [(prompt, history[len(prompt) :])]
                history.append(int(torch.randint(9, (), generator=generator)))
        assert hook.calls().count("init") == len(histories)

    def test_what_one_sequence_says_is_the_prompt_of_another(self) -> None:
        hook = Hook()
        short, long = [1], [1, 2, 3, 4]
        assert hook(short) == [([1], [])]
        assert hook(long) == [([1, 2, 3, 4], [])]
        for says in ([2], [2, 3], [2, 3, 4], [2, 3, 4, 5], [2, 3, 4, 5, 5]):
            assert hook([*short, *says]) == [([1], says)]
            assert hook([*long, *[5] * len(says)]) == [([1, 2, 3, 4], [5] * len(says))]

    def test_an_engine_that_says_which_it_is_tells_apart_what_ids_cannot(self) -> None:
        hook = Hook()

        def named(name: str, history: list[int], begins: bool = False) -> list[tuple[list[int], list[int]]]:
            ids = torch.tensor([history])
            return rows_of(hook.resolver.resolve(ids, vocabulary_size=50, sequence=name, begins=begins)[0])

        # The second prompt is the first one and a token, which the first then says.
        assert named("a", [1], begins=True) == [([1], [])]
        assert named("b", [1, 2], begins=True) == [([1, 2], [])]
        for n in range(1, 9):
            said = [2, 3, 3, 3, 3, 3, 3, 3, 3]
            assert named("a", [1, *said[:n]]) == [([1], said[:n])]
            assert named("b", [1, 2, *said[1 : n + 1]]) == [([1, 2], said[1 : n + 1])]

    def test_a_name_is_no_more_than_a_hint(self) -> None:
        hook = Hook()
        for step, name in enumerate(["a", "b", None, "a", "c"]):
            ids = torch.tensor([[7, *range(step)]])
            assert rows_of(hook.resolver.resolve(ids, vocabulary_size=50, sequence=name)[0]) == [([7], [*range(step)])]

    def test_two_sequences_of_one_prompt(self) -> None:
        hook = Hook()
        one, two = [3, 4], [3, 4]
        for step in range(20):
            assert hook(one) == [([3, 4], one[2:])]
            assert hook(two) == [([3, 4], two[2:])]
            one.append(step)
            two.append(step if step < 5 else 2 * step)

    def test_beams_that_two_batches_may_have_take_none_from_either(self) -> None:
        hook = Hook()
        for history in ([1], [1, 5], [1, 6]):
            hook(history)
        assert hook([1, 5, 0], [1, 5, 1]) == [([1], [5, 0]), ([1], [5, 1])]
        assert hook([1, 6, 0], [1, 5, 0]) == [([1], [6, 0]), ([1], [5, 0])]
        # Both batches have the parent of these beams.
        assert hook([1, 5, 0, 7], [1, 5, 0, 8]) == [([1], [5, 0, 7]), ([1], [5, 0, 8])]
        assert hook([1, 5, 0, 9], [1, 5, 1, 9]) == [([1], [5, 0, 9]), ([1], [5, 1, 9])]
        assert hook([1, 6, 0, 9], [1, 5, 0, 9]) == [([1], [6, 0, 9]), ([1], [5, 0, 9])]
