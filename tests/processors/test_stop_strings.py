"""`StopStrings`: a row ends at the first stop, whatever the tokens that spell it."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.errors import ConfigurationError, PatternTooLarge, StaleAutomaton, StateFileError, VocabularyError
from logitkit.stopping.stop_automaton import StopAutomaton
from logitkit.stopping.stop_bank import stop_bank
from logitkit.stopping.stop_state import StopState
from tests.processors import four_logits
from tests.processors.four_logits import NEVER
from tests.registry import EOS, PAD, TOKENS, vocabulary

# Ids:                      0     1     2      3 = EOS
AB = lk.Vocabulary([b"a", b"b", b"ab", None], eos_ids=[3])
LOGITS = [0.5, -1.0, 2.0, 3.0]
ENDED = [NEVER, NEVER, NEVER, 3.0]


def after(
    processor: lk.Processor[Any], tokens: Sequence[int], logits: Sequence[float], prompt: Sequence[int] = ()
) -> list[float]:
    """Return what becomes of the logits, on either path."""
    by_rows = four_logits.after(processor, tokens, logits, prompt)
    with mock.patch.object(torch.compiler, "is_compiling", return_value=True):
        assert four_logits.after(processor, tokens, logits, prompt) == by_rows
    return by_rows


def test_nothing_changes_before_a_stop() -> None:
    assert after(lk.StopStrings(["aab"], AB), [], LOGITS) == LOGITS
    assert after(lk.StopStrings(["aab"], AB), [0, 0], LOGITS) == LOGITS
    assert after(lk.StopStrings(["aab"], AB), [0], [torch.inf, NEVER, -0.0, NEVER]) == [torch.inf, NEVER, -0.0, NEVER]


def test_only_eos_after_a_stop() -> None:
    assert after(lk.StopStrings(["aab"], AB), [0, 0, 1], LOGITS) == ENDED
    assert after(lk.StopStrings(["aab"], AB), [0, 2], LOGITS) == ENDED
    assert after(lk.StopStrings(["aab"], AB), [0, 2, 0, 1], LOGITS) == ENDED


def test_a_stop_that_begins_again_within_itself() -> None:
    assert after(lk.StopStrings(["aab"], AB), [0, 0, 0, 1], LOGITS) == ENDED
    assert after(lk.StopStrings(["abab"], AB), [0, 2, 0, 1], LOGITS) == ENDED


def test_a_stop_within_a_token() -> None:
    assert after(lk.StopStrings(["a"], AB), [2], LOGITS) == ENDED
    assert after(lk.StopStrings(["b"], AB), [2], LOGITS) == ENDED


def test_eos_that_is_masked_already_has_logit_0() -> None:
    assert after(lk.StopStrings(["b"], AB), [1], [0.5, 1.0, 2.0, NEVER]) == [NEVER, NEVER, NEVER, 0.0]


def test_a_stop_in_the_prompt_counts_where_it_shall() -> None:
    assert after(lk.StopStrings(["ab"], AB), [], LOGITS, prompt=[0, 1]) == LOGITS
    assert after(lk.StopStrings(["ab"], AB), [1], LOGITS, prompt=[0]) == LOGITS
    assert after(lk.StopStrings(["ab"], AB, include_prompt=True), [], LOGITS, prompt=[0, 1]) == ENDED
    assert after(lk.StopStrings(["ab"], AB, include_prompt=True), [1], LOGITS, prompt=[0]) == ENDED
    assert after(lk.StopStrings(["ab"], AB, include_prompt=True), [0], LOGITS, prompt=[0]) == LOGITS


def test_eos_and_unknown_ids_of_a_prompt_are_passed_over() -> None:
    assert after(lk.StopStrings(["ab"], AB, include_prompt=True), [1], LOGITS, prompt=[3, 0, 99]) == ENDED
    assert after(lk.StopStrings(["ab"], AB, include_prompt=True), [0], LOGITS, prompt=[3, 0, 99]) == LOGITS
    pads = lk.Vocabulary([b"a", b"b", None, None], eos_ids=[3], pad_id=2)
    assert after(lk.StopStrings(["a"], pads, include_prompt=True), [], LOGITS, prompt=[0, 3]) == ENDED
    assert after(lk.StopStrings([3], pads, include_prompt=True), [], LOGITS, prompt=[3]) == ENDED


def test_tokens_without_text_leave_the_text_as_it_is() -> None:
    special = lk.Vocabulary([b"a", b"b", None, None], eos_ids=[3])
    assert after(lk.StopStrings(["ab"], special), [0, 2, 1], LOGITS) == ENDED


def test_stops_by_id() -> None:
    special = lk.Vocabulary([b"a", b"b", None, None], eos_ids=[3])
    assert after(lk.StopStrings([2], special), [0, 2], LOGITS) == ENDED
    assert after(lk.StopStrings([1], special), [1], LOGITS) == ENDED
    # Spelled by another token it is another stop.
    assert after(lk.StopStrings([1], AB), [2], LOGITS) == LOGITS


def test_pad_after_eos_and_not_before() -> None:
    pads = lk.Vocabulary([b"a", b"b", None, None], eos_ids=[3], pad_id=2)
    stops = lk.StopStrings(["a"], pads)
    assert after(stops, [0], LOGITS) == ENDED
    assert after(stops, [0, 3], LOGITS) == [NEVER, NEVER, 2.0, 3.0]
    assert after(stops, [0, 3], [0.5, -1.0, 2.0, NEVER]) == [NEVER, NEVER, 2.0, NEVER]
    assert after(stops, [0], [0.5, -1.0, 2.0, NEVER]) == [NEVER, NEVER, NEVER, 0.0]
    assert after(stops, [0, 3], [0.5, -1.0, NEVER, NEVER]) == [NEVER, NEVER, NEVER, 0.0]
    assert after(stops, [1, 3], LOGITS) == [NEVER, NEVER, 2.0, 3.0]
    assert after(stops, [1, 3, 0], LOGITS) == [NEVER, NEVER, 2.0, 3.0]
    assert after(lk.StopStrings([3], pads), [1, 3], LOGITS) == [NEVER, NEVER, 2.0, 3.0]


def begun(processor: lk.StopStrings, tokens: Sequence[int], prompt: Sequence[int] = ()) -> StopState:
    context = lk.Context.of([prompt], processor.vocabulary.size)
    return processor.advance(processor.init_state(context), torch.tensor([[*tokens, -1]]))


def asked(processor: lk.StopStrings, tokens: Sequence[int], prompt: Sequence[int] = ()) -> tuple[int, ...]:
    """Which stop fired, bytes before and up to its end, and the index of the token."""
    state = begun(processor, tokens, prompt)
    which, place = processor.which(state), processor.place(state)
    assert processor.fired(state).tolist() == [int(which[0]) >= 0]
    return tuple(int(t[0]) for t in (which, *place))


def test_which_stop_and_where() -> None:
    stops = lk.StopStrings(["ba", "aab", 1], AB)
    assert asked(stops, [0, 0]) == (-1, -1, -1, -1)
    assert asked(stops, [0, 0, 2]) == (1, 1, 4, 2)
    assert asked(stops, [2, 0, 0]) == (0, 1, 3, 1)
    assert asked(stops, [0, 1, 0, 0, 2]) == (2, 1, 2, 1)


def test_of_stops_that_end_together_the_longest_wins() -> None:
    assert asked(lk.StopStrings(["b", "ab", "aab", "ab"], AB), [0, 0, 1]) == (2, 0, 3, 2)
    assert asked(lk.StopStrings(["ab", "ab"], AB), [2]) == (0, 0, 2, 0)
    assert asked(lk.StopStrings(["b", 2], AB), [2]) == (1, 0, 2, 0)
    assert asked(lk.StopStrings([2, "a"], AB), [2]) == (1, 0, 1, 0)
    assert asked(lk.StopStrings([1, "ab"], AB), [0, 1]) == (1, 0, 2, 1)


def test_the_place_counts_from_the_beginning_of_the_output() -> None:
    stops = lk.StopStrings(["aba"], AB, include_prompt=True)
    assert asked(stops, [0, 0], prompt=[1, 0, 1]) == (0, -2, 1, 0)
    assert asked(stops, [0], prompt=[2, 0, 0, 0]) == (0, -5, -2, -3)
    assert asked(stops, [1, 2, 0], prompt=[1]) == (0, 1, 4, 2)


def test_a_rewound_row_has_not_fired() -> None:
    stops = lk.StopStrings(["ab"], AB)
    before = begun(stops, [0])
    later = stops.advance(before, torch.tensor([1]))
    assert stops.fired(later).tolist() == [True]
    assert stops.fired(before).tolist() == [False]
    assert stops.fired(stops.advance(before, torch.tensor([0]))).tolist() == [False]


def test_a_fired_row_stays_so() -> None:
    stops = lk.StopStrings(["ab", "ba"], AB)
    assert asked(stops, [2, 0, 0, 1]) == asked(stops, [2]) == asked(stops, [2, 3, 1, 0])
    state = begun(stops, [2, 0])
    assert stops.is_finished(state).tolist() == [False]
    assert stops.is_finished(stops.advance(state, torch.tensor([3]))).tolist() == [True]


def test_a_stop_overrides_a_constraint() -> None:
    both = lk.chain(lk.Regex("a{3}", AB), lk.StopStrings(["aa"], AB))
    assert after(both, [0], LOGITS) == [0.5, NEVER, NEVER, NEVER]
    assert after(both, [0, 0], LOGITS) == [NEVER, NEVER, NEVER, 0.0]
    other = lk.chain(lk.StopStrings(["aa"], AB), lk.Regex("a{3}", AB))
    assert after(other, [0, 0], LOGITS) == [NEVER, NEVER, NEVER, 0.0]
    context = lk.Context.of([[]], 4)
    state = both.advance(both.init_state(context), torch.tensor([[0, 0]]))
    assert both.conflicts(state).tolist() == [False]


# The plain meaning of stops, over decoded bytes.


def expected(
    stops: Sequence[bytes | int], prompt: Sequence[int], output: Sequence[int], tokens: Sequence[bytes | None]
) -> tuple[int, ...]:
    """Try all stops after each token; ids count at the end of their token."""

    def text(ids: Sequence[int]) -> bytes:
        return b"".join(tokens[i] or b"" for i in ids)

    before = len(text(prompt))
    ids = [*prompt, *output]
    for n, token in enumerate(ids):
        if token == EOS and n >= len(prompt) and EOS not in stops:
            break
        start, so_far = len(text(ids[:n])), text(ids[: n + 1])
        found = []
        for which, stop in enumerate(stops):
            if isinstance(stop, int):
                if stop == token:
                    found.append((len(so_far), start, which))
            elif stop in so_far:
                begin = so_far.find(stop)
                found.append((begin + len(stop), begin, which))
        if found:
            end, begin, which = min(found)
            return which, begin - before, end - before, n - len(prompt)
    return -1, -1, -1, -1


PIECES = ["a", "b", "ab", "1", "10", "é", "€", "cat", "dog", "og", " ", "\n", "c"]
_text = st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map("".join)
_bytes = st.lists(st.sampled_from([t for t in TOKENS if t]), min_size=1, max_size=3).map(b"".join)
_ids = st.integers(0, len(TOKENS) - 1)
_some = st.lists(_ids | st.sampled_from([i for i, t in enumerate(TOKENS) if t and t in b"abaabcat\xc3\xa9\xc3"]))


@settings(max_examples=300)
@given(st.lists(_text | _bytes | _ids, min_size=1, max_size=5), _some, _some, st.booleans())
def test_against_searching_the_decoded_bytes(
    stops: list[str | bytes | int], prompt: list[int], output: list[int], include_prompt: bool
) -> None:
    processor = lk.StopStrings(stops, vocabulary(), include_prompt)
    plain = [s.encode() if isinstance(s, str) else s for s in stops]
    wanted = expected(plain, prompt if include_prompt else [], output, TOKENS)
    assert asked(processor, output, prompt) == wanted
    with mock.patch.object(torch.compiler, "is_compiling", return_value=True):
        assert asked(processor, output, prompt) == wanted


@settings(max_examples=30)
@given(st.data())
def test_against_searching_in_a_real_vocabulary(tekken: lk.Vocabulary, data: st.DataObject) -> None:
    """The stops are cut out of what is said, somewhere within tokens."""
    output = data.draw(st.lists(st.integers(1000, 50_000), min_size=1, max_size=30))
    text = tekken.decode(output)
    stops = []
    for _ in range(data.draw(st.integers(1, 8))):
        begin = data.draw(st.integers(0, len(text) - 1))
        stops.append(text[begin : begin + data.draw(st.integers(1, 12))])
    processor = lk.StopStrings(stops, tekken)
    wanted = expected(stops, [], output, tekken.tokens)
    assert wanted[0] >= 0
    assert asked(processor, output) == wanted


def test_every_tokenisation_of_a_stop(sentencepiece_32k: lk.Vocabulary) -> None:
    """Both by bytes and by the table over tokens, which is made of one stop among a thousand."""
    ids = {t: i for i, t in reversed([*enumerate(sentencepiece_32k.tokens)]) if t}
    stop = b"Observation:"
    stops = lk.StopStrings([*(f"stop number {n}" for n in range(999)), stop], sentencepiece_32k)
    ways: list[tuple[int, ...]] = [()]
    for _ in range(5):
        ways = [
            (*way, ids[stop[at:end]])
            for way in ways
            for at in [len(sentencepiece_32k.decode(way))]
            for end in range(at + 1, len(stop) + 1)
            if stop[at:end] in ids
        ] + [way for way in ways if sentencepiece_32k.decode(way) == stop]
    ways = [way for way in ways if sentencepiece_32k.decode(way) == stop]
    assert len(ways) > 5
    table = stops.automaton.table
    for way in ways:
        state = stops.automaton.start
        for token in way[:-1]:
            assert stops.automaton.next(state, token) == table.next(state, token)
            state = table.next(state, token)
        assert stops.automaton.next(state, way[-1]) == table.next(state, way[-1]) == 0


def test_a_table_over_tokens_is_made_only_for_tensors() -> None:
    fresh = lk.Vocabulary([b"a", b"b", b"abb", None], eos_ids=[3])
    stops = lk.StopStrings(["ab"], fresh)
    begun(stops, [0, 1])
    assert "table" not in stops.automaton.__dict__
    with mock.patch.object(torch.compiler, "is_compiling", return_value=True):
        begun(stops, [0, 1])
    assert "table" in stops.automaton.__dict__


def test_stops_that_are_gone_take_no_room_in_the_bank() -> None:
    """Though their tables over tokens were made after they came."""
    fresh = lk.Vocabulary([b"a", b"b", b"abb", b"bb", None], eos_ids=[4])
    bank, automaton = stop_bank(fresh), StopAutomaton((b"abab",), fresh, lk.Limits())
    lease = bank.lease(cast(Any, automaton))
    taken = bank.nbytes()
    assert automaton.table.states > 0
    del lease
    assert taken > bank.nbytes() == 0


def test_rows_with_other_stops_share_a_batch() -> None:
    one, two = lk.StopStrings(["ab"], AB), lk.StopStrings(["bb", "ba"], AB)
    context = lk.Context.of([[]], 4)
    state = lk.concatenate([one.init_state(context), two.init_state(context)])
    state = one.advance(state, torch.tensor([[2, -1], [2, 0]]))
    assert one.which(state).tolist() == two.which(state).tolist() == [0, 1]
    assert one.place(state).begin.tolist() == [0, 1]


@pytest.mark.parametrize("tensors", [False, True], ids=["rows", "tensors"])
def test_whatever_is_below_0_is_no_token(tensors: bool) -> None:
    """Labels of a training set have -100."""
    stops = lk.StopStrings(["ab"], AB)
    with mock.patch.object(torch.compiler, "is_compiling", return_value=tensors):
        state = begun(stops, [0])
        later = stops.advance(state, torch.tensor([[-100, -1]]))
    assert torch.equal(later.at.state, state.at.state)
    assert torch.equal(later.tokens, state.tokens)


def test_a_neutral_row_is_left_as_it_is() -> None:
    stops = lk.StopStrings(["a"], AB)
    state = begun(stops, [])
    state = state._replace(at=state.at._replace(slot=torch.zeros_like(state.at.slot)))
    for tensors in (False, True):
        with mock.patch.object(torch.compiler, "is_compiling", return_value=tensors):
            later = stops.advance(state, torch.tensor([[0, 3, 1]]))
            assert later == state or all(map(torch.equal, later[1:], state[1:]))
            logits = torch.tensor([[torch.inf, NEVER, -0.0, 2.0, 7.0]])
            out = stops.process_logits(later, logits.clone(), lk.Context.of([[]], 4))[1]
            assert torch.equal(out, logits)


def test_what_is_no_stop() -> None:
    with pytest.raises(ConfigurationError, match="stops is the single text 'a'; give a list"):
        lk.StopStrings("a", AB)
    with pytest.raises(ConfigurationError, match="stops is 3; give a list"):
        lk.StopStrings(3, AB)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="stops is empty; give at least one"):
        lk.StopStrings([], AB)
    with pytest.raises(ConfigurationError, match=r"stops\[1\] is empty; give at least one character"):
        lk.StopStrings(["a", ""], AB)
    with pytest.raises(ConfigurationError, match=r"stops\[0\] is True of type bool; allowed are str, bytes and"):
        lk.StopStrings([True], AB)
    with pytest.raises(ConfigurationError, match=r"stops\[0\] is 1\.5 of type float"):
        lk.StopStrings([1.5], AB)  # type: ignore[list-item]
    with pytest.raises(ConfigurationError, match=r"stops\[0\] is the token id 4; allowed are ids from 0 to 3"):
        lk.StopStrings([4], AB)
    with pytest.raises(ConfigurationError, match=r"stops\[0\] is the token id -1"):
        lk.StopStrings([-1], AB)
    with pytest.raises(ConfigurationError, match="lone surrogate at position 1"):
        lk.StopStrings(["a\ud800"], AB)


def test_other_arguments_of_the_wrong_type() -> None:
    with pytest.raises(ConfigurationError, match="include_prompt is 1; allowed are True and False"):
        lk.StopStrings(["a"], AB, include_prompt=1)  # type: ignore[arg-type]
    with pytest.raises(VocabularyError, match=r"vocabulary is a list; give a logitkit\.Vocabulary"):
        lk.StopStrings(["a"], [b"a"])  # type: ignore[arg-type]
    with pytest.raises(VocabularyError, match="no EOS id"):
        lk.StopStrings(["a"], lk.Vocabulary([b"a"], eos_ids=[]))
    with pytest.raises(PatternTooLarge, match="more than 4 states"):
        lk.StopStrings(["abab"], AB, limits=lk.Limits(states=4))


def test_ids_and_logits_of_another_model() -> None:
    stops = lk.StopStrings(["a"], AB)
    with pytest.raises(VocabularyError, match="has the token 4, but the vocabulary has ids from 0 to 3"):
        begun(stops, [4])
    for tensors in (False, True):
        with mock.patch.object(torch.compiler, "is_compiling", return_value=tensors):
            with pytest.raises(VocabularyError, match="the logits have 3 columns"):
                after(stops, [], LOGITS[:3])
            # Columns behind the vocabulary are left, as all others are, until there is a stop.
            assert after(stops, [], [*LOGITS, 5.0]) == [*LOGITS, 5.0]
            assert after(stops, [0], [*LOGITS, 5.0]) == [*ENDED, NEVER]


def test_stops_outlive_neither_their_processor_nor_a_copy() -> None:
    stops = lk.StopStrings(["abbb"], AB)
    state = begun(stops, [0])
    for copied in (copy.deepcopy(stops), pickle.loads(pickle.dumps(stops))):
        assert copied == stops
        assert asked(copied, [0, 1, 1, 1]) == (0, 0, 4, 3)
    del stops, copied
    other = lk.StopStrings(["b"], AB)
    with pytest.raises(StaleAutomaton, match="no longer in the bank"):
        other.advance(state, torch.tensor([0]))
    with mock.patch.object(torch.compiler, "is_compiling", return_value=True):
        out = other.process_logits(state, torch.tensor([LOGITS]), lk.Context.of([[]], 4))[1]
    assert out[0].tolist() == ENDED


def test_a_state_that_cannot_be_is_refused(tmp_path: Path) -> None:
    stops = lk.StopStrings(["ab"], AB)
    state = begun(stops, [0, 1])
    for token, before in ((0, 3), (9, 3), (-1, 3), (1, 99), (1, 0)):
        wrong = state._replace(token=torch.tensor([token]), before=torch.tensor([before]))
        lk.save_state(tmp_path / "state", wrong, stops)
        with pytest.raises(StateFileError, match="completes no stop"):
            lk.load_state(tmp_path / "state", stops)
    lk.save_state(tmp_path / "state", state, stops)
    with pytest.raises(StateFileError, match="automaton"):
        lk.load_state(tmp_path / "state", lk.StopStrings(["ba"], AB))


def test_the_table_follows_the_bytes() -> None:
    """From all states, by all tokens."""
    stops = lk.StopStrings(["abcat", "a\n", b"\xa9\xc3", "cat", EOS, 20, "ab1"], vocabulary())
    automaton = stops.automaton
    for state in range(2, automaton.states):
        for token in range(vocabulary().size):
            assert automaton.next(state, token) == automaton.table.next(state, token), (state, token)
    assert automaton.next(2, PAD) == 2
