"""`logitkit doctor`: what is installed, and what works."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
from importlib import metadata
from importlib.util import find_spec
from typing import Any

import pytest

from logitkit_adapters.cli import doctor, main


def report(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> dict[str, Any]:
    """The packages that the doctor finds, by name."""
    assert main(["doctor", "--json", *arguments]) == status
    found = json.loads(capsys.readouterr().out)
    assert {"logitkit", "python", "torch", "packages", "servers"} == found.keys()
    return {package["name"]: package for package in found["packages"]} | {
        f"serve {server['name']}": server for server in found["servers"]
    }


def test_each_installed_engine_writes_a_text(capsys: pytest.CaptureFixture[str]) -> None:
    packages = report(capsys)
    for name in ("transformers", "mlx-lm", "mlx-vlm", "llama-cpp-python", "onnxruntime-genai"):
        assert packages[name]["status"] == "works"
        assert packages[name]["version"] == metadata.version(name)
        assert re.search(r"wrote '[0-9]{4}'", packages[name]["detail"])
        assert re.fullmatch(r"[0-9.]+", packages[name]["needed"])
    there = find_spec("vllm") is not None
    assert packages["vllm"]["status"] == ("found" if there else "missing")
    assert there or packages["vllm"]["detail"].startswith("in a separate environment, because it does not work with")
    assert there or packages["vllm"]["detail"].endswith("pip install 'logitkit[vllm]'")
    for name, example in (("mlx-lm", "--model MODEL"), ("llama-cpp", "--model FILE.gguf"), ("transformers", "MODEL")):
        assert packages[f"serve {name}"]["status"] == "ready"
        assert packages[f"serve {name}"]["detail"] == f"logitkit serve {name} {example}"
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert all(re.search(rf"^{name} ", out, re.MULTILINE) for name in packages)


def test_the_text_of_vllm_is_found_among_what_the_engine_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    code, out = 0, "(EngineCore) INFO\ntext: 2008\n(MainProcess) WARNING: force killing\n"

    def run(program: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        assert program[1:3] == ["-m", "logitkit_adapters.cli.vllm_smoke_test"]
        return subprocess.CompletedProcess(program, code, out, "Traceback\nOSError: no memory\n")

    monkeypatch.setattr(subprocess, "run", run)
    assert doctor._by_vllm() == "2008"
    code = 1
    with pytest.raises(RuntimeError, match="OSError: no memory"):
        doctor._by_vllm()


def test_servers_that_cannot_be_started(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def loaded(engine: str) -> Any:
        raise ImportError(f"cannot import name 'app' for {engine}")

    find = importlib.util.find_spec
    monkeypatch.setattr(doctor, "EXTRAS", {})
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name in ("fastapi", "uvicorn", "mlx_lm") else find(name)
    )
    found = report(capsys)
    assert found == {
        "serve mlx-lm": {"name": "mlx-lm", "status": "missing", "detail": "needs mlx_lm: pip install 'logitkit[mlx]'"},
        "serve llama-cpp": {
            "name": "llama-cpp",
            "status": "missing",
            "detail": "needs fastapi, uvicorn: pip install 'logitkit[llama-cpp,serve]'",
        },
        "serve transformers": {
            "name": "transformers",
            "status": "missing",
            "detail": "needs fastapi, uvicorn: pip install 'logitkit[transformers,serve]'",
        },
    }
    monkeypatch.setattr(importlib.util, "find_spec", find)
    monkeypatch.setattr(doctor, "server_of", loaded)
    broken = report(capsys, status=1)["serve llama-cpp"]
    assert (broken["status"], broken["detail"]) == ("broken", "ImportError: cannot import name 'app' for llama-cpp")


def test_what_is_missing_old_or_broken_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(name: str) -> str:
        if name == "transformers":
            raise metadata.PackageNotFoundError(name)
        return {"mlx-lm": "0.1.5", "vllm": "0.32.0"}.get(name, "99.0rc1")

    def fail() -> str:
        raise OSError("no such library\nand more")

    monkeypatch.setattr(doctor, "version", version)
    monkeypatch.setitem(doctor._TESTS, "llama-cpp-python", fail)
    monkeypatch.setitem(doctor._TESTS, "vllm", lambda: "20x4")
    packages = report(capsys, status=1)
    assert packages["transformers"] == {
        "name": "transformers",
        "version": None,
        "needed": "5.19",
        "status": "missing",
        "detail": "pip install 'logitkit[transformers]'",
    }
    assert packages["mlx-lm"]["status"] == "too old"
    assert "pip install -U 'logitkit[mlx]'" in packages["mlx-lm"]["detail"]
    assert (packages["llama-cpp-python"]["status"], packages["llama-cpp-python"]["detail"]) == (
        "broken",
        "OSError: no such library",
    )
    assert packages["vllm"]["detail"] == "not started; --slow starts it"
    assert report(capsys, "--slow", status=1)["vllm"]["status"] == "broken"
