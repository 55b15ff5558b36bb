"""How explanations show themselves: as text, in rich, and as data, whatever bytes are in them."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from logitkit.explaining.explanation import Effect, Explanation, Refusal, Source, Step
from logitkit.explaining.token_texts import width
from tests.explaining.explanations import HOSTILE, MONTH, PATTERN, TEXTS, Parsed, refused


def test_the_text_has_a_verdict_a_table_and_the_reason_with_carets() -> None:
    explanation = refused(b"at", b" 20", b"24-", sources=(MONTH,), open_brackets="{[", completion=(1, 2))
    lines = str(explanation).splitlines()
    assert lines[0] == "Regex refuses token 3 of 5."
    assert lines[2].split() == ["#", "token", "legal"]
    assert [line.split()[0] for line in lines[3:8]] == list("01234")
    assert lines[6].endswith("illegal")
    reason = lines[9:]
    assert reason[0] == "Token 3, 'x', is illegal for Regex: expected digit at byte 8."
    assert reason[1][reason[2].index("^")] == "x"
    begin, end = reason[5].index("^"), reason[5].rindex("^") + 1
    assert reason[4][begin:end] == "(0[1-9]|1[0-2])"
    assert "{[" in reason[6]
    assert "'01\"'" in reason[6]
    assert len(reason) == 7


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        ("budget", "fits the token limit"),
        ("vocabulary", "no tokens to complete"),
        ("ban", "bans the token; expected digit"),
        ("end", "incomplete; expected digit"),
        ("language", "expected digit"),
    ],
)
def test_every_cause_has_words_of_its_own(cause: str, said: str) -> None:
    explanation = refused(b"1", cause=cause, byte=None)
    (line,) = [line for line in str(explanation).splitlines() if line.startswith("Token 1")]
    assert said in line


def test_a_source_in_a_schema_names_its_pointer_the_value_and_the_tool() -> None:
    source = Source("schema", "maximum: 99", pointer="/properties/age/maximum", path="/age", tool="save")
    text = str(refused(b"1", sources=(source,)))
    assert "The schema of the tool save says maximum: 99, at /properties/age/maximum, for the value at /age." in text


@pytest.mark.parametrize(
    ("complete", "completion", "said"),
    [
        (True, (), ["legal and complete"]),
        (False, (1, 2), ["not complete", "'01\"'"]),
        (False, (77,), ["not complete", "the token ids [77]"]),
        (False, None, ["not complete"]),
    ],
)
def test_a_legal_output_says_whether_it_is_complete(
    complete: bool, completion: tuple[int, ...] | None, said: list[str]
) -> None:
    steps = (Step(1, b"0", "", legal=1),)
    text = str(Explanation("Regex", steps, complete=complete, completion=completion, token_bytes=TEXTS))
    assert all(words in text for words in said)
    assert "forced" in text
    assert str(Explanation("Regex", (), complete=True)) == "The output is legal and complete for Regex."


def test_columns_appear_only_if_something_is_known() -> None:
    effects = (Effect("Regex", 12), Effect("Temperature", 0, -0.5), Effect("TopK", 0))
    step = Step(1, b"0", "", legal=2, effects=effects, probability=0.25, removed=0.5, wanted=3)
    head, row = str(Explanation("Chain", (step,), complete=True, token_bytes=TEXTS)).splitlines()[2:4]
    assert head.split("  ")[-4:] == ["probability", "removed", "wanted", "changed by"]
    assert row.split()[2:6] == ["2", "25%", "50%", "'</s>'"]
    assert row.endswith("Regex bans 12, Temperature -0.5")
    unknown = Step(1, b"0", "", legal=2, wanted=9, probability=1e-9)
    assert "<0.01%  9" in str(Explanation("Regex", (unknown,), complete=True))


def test_a_long_output_keeps_its_ends_and_what_is_near_the_refusal() -> None:
    explanation = refused(*[b"a"] * 500, after=500)
    lines = str(explanation).splitlines()
    assert len(lines) < 100
    assert [line.strip() for line in lines].count("...") == 2
    assert any(line.endswith("illegal") for line in lines)
    assert len(Parsed(explanation.to_html()).of("token")) > 1000


@given(st.binary(min_size=1, max_size=30), st.binary(max_size=10), st.data())
def test_a_caret_stands_under_the_character_of_the_byte(text: bytes, more: bytes, data: st.DataObject) -> None:
    """Before the caret stands what Python decodes of the bytes before it, less a character that is cut in two."""
    at = data.draw(st.integers(0, len(text) - 1))
    steps = (
        Step(1, text, "", 1, refusal=Refusal("Regex", "language", byte=at)),
        Step(2, more, "", 1, after_refusal=True),
    )
    lines = str(Explanation("Regex", steps, complete=False)).splitlines()
    # Two carets stand under a wide character.
    caret = max(number for number, line in enumerate(lines) if line.strip() in ("^", "^^"))
    shown, place = lines[caret - 1].removeprefix("    "), lines[caret].index("^") - 4
    if not shown.startswith("..."):
        whole = (text + more).decode("utf-8", "backslashreplace")
        escaped = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in whole)
        assert escaped.startswith(shown.removesuffix("..."))
        cuts = [text[: at - back].decode("utf-8", "backslashreplace") for back in range(4) if back <= at]
        befores = ["".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut) for cut in cuts]
        assert place in map(width, befores)


def test_rich_shows_the_same() -> None:
    explanation = refused(b"at", b" 20", b"[red]24-", sources=(MONTH,))
    out = io.StringIO()
    Console(file=out, width=100, color_system=None).print(explanation)
    shown = [line.rstrip() for line in out.getvalue().splitlines()]
    reason = str(explanation).split("\n\n")[2].splitlines()
    assert shown[0] == "Regex refuses token 3 of 5."
    assert [line for line in shown if line][-len(reason) :] == [line.rstrip() for line in reason]
    assert "'[red]24-'" in out.getvalue()
    colour = io.StringIO()
    Console(file=colour, width=100, force_terminal=True, color_system="standard").print(explanation)
    assert "\x1b[1;31m" in colour.getvalue()


def test_without_rich_it_prints_plainly() -> None:
    code = (
        "import sys; sys.modules['rich'] = None\n"
        "from logitkit.explaining.explanation import Explanation, Step\n"
        "print(Explanation('Regex', (Step(1, b'0', '', 1),), complete=True)); Explanation('R', (), True).to_html()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "forced" in done.stdout


def test_as_data_it_is_json() -> None:
    explanation = refused(*HOSTILE, sources=(MONTH,), completion=(1,))
    data = json.loads(json.dumps(explanation.to_dict()))
    assert data["token_bytes"] == {"1": "0", "2": '1"', "3": "</s>"}
    assert data["steps"][5]["refusal"]["sources"][0]["span"] == [12, len(PATTERN)]
    assert data["steps"][5]["refusal"]["reason"] == str(explanation).split("\n\n")[2]
