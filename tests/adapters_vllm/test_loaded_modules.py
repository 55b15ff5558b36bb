"""The plugin loads no sessions and no servers of other engines, which vLLM's server does not use."""

from __future__ import annotations

import subprocess
import sys

import logitkit_adapters.vllm as package

CODE = """
import sys
from logitkit_adapters.vllm import LogitsProcessor
others = ("logitkit_adapters.sessions", "logitkit_adapters.vllm.session", "logitkit_adapters.serving")
print([name for name in sys.modules if name.startswith(others)])
"""


def test_the_plugin_loads_no_sessions_and_no_servers() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_every_name_is_found() -> None:
    for name in package.__all__:
        assert getattr(package, name).__name__ == name
