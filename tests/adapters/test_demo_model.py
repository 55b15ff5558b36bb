"""The shipped demo model: it loads, is small, reads any text, and writes records that end."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

from logitkit_adapters.demo import model_dir

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "train-demo-model"
FILES = {
    "config.json",
    "generation_config.json",
    "model.onnx",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
}
EMAIL = r"[a-z]+\.[a-z]+@(mail\.)?example\.(com|org|net)"


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(model_dir())


@pytest.fixture(scope="module")
def model() -> Any:
    return AutoModelForCausalLM.from_pretrained(model_dir())


def continuation(model: Any, tokenizer: Any, prompt: str, *, bos: bool, limit: int = 150) -> tuple[str, bool]:
    """The greedy new text without special tokens, and whether the model ended it with EOS."""
    prompt_ids = tokenizer((tokenizer.bos_token if bos else "") + prompt, return_tensors="pt")
    written = model.generate(**prompt_ids, max_new_tokens=limit, do_sample=False)
    ids = written[0, prompt_ids["input_ids"].shape[1] :]
    return tokenizer.decode(ids, skip_special_tokens=True), int(ids[-1]) == tokenizer.eos_token_id


def test_folder_holds_the_model_and_nothing_else_within_three_megabytes() -> None:
    files = {file.name: file.stat().st_size for file in model_dir().iterdir()}
    assert set(files) == FILES
    assert sum(files.values()) <= 3_000_000


def test_every_engine_can_run_the_shape(model: Any, tokenizer: Any) -> None:
    config = model.config
    assert isinstance(model, LlamaForCausalLM)
    assert config.head_dim in (32, 64)
    assert config.head_dim * config.num_attention_heads == config.hidden_size
    assert config.vocab_size == len(tokenizer)
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    assert all(torch.isfinite(weight).all() for weight in model.parameters())


def test_special_tokens_agree_between_files(model: Any, tokenizer: Any) -> None:
    ids = (tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id)
    assert ids == (0, 1, 2)
    assert (tokenizer.pad_token, tokenizer.bos_token, tokenizer.eos_token) == ("<pad>", "<s>", "</s>")
    for config in (model.config, model.generation_config):
        assert (config.pad_token_id, config.bos_token_id, config.eos_token_id) == ids
    assert tokenizer("yes").input_ids == tokenizer("yes", add_special_tokens=False).input_ids


def test_every_byte_is_a_token(tokenizer: Any) -> None:
    assert set(pre_tokenizers.ByteLevel.alphabet()) <= set(tokenizer.get_vocab())


def test_no_token_joins_a_digit_to_anything(tokenizer: Any) -> None:
    assert [token for token in tokenizer.get_vocab() if re.search("[0-9].|.[0-9]", token)] == []
    ids = tokenizer("dated 2024-03-17.").input_ids
    assert [tokenizer.decode(token) for token in ids[-11:]] == list("2024-03-17.")


@given(text=st.text(st.characters(codec="utf-8")))
def test_any_text_survives_the_round_trip(tokenizer: Any, text: str) -> None:
    assert tokenizer.decode(tokenizer(text).input_ids) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\u2581x",
        "  two  spaces\r\n\t",
        "\0",
        "é e\u0301 ﬁ",
        "東京 👩‍👩‍👧 €3",
        "a . b , it 's",
        "<s>x</s>",
    ],
)
def test_awkward_text_survives_the_round_trip(tokenizer: Any, text: str) -> None:
    assert tokenizer.decode(tokenizer(text).input_ids) == text


@pytest.mark.parametrize("bos", [True, False])
@pytest.mark.parametrize(
    ("prompt", "record"),
    [
        ("Name: Ana Torres\n", rf"Email: ana\.torres@{EMAIL.split('@')[1]}\nPhone: \+\d+ 555 \d{{4}}(\n.*)*"),
        ("The invoice is dated", r" (199|20[012])\d-(0[1-9]|1[0-2])-([0-2]\d|3[01])\."),
        ("The price of the book is", r" (([$€£])\d+\.\d\d|\d+\.\d\d (€|euros))\."),
        ("Question: Is Paris in France?\nAnswer:", " yes"),
        ("Question: Is London in Spain?\nAnswer:", " no"),
        ("Review: The film was boring.\nSentiment:", " negative"),
        ("Shopping list:\n", r"(- \S+( \S+)?\n?){3,6}"),
    ],
)
def test_writes_a_record_and_ends_it(model: Any, tokenizer: Any, prompt: str, record: str, bos: bool) -> None:
    text, ended = continuation(model, tokenizer, prompt, bos=bos)
    assert re.fullmatch(record, text), text
    assert ended


@pytest.mark.parametrize("bos", [True, False])
def test_writes_valid_json(model: Any, tokenizer: Any, bos: bool) -> None:
    prompt = 'JSON: {"name": "Emma Brown",'
    text, ended = continuation(model, tokenizer, prompt, bos=bos)
    record = json.loads(prompt.removeprefix("JSON: ") + text)
    assert 4 <= len(record) <= 8
    assert set(record) <= {"name", "age", "email", "city", "role", "phone", "active", "manager"}
    assert ended


def test_samples_end_too(model: Any, tokenizer: Any) -> None:
    torch.manual_seed(0)
    prompt = tokenizer(tokenizer.bos_token, return_tensors="pt")
    ids = model.generate(**prompt, max_new_tokens=250, do_sample=True, num_return_sequences=16)
    assert (ids == tokenizer.eos_token_id).any(dim=1).sum() >= 14


def test_the_script_makes_the_shipped_tokenizer_and_shape(tmp_path: Path) -> None:
    output = tmp_path / "model"
    command = [sys.executable, str(SCRIPT), "--steps", "1", "--output", str(output)]
    subprocess.run(command, check=True, capture_output=True)
    assert {file.name for file in output.iterdir()} == FILES - {"model.onnx"}

    def read(folder: Path, name: str) -> Any:
        return json.loads((folder / name).read_text("utf-8"))

    made, shipped = read(output, "tokenizer.json"), read(model_dir(), "tokenizer.json")
    assert made["model"] == shipped["model"]
    made, shipped = read(output, "config.json"), read(model_dir(), "config.json")
    assert {**made, "transformers_version": None} == {**shipped, "transformers_version": None}
