"""Each call of a session is as if it were alone, and feeds what the plan says."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
import torch

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit_adapters.demo import model_dir
from logitkit_adapters.sessions import Session
from tests.sessions.alone import alone, drawn
from tests.sessions.engines import COPYING, ENGINES, loaded, watched

PROMPT = [280, 661, 509, 277, 372, 81, 87, 338, 311, 1086]
OTHER = [509, 280, 661, 1086, 90, 33]

# Each call's prompt, from what the session holds then: the last prompt and its output but for the last token.
TURNS = {
    "longer": lambda old: [*old, 44, 55, 66],
    "shorter": lambda old: old[:4],
    "equal": lambda old: old,
    "parting": lambda old: [*old[:6], 5, 6, 7],
    "another": lambda _: OTHER,
    "back again": lambda _: [*PROMPT, 3],
}


@pytest.fixture(params=ENGINES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def vocabulary() -> lk.Vocabulary:
    from logitkit_adapters.transformers import vocabulary

    return vocabulary(loaded("transformers")[1])


def processors(vocabulary: lk.Vocabulary) -> dict[str, Any]:
    return {
        "none": None,
        "penalty": lk.RepetitionPenalty(1.3),
        "chain": lk.chain(lk.RepetitionPenalty(1.2), lk.Regex("[a-m ]{3,40}", vocabulary), lk.TopK(5)),
    }


@pytest.mark.parametrize("kind", ["none", "penalty", "chain"])
def test_each_call_says_what_the_engine_s_own_generate_says_and_feeds_what_the_plan_says(
    name: str, kind: str, vocabulary: lk.Vocabulary
) -> None:
    model, tokenizer = loaded(name)
    processor = processors(vocabulary)[kind]
    with Session(model, tokenizer, processor, max_length=256) as session:
        held: list[int] = []
        for turn in (lambda _: PROMPT, *TURNS.values()):
            prompt = turn(held)
            with watched(model) as fed:
                (row,) = session.generate(prompt, max_new_tokens=8).rows
            assert row.token_ids == alone(name, prompt, 8, processor)
            assert sum(fed) == row.positions_fed
            assert prompt[row.reuse.length :] == row.reuse.todo
            # The last token is not fed, nor are those before it that are forced with it.
            unfed = 1 if row.forward_passes_saved == 0 else 2
            assert row.positions_fed == len(row.reuse.todo) + len(row.token_ids) - unfed
            assert row.positions_saved == row.reuse.length + unfed - 1
            held = [*prompt, *row.token_ids[:-1]]
            assert session.position == len(held)


@pytest.mark.parametrize("engine", ["transformers", "mlx-lm"])
def test_sixteen_bits(engine: str) -> None:
    model = bfloat16(engine)
    draw, prompt = random.Random(1), list(PROMPT)
    with Session(model, loaded(engine)[1], max_length=256) as session:
        for turn in range(6):
            (row,) = session.generate(prompt, max_new_tokens=8).rows
            assert row.token_ids == alone(engine, prompt, 8, model=model)
            assert row.cached_tokens > 0 or turn == 0
            prompt = [*prompt, *row.token_ids, *(draw.randrange(5, 1200) for _ in range(3))]
            if turn % 3 == 2:
                prompt = prompt[:-12]


def bfloat16(engine: str) -> Any:
    if engine == "transformers":
        return copy.deepcopy(loaded(engine)[0]).to(torch.bfloat16)
    import mlx.core as mx
    import mlx_lm

    model: Any = mlx_lm.load(str(model_dir()))[0]
    model.set_dtype(mx.bfloat16)
    return model


@pytest.mark.parametrize("name", COPYING)
def test_the_plan_is_that_of_the_tokens_that_are_held(name: str) -> None:
    with Session(*loaded(name), max_length=256) as session:
        first = session.generate(PROMPT, max_new_tokens=5)
    held = [*PROMPT, *first.token_ids[0][:-1]]
    for new in ([*held, 7], held[:3], held, [*held[:12], 9, 9]):
        with Session(*loaded(name), max_length=256) as session:
            session.generate(PROMPT, max_new_tokens=5)
            (row,) = session.generate(new, max_new_tokens=1).rows
        assert row.reuse == lk.plan_reuse(held, new)


@pytest.mark.parametrize("seed", [0, 7])
def test_what_is_drawn_depends_on_the_seed_and_not_on_what_is_cached(name: str, seed: int) -> None:
    processor = lk.chain(lk.Temperature(1.5), lk.TopK(50))
    with Session(*loaded(name), processor, max_length=256) as session:
        for prompt in (PROMPT, [*PROMPT, 5], PROMPT[:4]):
            (tokens,) = session.generate(prompt, max_new_tokens=12, seed=seed).token_ids
            assert tokens == alone(name, prompt, 12, lk.chain(processor, drawn(seed)))
        again = session.generate(PROMPT, max_new_tokens=12, seed=seed).token_ids
        other = session.generate(PROMPT, max_new_tokens=12, seed=seed + 1).token_ids
    assert again != other


def test_rows_of_a_batch_find_their_caches_by_content(name: str) -> None:
    rows = [PROMPT, OTHER, PROMPT[3:]]
    with Session(*loaded(name), max_length=256) as session:
        first = session.generate(rows, max_new_tokens=4)
        assert first.token_ids == [alone(name, row, 4) for row in rows]
        more = [[*row, *new, 99] for row, new in zip(rows, first.token_ids, strict=True)]
        order = [2, 0, 1]
        second = session.generate([more[i] for i in order], max_new_tokens=4)
        assert second.token_ids == [alone(name, more[i], 4) for i in order]
        # All but the last token of the first output, and the new one.
        assert [row.reuse.todo for row in second.rows] == [more[i][-2:] for i in order]


def test_position_is_read_and_set_back(name: str) -> None:
    model, tokenizer = loaded(name)
    with Session(model, tokenizer, max_length=256) as session:
        assert session.position == 0
        session.generate(PROMPT, max_new_tokens=5)
        assert session.position == 14
        session.position = 6
        assert (session.position, session.cached_tokens) == (6, 6)
        with watched(model) as fed:
            (row,) = session.generate(PROMPT, max_new_tokens=5).rows
        assert (row.reuse, sum(fed)) == (lk.Reuse(0, 6, PROMPT[6:]), 4 + 4)
        assert row.token_ids == alone(name, PROMPT, 5)
        session.position = 0
        assert session.generate(PROMPT, max_new_tokens=1).rows[0].reuse.length == 0
        for wrong in (15, -1, 1.5, True):
            with pytest.raises(ConfigurationError, match="position"):
                session.position = wrong  # type: ignore[assignment]


def test_more_than_max_length_names_prefix_addition_and_limit_and_harms_nothing(name: str) -> None:
    model, tokenizer = loaded(name)
    with Session(model, tokenizer, max_length=16) as session:
        session.generate(PROMPT, max_new_tokens=6)
        prefix, addition = "a prefix of 9 cached tokens", "an addition of 8, 1 of the prompt and 7 new ones"
        said = f"{prefix} and {addition}, are 17 tokens: more than max_length=16"
        with watched(model) as fed, pytest.raises(ValueError, match=said):
            session.generate(PROMPT, max_new_tokens=7)
        assert fed == []
        assert session.position == 15
        (row,) = session.generate(PROMPT, max_new_tokens=6).rows
        assert (row.token_ids, row.reuse.length) == (alone(name, PROMPT, 6), 9)
        # One row of a batch that is too long: no row is fed.
        with watched(model) as fed, pytest.raises(ConfigurationError, match="max_length=16"):
            session.generate([OTHER, PROMPT], max_new_tokens=7)
        assert fed == []
        assert len(session.generate(OTHER).token_ids[0]) <= 10  # as many as there is room for


class Recording:
    """A processor that remembers what it was shown."""

    reads_prompt = True

    def __init__(self) -> None:
        self.seen: list[tuple[int, list[int]]] = []

    def init_state(self, context: lk.Context) -> tuple[torch.Tensor]:
        return (context.prompt,)

    def advance(self, state: tuple[torch.Tensor], tokens: torch.Tensor) -> tuple[torch.Tensor]:
        return (torch.cat([state[0], tokens.reshape(1, -1)], 1),)

    def process_logits(self, state: tuple[torch.Tensor], logits: torch.Tensor, context: lk.Context) -> Any:
        assert int(context.lengths) == state[0].shape[1]
        self.seen.append((int(context.prompt_lengths), state[0][0].tolist()))
        return state, logits


def test_a_processor_sees_the_whole_history_whatever_was_cached(name: str) -> None:
    with Session(*loaded(name), max_length=256) as session:
        for prompt in (PROMPT, [*PROMPT, 5, 6], PROMPT[:3]):
            recording = Recording()
            (row,) = session.generate(prompt, max_new_tokens=4, processor=recording).rows
            # More than once each: it is also asked whether it forces a token.
            once = [seen for at, seen in enumerate(recording.seen) if seen not in recording.seen[:at]]
            assert once == [(len(prompt), [*prompt, *row.token_ids[:n]]) for n in range(len(row.token_ids))]


@pytest.mark.parametrize("name", COPYING)
def test_conversations_share_a_beginning_and_the_least_recently_used_goes_first(name: str) -> None:
    system = PROMPT * 2
    first, second, third = ([*system, *tail] for tail in ([7, 8, 9], [44, 45, 46], [120, 130, 140]))
    with Session(*loaded(name), max_length=64, max_cached_tokens=40) as session:
        one = session.generate(first, max_new_tokens=4)
        assert session.cached_tokens == 26
        two = session.generate(second, max_new_tokens=4)
        assert two.rows[0].reuse == lk.Reuse(0, 20, second[20:])
        assert session.cached_tokens == 32  # 20 of both, and 6 of each
        goes_on = [*first, *one.token_ids[0], 5]
        assert session.generate(goes_on, max_new_tokens=1).rows[0].reuse.length == 26
        assert session.cached_tokens == 20 + 8 + 6
        assert session.generate(third, max_new_tokens=4).rows[0].reuse.length == 20
        assert session.cached_tokens == 40
        session.generate([3] * 5, max_new_tokens=1)  # the second conversation has to go
        assert session.cached_tokens == 39
        for prompt, cached in ((goes_on, 27), (third, 22), (second, 20)):
            (row,) = session.generate(prompt, max_new_tokens=1).rows
            assert row.reuse.length == cached
            assert row.token_ids == alone(name, prompt, 1)


def test_a_bound_of_none_caches_nothing(name: str) -> None:
    with Session(*loaded(name), max_length=64, max_cached_tokens=0) as session:
        for _ in range(2):
            (row,) = session.generate(PROMPT, max_new_tokens=4).rows
            assert (row.reuse.length, row.token_ids) == (0, alone(name, PROMPT, 4))
        assert (session.cached_tokens, session.position) == (0, 0)


def test_texts_are_encoded_and_decoded_as_the_engine_does(name: str) -> None:
    model, tokenizer = loaded(name)
    with Session(model, tokenizer, max_length=64) as session:
        result = session.generate("The price of", max_new_tokens=6)
        assert session.generate(["The price of", "Is it"], max_new_tokens=6).texts[0] == result.text == str(result)
    if name == "transformers":
        expected = tokenizer.decode(alone(name, tokenizer("The price of")["input_ids"], 6), skip_special_tokens=True)
    elif name == "mlx-lm":
        import mlx_lm

        # It takes the space off that an output begins with.
        expected = mlx_lm.generate(model, tokenizer, "The price of", max_tokens=6)
        assert expected
    elif name == "onnxruntime-genai":
        expected = tokenizer.decode(alone(name, tokenizer.encode("The price of"), 6))
    else:
        expected = model.create_completion("The price of", max_tokens=6, temperature=0)["choices"][0]["text"]
    assert result.text.endswith(expected)


def test_a_value_that_is_not_a_prompt_is_refused(name: str) -> None:
    model, tokenizer = loaded(name)
    with Session(model, tokenizer, max_length=64) as session:
        wrong: Any
        for wrong in ([], [[]], [[1], []], 5, None, [1.5], [True], [-1], {}, [None]):
            with pytest.raises(ConfigurationError, match="prompt"):
                session.generate(wrong, max_new_tokens=1)
        for wrong in (0, -1, True, 1.5):
            with pytest.raises(ConfigurationError, match="max_new_tokens"):
                session.generate(PROMPT, max_new_tokens=wrong)
        with pytest.raises(ConfigurationError, match="processor is the class"):
            session.generate(PROMPT, max_new_tokens=1, processor=lk.TopK)  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="seed"):
            session.generate(PROMPT, max_new_tokens=1, seed=-1)
        assert session.generate(torch.tensor([PROMPT]), max_new_tokens=1).token_ids == [alone(name, PROMPT, 1)]
    with pytest.raises(ConfigurationError, match="closed"):
        session.generate(PROMPT, max_new_tokens=1)
    if name != "llama.cpp":
        with Session(model) as session, pytest.raises(ConfigurationError, match="there is no tokenizer"):
            session.generate("text", max_new_tokens=1)


def test_an_object_that_is_not_a_model_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"model is a builtins.str; give"):
        Session("gpt2")
