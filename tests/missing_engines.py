"""Where an engine is not installed its tests are skipped, and say what to install; in CI, where all are installed, they fail."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import TypeVar

import pytest

__all__ = ["pytest_make_collect_report", "pytest_runtest_makereport"]

R = TypeVar("R", pytest.CollectReport, pytest.TestReport)

# How to install what has a module.
INSTALL = {
    "transformers": "transformers is not installed: pip install 'logitkit[transformers]'",
    "mlx": "mlx is not installed: pip install 'logitkit[mlx]'",
    "mlx_lm": "mlx-lm is not installed: pip install 'logitkit[mlx]'",
    "mlx_vlm": "mlx-vlm is not installed: pip install 'logitkit[mlx-vlm]'",
    "llama_cpp": "llama.cpp is not installed: pip install 'logitkit[llama-cpp]'",
    "onnxruntime_genai": "ONNX Runtime GenAI is not installed: pip install 'logitkit[onnx]'",
    "fastapi": "the servers of engines are not installed: pip install 'logitkit[serve]'",
    "openai": "OpenAI's client is not installed: pip install 'logitkit[serve]'",
    "pydantic_ai": "pydantic-ai is not installed: pip install 'pydantic-ai-slim[openai]'",
    "triton": "Triton is not installed: pip install --no-deps triton",
    "vllm": "vLLM is not installed here: scripts/test --engine vllm",
}

# Packages that a test makes absent: their errors are its subject.
PRETENDED: frozenset[str] = frozenset()

# Occurs in the reason of a skip because something is not installed.
ABOUT_INSTALLING = "install"


def missing(error: BaseException | None) -> str | None:
    """Return how to install the engine for want of which an error was raised, or None if it is another error."""
    while error is not None:
        package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
        if package in INSTALL and package not in PRETENDED:
            return INSTALL[package]
        error = error.__cause__ or error.__context__
    return None


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    call: pytest.CallInfo[list[pytest.Item]] = report.call
    return _judged(report, call.excinfo, str(collector.path))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    return _judged(report, call.excinfo, str(item.path))


def _judged(report: R, excinfo: pytest.ExceptionInfo[BaseException] | None, path: str) -> R:
    if excinfo is None:
        return report
    if os.environ.get("CI"):
        reason = str(excinfo.value)
        if report.outcome == "skipped" and ABOUT_INSTALLING in reason:
            report.outcome, report.longrepr = "failed", f"skipped in CI, where nothing may be missing: {reason}"
    elif report.outcome == "failed" and (line := missing(excinfo.value)):
        # pytest leaves a module half imported, and the package that it is in, which others would take for whole.
        half = {path, str(Path(path).with_name("__init__.py"))}
        for name in [name for name, module in sys.modules.items() if getattr(module, "__file__", None) in half]:
            del sys.modules[name]
        report.outcome, report.longrepr = "skipped", (path, 0, f"Skipped: {line}")
    return report
