"""Each call of a session is as if it were alone, and says what vLLM found in its cache."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

import logitkit as lk
from logitkit.errors import ConfigurationError
from tests.adapters_vllm import engine
from tests.sessions.in_threads import in_threads

# No CPU has smaller ones.
BLOCK = 32
LONGEST = 192

PROMPT = [280, 661, 509, 277, 372, 81, 87, 338, 311, 1086] * 4
OTHER = [509, 280, 661, 1086, 90, 33] * 6


TEMPLATE = (
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}bot:{% endif %}"
)


@pytest.fixture(scope="module")
def caching(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from tests.adapters.demo import tokenizer

    folder = str(tmp_path_factory.mktemp("tokenizer"))
    templated = copy.deepcopy(tokenizer())
    templated.chat_template = TEMPLATE
    templated.save_pretrained(folder)
    more: dict[str, Any] = {
        "enable_prefix_caching": True,
        "block_size": BLOCK,
        "num_gpu_blocks_override": 64,
        "max_model_len": LONGEST,
    }
    more["tokenizer"] = folder
    started = engine.start(logits_processors=[engine.PLUGIN], max_num_batched_tokens=64, **more)
    yield started
    started.llm_engine.engine_core.shutdown()


@pytest.fixture
def llm(caching: Any) -> Any:
    assert caching.reset_prefix_cache()
    return caching


def alone(prompt: list[int], count: int, processor: Any = None) -> list[int]:
    """Return what transformers says, of which nothing is cached."""
    from logitkit_adapters.transformers import Session
    from tests.adapters.demo import model, tokenizer

    with Session(model(), tokenizer()) as session:
        return session.generate(prompt, max_new_tokens=count, processor=processor).token_ids[0]


def processors() -> dict[str, Any]:
    from tests.adapters.demo import vocabulary

    chained = lk.chain(lk.RepetitionPenalty(1.2), lk.Regex("[a-m ]{3,40}", vocabulary()), lk.TopK(5))
    return {"none": None, "penalty": lk.RepetitionPenalty(1.3), "chain": chained}


@pytest.mark.parametrize("kind", ["none", "penalty", "chain"])
@pytest.mark.parametrize("configured", [False, True], ids=["processor", "configuration"])
def test_each_call_says_what_it_says_alone_and_finds_whole_blocks(llm: Any, kind: str, configured: bool) -> None:
    from logitkit_adapters.vllm import Session

    processor = processors()[kind]
    given = lk.to_config(processor) if configured and processor is not None else processor
    with Session(llm, processor=given) as session:
        held: list[int] = []
        for turn in (
            lambda _: PROMPT,
            lambda old: [*old, 44, 55, 66],
            lambda old: old[:20],
            lambda old: old,
            lambda old: [*old[:33], 5, 6, 7],
            lambda _: OTHER,
            lambda _: [*PROMPT, 3],
        ):
            prompt = turn(held)
            (row,) = session.generate(prompt, max_new_tokens=8).rows
            assert row.token_ids == alone(prompt, 8, processor)
            assert prompt[row.cached_tokens :] == row.reuse.todo
            known = lk.plan_reuse(held, prompt).length // BLOCK * BLOCK
            assert row.cached_tokens % BLOCK == 0
            assert row.cached_tokens >= known
            assert row.positions_fed == len(prompt) - row.cached_tokens + len(row.token_ids) - 1
            assert row.positions_saved == row.cached_tokens
            held = [*prompt, *row.token_ids]
            assert session.position == len(held) - 1
        assert row.cached_tokens == 32  # of the first prompt, which has moved up since


def test_a_conversation_is_fed_from_where_it_goes_on(llm: Any) -> None:
    from logitkit_adapters.vllm import Session

    with Session(llm, max_length=160) as session:
        said = "Question: Is Paris in France?\nAnswer:"
        fed = []
        for question in ("Is Rome in Spain?", "Is Oslo in Norway?", "Is it cold there?"):
            turn = session.generate(said, max_new_tokens=12)
            fed.append(turn.rows[0].positions_fed)
            said += turn.text + f"\nQuestion: {question}\nAnswer:"
        (row,) = session.generate(said, max_new_tokens=4).rows
        assert row.cached_tokens > row.prompt_tokens / 2
        assert row.token_ids == alone(llm.get_tokenizer().encode(said), 4)


def test_calls_of_several_threads_wait_for_one_another(llm: Any) -> None:
    from logitkit_adapters.vllm import Session

    prompts = [PROMPT, OTHER, PROMPT[3:], OTHER[2:]]
    sessions = [Session(llm), Session(llm)] * 2
    calls = [partial(s.generate, prompt, max_new_tokens=6) for s, prompt in zip(sessions, prompts, strict=True)]
    for _ in range(2):
        assert [found.token_ids for found in in_threads(calls)] == [[alone(prompt, 6)] for prompt in prompts]


def test_rows_of_a_batch_find_what_is_theirs(llm: Any) -> None:
    from logitkit_adapters.vllm import Session

    rows = [PROMPT, OTHER, PROMPT[3:]]
    with Session(llm) as session:
        first = session.generate(rows, max_new_tokens=4)
        assert first.token_ids == [alone(row, 4) for row in rows]
        more = [[*rows[i], *first.token_ids[i], 99] for i in (2, 0, 1)]
        second = session.generate(more, max_new_tokens=4)
        assert second.token_ids == [alone(row, 4) for row in more]
        assert [row.cached_tokens for row in second.rows] == [32, 32, 32]
        assert (first.cached_tokens, second.cached_tokens, session.cached_tokens) == (0, 96, 96)
        assert session.position == len(more[-1]) + len(second.token_ids[-1]) - 1


def test_cached_tokens_are_those_that_vllm_reports(llm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from logitkit_adapters.vllm import Session

    reported: list[int] = []
    whole = llm.generate

    def watched(*given: Any, **options: Any) -> Any:
        outputs = whole(*given, **options)
        reported.extend(output.num_cached_tokens for output in outputs)
        return outputs

    monkeypatch.setattr(llm, "generate", watched)
    with Session(llm) as session:
        for prompt in (PROMPT, [*PROMPT, 5], [PROMPT, OTHER]):
            reported.clear()
            found = session.generate(prompt, max_new_tokens=3)
            assert [row.cached_tokens for row in found.rows] == reported
            assert session.cached_tokens == found.cached_tokens == sum(reported)
        assert sum(reported) == 32
        session.position = 0
        assert session.cached_tokens == 0


def test_position_is_read_and_set_back(llm: Any) -> None:
    from logitkit_adapters.vllm import Session

    with Session(llm) as session:
        assert session.position == 0
        count = len(session.generate(PROMPT, max_new_tokens=5).token_ids[0])
        assert session.position == len(PROMPT) + count - 1
        session.position = session.position
        assert session.generate(PROMPT, max_new_tokens=1).rows[0].cached_tokens == 32
        wrong: Any
        for wrong in (len(PROMPT) + 6, -1, 1.5, True):
            with pytest.raises(ConfigurationError, match="position"):
                session.position = wrong
        session.position = 20
        assert session.position == 0
        assert session.generate(PROMPT, max_new_tokens=1).rows[0].cached_tokens == 0


def test_more_than_max_length_names_prefix_addition_and_limit_and_harms_nothing(llm: Any) -> None:
    from logitkit_adapters.vllm import Session

    with Session(llm, max_length=46) as session:
        session.generate(PROMPT, max_new_tokens=6)
        here = session.position
        said = (
            "a prefix of 39 tokens of the last call and an addition of 8, 1 of the prompt and 7 new ones, are 47 tokens"
        )
        with pytest.raises(ConfigurationError, match=f"{said}: more than max_length=46"):
            session.generate(PROMPT, max_new_tokens=7)
        with pytest.raises(ConfigurationError, match="max_length=46"):
            session.generate([OTHER, PROMPT], max_new_tokens=7)
        assert session.position == here > 40
        assert session.generate(PROMPT, max_new_tokens=6).token_ids == [alone(PROMPT, 6)]
        assert 0 < len(session.generate(OTHER).token_ids[0]) <= 10  # as many as there is room for
    wrong: Any
    for wrong in (0, LONGEST + 1, "a"):
        with pytest.raises(ConfigurationError, match="max_length"):
            Session(llm, max_length=wrong)


@pytest.mark.parametrize("error", [RuntimeError("no"), KeyboardInterrupt()], ids=["error", "interruption"])
def test_a_call_that_fails_half_way_leaves_the_session_usable(
    llm: Any, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    from logitkit_adapters.vllm import Session

    step, left = llm.llm_engine.step, [4]

    def failing() -> Any:
        left[0] -= 1
        if not left[0]:
            raise error
        return step()

    with Session(llm) as session:
        session.generate(PROMPT, max_new_tokens=4)
        with monkeypatch.context() as patch:
            patch.setattr(llm.llm_engine, "step", failing)
            with pytest.raises(type(error)):
                session.generate([OTHER, PROMPT], max_new_tokens=12)
        assert session.position == 43
        for prompt in (OTHER, PROMPT):
            assert session.generate(prompt, max_new_tokens=6).token_ids == [alone(prompt, 6)]


def test_what_is_drawn_depends_on_the_seed_and_not_on_what_is_cached(llm: Any) -> None:
    from logitkit_adapters.vllm import Session

    with Session(llm, processor={"temperature": 1.5, "xtc": 0.3}) as session:
        first = session.generate([PROMPT, PROMPT], max_new_tokens=12, seed=3)
        assert first.token_ids[0] != first.token_ids[1]
        again = session.generate([PROMPT, PROMPT], max_new_tokens=12, seed=3)
        assert again.rows[0].cached_tokens
        assert again.token_ids == first.token_ids
        assert session.generate(PROMPT, max_new_tokens=12, seed=30).token_ids[0] not in first.token_ids
        with pytest.raises(ConfigurationError, match="a prompt has 80 tokens, but on a CPU vLLM takes a seed only"):
            session.generate(PROMPT * 2, max_new_tokens=2, seed=3)
        assert session.generate(PROMPT * 2, max_new_tokens=2).token_ids[0]


def test_what_is_not_allowed_is_refused(llm: Any) -> None:
    from vllm.exceptions import VLLMValidationError

    from logitkit_adapters.vllm import Session

    with pytest.raises(
        ConfigurationError, match=r"processor is of type int; give a processor, .* or its configuration, such as"
    ):
        Session(llm, processor=5)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="rolling=True is not possible"):
        Session(llm, rolling=True)
    with Session(llm) as session:
        with pytest.raises(VLLMValidationError, match="did you mean 'regex'"):
            session.generate(PROMPT, max_new_tokens=2, processor={"regx": "a"})
        with pytest.raises(ConfigurationError, match="seed is -1"):
            session.generate(PROMPT, max_new_tokens=2, seed=-1)
        with pytest.raises(ConfigurationError, match="has no tokens"):
            session.generate([], max_new_tokens=2)
        assert session.generate(PROMPT, max_new_tokens=6).token_ids == [alone(PROMPT, 6)]
    with pytest.raises(ConfigurationError, match="the session is closed"):
        session.generate(PROMPT)


def test_prompts_of_every_kind(llm: Any) -> None:
    import torch

    from logitkit_adapters.vllm import Session

    tokenizer = llm.get_tokenizer()
    texts = ["The price of", "user: Is it?\nbot:"]
    rows = [tokenizer.encode(text) for text in texts]
    wanted = [alone(row, 4) for row in rows]
    padded = tokenizer(texts, padding=True, return_tensors="pt")
    chat = [{"role": "user", "content": "Is it?"}]
    with Session(llm) as session:
        prompts: tuple[Any, ...] = (texts, rows, list(map(torch.tensor, rows)), tokenizer(texts), padded)
        for prompt in prompts:
            assert session.generate(prompt, max_new_tokens=4).token_ids == wanted
        found = session.generate(padded["input_ids"], attention_mask=padded["attention_mask"], max_new_tokens=4)
        assert found.token_ids == wanted
        refused: tuple[Any, ...] = (None, {}, b"ab", [1.5], [True], ["a", 5])
        for wrong in refused:
            with pytest.raises(ConfigurationError, match="prompt is"):
                session.generate(wrong, max_new_tokens=1)
        assert session.generate(chat, max_new_tokens=4).token_ids == wanted[1:]
