"""`continuous` with the shipped model in transformers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

import logitkit as lk
from logitkit.errors import BatchMismatch, ConfigurationError, SampleMismatch
from logitkit_adapters.sessions import continuous
from tests.adapters.demo import model, tokenizer, vocabulary
from tests.core.misbehaving import Count
from tests.sessions.continuation import PROMPT, PROMPTS, QUESTION, check_weights, lengths
from tests.sessions.engines import watched
from tests.sessions.transformers_generator import choice, generator


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
    # A finished row ends with EOS, which no mask counts, followed by padding.
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
    # Finished rows stay finished, and a slice continues from its tokens.
    assert date(on, carry_state=True).rows == whole.rows
    shorter = whole.tokens[:-2]
    assert shorter.processor_state is None
    assert date(shorter, carry_state=True).rows == whole.rows
    with pytest.raises(ConfigurationError, match="Regex"):
        generator(lk.Temperature(1.0), carry_state=True)(part)


@dataclass(frozen=True)
class Weighted:
    """Adds a bias to all tokens, and counts them."""

    bias: Tensor

    def init_state(self, context: lk.Context) -> Count:
        return Count(torch.zeros(context.batch_size, dtype=torch.int64))

    def advance(self, state: Count, tokens: Tensor) -> Count:
        return Count(state.tokens + (tokens.reshape(len(state.tokens), -1) >= 0).sum(1))

    def process_logits(self, state: Count, logits: Tensor, context: lk.Context) -> tuple[Count, Tensor]:
        return state, logits + self.bias.to(logits) * (state.tokens[:, None] < 3)


def test_the_state_of_a_processor_with_a_tensor_is_carried_on() -> None:
    drawn = torch.Generator().manual_seed(0)
    bias = torch.randn(vocabulary().size, generator=drawn) * 4
    s = generator(Weighted(bias))
    part = s(PROMPT, max_new_tokens=2)
    # Another processor with equal values is the same one.
    on = generator(Weighted(bias.clone()))(part, max_new_tokens=4, carry_state=True)
    assert on.rows == s(PROMPT, max_new_tokens=6).rows
    assert on.processor_state[0].tokens.tolist() == [6]
    with pytest.raises(ConfigurationError, match="Chain left"):
        generator(Weighted(bias + 1))(part, max_new_tokens=4, carry_state=True)


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
    for other in (generator(num_samples=3), generator(num_samples=1), generator(num_beams=3)):
        with pytest.raises(
            SampleMismatch, match=rf"2 samples, and the generator {other.samples}; give .* num_samples=2 or"
        ):
            other(s, max_new_tokens=1)


def test_a_state_of_one_sample_becomes_as_many_as_the_generator_has() -> None:
    single = generator()(PROMPTS, max_new_tokens=3)
    for options in ({"num_samples": 3, "seed": 5}, {"num_beams": 3}):
        text = generator(**options)
        found = text(single, max_new_tokens=4)
        assert (found.batch_size, found.num_samples) == (len(PROMPTS), 3)
        # The same from a prompt of all these tokens.
        prompts = [list(row) for row in single.rows]
        assert found.rows == text(prompts, max_new_tokens=4).rows
    pieces = generator(num_samples=3, seed=5).stream(single, max_new_tokens=4)
    assert {len(of_rows) for of_rows in pieces} == {3 * len(PROMPTS)}


def test_a_generator_without_a_number_of_samples_continues_those_of_a_state() -> None:
    s = generator(num_samples=2, seed=0)(PROMPTS, max_new_tokens=3)
    found = generator()(s, max_new_tokens=4)
    assert found.num_samples == 2
    assert found.rows == generator(num_samples=2, do_sample=False)(s, max_new_tokens=4).rows
    (first, *_) = generator().stream(s, max_new_tokens=4)
    assert len(first) == 2 * len(PROMPTS)


def test_texts_are_added_to_the_rows_of_their_prompts() -> None:
    s = generator(num_samples=2, seed=0)(PROMPTS[:2], max_new_tokens=3)
    texts: Any = [" and", " or"]
    found = s + texts
    assert list(found) == [*(text + " and" for text in list(s)[:2]), *(text + " or" for text in list(s)[2:])]
    assert (s + tuple(texts)).rows == found.rows
    with pytest.raises(BatchMismatch, match="1 texts are added to a state of 2 prompts; give one text for each"):
        s.__add__(texts[:1])
    with pytest.raises(TypeError, match=r"'Hello ' was put before a state, .* generator\(text\) \+ state keeps"):
        assert "Hello " + s
    for other in ([1, 2], 5):
        assert s.__add__(other) is NotImplemented


def test_a_generator_is_not_a_model() -> None:
    with pytest.raises(
        ConfigurationError, match="model is a generator that continuous has made; call it, with other options"
    ):
        continuous(generator())


def test_wrong_arguments() -> None:
    text = generator()
    for wrong in (5, [], ["a", 5], None):
        with pytest.raises(ConfigurationError, match="prompt is"):
            text(wrong, max_new_tokens=1)
    for options in ({"num_samples": 0}, {"num_beams": 2, "num_samples": 3}, {"seed": -1}, {"max_new_tokens": True}):
        with pytest.raises(ConfigurationError):
            generator(**options)
    for seed in (0, 1):
        with pytest.raises(ConfigurationError, match=f"num_beams=3 .* seed={seed}"):
            generator(num_beams=3, seed=seed)
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
