"""The demo model for ONNX Runtime GenAI: it computes, and reads and writes text, as transformers does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from logitkit.errors import ConfigurationError
from logitkit_adapters.demo import model_dir, onnx_dir
from logitkit_adapters.demo.onnx_model import WEIGHTS, convert
from logitkit_adapters.onnxruntime_genai.engine import sequence_engine
from tests.adapters import demo
from tests.adapters.demo_onnxruntime_genai import model, tokenizer
from tests.adapters.test_demo_gguf import HOSTILE, TEXT


def test_logits_are_those_of_transformers() -> None:
    ids = demo.tokenizer()(TEXT).input_ids * 8
    assert 1000 < len(ids) < 2048
    with torch.no_grad():
        expected = demo.model()(torch.tensor([ids])).logits[0]
    found = sequence_engine(model(), None, None).new().feed(ids, all_positions=True)
    assert found.shape == expected.shape
    assert float(expected.abs().max()) > 10
    assert float((found - expected).abs().max()) < 2e-4


@given(st.text() | st.text(HOSTILE))
def test_text_has_the_token_ids_of_transformers(text: str) -> None:
    assert tokenizer().decode(demo.tokenizer()(text).input_ids) == text
    if "\0" in text:
        with pytest.raises(ConfigurationError, match=r"a text has a NUL as its character [0-9]+, where"):
            tokenizer().encode(text)
        return
    assert tokenizer().encode(text) == demo.tokenizer()(text).input_ids


@given(st.text(HOSTILE, max_size=8), st.sampled_from(["<s>", "</s>", "<pad>"]), st.text(HOSTILE, max_size=8))
def test_special_tokens_in_a_text_have_the_ids_of_transformers(before: str, special: str, after: str) -> None:
    text = (before + special + after).replace("\0", "")
    assert tokenizer().encode(text) == demo.tokenizer()(text).input_ids


def test_the_weights_fill_the_file_of_the_graph() -> None:
    files = convert(model_dir())
    # The size of the builder's file: 0.7 million weights, the output weights once more, and the rotations.
    assert len(files[WEIGHTS]) == 3_084_800
    assert len(files["model.onnx"]) < 30_000
    weights = np.frombuffer(files[WEIGHTS], "<f4")
    assert np.isfinite(weights).all()


def test_the_folder_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = onnx_dir()
    written = {file.name: file.stat().st_mtime_ns for file in folder.iterdir()}
    assert {"genai_config.json", "model.onnx", "model.onnx.data", "tokenizer.json"} < written.keys()
    (folder / "model.onnx.data").write_bytes(b"damaged")
    assert onnx_dir() == folder
    assert (folder / "model.onnx.data").stat().st_size == 3_084_800
    after = {file.name: file.stat().st_mtime_ns for file in folder.iterdir()}
    assert {name for name in after if after[name] != written[name]} == {"model.onnx.data"}
