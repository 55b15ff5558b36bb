"""Templates of which no format is derived: errors, limits, formats that are not proved, and results that are kept."""

from __future__ import annotations

import random
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from logitkit import ToolCall, ToolFormat, Tools
from logitkit.errors import ConfigurationError
from logitkit.tools.derivation import from_template, proof, rendering, turn_parts
from logitkit.tools.derivation.derive import derived
from logitkit.tools.derivation.probes import FOLLOWING, ProbeCall
from logitkit.tools.derivation.rendering import TemplateRenderer
from logitkit.tools.formats import TOOL_FORMATS
from tests.tools.turns import TOOLS
from tests.tools.written_templates import JSON, WrittenTemplate


def test_a_result_is_kept_by_the_whole_template(monkeypatch: pytest.MonkeyPatch) -> None:
    form = ToolFormat.from_chat_template(JSON.template())

    def never(*given: object) -> None:
        raise AssertionError

    monkeypatch.setattr(from_template, "derived", never)
    assert ToolFormat.from_chat_template(JSON.template()) is form
    with pytest.raises(AssertionError):
        ToolFormat.from_chat_template(JSON.template() + " ")


def test_a_limit_that_was_reached_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    template = JSON.template() + "{# slow #}"
    monkeypatch.setattr(rendering.RenderLimits.__init__, "__defaults__", (5, 20.0, 512 * 2**20, 200_000, 64, 500_000))
    with pytest.raises(ConfigurationError, match="renders more than 64 bytes"):
        ToolFormat.from_chat_template(template)
    monkeypatch.undo()
    assert ToolFormat.from_chat_template(template).verified


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ messages[0].content }}{% if messages[1] %}{{ messages[1].content }}{% endif %}", "does not write calls"),
        ("{{ raise_exception('no tools') }}", r"could not be rendered \(TemplateError: no tools\)"),
        (JSON.template().replace("| tojson }}", "| tojson | length }}"), "written neither as it is nor as in JSON"),
        (
            JSON.template().replace("{{ c.function.name }}", "{{ c.function.name }}{{ loop.index * 7 }}"),
            "three calls are not written as",
        ),
        ("{{ messages", "cannot be read"),
    ],
)
def test_what_cannot_be_derived_is_named_and_shown(template: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        ToolFormat.from_chat_template(template)


def test_an_error_shows_the_renderings() -> None:
    around, head, member = ("[", "", ")", ", ", "]"), ("", "(", ""), ("", "=", "")
    raw = WrittenTemplate(around, head, member, "json", ", ", "A:", "</s>", None, True, False)
    with pytest.raises(ConfigurationError, match="strings stand without quotes or tags") as raised:
        ToolFormat.from_chat_template(raw.template())
    assert str(raised.value).count("zq_alpha(pxa=") == 2


def test_an_error_shows_two_renderings_of_strings_that_are_not_explained() -> None:
    escaped = JSON.template().replace("| tojson }}", "| tojson | e }}")
    with pytest.raises(ConfigurationError, match="written neither as it is nor as in JSON") as raised:
        ToolFormat.from_chat_template(escaped)
    assert str(raised.value).count("{&#34;pxa&#34;: ") == 2
    assert str(raised.value).count("&#34;pyb&#34;: ") == 1


def test_an_error_of_the_proof_shows_what_the_derived_format_writes() -> None:
    # With an argument named `limit`, which no probe has, there is a space more.
    other = JSON.template().replace(
        "{{ c.function.name }}", "{{ ' ' if 'limit' in c.function.arguments }}{{ c.function.name }}"
    )
    with pytest.raises(ConfigurationError, match="are not of the derived format from character") as raised:
        ToolFormat.from_chat_template(other)
    rendered, written = str(raised.value).partition("The template rendered\n")[2].split("\nThe derived format writes\n")
    rendered, written = rendered.strip(), written.partition("\nGive a ToolFormat")[0].strip()
    assert rendered.replace('"name": " ', '"name": "') == written != rendered


def with_text_after(calls: str) -> str:
    """A template that ends turns with calls with another text than all others."""
    template = (
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% for c in CALLS %}"
        "<call>{{ c.function.name }} {{ c.function.arguments | tojson }}</call>{% endfor %}"
        "{{ 'OWN' if m.tool_calls else '<|end|>' }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    return template.replace("CALLS", calls)


def test_no_question_follows_calls_that_are_written_in_the_last_turn() -> None:
    # With one, both renderings would share only its text, and `OWN` would be a part of the calls.
    with pytest.raises(ConfigurationError, match="it is not clear what ends a turn with calls") as raised:
        ToolFormat.from_chat_template(with_text_after("m.tool_calls or []"))
    assert FOLLOWING not in str(raised.value)


def test_what_ends_a_turn_before_another_question_is_not_a_part_of_the_calls() -> None:
    template = with_text_after("([] if loop.last else m.tool_calls or [])")
    for end in ("OWN", "<|own|>"):
        with pytest.raises(
            ConfigurationError, match="before another question does not end as an answer does"
        ) as raised:
            ToolFormat.from_chat_template(template.replace("OWN", end))
        assert f"</call>{end}<|user|>{FOLLOWING}<|end|>" in str(raised.value)
    form = ToolFormat.from_chat_template(template.replace("OWN", "<|end|>"))
    assert (form.verified, form.call_end, form.calls_end) == (True, "</call>", "")


@pytest.mark.parametrize("given", [None, 5, SimpleNamespace(), SimpleNamespace(chat_template=None)])
def test_what_is_not_a_template_is_refused(given: object) -> None:
    with pytest.raises(ConfigurationError, match="has no text as `chat_template`"):
        ToolFormat.from_chat_template(given)


@pytest.mark.parametrize(
    "change",
    [
        {"call_end": "}</cal>"},
        {"separator": " "},
        {"name_end": '", "arguments":  '},
        {"call_begin": '<call>{"name":"'},
        {"arguments": "python", "parameter_begin": "{name}="},
        {"calls_end": "!"},
    ],
)
def test_a_format_that_is_wrong_is_not_proved(change: dict[str, Any]) -> None:
    special = {"bos_token": "<s>", "eos_token": "</s>"}
    with TemplateRenderer(JSON.template()) as renderer:
        found = derived(renderer, special, frozenset())
        proof.proved(renderer, found, special)
        wrong = replace(found, form=replace(found.form, **change))
        with pytest.raises(ConfigurationError, match=r"are not of the derived format|would be read as"):
            proof.proved(renderer, wrong, special)


def test_a_marker_that_does_not_matter_is_not_proved() -> None:
    """A format in which a changed marker is still accepted has to be found."""
    special = {"bos_token": "<s>", "eos_token": "</s>"}
    with TemplateRenderer(JSON.template()) as renderer:
        found = derived(renderer, special, frozenset())
    also = (('<cxll>{"name": "', found.form.name_end),)
    judge, draw = proof._Judge(replace(found.form, also=also, trigger=None)), random.Random(1)
    calls = [ProbeCall("ping-2", {})]
    text = JSON.text([ToolCall("ping-2", {})])
    judge.accepts(text, calls)
    with pytest.raises(ConfigurationError, match="the same calls are still accepted"):
        judge_often(judge, text, calls, draw)


def judge_often(judge: proof._Judge, text: str, calls: list[ProbeCall], draw: random.Random) -> None:
    for _ in range(2000):
        judge.refuses_changed(text, calls, draw)


HOSTILE = {
    # Text, of which Python reads no number.
    "numbers": JSON.template().replace(
        "{{ c.function.name }}", "{{ '9' * 5000 }}{{ loop.index0 }}{{ c.function.name }}"
    ),
    "nesting": (
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls or [] %}<call>{{ c.function.name }}"
        "{% for k, v in c.function.arguments.items() %}<{{ k }}>{% if v is string %}{{ v }}"
        "{% elif v is mapping %}{{ v | tojson }}{% elif v is iterable %}{{ '[' * 5000 }}{% else %}{{ v | tojson }}{% endif %}</>"
        "{% endfor %}</call>{% endfor %}<end>"
        "{% endfor %}"
    ),
    "length": JSON.template().replace("{{ c.function.name }}", "{{ 'ab ' * 30000 }}{{ c.function.name }}"),
    "surrogates": JSON.template().replace("{{ c.function.name }}", '{{ "\\ud800" }}{{ c.function.name }}'),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_template_that_attacks_what_compares_renderings_is_an_error(name: str) -> None:
    with pytest.raises(ConfigurationError):
        ToolFormat.from_chat_template(HOSTILE[name])


def test_markers_of_which_no_constraint_is_compiled_are_an_error_that_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_parts, "LONGEST_REPLY", 200_000)
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="cannot be proved: "):
            ToolFormat.from_chat_template(HOSTILE["length"] + "{# proved #}")
        monkeypatch.setattr(from_template, "derived", None)


def test_auto_falls_back_where_no_folder_can_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(**given: object) -> None:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(tempfile, "TemporaryDirectory", refused)
    template = """{{ '<tool_call>' }} {{ '"arguments": ' }}{# no folder #}"""
    assert Tools(TOOLS, "auto", chat_template=template).form is TOOL_FORMATS["hermes"]


def test_threads_that_need_one_template_derive_its_format_once(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[object] = []
    popen = subprocess.Popen

    def counted(*given: Any, **options: Any) -> Any:
        started.append(given)
        return popen(*given, **options)

    monkeypatch.setattr(subprocess, "Popen", counted)
    template = JSON.template() + "{# threads #}"
    with ThreadPoolExecutor(8) as pool:
        forms = list(pool.map(lambda _: ToolFormat.from_chat_template(template), range(8)))
    assert len(started) == 1
    assert all(form is forms[0] for form in forms)
