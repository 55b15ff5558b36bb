"""`continuous` with the shipped model in transformers."""

from __future__ import annotations

import random
import subprocess
import sys
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

import logitkit as lk
from logitkit.errors import ConfigurationError, SampleMismatch
from logitkit.sessions.sequence_parts import CacheDropped
from logitkit_adapters.demo import model_dir
from logitkit_adapters.sessions.generator import continuous
from tests.adapters.demo import model, tokenizer, vocabulary
from tests.sessions.continuation import PROMPT, PROMPTS, check_weights, fresh_logits, last_logits, lengths
from tests.sessions.engines import watched

QUESTION = "Question: Is Paris in France?\nAnswer:"


def generator(*processors: Any, **options: Any) -> Any:
    return continuous(model(), tokenizer(), lk.chain(*processors) if processors else None, **options)


def choice(*options: str, **how: Any) -> Any:
    return continuous(model(), tokenizer(), lk.Choice(options, vocabulary()), **how)


def test_continuation_equals_one_shot_and_feeds_23_and_6_positions() -> None:
    text = generator()
    assert len(tokenizer()(PROMPT).input_ids) == 20
    with watched(model()) as fed:
        s1 = text(PROMPT, max_new_tokens=4)
        first = sum(fed)
        s2 = text(s1, max_new_tokens=6)
    whole = text(PROMPT, max_new_tokens=10)
    assert (first, sum(fed) - first) == (23, 6)
    assert torch.equal(s2.token_ids, whole.token_ids)
    assert lengths(s2) == [30]
    torch.testing.assert_close(s2.weights, whole.weights)
    ids = tokenizer()(PROMPT, return_tensors="pt").input_ids
    reference = model().generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=10, do_sample=False)
    assert torch.equal(whole.token_ids, reference)


@pytest.mark.parametrize("count", [0, 1, 7])
def test_exactly_as_many_tokens_unless_eos_comes(count: int) -> None:
    s = generator()(PROMPTS, max_new_tokens=count)
    assert lengths(s) == [n + count for n in lengths(generator()(PROMPTS, max_new_tokens=0))]
    assert len(choice("yes")(PROMPT, max_new_tokens=50).rows[0]) < 20 + 50


def test_batch_equals_rows_alone() -> None:
    s = generator()(PROMPTS, max_new_tokens=8)
    assert (s.batch_size, s.num_samples, s.weights.shape) == (3, 1, (3, 1))
    for row, prompt in enumerate(PROMPTS):
        alone = generator()(prompt, max_new_tokens=8)
        assert alone.rows[0] == s.rows[row]
        torch.testing.assert_close(alone.weights[0], s.weights[row])
    check_weights(model(), s, [len(tokenizer()(p).input_ids) for p in PROMPTS])


def test_generators_of_different_kinds_mix() -> None:
    text, pick = generator(), choice(" yes", " no")
    number = continuous(model(), tokenizer(), lk.Regex(r" \{\"n\": [0-9]{1,3}\}", vocabulary()))
    s1 = text("Question: Is Paris in", max_new_tokens=1)
    s2 = pick(s1 + "?\nAnswer:")
    s3 = number(s2)
    s4 = text(s3 + "\n", max_new_tokens=3)
    answer = str(s2).removeprefix(str(s1) + "?\nAnswer:")
    assert answer in (" yes", " no")
    assert str(s3).startswith(str(s2) + ' {"n": ')
    assert str(s3).endswith("}")
    assert str(s4).startswith(str(s3) + "\n")
    assert lengths(s4)[0] == lengths(s3 + "\n")[0] + 3


def test_rows_that_finish_at_different_times_go_on_correctly() -> None:
    pick = choice(" yes", " no, not at all", " I do not know what that is")
    s1 = pick([QUESTION, PROMPT, "Is it?", "The price"])
    assert bool(s1.finished.all())
    assert len(set(lengths(s1))) > 2
    # Where a row ended stands its EOS, which no mask counts, and behind it pads.
    assert bool((s1.attention_masks[:, -1] == 0).all())
    with watched(model()) as fed:
        s2 = generator()(s1, max_new_tokens=5)
    assert fed[0] < max(lengths(s1))
    for row in range(4):
        assert s2.rows[row] == generator()(s1[row, :], max_new_tokens=5).rows[0]
        ids = torch.tensor([s1.rows[row]])
        reference = model().generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=5, do_sample=False)
        assert list(s2.rows[row]) == [i for i in reference[0].tolist() if i != tokenizer().eos_token_id]


def test_pad_may_be_eos() -> None:
    import copy

    other = copy.deepcopy(tokenizer())
    other.pad_token = other.eos_token
    pick = lk.Choice([" yes", " no, not at all"], vocabulary())
    for first, then in ((continuous(model(), t, pick), continuous(model(), t)) for t in (tokenizer(), other)):
        s = then(first([QUESTION, "Is it?"]), max_new_tokens=5)
        seen = getattr(test_pad_may_be_eos, "rows", None)
        assert seen in (None, s.rows)
        test_pad_may_be_eos.rows = s.rows  # type: ignore[attr-defined]


def test_an_eos_in_the_prompt_is_a_token() -> None:
    s = generator()("a</s>b", max_new_tokens=1)
    assert s.rows[0][1] == tokenizer().eos_token_id


@pytest.mark.parametrize("samples", [1, 3])
def test_logits_after_every_prefix_slice_equal_a_fresh_run(samples: int) -> None:
    draw = generator(num_samples=samples, seed=5)
    greedy = generator(num_samples=samples, do_sample=False)
    s = draw(PROMPTS, max_new_tokens=6)
    keys = (slice(None), slice(None)) if samples > 1 else (slice(None),)
    for view, stops in ((s, (4, 9, 15, -1, -2, None)), (s.tokens, (3, 8, -1, -4, None))):
        for stop in stops:
            part = view[(*keys, slice(stop))]
            assert part.cached > 0
            with last_logits(model()) as seen, watched(model()) as fed:
                greedy(part, max_new_tokens=1)
            # The rows have prefixes of different lengths, so that few columns more than the cut are fed.
            assert sum(fed) <= 4
            for row, logits in zip(part.rows, seen[-1], strict=True):
                torch.testing.assert_close(logits, fresh_logits(model(), row), rtol=0, atol=1e-5)


@cache
def wide_model() -> Any:
    """Return the model in float64, where nothing but a wrong mask or position is to be seen."""
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(model_dir(), dtype=torch.float64)


@pytest.mark.parametrize("seed", range(4))
def test_logits_after_slices_of_ragged_rows_are_exact_but_for_rounding(seed: int) -> None:
    draw = random.Random(seed)
    words = [
        "Name:",
        "Emma",
        "Age",
        "125",
        "Email",
        "The",
        "meeting",
        "is",
        "on",
        "Item",
        "pen",
        "Price",
        "tea",
        "and",
        "12",
        ".\n",
    ]
    prompts = [" ".join(draw.choices(words, k=draw.randint(1, 40))) for _ in range(4)]
    stops = [draw.randint(1, 60) for _ in range(3)]
    apart: dict[str, float] = {}
    for name, one in (("float64", wide_model()), ("float32", model())):
        s = continuous(one, tokenizer(), num_samples=2, seed=seed)(prompts, max_new_tokens=6)
        for stop in stops:
            part = s.tokens[:, :, :stop]
            with last_logits(one) as seen:
                continuous(one, tokenizer(), num_samples=2, do_sample=False)(part, max_new_tokens=1)
            for row, logits in zip(part.rows, seen[-1], strict=True):
                fresh = fresh_logits(one, row)
                apart[name] = max(apart.get(name, 0.0), float((logits - fresh).abs().max() / fresh.abs().max()))
    # Logits of up to 18 are 2e-6 apart where they stand next to one another in float32: 1e-5 of them are five such steps, and the
    # model alone, fed token by token, is as far from itself.
    assert apart["float64"] < 1e-14
    assert apart["float32"] < 1e-6


def test_logits_after_rows_are_selected_added_and_repeated() -> None:
    s = generator(num_samples=2, seed=1)(PROMPTS, max_new_tokens=5)
    one = generator()(PROMPTS[0], max_new_tokens=3)
    cases = [
        s[1, :, :],
        s[-1, -1, :],
        s[:, 1, :9],
        s[::, :, :] + s[:, :, :5],
        s + " and so",
        one.fan_out(3),
        s[0, :, :] + one.fan_out(2),
    ]
    for state in cases:
        with last_logits(model()) as seen, watched(model()) as fed:
            generator(num_samples=state.num_samples, do_sample=False)(state, max_new_tokens=1)
        assert state.cached > 0
        assert sum(fed) == state.token_ids.shape[1] - min(state.cached, state.token_ids.shape[1] - 1)
        for row, logits in zip(state.rows, seen[-1], strict=True):
            torch.testing.assert_close(logits, fresh_logits(model(), row), rtol=0, atol=1e-5)


def test_state_plus_state_feeds_only_the_right_tokens() -> None:
    text = generator()
    left, right = text(PROMPT, max_new_tokens=4), text("Item: pen", max_new_tokens=3)
    with watched(model()) as fed:
        text(left + right, max_new_tokens=1)
    # And the last left one, which nothing needed before.
    assert sum(fed) == lengths(right)[0] + 1
    torch.testing.assert_close((left + right).weights, left.weights + right.weights)


def test_ragged_states_are_added_in_the_fewest_columns() -> None:
    text = generator()
    left = text(PROMPTS, max_new_tokens=4)
    right = choice("a", "b, and so on, and on", " or not")(["x", "The price of tea and", "y"])
    counts = lengths(right)
    assert len(set(lengths(left))) == len(set(counts)) == 3
    both = left + right
    with watched(model()) as fed, last_logits(model()) as seen:
        text(both, max_new_tokens=1)
    # A rectangle has as many columns for all rows: no more than the longest right row has, and the last left token.
    assert fed == [max(counts) + 1]
    for row, logits in zip(both.rows, seen[-1], strict=True):
        torch.testing.assert_close(logits, fresh_logits(model(), row), rtol=0, atol=1e-5)
    # By itself, each row feeds its right tokens and the last left one.
    for row, count in enumerate(counts):
        with watched(model()) as fed:
            text(left[row, :] + right[row, :], max_new_tokens=1)
        assert fed == [count + 1]


def test_a_slice_from_the_middle_warns_once_and_is_computed_anew() -> None:
    s = generator()(PROMPTS, max_new_tokens=5)
    with pytest.warns(CacheDropped) as caught:
        part = s[:, 3:]
    assert len(caught) == 1
    with warnings.catch_warnings(), last_logits(model()) as seen:
        warnings.simplefilter("error")
        generator()(part, max_new_tokens=1)
    for row, logits in zip(part.rows, seen[0], strict=True):
        torch.testing.assert_close(logits, fresh_logits(model(), row), rtol=0, atol=1e-5)


def test_text_slices_equal_python_s() -> None:
    s = generator(num_samples=2, seed=3)(PROMPTS[:2], max_new_tokens=9)
    texts = [tokenizer().decode(row, skip_special_tokens=True) for row in s.rows]
    assert list(s) == texts
    for key in (slice(0, 5), slice(0, -3), slice(None), slice(0, 0), 0):
        assert list(s[:, :, key]) == [text[key] for text in texts]
    with pytest.warns(CacheDropped):
        assert str(s[1, 0, -7:-2]) == texts[2][-7:-2]


def test_samples_with_a_seed() -> None:
    draw = generator(num_samples=3, seed=7)
    a, b = draw(PROMPTS[:2], max_new_tokens=4), draw(PROMPTS[:2], max_new_tokens=10)
    assert (a.batch_size, a.num_samples, len(a), len(list(a))) == (2, 3, 6, 6)
    assert [row[: len(row) - 4] for row in a.rows] == [
        row for row in generator()(PROMPTS[:2], 0).rows for _ in range(3)
    ]
    # In two parts the same is drawn as in one, and every time.
    assert draw(a, max_new_tokens=6).rows == b.rows == draw(PROMPTS[:2], max_new_tokens=10).rows
    assert len(set(b.rows)) > 2
    assert generator(num_samples=3, seed=8)(PROMPTS[:2], max_new_tokens=10).rows != b.rows
    check_weights(model(), b, [n for n in lengths(generator()(PROMPTS[:2], 0)) for _ in range(3)])


def test_samples_without_a_seed_follow_torch_s() -> None:
    draw = generator(num_samples=4)
    torch.manual_seed(0)
    first = draw("The", max_new_tokens=6)
    assert draw("The", max_new_tokens=6).rows != first.rows
    torch.manual_seed(0)
    assert draw("The", max_new_tokens=6).rows == first.rows


def test_drawn_tokens_have_the_model_s_probabilities() -> None:
    s = generator(num_samples=2000, seed=0)("Item: pen\nPrice: ", max_new_tokens=1)
    counts = torch.bincount(s.token_ids[:, -1], minlength=1280) / 2000
    wanted = fresh_logits(model(), s.rows[0][:-1]).softmax(0)
    assert float((counts - wanted).abs().max()) < 4 * 0.5 / 2000**0.5


def test_beams_find_the_best_texts_with_their_weights() -> None:
    options = [" yes", " no", " not really", " never"]
    found = choice(*options, num_beams=3, length_penalty=0.0)([QUESTION, PROMPT])
    assert (found.batch_size, found.num_samples) == (2, 3)
    assert torch.equal(found.weights, found.weights.sort(1, descending=True).values)
    assert len(set(found.rows)) == 6
    assert all(text.removeprefix(p) in options for text, p in zip(found, [QUESTION] * 3 + [PROMPT] * 3, strict=True))
    check_weights(model(), found, [n for n in lengths(generator()([QUESTION, PROMPT], 0)) for _ in range(3)])


def test_beams_are_at_least_as_good_as_greedy_search_and_go_on() -> None:
    beams = generator(num_beams=4)
    a = beams(PROMPTS[1:], max_new_tokens=3)
    b, whole = beams(a, max_new_tokens=4), beams(PROMPTS[1:], max_new_tokens=7)
    assert b.rows == whole.rows
    torch.testing.assert_close(b.weights, whole.weights)
    assert bool((whole.weights[:, :1] >= generator()(PROMPTS[1:], max_new_tokens=7).weights - 1e-4).all())
    check_weights(model(), a, [n for n in lengths(generator()(PROMPTS[1:], 0)) for _ in range(4)])
    ids = tokenizer()(PROMPTS[1], return_tensors="pt").input_ids
    reference = model().generate(
        ids,
        attention_mask=torch.ones_like(ids),
        num_beams=4,
        num_return_sequences=4,
        max_new_tokens=3,
        length_penalty=0.0,
    )
    assert [list(row) for row in a.rows[:4]] == reference.tolist()


def test_more_beams_than_texts() -> None:
    two = lk.Dfa({(0, 300): 1, (0, 301): 2, (2, 302): 1}, 0, [1], vocabulary())
    found = continuous(model(), tokenizer(), two, num_beams=4)(QUESTION)
    written = [row[-2:] for row in found.rows]
    assert [w > -float("inf") for w in found.weights[0].tolist()] == [True, True, False, False]
    assert {row[-1] for row in written[:2]} == {300, 302}
    assert written[2] == written[3] == written[0]
    again = generator(num_beams=4)(found, max_new_tokens=2)
    assert bool(torch.isfinite(again.weights).all())
    assert len(set(again.rows)) == 4


def test_two_continuations_do_not_affect_each_other() -> None:
    text = generator()
    s = text(PROMPTS, max_new_tokens=4)
    keys = [layer.keys.clone() for layer in s.kv_cache.layers]
    apart = [text(s, max_new_tokens=5).rows, choice("x", "why")(s).rows]
    assert text(s, max_new_tokens=5).rows == apart[0]
    assert choice("x", "why")(s).rows == apart[1]
    generator(num_beams=3)(s[0, :].fan_out(3), max_new_tokens=3)
    assert all(torch.equal(layer.keys, before) for layer, before in zip(s.kv_cache.layers, keys, strict=True))
    assert s.cached == keys[0].shape[2]


@pytest.mark.parametrize(
    "penalty",
    [lk.RepetitionPenalty(1.3), lk.FrequencyPenalty(0.7), lk.PresencePenalty(0.9), lk.Dry(2.0, breakers=())],
    ids=repr,
)
def test_a_penalty_sees_the_whole_history(penalty: Any) -> None:
    s = generator(penalty)
    whole = s(PROMPTS, max_new_tokens=12)
    assert s(s(PROMPTS, max_new_tokens=5), max_new_tokens=7).rows == whole.rows
    # In a chain with a constraint too, which restarts.
    letters = lk.Regex("[a-z .@\n0-9:A-Z-]+", vocabulary())
    both = generator(letters, penalty)
    parts = both(both(PROMPTS, max_new_tokens=5), max_new_tokens=7)
    assert parts.rows == both(PROMPTS, max_new_tokens=12).rows


def test_a_constraint_restarts_at_the_seam_or_is_carried_on() -> None:
    date = continuous(model(), tokenizer(), lk.Regex(r" \d{4}-\d\d-\d\d", vocabulary()))
    prompt = "The meeting is on"
    whole, part = date(prompt), date(prompt, max_new_tokens=3)
    assert str(date(part)).removeprefix(str(part))[0] == " "
    on = date(part, carry_state=True)
    assert (str(on), on.rows) == (str(whole), whole.rows)
    torch.testing.assert_close(on.weights, whole.weights)
    # What was finished stays so, and a slice is carried on from its tokens.
    assert date(on, carry_state=True).rows == whole.rows
    shorter = whole.tokens[:-2]
    assert shorter.processor_state is None
    assert date(shorter, carry_state=True).rows == whole.rows
    with pytest.raises(ConfigurationError, match="Regex"):
        generator(lk.Temperature(1.0), carry_state=True)(part)


def test_matches_generate_with_a_hook() -> None:
    from logitkit_adapters.transformers import logits_processor

    both = lk.chain(lk.RepetitionPenalty(1.2), lk.Regex(r" [A-Z][a-z]+ [0-9]+\.", vocabulary()))
    inputs = tokenizer()(PROMPTS, return_tensors="pt", padding=True, padding_side="left")
    hook = logits_processor(both, attention_mask=inputs["attention_mask"])
    reference = model().generate(**inputs, max_new_tokens=9, do_sample=False, logits_processor=[hook])
    found = continuous(model(), tokenizer(), both)(PROMPTS, max_new_tokens=9)
    assert list(found) == tokenizer().batch_decode(reference, skip_special_tokens=True)


def test_sample_mismatch_names_both_numbers() -> None:
    s = generator(num_samples=2, seed=0)(PROMPTS, max_new_tokens=1)
    for other in (generator(num_samples=3), generator(), generator(num_beams=3)):
        with pytest.raises(SampleMismatch, match=rf"2 samples, and the generator {other.samples}"):
            other(s, max_new_tokens=1)


def test_wrong_arguments() -> None:
    text = generator()
    for wrong in (5, [], ["a", 5], None):
        with pytest.raises(ConfigurationError, match="prompt is"):
            text(wrong, max_new_tokens=1)
    for options in ({"num_samples": 0}, {"num_beams": 2, "num_samples": 3}, {"seed": -1}, {"max_new_tokens": True}):
        with pytest.raises(ConfigurationError):
            generator(**options)
    with pytest.raises(ConfigurationError, match="2048"):
        text("a", max_new_tokens=2048)
    with pytest.raises(ConfigurationError, match="processor is"):
        continuous(model(), tokenizer(), lk.Regex)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="model is a builtins"):
        continuous(5, tokenizer())
    with pytest.raises(TypeError, match="temperature"):
        text("a", max_new_tokens=1, temperature=2)


def test_no_text_begins_with_bos() -> None:
    s = generator()("", max_new_tokens=3)
    assert (s.rows[0][0], len(s.rows[0])) == (tokenizer().bos_token_id, 4)
    again = generator()(generator()("a", max_new_tokens=1)[:0], max_new_tokens=3)
    assert again.rows == s.rows


CONTINUE = """
import sys
from transformers import AutoModelForCausalLM, AutoTokenizer
import logitkit as lk
from logitkit.sessions.sequence_state import SequenceState
from logitkit_adapters.demo import model_dir
from logitkit_adapters.sessions.generator import continuous
from logitkit_adapters.transformers import vocabulary
model = AutoModelForCausalLM.from_pretrained(model_dir())
tokenizer = AutoTokenizer.from_pretrained(model_dir())
pattern = lk.Regex(r" \\d{4}-\\d\\d-\\d\\d.", vocabulary(tokenizer))
date = continuous(model, tokenizer, lk.chain(lk.FrequencyPenalty(0.5), pattern))
fed = []
model.register_forward_pre_hook(lambda m, args, kwargs: fed.append(kwargs["input_ids"].shape[1]), with_kwargs=True)
for state in (date.load(sys.argv[1]), SequenceState.load(sys.argv[1], tokenizer)):
    for carry in (True, False):
        print(date(state, max_new_tokens=6, carry_state=carry).rows, fed[0])
        fed.clear()
"""


def test_saved_in_one_process_goes_on_in_another(tmp_path: Path) -> None:
    pattern = lk.Regex(r" \d{4}-\d\d-\d\d.", vocabulary())
    date = continuous(model(), tokenizer(), lk.chain(lk.FrequencyPenalty(0.5), pattern))
    s = date(PROMPTS, max_new_tokens=4)
    s.save(tmp_path)
    found = subprocess.run(
        [sys.executable, "-c", CONTINUE, str(tmp_path)], capture_output=True, text=True, check=True, env=_environment()
    ).stdout.splitlines()
    wanted = [f"{date(s, max_new_tokens=6, carry_state=carry).rows} 1" for carry in (True, False)]
    assert found == wanted * 2


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
