"""The demo model as a GGUF file: llama.cpp computes with it, and reads and writes text, as transformers does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from logitkit.errors import ConfigurationError
from logitkit_adapters.demo import cached_files, gguf_path
from logitkit_adapters.demo.cached_files import cached
from tests.adapters.demo import model, tokenizer
from tests.adapters.demo_llama_cpp import llama, loaded

TEXT = (
    'Name: Emma Brown\nAs JSON: {"name": "Emma Brown", "age": 34}\nThe price of the lamp is €12.40.\n\n'
    "Ünïcode: 日本語, नमस्ते, 👩‍👩‍👧 and  two spaces\tand a tab. Review: I wasn't sure; they've said we'll see."
)
HOSTILE = " \t\n\r\x00\x1c\x85\xa0\u1680\u2007\u2028\u202f\u3000\u200b\ufeff'st're've0²½٣Ⅷ,.-\"€éß日한👧\u0301abAB"


def test_logits_are_those_of_transformers() -> None:
    engine = loaded(logits_all=True)
    ids = tokenizer()(TEXT).input_ids
    # Not more: llama.cpp's float32 angles of position embeddings are off in proportion to the position.
    assert len(ids) > 120
    engine.eval(ids)
    with torch.no_grad():
        expected = model()(torch.tensor([ids])).logits[0].numpy()
    assert np.abs(expected).max() > 10
    assert np.abs(engine.scores[: len(ids)] - expected).max() < 1e-4


@given(st.text() | st.text(HOSTILE))
def test_text_has_the_token_ids_of_transformers(text: str) -> None:
    assert llama().tokenize(text.encode(), special=True) == tokenizer()(text).input_ids


@given(st.text(HOSTILE, max_size=8), st.sampled_from(["<s>", "</s>", "<pad>"]), st.text(max_size=8))
def test_special_tokens_in_a_text_have_the_ids_of_transformers(before: str, special: str, after: str) -> None:
    text = before + special + after
    assert llama().tokenize(text.encode(), special=True) == tokenizer()(text).input_ids


@given(st.text())
def test_token_ids_have_the_text_of_transformers(text: str) -> None:
    ids = tokenizer()(text).input_ids
    assert llama().detokenize(ids) == text.encode()
    assert llama().detokenize([1, *ids, 2], special=True) == f"<s>{text}</s>".encode()


def test_special_tokens_are_those_of_the_model() -> None:
    engine = llama()
    assert (engine.token_bos(), engine.token_eos()) == (model().config.bos_token_id, model().config.eos_token_id)
    assert engine.n_vocab() == model().config.vocab_size
    assert engine.metadata["tokenizer.ggml.padding_token_id"] == str(model().config.pad_token_id)


def test_the_file_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = gguf_path()
    written = path.stat().st_mtime_ns
    assert gguf_path() == path
    assert path.stat().st_mtime_ns == written
    assert list(path.parent.iterdir()) == [path]
    assert path.parent.parent == tmp_path


@pytest.mark.parametrize("damaged", [b"cont", b"cont\0\0\0"])
def test_a_file_that_was_damaged_is_written_again(
    damaged: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = cached(b"content", "a.gguf")
    path.write_bytes(damaged)
    assert cached(b"content", "a.gguf").read_bytes() == b"content"
    assert cached(b"other", "a.gguf") != path


def test_nothing_is_left_of_a_file_that_could_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def full(*arguments: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(ConfigurationError, match=r"the cache: no space .* nor to a temporary folder: no space"):
        cached(b"content", "a.gguf")
    assert list((tmp_path / "logitkit").iterdir()) == []


def test_a_cache_that_cannot_be_written_to_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_bytes(b"")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))  # no user may write into a file, not even root
    path = cached(b"content", "a.gguf")
    assert path.read_bytes() == b"content"
    assert cached(b"content", "a.gguf") == path
    assert tmp_path not in path.parents
    assert blocked.read_bytes() == b""


def test_an_error_says_why_there_is_no_place_for_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("no home")

    def refused() -> Path:
        raise PermissionError(13, "Permission denied", "/temporary")

    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setattr(Path, "home", homeless)
    monkeypatch.setattr(cached_files, "_folder_of_this_process", refused)
    with pytest.raises(
        ConfigurationError, match=r"no home nor to .*Permission denied: '/temporary'; set XDG_CACHE_HOME"
    ):
        cached(b"content", "a.gguf")


def test_a_relative_cache_folder_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert cached(b"content", "a.gguf").parent == tmp_path / ".cache" / "logitkit"
