"""llama.cpp without our adapter drops the errors of wrong hooks. They still never allow unconstrained text."""

from __future__ import annotations

import subprocess
import sys

import pytest

# The adapters that a hook needs are imported after the hooks before it were tried.
HOOKS = {
    "a processor": ("", "choice", "given the processor Choice itself"),
    "a chain": ("", "lk.chain(lk.TopK(5), eos_ids=[2])", "given the processor Chain itself"),
    "transformers": (
        "from logitkit_adapters.transformers import logits_processor",
        "logits_processor(choice)",
        "made for transformers",
    ),
    "mlx-lm": ("from logitkit_adapters.mlx_lm import logits_processor", "logits_processor(choice)", "made for mlx-lm"),
}

PROGRAM = """
import sys
import llama_cpp
import logitkit as lk
from logitkit_adapters.demo import gguf_path
llama = llama_cpp.Llama(str(gguf_path()), n_ctx=64, verbose=False)
vocabulary = lk.Vocabulary([bytes([i % 256]) if i != 2 else None for i in range(llama.n_vocab())], [2])
choice = lk.Choice(["a", "b"], vocabulary)
"""

TRIAL = """
{imports}
assert "logitkit_adapters.llama_cpp" not in sys.modules
print("=== {name}", file=sys.stderr, flush=True)
answer = llama.create_completion("Hi", max_tokens=4, temperature=0, logits_processor=[{hook}])
assert answer["choices"][0]["text"] == "", answer
assert answer["choices"][0]["finish_reason"] == "stop", answer
"""


@pytest.fixture(scope="module")
def errors() -> dict[str, str]:
    """The errors that Python prints while it drops them, by hook; one process tries all hooks."""
    trials = [TRIAL.format(name=name, imports=imports, hook=hook) for name, (imports, hook, _) in HOOKS.items()]
    program = "\n".join([PROGRAM, *trials])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    parts = [part.partition("\n") for part in done.stderr.split("=== ")[1:]]
    return {name: text for name, _, text in parts}


@pytest.mark.parametrize("name", HOOKS)
def test_only_the_end_is_left(name: str, errors: dict[str, str]) -> None:
    assert HOOKS[name][2] in errors[name]
