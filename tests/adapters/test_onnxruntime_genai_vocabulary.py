"""The tokenizer and the vocabulary of a model of ONNX Runtime GenAI."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import onnxruntime_genai as og
import pytest
from tokenizers import Tokenizer as FileTokenizer

from logitkit.errors import ConfigurationError, VocabularyError
from logitkit_adapters.demo import onnx_dir
from logitkit_adapters.onnxruntime_genai import Tokenizer, vocabulary
from tests.adapters import demo
from tests.adapters.demo_onnxruntime_genai import copy_with, model, own_tokenizer, tokenizer

TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}bot:"


def test_every_tokenizer_of_the_folder_gives_the_tokens_that_transformers_has() -> None:
    file = FileTokenizer.from_file(str(onnx_dir() / "tokenizer.json"))
    for found in (vocabulary(tokenizer()), vocabulary(demo.tokenizer(), model()), vocabulary(file, model())):
        for name in ("tokens", "eos_ids", "pad_id", "size", "special"):
            assert getattr(found, name) == getattr(demo.vocabulary(), name), name


def test_every_eos_of_the_configuration_is_one(tmp_path: Path) -> None:
    other = copy_with(tmp_path, model={"eos_token_id": [2, 1], "pad_token_id": 2})
    read = vocabulary(Tokenizer(other, tmp_path / "copy"))
    assert (read.eos_ids, read.pad_id) == ((1, 2), 2)
    assert vocabulary(tokenizer(), eos_ids=5).eos_ids == (5,)
    assert vocabulary(tokenizer(), size=1300).size == 1300


def test_other_objects_are_refused() -> None:
    with pytest.raises(VocabularyError, match=r"make logitkit_adapters.onnxruntime_genai.Tokenizer\(model, folder\)"):
        vocabulary(own_tokenizer(), model())
    with pytest.raises(VocabularyError, match=r"model is of type NoneType; give the onnxruntime_genai.Model"):
        vocabulary(demo.tokenizer())
    with pytest.raises(VocabularyError, match="cannot recover the token bytes"):
        vocabulary("tokenizer", model())
    with pytest.raises(VocabularyError, match="not the model of the tokenizer"):
        vocabulary(tokenizer(), og.Model(str(onnx_dir())))
    given: Any = "model"
    with pytest.raises(ConfigurationError, match=r"model is of type str; give an onnxruntime_genai.Model"):
        Tokenizer(given, onnx_dir())


def test_a_folder_of_another_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VocabularyError, match=r"has no tokenizer.json; give the folder from which"):
        Tokenizer(model(), tmp_path)
    content = json.loads((onnx_dir() / "tokenizer.json").read_text("utf-8"))
    vocab = content["model"]["vocab"]
    content["model"]["vocab"] = {piece: vocab[other] for piece, other in zip(vocab, reversed(vocab), strict=True)}
    content["added_tokens"] = []
    (tmp_path / "tokenizer.json").write_text(json.dumps(content), "utf-8")
    with pytest.raises(VocabularyError, match="has other tokens than the model: its ids of 'The quick"):
        Tokenizer(model(), tmp_path)


def test_other_integers_are_not_decoded() -> None:
    for ids in ([-1], [5, 2**31]):
        with pytest.raises(ValueError, match="a token id is from"):
            tokenizer().decode(ids)
    assert tokenizer().decode([]) == ""
    assert tokenizer().decode([1, 280, 2, 0]) == "The"


def test_chats_are_written_by_the_template_of_the_folder(tmp_path: Path) -> None:
    chat = [{"role": "user", "content": "Is it é?"}]
    with pytest.raises(ValueError, match="has no chat template"):
        tokenizer().apply_chat_template(chat)
    expected = "user: Is it é?\nbot:"
    folder = Path(shutil.copytree(onnx_dir(), tmp_path / "copy"))
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "chat_template": TEMPLATE}))
    given = Tokenizer(og.Model(str(folder)), folder)
    assert given.apply_chat_template(chat, tokenize=False) == expected
    assert given.apply_chat_template(chat) == demo.tokenizer()(expected).input_ids
    (folder / "chat_template.jinja").write_text("{{ raise_exception('no chats') }}")
    with pytest.raises(ValueError, match="cannot apply the chat template"):
        given.apply_chat_template(chat)
