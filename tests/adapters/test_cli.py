"""The command `logitkit`: what the demo prints holds."""

from __future__ import annotations

import json
import re
import resource
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch

import logitkit_adapters.cli
import logitkit_adapters.demo.cases
from logitkit_adapters.cli import main
from logitkit_adapters.demo.cases import own_case, shipped_cases
from logitkit_adapters.demo.console import Console
from logitkit_adapters.demo.contact import Contact
from logitkit_adapters.demo.run import run_demo, width
from logitkit_adapters.demo.transformers_engine import TransformersDemo
from tests.adapters.cli_process import NO_NETWORK, Screen, start

# The packages of the engines that the demo runs in, in their order.
PACKAGES = ["transformers", "mlx-lm", "llama-cpp-python", "onnxruntime-genai"]


@pytest.fixture(scope="module")
def demo() -> str:
    """The output of a plain `logitkit demo`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = start("demo", before=NO_NETWORK)
    out, err = process.communicate()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert process.returncode == 0, err
    assert err.splitlines() == [
        "importing torch and transformers ...",
        "loading transformers and the demo model ...",
        *(f"{i} of 8: {case.name} ..." for i, case in enumerate(shipped_cases(), 1)),
        "loading mlx-lm and the demo model ...",
        *(f"{i} of 6: {case.name} ..." for i, case in enumerate(shipped_cases()[:6], 1)),
        "loading llama.cpp and the demo model ...",
        *(f"{i} of 6: {case.name} ..." for i, case in enumerate(shipped_cases()[:6], 1)),
        "loading ONNX Runtime GenAI and the demo model ...",
        *(f"{i} of 6: {case.name} ..." for i, case in enumerate(shipped_cases()[:6], 1)),
    ]
    # On one core: what the test machine does besides does not count.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 60
    return out


def parts(printed: str) -> list[str]:
    """The output for each engine, in their order."""
    return re.split(r"^(?=logitkit \S+ in )", printed, flags=re.MULTILINE)[1:]


def texts(printed: str, case: str) -> tuple[list[str], list[str]]:
    """The texts, with their marks, of a case: without logitkit and with it."""
    block = re.search(rf"^{re.escape(case)}  .*\n((?:.+\n)*)", printed, re.MULTILINE)
    assert block, printed
    found: tuple[list[str], list[str]] = ([], [])
    for line in block[1].splitlines():
        for column, piece in zip(found, (line[33:65].strip(), line[67:].strip()), strict=True):
            if piece.startswith(("✓ ", "✗ ")):
                column.append(piece)
            elif piece:
                column[-1] += f" {piece}"
    return found


def is_date(text: str) -> bool:
    return re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])", text) is not None


def is_email(text: str) -> bool:
    return re.fullmatch(r"[a-z.]+@[a-z]+(\.[a-z]+)+", text) is not None


def is_sentiment(text: str) -> bool:
    return text in ("positive", "negative", "neutral")


def is_person(text: str) -> bool:
    person = json.loads(text.replace(" ", ""))  # some of which are ends of lines
    return (
        list(person) == ["name", "age", "active", "email"]
        and re.fullmatch("([A-Z][a-z]+){2}", person["name"]) is not None
        and 18 <= person["age"] <= 99
        and isinstance(person["active"], bool)
        and is_email(person["email"])
    )


def is_contact(text: str) -> bool:
    contact = json.loads(text.replace(" ", ""))  # some of which are ends of lines
    return (
        list(contact) == ["name", "age", "active", "address"]
        and re.fullmatch("[A-Z][a-z]+[A-Z][a-z]+", contact["name"]) is not None
        and 18 <= contact["age"] <= 99
        and isinstance(contact["active"], bool)
        and list(contact["address"]) == ["email", "country"]
        and is_email(contact["address"]["email"])
        and contact["address"]["country"] in ("France", "Spain", "Peru")
    )


def is_call(text: str) -> bool:
    call = json.loads(text)
    contact = call["arguments"]
    named = call["name"] == "save_contact" and re.fullmatch("[A-Z][a-z]+ [A-Z][a-z]+", contact["name"]) is not None
    return named and 18 <= contact["age"] <= 99 and isinstance(contact["active"], bool)


def is_product(text: str) -> bool:
    return re.fullmatch(r"\(.*\) \* .*", text) is not None and eval(text, {}) > 0


def is_price(text: str) -> bool:
    return re.fullmatch(r"€\d{1,3}\.\d\d", text) is not None


@pytest.mark.parametrize(
    ("case", "count", "check"),
    [
        ("date", 1, is_date),
        ("e-mail", 1, is_email),
        ("choice", 1, is_sentiment),
        ("JSON Schema", 1, is_person),
        ("tool call", 1, is_call),
        ("grammar", 1, is_product),
        ("4 prompts, 4 beams", 4, is_price),
        ("pydantic, 4 beams", 1, is_contact),
    ],
)
def test_demo_holds_each_text_to_its_format(demo: str, case: str, count: int, check: Any) -> None:
    transformers, *others = parts(demo)
    assert len(others) == len(PACKAGES) - 1
    without, held = texts(transformers, case)
    assert [text[0] for text in without] == ["✗"] * count, "the demo should show what a constraint changes"
    assert [text[0] for text in held] == ["✓"] * count
    assert all(check(text[3:-1]) for text in held)
    if "beams" in case:
        assert not any(case in other for other in others)
    else:
        assert [texts(other, case) for other in others] == [(without, held)] * len(others)


def test_demo_shows_costs_of_every_case(demo: str) -> None:
    number = r" +[\d.]+"
    for case in shipped_cases():
        rows = len(case.prompts) * case.beams
        row = rf"^{case.name} +{rows} +\d+{number} ms{number} ms{number} ms +\d+ us +[+-][\d.]+%$"
        assert len(re.findall(row, demo, re.MULTILINE)) == (len(PACKAGES) if case.beams == 1 else 1), demo
    assert demo.count("Medians of CPU time.") == 1


def test_demo_fits_a_page_and_is_plain_text(demo: str) -> None:
    assert max(map(width, demo.splitlines())) <= 100
    assert "\x1b" not in demo
    assert all(line == line.rstrip() for line in demo.splitlines())


def test_the_pydantic_model_reads_what_is_written() -> None:
    case = shipped_cases()[-1]
    engine = TransformersDemo()
    engine.load()
    constraint = case.constraint(engine.vocabulary)
    (text,) = engine.generate(case, constraint).texts
    assert Contact.model_validate_json(text).model_dump_json() == text
    assert case.check is not None
    assert case.check(text)
    assert not case.check(text.replace(":", ": ", 1)[:-1])
    assert not case.check(re.sub(r"\d+", "17", text, count=1))


def test_the_case_of_a_pydantic_model_is_left_out_without_pydantic(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = [case.name for case in shipped_cases()]
    monkeypatch.setattr(logitkit_adapters.demo.cases, "find_spec", lambda name: None)
    assert [case.name for case in shipped_cases()] == everything[:-1]


def test_own_pattern(capsys: pytest.CaptureFixture[str]) -> None:
    pattern = "(red|blue)( [0-9]){2}"
    assert main(["demo", "--regex", pattern, "--prompt", "Which colour\nis it? ", "--beams", "3"]) == 0
    out = capsys.readouterr().out
    (only,) = parts(out)  # the others have no beams
    (without,), (held,) = texts(only, "your pattern")
    assert without[0] == "✗"
    assert held[0] == "✓"
    assert re.fullmatch(pattern, held[3:-1])
    assert r"'Which colour\nis it? '" in out
    assert re.search(r"^your pattern +3 ", out, re.MULTILINE)


def test_the_page_shows_every_text_token_by_token(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "demo.html"
    assert main(["demo", "--regex", "<(red|blue)>", "--prompt", "Which <colour>? ", "--html", str(path)]) == 0
    capsys.readouterr()
    html = path.read_text()
    parser = HTMLParser()
    parser.feed(html)
    parser.close()
    engines = html.split("<h1>")[1:]
    assert [part.split(" in ")[1].split()[0] for part in engines] == PACKAGES
    for part in engines:
        without, held = part.split('<section class="logitkit-explanation">')[1:]
        assert "Which &lt;colour&gt;? " in part
        assert 'class="verdict bad"' in without
        assert re.search(r"refuses token \d+ of ", without)  # which one depends on how the engine rounds
        assert 'class="verdict good"' in held
        assert re.search("&lt;(red|blue)&gt;", re.sub("<[^>]*>", "", held)) or "complete for Regex" in held
    assert html.count("<style>") == 2
    assert "<script" not in html


def test_json_has_the_texts_and_the_costs_of_every_engine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--regex", "(red|blue)", "--prompt", "Which\ncolour? ", "--json"]) == 0
    captured = capsys.readouterr()
    data = json.loads(captured.out)
    assert "loading transformers and the demo model ..." in captured.err
    assert data["valid"] is True
    assert [engine["engine"].split()[0] for engine in data["engines"]] == PACKAGES
    for engine in data["engines"]:
        assert engine["vocabulary"] == 1280
        (case,) = engine["cases"]
        (text,) = case["texts"]
        assert (case["case"], case["language"], case["beams"]) == ("your pattern", "(red|blue)", 1)
        assert text["prompt"] == "Which\ncolour? "
        assert text["with"] in ("red", "blue")
        assert text["without"] not in ("red", "blue")
        assert text["valid"] is True
        assert case["rows"] == 1
        assert 0 < case["hook_seconds"] < case["step_seconds"]
        assert case["bare_step_seconds"] > 0
        assert 0 < case["compile_seconds"] < 10


def test_json_says_that_a_text_is_invalid(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["demo", "--regex", "(ab){30}", "--prompt", "x", "--max-new-tokens", "3", "--beams", "2", "--json"]
    assert main(arguments) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["valid"] is False
    ((case,),) = (engine["cases"] for engine in data["engines"])  # the others have no beams
    assert (case["beams"], case["rows"]) == (2, 2)
    assert [text["valid"] for text in case["texts"]] == [False]


def test_every_command_prints_json_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    commands = re.findall(r"^    ([a-z-]+)(?:  |$)", capsys.readouterr().out, re.MULTILINE)
    assert "demo" in commands
    for command in commands:
        assert main([command, "--help"]) == 0
        if command == "serve":  # which prints what the engine's server prints
            continue
        assert "--json" in capsys.readouterr().out


def test_no_text_to_continue(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--regex", "Dear [A-Z][a-z]{2,5},", "--prompt", ""]) == 0
    assert re.search(r"✓ 'Dear [A-Z][a-z]{2,5},'", capsys.readouterr().out)


def test_pattern_that_re_cannot_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--regex", r"\p{Lu}{3}", "--prompt", "x"]) == 0
    out = capsys.readouterr().out
    assert re.search("✓ '[A-Z]{3}'", out)
    assert "checked by logitkit alone" in out


def test_unfinished_text_is_invalid(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["demo", "--regex", "(ab){30}", "--prompt", "x", "--max-new-tokens", "3"]
    assert main(arguments) == 1
    out = capsys.readouterr().out
    assert re.search("✗ '(ab)+a?'", out)
    assert "not finished within 3 tokens; --max-new-tokens allows more" in out


def test_invalid_text_is_found_without_logitkit() -> None:
    case = own_case("a{3}", "x", beams=1, max_new_tokens=9)
    asked: list[tuple[str, int]] = []

    def check(text: str) -> bool:
        asked.append((text, torch.get_num_threads()))
        return False

    screen = Screen(terminal=False)
    torch.set_num_threads(2)
    try:
        assert not run_demo([TransformersDemo()], [replace(case, check=check)], Console(screen, screen, {}))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    assert asked == [("aaa", 1)]
    assert "✗ 'aaa'" in screen.getvalue()
