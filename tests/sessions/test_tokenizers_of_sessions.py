"""Properties of a tokenizer that sessions and generators use: EOS, BOS, the meaning of ids, and U+FFFD if it lacks it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors

import logitkit as lk
from logitkit import SequenceState
from logitkit.errors import ConfigurationError
from logitkit.sessions.sequence_parts import CacheDropped
from logitkit_adapters.sessions import Session, continuous
from tests.adapters.demo import tokenizer, vocabulary
from tests.adapters.tokenizer_zoo import known
from tests.sessions.continuation import PROMPT, PROMPTS, QUESTION
from tests.sessions.engines import ENGINES, loaded
from tests.sessions.recurrent_models import model as recurrent
from tests.sessions.spelling import Pieces, SpaceFirst, state_of

ANSWER = lk.Choice([" yes", " no"], vocabulary())


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the shipped model in transformers without an EOS."""
    model = loaded("transformers")[0]
    monkeypatch.setattr(model.generation_config, "eos_token_id", None)
    monkeypatch.setattr(model.config, "eos_token_id", None)
    return model


def test_a_session_ends_at_the_eos_of_its_tokenizer(endless: Any) -> None:
    ids = tokenizer()(QUESTION).input_ids
    with Session(endless) as without, Session(endless, tokenizer()) as session:
        assert len(without.generate(ids, max_new_tokens=20).token_ids[0]) == 20
        row = session.generate(QUESTION, max_new_tokens=20).rows[0]
        assert row.token_ids[-1] == tokenizer().eos_token_id
        assert len(row.token_ids) < 20
        assert str(continuous(endless, tokenizer())(QUESTION, max_new_tokens=20)) == QUESTION + row.text


def test_a_session_ends_at_the_eos_of_a_vocabulary(endless: Any) -> None:
    ids = tokenizer()(QUESTION).input_ids
    chained = lk.chain(ANSWER, lk.Temperature(0.5))
    with Session(endless) as session:
        for processor in (ANSWER, chained):
            row = session.generate(ids, max_new_tokens=20, processor=processor).rows[0]
            assert row.token_ids[-1] == vocabulary().eos_ids[0]
            assert tokenizer().decode(row.token_ids[:-1]) in (" yes", " no")


def test_an_eos_that_only_the_vocabulary_knows_ends_a_row() -> None:
    model, its = loaded("transformers")
    other = lk.Vocabulary(vocabulary().tokens, eos_ids=[2, 300])
    ids = tokenizer()(QUESTION).input_ids
    ends = lk.chain(lk.Choice([" yes"], other), lk.LogitBias({300: 50.0}))
    with Session(model, its) as session:
        row = session.generate(ids, max_new_tokens=20, processor=ends).rows[0]
    assert row.token_ids[-1] == 300
    assert row.token_ids.count(300) == 1
    assert row.text == " yes"


def test_mlx_lm_ends_at_the_eos_of_a_plain_tokenizer() -> None:
    model, wrapped = loaded("mlx-lm")
    for its in (wrapped, tokenizer()):
        with Session(model, its) as session:
            assert session.generate(QUESTION, max_new_tokens=20).token_ids[0][-1] == tokenizer().eos_token_id


def test_a_recurrent_model_without_an_eos_ends_at_the_tokenizer_s() -> None:
    model = copy.deepcopy(recurrent("Mamba"))
    model.generation_config.eos_token_id = model.config.eos_token_id = None
    always = lk.chain(lk.LogitBias({2: 1000.0}))
    assert continuous(model, tokenizer(), always)("a", max_new_tokens=5).finished.all()
    with Session(model, tokenizer()) as session:
        assert session.generate("a", max_new_tokens=5, processor=always).token_ids == [[2]]


def test_a_state_of_another_tokenizer_is_refused() -> None:
    model = loaded("transformers")[0]
    text = continuous(model, tokenizer())
    state = text(PROMPTS, max_new_tokens=2)
    others: list[Any] = [known("byte-level BPE")[0], known("Llama")[0], Pieces()]
    for other in others:
        with pytest.raises(
            ConfigurationError, match=r"the state has another tokenizer .* give its texts instead: list"
        ):
            continuous(model, other)(state, max_new_tokens=1)
        with pytest.raises(ConfigurationError, match="another tokenizer"):
            state + state_of(state.rows, tokenizer=other)
    with pytest.raises(ConfigurationError, match="another tokenizer"):
        continuous(loaded("llama.cpp")[0])(state_of([[5, 6]], tokenizer=Pieces()), max_new_tokens=1)


def test_tokenizers_that_differ_in_a_token_of_the_state_are_told_apart() -> None:
    model = loaded("transformers")[0]
    one, other = copy.deepcopy(tokenizer()), copy.deepcopy(tokenizer())
    one.add_tokens(["<one>"])
    other.add_tokens(["<other>"])
    added = one.convert_tokens_to_ids("<one>")
    state = state_of([tokenizer()("ab").input_ids], tokenizer=one)
    assert continuous(model, other)(state, max_new_tokens=1).rows
    with pytest.raises(ConfigurationError, match="another tokenizer"):
        continuous(model, other)(state_of([[5, added]], tokenizer=one), max_new_tokens=1)
    with pytest.raises(ConfigurationError, match="another tokenizer"):
        continuous(loaded("llama.cpp")[0])(state_of([[5, added]], tokenizer=one), max_new_tokens=1)


@pytest.mark.parametrize("name", ENGINES)
def test_equal_tokenizers_of_all_engines_go_on_from_one_another(name: str) -> None:
    begun = {one: continuous(*loaded(one))(PROMPTS, max_new_tokens=3) for one in ENGINES}
    text = continuous(*loaded(name))
    whole = text(PROMPTS, max_new_tokens=6).rows
    assert all(text(state, max_new_tokens=3).rows == whole for state in begun.values())
    assert text(state_of(begun[name].rows, tokenizer=copy.deepcopy(tokenizer())), max_new_tokens=3).rows == whole


@cache
def beginning_with_bos() -> tuple[Any, Any]:
    """Return a small random model, and a tokenizer that begins each text with BOS."""
    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=32_000, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
        max_position_embeddings=512, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    its = copy.deepcopy(known("Llama")[0])
    its.backend_tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return transformers.LlamaForCausalLM(config).eval(), its


@pytest.mark.filterwarnings("ignore::logitkit.sessions.sequence_parts.CacheDropped")
def test_a_slice_from_the_middle_goes_on_as_its_text_does(tmp_path: Path) -> None:
    model, its = beginning_with_bos()
    text = continuous(model, its)
    prompts = ["One two three: the price of tea", "Question: Is it so?\nAnswer: not at all"]
    s = text(prompts, max_new_tokens=0)
    assert {row[0] for row in s.rows} == {its.bos_token_id}
    for part in (s[:, 4:], s[:, 8:20], s[:, 4:][:, 4:], s[:, 4:][:, :9], s[:, -5:], s[:, 500:], s[:, 4:][1, :]):
        # The slice itself is its text, without BOS.
        assert its.bos_token_id not in [i for row in part.rows for i in row]
        assert text(part, max_new_tokens=6).rows == text(list(part), max_new_tokens=6).rows
        part.save(tmp_path)
        assert text(text.load(tmp_path), max_new_tokens=6).rows == text(list(part), max_new_tokens=6).rows
    for start in range(1, 31):
        part = s[0, start:]
        assert text(part, max_new_tokens=1).rows == text(str(part), max_new_tokens=1).rows
    # A special token inside stays, which the text does not tell.
    inside = state_of([[1, *its("a chat")["input_ids"][1:], 2, *its("more")["input_ids"][1:]]], tokenizer=its)[3:]
    assert text(inside, max_new_tokens=0).rows[0] == (1, *inside.rows[0])
    assert 2 in inside.rows[0]
    found = text(text(s[:, 4:], max_new_tokens=2), max_new_tokens=4)
    assert found.rows == text(list(s[:, 4:]), max_new_tokens=6).rows
    assert text(s[:, 4:] + " of", max_new_tokens=4).rows == text([t + " of" for t in s[:, 4:]], max_new_tokens=4).rows
    drawn = continuous(model, its, num_samples=2, seed=4)
    assert drawn(s[0, 4:].fan_out(2), max_new_tokens=4).rows == drawn(str(s[0, 4:]), max_new_tokens=4).rows
    # To a penalty, the prompt stays prompt and the output stays output.
    written = text(prompts, max_new_tokens=5)[:, 4:]
    lengths = text(written, max_new_tokens=0).prompt_lengths
    assert torch.equal(lengths, written.prompt_lengths + 1)
    # Tokens are what they are: nothing is put before those that somebody chose.
    assert text(s.tokens[:, 3:], max_new_tokens=2).rows[0][0] == s.rows[0][3]
    ids = [list(row[3:]) for row in s.rows]
    assert text(ids, max_new_tokens=2).rows == text(s.tokens[:, 3:], max_new_tokens=2).rows
    assert text(text(ids, max_new_tokens=2), max_new_tokens=2).rows == text(ids, max_new_tokens=4).rows


def test_a_file_of_an_earlier_release_is_read(tmp_path: Path) -> None:
    s = continuous(*loaded("transformers"))(PROMPT, max_new_tokens=2)
    s.save(tmp_path)
    (file,) = tmp_path.glob("*.safetensors")
    from safetensors import safe_open

    with safe_open(file, framework="pt") as opened:
        notes = opened.metadata()
    save_file({name: values for name, values in load_file(file).items() if name != "lost_bos"}, file, notes)
    assert SequenceState.load(tmp_path, tokenizer()).rows == s.rows


class WithoutReplacement(Pieces):
    """Has no token for U+FFFD, and says so in one of the ways in which tokenizers do."""

    def __init__(self, way: str, pieces: Sequence[bytes] = ()) -> None:
        super().__init__(pieces)
        self.way = way

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        if "\ufffd" not in text:
            return super().encode(text, add_special_tokens)
        if self.way == "raises":
            raise KeyError("\ufffd")
        return [] if self.way == "nothing" else [257]


@pytest.mark.parametrize("way", ["raises", "nothing", "unknown"])
def test_texts_of_a_tokenizer_without_a_replacement_character(way: str) -> None:
    kind = WithoutReplacement(way)
    euro = [*"€".encode()]
    for row, text in (
        ([97, *euro], "a€"),
        ([97, *euro[:2]], "a"),
        ([*euro[1:], 98], "b"),
        ([*euro[2:], 98, *euro[:1]], "b"),
        ([97, 257], "a"),
        ([*euro[1:2]], ""),
    ):
        state = state_of([row], tokenizer=kind)
        assert (str(state), list(state)) == (text, [text])
        assert str(state[:1]) == text[:1]
        assert str(state + "xy").endswith("xy")


def test_texts_of_a_tokenizer_of_words() -> None:
    words = Tokenizer(models.WordLevel({"a": 0, "b": 1}))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    with pytest.raises(Exception, match="UNK"):
        words.encode("\ufffd")

    class Odd:
        """Its decoder writes U+FFFD for an id that it does not know."""

        def encode(self, text: str) -> list[int]:
            return list(words.encode(text).ids)

        def decode(self, ids: Sequence[int]) -> str:
            return " ".join(words.id_to_token(i) or "\ufffd" for i in ids)

    assert list(state_of([[0, 1, 7]], tokenizer=Odd())) == ["a b "]


def test_a_replacement_character_that_somebody_wrote_stays_text_after_a_space_of_the_tokenizer_s() -> None:
    kind = SpaceFirst()
    for text in ("\ufffd", "a\ufffd", "\ufffda", "a \ufffd"):
        assert str(state_of([kind.encode(text, add_special_tokens=False)], tokenizer=kind)) == text


def test_cache_dropped_is_still_said_once() -> None:
    s = continuous(*loaded("transformers"))(PROMPT, max_new_tokens=2)
    with pytest.warns(CacheDropped):
        assert not s[3:].lost_bos.any()
