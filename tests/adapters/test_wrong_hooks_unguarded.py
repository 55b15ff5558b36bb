"""llama.cpp without the adapter that would guard it: what is raised is dropped, and still nothing unconstrained is written."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
import llama_cpp
import logitkit as lk
from logitkit_adapters.demo import gguf_path
{imports}
llama = llama_cpp.Llama(str(gguf_path()), n_ctx=64, verbose=False)
vocabulary = lk.Vocabulary([bytes([i % 256]) if i != 2 else None for i in range(llama.n_vocab())], [2])
choice = lk.Choice(["a", "b"], vocabulary)
assert "logitkit_adapters.llama_cpp" not in sys.modules
answer = llama.create_completion("Hi", max_tokens=4, temperature=0, logits_processor=[{hook}])
assert answer["choices"][0]["text"] == "", answer
assert answer["choices"][0]["finish_reason"] == "stop", answer
"""


@pytest.mark.parametrize(
    ("imports", "hook", "said"),
    [
        ("", "choice", "given the processor Choice itself"),
        ("", "lk.chain(lk.TopK(5), eos_ids=[2])", "given the processor Chain itself"),
        (
            "from logitkit_adapters.transformers import logits_processor",
            "logits_processor(choice)",
            "made for transformers",
        ),
        ("from logitkit_adapters.mlx_lm import logits_processor", "logits_processor(choice)", "made for mlx-lm"),
    ],
)
def test_only_the_end_is_left(imports: str, hook: str, said: str) -> None:
    program = PROGRAM.format(imports=imports, hook=hook)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert said in done.stderr
