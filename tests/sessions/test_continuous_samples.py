"""Samples and beams of `continuous`."""

from __future__ import annotations

import torch

import logitkit as lk
from logitkit.sessions.token_choice import drawn_tokens
from logitkit_adapters.sessions import continuous
from tests.adapters.demo import model, tokenizer, vocabulary
from tests.sessions.continuation import PROMPT, PROMPTS, QUESTION, check_weights, fresh_logits, lengths
from tests.sessions.transformers_generator import choice, generator


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


def test_a_drawn_token_is_always_a_column() -> None:
    rows = torch.arange(64)
    for value in (torch.nan, torch.inf, -torch.inf):
        for logits in (torch.full((64, 9), value), torch.zeros(64, 9).index_fill(1, torch.tensor([4]), value)):
            drawn = drawn_tokens(logits, 1, rows, rows)
            assert int(drawn.min()) >= 0
            assert int(drawn.max()) < 9


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
