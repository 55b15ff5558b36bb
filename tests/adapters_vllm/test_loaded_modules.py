"""The plugin loads no sessions, which servers do not use."""

from __future__ import annotations

import subprocess
import sys

import logitkit_adapters.vllm as package

CODE = """
import sys
from logitkit_adapters.vllm import LogitsProcessor
print([name for name in sys.modules if name.startswith(("logitkit_adapters.sessions", "logitkit_adapters.vllm.session"))])
"""


def test_the_plugin_loads_no_sessions() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_every_name_is_found() -> None:
    for name in package.__all__:
        assert getattr(package, name).__name__ == name
