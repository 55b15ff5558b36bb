"""The shipped model in ONNX Runtime GenAI, loaded once; copies of it with other settings; and the engine's own loop."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime_genai as og

from logitkit_adapters.demo import onnx_dir
from tests.sessions.engines import loaded

PROMPT = [280, 661, 509, 277, 372, 81, 87, 338, 311, 1086]
PAD, EOS = 0, 2


def model() -> Any:
    return loaded("onnxruntime-genai")[0]


def tokenizer() -> Any:
    return loaded("onnxruntime-genai")[1]


@cache
def own_tokenizer() -> Any:
    return og.Tokenizer(model())


def copy_with(folder: Path, **changes: dict[str, Any]) -> Any:
    """Return a model whose `genai_config.json` has other values in some sections."""
    copied = Path(shutil.copytree(onnx_dir(), folder / "copy"))
    file = copied / "genai_config.json"
    config = json.loads(file.read_text())
    for section, values in changes.items():
        config.setdefault(section, {}).update(values)
    file.write_text(json.dumps(config))
    return og.Model(str(copied))


def by_engine(prompts: Sequence[Sequence[int]], count: int, **options: Any) -> list[list[int]]:
    """Return the new tokens of prompts of one length by the engine's own loop, up to EOS and with it."""
    parameters: Any = og.GeneratorParams(model())
    parameters.set_search_options(batch_size=len(prompts), max_length=len(prompts[0]) + count, **options)
    generator: Any = og.Generator(model(), parameters)
    generator.append_tokens(np.array(prompts, np.int32).reshape(-1))
    found: list[list[int]] = [[] for _ in prompts]
    while not generator.is_done():
        generator.generate_next_token()
        for row, token in zip(found, generator.get_next_tokens().tolist(), strict=True):
            if EOS not in row:
                row.append(token)
    return found
