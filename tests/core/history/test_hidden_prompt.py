"""Prompts of which an engine hides the beginning."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit.tracking import HiddenPrompt, SequenceTracker, Tracker
from tests.core.ledger import Ledger, LedgerState, rows_of

PROMPT = [1, 2, 3, 4]


def whole(hidden: HiddenPrompt, *calls: list[int]) -> list[list[int]]:
    return [hidden.complete(np.array(shown, np.int64))[1].tolist() for shown in calls]


class TestOnePrompt:
    @pytest.mark.parametrize("hides", range(4))
    def test_the_first_call_shows_an_end_of_it(self, hides: int) -> None:
        calls = [[*PROMPT[hides:], *[9] * n] for n in range(6)]
        assert whole(HiddenPrompt([PROMPT]), *calls) == [[*PROMPT, *[9] * n] for n in range(6)]

    def test_drafts_are_taken_back(self) -> None:
        said: list[list[int]] = [[], [5], [5, 6], [], [5], [5, 7], [5, 7, 8], [5, 7]]
        assert whole(HiddenPrompt([PROMPT]), *([4, *new] for new in said)) == [[*PROMPT, *new] for new in said]

    def test_output_that_repeats_the_prompt_stays_output(self) -> None:
        prompt = [7, 7, 7]
        for hides in range(3):
            calls = [prompt[hides:] + [7] * n for n in range(5)]
            assert whole(HiddenPrompt([prompt]), *calls) == [[*prompt, *[7] * n] for n in range(5)]

    def test_a_whole_prompt_may_be_followed_by_much(self) -> None:
        assert whole(HiddenPrompt([PROMPT]), [*PROMPT, 8, 9, 9]) == [[*PROMPT, 8, 9, 9]]
        assert whole(HiddenPrompt([[]]), [8, 9], [8, 9, 9]) == [[8, 9], [8, 9, 9]]

    def test_ways_of_showing_it_may_take_turns(self) -> None:
        # As a plain run after one with drafts does, in which another token is the last of the prompt.
        calls = [[4], [4, 5], [4, 5, 6], PROMPT, [*PROMPT, 8], [*PROMPT, 8, 5], [4], [4, 5], [4, 5, 6], [4, 5, 6, 7]]
        assert whole(HiddenPrompt([PROMPT]), *calls) == [c if c[0] == 1 else [*PROMPT, *c[1:]] for c in calls]

    def test_no_token_is_skipped(self) -> None:
        # After only the last token, the whole prompt does not count as an output of two tokens.
        assert whole(HiddenPrompt([[5, 1, 5]]), [5], [5, 1, 5], [5, 1, 5, 2]) == [[5, 1, 5], [5, 1, 5], [5, 1, 5, 2]]

    @pytest.mark.parametrize("shown", [[], [9], [1, 2, 3], [3, 5], [2, 3, 4, 5], [1, 2, 3, 5, 6]])
    def test_what_does_not_belong_to_it_is_refused(self, shown: list[int]) -> None:
        hidden = HiddenPrompt([PROMPT])
        with pytest.raises(ConfigurationError, match=rf"shows {len(shown)} tokens that begin neither"):
            whole(hidden, shown)
        assert whole(hidden, [4], [4, 9]) == [PROMPT, [*PROMPT, 9]]

    def test_after_new_generation_its_end_is_seen_again(self) -> None:
        hidden = HiddenPrompt([[1, 4, 4]])
        assert whole(hidden, [4], [4, 4]) == [[1, 4, 4], [1, 4, 4, 4]]
        hidden.new_generation()
        assert whole(hidden, [4, 4], [4, 4, 4]) == [[1, 4, 4], [1, 4, 4, 4]]


class TestSeveral:
    def test_each_sequence_has_its_own(self) -> None:
        prompts = [[1, 2, 3], [4, 5], [6, 7, 8, 9]]
        for hides in (0, 1):
            hidden = HiddenPrompt(prompts)
            for n in range(4):
                for index, prompt in enumerate(prompts):
                    shown = np.array([*prompt[hides:], *[index] * n])
                    found, ids = hidden.complete(shown)
                    assert prompts[found] == prompt
                    assert ids.tolist() == [*prompt, *[index] * n]

    def test_a_whole_one_goes_before_an_end_of_another(self) -> None:
        calls = [[8], [8, 3], [1, 8], [1, 8, 3]]
        assert whole(HiddenPrompt([[1, 8], [8]]), *calls) == calls

    def test_equal_ones_are_one(self) -> None:
        hidden = HiddenPrompt([PROMPT, PROMPT, [5, 6]])
        assert whole(hidden, [3, 4], [3, 4], [6], [3, 4, 1]) == [PROMPT, PROMPT, [5, 6], [*PROMPT, 1]]

    def test_a_beginning_of_another_is_refused(self) -> None:
        for prompts in ([[1], [1, 2]], [[3], [1, 2, 3], [1, 2]], [[], [1]]):
            with pytest.raises(ConfigurationError, match="the beginning of another"):
                HiddenPrompt(prompts)

    def test_equal_ends_of_different_prompts_are_refused_where_it_matters(self) -> None:
        prompts = [[1, 8, 9], [2, 2, 8, 9]]
        with pytest.raises(ConfigurationError, match="several of the prompts"):
            whole(HiddenPrompt(prompts), [8, 9])
        calls = [[8, 9], [8, 9], [8, 9, 1], [8, 9, 2]]
        assert [
            ids[-len(c) :] for ids, c in zip(whole(HiddenPrompt(prompts, distinct=False), *calls), calls, strict=True)
        ] == calls
        assert whole(HiddenPrompt(prompts), *prompts) == prompts

    def test_new_generation_forgets_who_had_the_last_turn(self) -> None:
        prompts = [[1, 2], [3, 4], [5, 6]]
        hidden = HiddenPrompt(prompts)
        for _ in range(2):
            assert whole(hidden, *prompts, *([*prompt, 9] for prompt in prompts)) == [
                *prompts,
                *([*p, 9] for p in prompts),
            ]
            hidden.new_generation()

    def test_an_end_that_begins_another_is_refused(self) -> None:
        for distinct in (True, False):
            prompts = [[1, 8], [2, 8, 9]]
            with pytest.raises(ConfigurationError, match="several of the prompts"):
                whole(HiddenPrompt(prompts, distinct), [8], [8, 9])
            with pytest.raises(ConfigurationError, match="several of the prompts"):
                whole(HiddenPrompt(prompts, distinct), [8, 9], [8])


class TestResolver:
    def resolve(self, resolver: Tracker[LedgerState], shown: list[int]) -> tuple[list[int], list[int]]:
        state, context = resolver.resolve(torch.tensor([shown], dtype=torch.int32), vocabulary_size=50)
        [(prompt, new)] = rows_of(state)
        assert context.lengths.tolist() == [len(prompt) + len(new)]
        return prompt, new

    def test_states_have_what_was_hidden(self) -> None:
        resolver = SequenceTracker(Ledger(), prompts=[PROMPT, [6, 7]], pads=[0, 0])
        for n in range(5):
            assert self.resolve(resolver, [3, 4, *[9] * n]) == (PROMPT, [9] * n)
            assert self.resolve(resolver, [7, *[8] * n]) == ([6, 7], [8] * n)
        assert self.resolve(resolver, [3, 4, 9, 5]) == (PROMPT, [9, 5])
        resolver.new_generation()
        assert self.resolve(resolver, [4]) == (PROMPT, [])

    def test_padding_is_not_part_of_a_prompt(self) -> None:
        for first in ([0, 0, 5, 6], [0, 5, 6], [5, 6], [6]):
            resolver = SequenceTracker(Ledger(), prompts=[[0, 0, 5, 6]], pads=[2])
            assert self.resolve(resolver, first) == ([5, 6], [])
            assert self.resolve(resolver, [*first, 3]) == ([5, 6], [3])

    def test_without_prompts_what_is_shown_first_is_one(self) -> None:
        resolver = Tracker(Ledger(), skip=lambda ids: (ids == 0).long().cumprod(1).sum(1))
        assert self.resolve(resolver, [0, 5, 6]) == ([5, 6], [])
        assert self.resolve(resolver, [0, 5, 6, 7]) == ([5, 6], [7])

    def test_a_processor_that_does_not_read_prompts_does_not_tell_them_apart(self) -> None:
        vocabulary = lk.Vocabulary([b"a", b"b", None], eos_ids=[2])
        told = {"prompts": [[0, 1], [1, 1]], "pads": [0, 0]}
        resolver = SequenceTracker(lk.Regex("ab*", vocabulary), **told)  # type: ignore[arg-type]
        resolver.resolve(torch.tensor([[1]]), vocabulary_size=3)
        with pytest.raises(ConfigurationError, match="several of the prompts"):
            SequenceTracker(lk.RepetitionPenalty(2.0), **told).resolve(torch.tensor([[1]]), vocabulary_size=3)  # type: ignore[arg-type]


class TestHowMuchIsHidden:
    """Output that ends as the prompt does, in an engine that says how many tokens it hides."""

    def test_the_first_tokens_up_to_the_length_of_the_prompt_are_prompt(self) -> None:
        for said in (0, 1, 3):
            hidden = HiddenPrompt([PROMPT])
            assert hidden.complete(np.array([4]), said)[1].tolist() == PROMPT
            assert hidden.complete(np.array([4, 9]), said)[1].tolist() == [*PROMPT, 9]

    @pytest.mark.parametrize("known", [[], [[4]], [[1, 2, 3, 4]], [[3, 4], [3, 4, 8]]])
    def test_more_is_output(self, known: list[list[int]]) -> None:
        hidden = HiddenPrompt([PROMPT])
        whole(hidden, *known)
        for shown, said in (([4], 4), ([4], 7), ([3, 4], 3), (PROMPT, 1), ([*PROMPT, 9], 2), ([4, 9], 4)):
            with pytest.raises(ConfigurationError, match=f"hides {said} before them"):
                hidden.complete(np.array(shown), said)
        assert whole(hidden, [*PROMPT, 9]) == [[*PROMPT, 9]]

    def test_a_longer_prompt_may_hide_what_a_shorter_one_cannot(self) -> None:
        hidden = HiddenPrompt([[1, 2, 4], [5, 6, 7, 8, 4]])
        assert hidden.complete(np.array([4]), 4)[1].tolist() == [5, 6, 7, 8, 4]
        with pytest.raises(ConfigurationError, match="several"):
            HiddenPrompt([[1, 2, 4], [5, 6, 7, 8, 4]]).complete(np.array([4]), 2)
