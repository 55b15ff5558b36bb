"""The command `logitkit`: whatever goes wrong is one message and a status."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

import logitkit
from logitkit.errors import PatternSyntaxError
from logitkit_adapters.cli import main
from tests.adapters.absent import make_absent
from tests.adapters.cli_process import own, start


@pytest.mark.parametrize("pattern", ["(", "ab)c", r"(a)\2", "[z-a]", "x{3,1}", "a\n(b"])
def test_bad_pattern_shows_where(pattern: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(PatternSyntaxError) as found:
        logitkit.Regex(pattern, logitkit.Vocabulary([b"a", None], eos_ids=[1]))
    assert main(["demo", "--regex", pattern, "--prompt", "x"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    progress, message = err.split("\n", 1)
    assert progress.endswith(" ...")
    assert message == f"logitkit: {found.value}\n"
    _, shown, caret = message.splitlines()
    assert re.fullmatch(r" +\^", caret)
    assert len(caret) <= len(shown) + 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a command, such as `logitkit demo`"),
        (["dmeo"], "invalid choice: 'dmeo'"),
        (["demo", "--verbose"], "unrecognized arguments: --verbose"),
        (["demo", "--regex", "a"], "give --regex and --prompt together"),
        (["demo", "--prompt", "a"], "give --regex and --prompt together"),
        (["demo", "--beams", "2"], "--beams and --max-new-tokens go with --regex and --prompt"),
        (own("--beams", "0"), "'0' is not a whole number from 1 to 64"),
        (own("--beams", "many"), "'many' is not a whole number from 1 to 64"),
        (own("--max-new-tokens", "1e3"), "'1e3' is not a whole number from 1 to 1024"),
        (own(prompt="very " * 3000), "positions; give a shorter prompt, or ask for fewer new tokens"),
        (own(prompt="caf\udce9"), "not valid UTF-8 at position 3"),
        (own(regex="[01]*1[01]{40}"), "limits"),
        (own(regex="a(?!a)a"), "no text"),
    ],
)
def test_wrong_arguments_are_one_line(
    arguments: Sequence[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if not line.endswith(" ...")]
    assert len(lines) == 1
    assert lines[0].startswith("logitkit")
    assert message in lines[0]


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"logitkit {logitkit.__version__}\n"
    assert main(["--help"]) == 0
    assert "demo" in capsys.readouterr().out
    assert main(["demo", "--help"]) == 0
    out = capsys.readouterr().out
    assert all(option in out for option in ("--regex", "--prompt", "--max-new-tokens", "--beams"))


def test_arguments_are_read_before_anything_is_loaded() -> None:
    process = start("demo", "--help", before="import sys; sys.modules['torch'] = sys.modules['transformers'] = None")
    out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert "--regex" in out


MISSING = {
    "transformers": "logitkit_adapters.transformers needs transformers: pip install 'logitkit[transformers]'",
    "mlx_lm": "logitkit_adapters.mlx_lm needs mlx-lm: pip install 'logitkit[mlx]'",
    "llama_cpp": "logitkit_adapters.llama_cpp needs llama-cpp-python: pip install 'logitkit[llama-cpp]'",
    "onnxruntime_genai": "logitkit_adapters.onnxruntime_genai needs onnxruntime-genai: pip install 'logitkit[onnx]'",
}


@pytest.mark.parametrize("arguments", [[], own("--beams", "2")])
def test_missing_engines_are_named_with_what_installs_them(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_absent(monkeypatch, *MISSING)
    assert main(arguments or ["demo"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    able = ["transformers"] if arguments else list(MISSING)
    assert err.splitlines()[1:] == [f"logitkit: {'; or '.join(MISSING[name] for name in able)}"]


@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("mlx_lm", ["transformers", "llama-cpp-python", "onnxruntime-genai"]),
        ("llama_cpp", ["transformers", "mlx-lm", "onnxruntime-genai"]),
        ("onnxruntime_genai", ["transformers", "mlx-lm", "llama-cpp-python"]),
    ],
)
def test_an_engine_may_be_missing(
    name: str, left: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_absent(monkeypatch, name)
    assert main(own(regex="a{3}")) == 0
    only_works_with(left, capsys.readouterr().out)


def test_transformers_may_be_missing() -> None:
    """In a process of its own: mlx-lm imports transformers, so it is missing too."""
    process = start(*own(regex="a{3}"), before="import sys; sys.modules['transformers'] = None")
    out, err = process.communicate()
    assert process.returncode == 0, err
    only_works_with(["llama-cpp-python", "onnxruntime-genai"], out)


def only_works_with(left: list[str], out: str) -> None:
    """Assert that the demo ran with these engines alone."""
    assert re.findall(r"^logitkit \S+ in (\S+)", out, re.MULTILINE) == left
    assert out.count("✓ 'aaa'") == len(left)
