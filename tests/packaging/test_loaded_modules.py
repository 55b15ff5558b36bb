"""A hook loads what it needs, and no sessions, tools or schemas; a server loads nothing of another engine's package."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module

import pytest

# The most modules of logitkit that a hook loads, alone and with a pattern.
MOST, MOST_WITH_PATTERN = 180, 225
ENGINES = {
    "transformers": "from logitkit_adapters.transformers import logits_processor",
    "mlx_lm": "from logitkit_adapters.mlx_lm import logits_processor",
    "mlx_vlm": "from logitkit_adapters.mlx_vlm import logits_processor",
    "llama_cpp": "from logitkit_adapters.llama_cpp import logits_processor",
}
NOT_LOADED = ("logitkit_adapters.sessions", "logitkit.tools", "logitkit.json_schema", "logitkit.configuration")


def loaded_by(code: str) -> list[str]:
    """Return the modules of logitkit that a program loads."""
    shown = "import json, sys; print(json.dumps([name for name in sys.modules if name.startswith('logitkit')]))"
    done = subprocess.run([sys.executable, "-c", f"{code}\n{shown}"], check=True, capture_output=True, text=True)
    found: list[str] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("engine", ENGINES)
def test_a_hook_loads_few_modules(engine: str) -> None:
    assert len(loaded_by(ENGINES[engine])) <= MOST
    found = loaded_by(f"import logitkit\n{ENGINES[engine]}\nlogitkit.Regex")
    assert len(found) <= MOST_WITH_PATTERN
    assert not [name for name in found if name.startswith(NOT_LOADED)]


@pytest.mark.parametrize("server", ["mlx_lm_server", "llama_cpp_server", "transformers_server"])
def test_a_server_loads_nothing_of_the_package_for_vllm(server: str) -> None:
    found = loaded_by(f"import logitkit_adapters.serving.{server}")
    assert "logitkit_adapters.admission.compiler" in found
    assert not [name for name in found if name.startswith("logitkit_adapters.vllm")]


def test_a_process_that_compiles_loads_no_server_and_no_engine() -> None:
    found = loaded_by("import logitkit_adapters.admission.compile_process")
    packages = {name.split(".")[1] for name in found if name.startswith("logitkit_adapters.")}
    assert packages == {"admission", "hooks"}


@pytest.mark.parametrize("engine", ENGINES)
def test_names_of_sessions_are_found_when_they_are_used(engine: str) -> None:
    package = import_module(f"logitkit_adapters.{engine}")
    for name in package.__all__:
        assert getattr(package, name).__name__ == name or callable(getattr(package, name))
    with pytest.raises(AttributeError, match=f"module 'logitkit_adapters.{engine}' has no attribute 'sesion'"):
        package.sesion  # noqa: B018
