"""A state that one process saves goes on in another."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import logitkit as lk
from logitkit_adapters.sessions import continuous
from tests.adapters.demo import model, tokenizer, vocabulary
from tests.sessions.continuation import PROMPTS

CONTINUE = """
import sys
from transformers import AutoModelForCausalLM, AutoTokenizer
import logitkit as lk
from logitkit.sessions.sequence_state import SequenceState
from logitkit_adapters.demo import model_dir
from logitkit_adapters.sessions.generator import continuous
from logitkit_adapters.transformers import vocabulary
model = AutoModelForCausalLM.from_pretrained(model_dir())
tokenizer = AutoTokenizer.from_pretrained(model_dir())
pattern = lk.Regex(r" \\d{4}-\\d\\d-\\d\\d.", vocabulary(tokenizer))
date = continuous(model, tokenizer, lk.chain(lk.FrequencyPenalty(0.5), pattern))
fed = []
model.register_forward_pre_hook(lambda m, args, kwargs: fed.append(kwargs["input_ids"].shape[1]), with_kwargs=True)
for state in (date.load(sys.argv[1]), SequenceState.load(sys.argv[1], tokenizer)):
    for carry in (True, False):
        print(date(state, max_new_tokens=6, carry_state=carry).rows, fed[0])
        fed.clear()
"""


def test_saved_in_one_process_goes_on_in_another(tmp_path: Path) -> None:
    pattern = lk.Regex(r" \d{4}-\d\d-\d\d.", vocabulary())
    date = continuous(model(), tokenizer(), lk.chain(lk.FrequencyPenalty(0.5), pattern))
    s = date(PROMPTS, max_new_tokens=4)
    s.save(tmp_path)
    found = subprocess.run(
        [sys.executable, "-c", CONTINUE, str(tmp_path)], capture_output=True, text=True, check=True, env=_environment()
    ).stdout.splitlines()
    wanted = [f"{date(s, max_new_tokens=6, carry_state=carry).rows} 1" for carry in (True, False)]
    assert found == wanted * 2


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
