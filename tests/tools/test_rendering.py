"""Templates of strangers: they run in a process with limits, and nothing that they do reaches this one."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from logitkit import ToolFormat
from logitkit.errors import ConfigurationError
from logitkit.tools.derivation import rendering
from logitkit.tools.derivation.rendering import Rendered, RenderLimits, TemplateRenderer


def render(template: str, limits: RenderLimits | None = None) -> Rendered:
    with TemplateRenderer(template, limits) as renderer:
        return renderer.render([{"messages": [{"content": "x"}]}])[0]


def test_a_template_is_rendered_as_transformers_does() -> None:
    inside = "{{- m.content | tojson }}{% generation %}é{% endgeneration %}{% break %}"
    template = f"{{% for m in messages %}}\n    {inside}\n{{% endfor %}}"
    assert render(template) == Rendered('"x"é')
    assert render("{{ strftime_now('%Y') }}") == Rendered("2025")
    assert render("{{ '<é>' | tojson }}{{ {'a': [1]} | tojson(indent=1) }}").text == '"<é>"{\n "a": [\n  1\n ]\n}'


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{{ messages.extend([5]) }}",
        "{{ messages.append.__self__.clear() }}",
        "{{ messages.pop() }}",
        "{{ messages[0].append(5) }}",
        "{{ messages[0].update({'a': 1}) }}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}",
        "{% extends 'x' %}",
        "{{ 'a' * 10**10 }}",
        "{% for i in range(10**9) %}{% endfor %}",
        "{% for i in range(99999) %}{{ 'a' * 999 }}{% endfor %}",
        "{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}",
        "{{ lipsum.__globals__ }}",
        "{{ ('%c' % 65).format.__self__.__class__ }}",
        "{{ '{0.__class__.__init__.__globals__}'.format(messages) }}",
    ],
)
def test_what_a_template_may_not_do_is_an_error_of_its_rendering(template: str) -> None:
    found = render(template)
    assert found.text is None or "__" not in found.text
    assert found.text is None or found.text == ""
    assert found.error or found.text == ""


def test_a_template_may_add_to_a_list_of_its_own_rendering() -> None:
    template = "{% set l = [] %}{% for m in messages %}{% set _ = l.append(m.content) %}{% endfor %}{{ l }}"
    with TemplateRenderer(template + "{% set _ = messages.append(5) %}{{ messages | length }}") as renderer:
        for _ in range(2):
            assert renderer.render([{"messages": [{"content": "x"}]}] * 2) == [Rendered("['x']2")] * 2
    grown = "{% set l = [] %}{% set big = 'a' * 10000000 %}{% for i in range(99) %}{% set _ = l.append(big ~ i) %}{% endfor %}"
    assert render(grown).error == "the template takes too much memory"
    itself = "{% set l = [] %}{% set _ = l.append(l) %}"
    assert render(itself + "{{ l }}").text == "[[...]]"
    assert "Circular" in render(itself + "{{ l | tojson }}").error


@pytest.mark.skipif(os.name == "nt", reason="limits of CPU time are those of POSIX")
def test_a_template_that_computes_for_ever_is_stopped() -> None:
    endless = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
    begin = time.monotonic()
    with pytest.raises(ConfigurationError, match="1 seconds of CPU time"):
        render(endless, RenderLimits(cpu_seconds=1))
    with pytest.raises(ConfigurationError, match=r"takes more than 0\.5 seconds"):
        render(endless, RenderLimits(seconds=0.5))
    assert time.monotonic() - begin < 60


def test_memory_and_output_are_limited() -> None:
    grown = "{% set ns = namespace(t='a' * 1000000) %}{% for i in range(20) %}{% set ns.t = ns.t + ns.t %}{% endfor %}{{ ns.t }}"
    assert render(grown).error == "the template takes too much memory"
    with pytest.raises(ConfigurationError, match="renders more than 1000 bytes"):
        render("{{ 'a' * 5000 }}", RenderLimits(output=1000))
    assert render("{{ 'a' * 5000 }}", RenderLimits(characters=1000)).error == "the text is longer than 1000 characters"
    with pytest.raises(ConfigurationError, match="has 600000 characters; allowed are 500000"):
        render("a" * 600_000)


def test_without_jinja2_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_child(monkeypatch, tmp_path, "from jinja2 import", "from jinja2_is_not_here import")
    with pytest.raises(ConfigurationError, match="pip install jinja2"):
        ToolFormat.from_chat_template("without jinja2 {{ messages }}")


def test_no_process_and_no_folder_is_left() -> None:
    with TemplateRenderer("{{ messages }}") as renderer:
        process, folder = renderer._process, renderer._folder.name
        assert process.poll() is None
    assert process.poll() is not None
    assert not os.path.exists(folder)  # noqa: PTH110
    with pytest.raises(ConfigurationError, match="cannot be read"):
        TemplateRenderer("{{ x")


def test_the_environment_of_the_user_is_not_that_of_the_template(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}
    popen = subprocess.Popen

    def recorded(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        seen.update(options, command=command)
        return popen(command, **options)

    monkeypatch.setattr(subprocess, "Popen", recorded)
    assert render("x").text == "x"
    assert seen["env"] == {}
    assert "-I" in seen["command"]


@pytest.mark.skipif(os.name == "nt", reason="limits of files are those of POSIX")
def test_the_process_opens_no_files_and_no_pipes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_child(
        monkeypatch,
        tmp_path,
        'made.filters["tojson"] = tojson',
        'made.filters["tojson"], made.globals["sys"] = tojson, sys',
    )
    # The template gets the modules, as if it had escaped from the sandbox.
    found = render("{{ sys.modules['builtins'].open('/proc/self/environ').read() }}")
    assert found.text is None
    assert "Too many open files" in found.error
    found = render("{{ sys.modules['os'].pipe() }}")
    assert "Too many open files" in found.error


@pytest.mark.parametrize(
    "said",
    ["[5]", "[]", "{}", "null", "[{}, {}]", '[{"text": 5}]', "[[[", "[" * 100_000, "[{}]\n[{}]", '[{"text": "x"}'],
    ids=ascii,
)
def test_whatever_the_process_says_is_a_rendering_or_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str
) -> None:
    use_child(monkeypatch, tmp_path, "_say(found)", f"sys.stdout.write({said!r} + '\\n'); sys.stdout.flush()")
    try:
        assert render("x").text is None
    except ConfigurationError:
        return


@pytest.mark.parametrize("platform", [sys.platform, "win32"])
def test_a_process_that_does_not_read_or_answer_is_stopped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, platform: str
) -> None:
    use_child(
        monkeypatch,
        tmp_path,
        "    for line in sys.stdin:",
        "    __import__('time').sleep(300)\n    for line in sys.stdin:",
    )
    # Windows has no other limit.
    monkeypatch.setattr(rendering, "sys", SimpleNamespace(platform=platform, executable=sys.executable))
    for size in (1, 2**20):
        begin = time.monotonic()
        with (
            TemplateRenderer("x", RenderLimits(seconds=2)) as renderer,
            pytest.raises(ConfigurationError, match="takes more than 2 seconds"),
        ):
            renderer.render([{"messages": "a" * size}])
        assert time.monotonic() - begin < 60


def test_a_process_that_is_killed_is_an_error() -> None:
    with TemplateRenderer("x") as renderer:
        renderer._process.kill()
        renderer._process.wait()
        with pytest.raises(ConfigurationError, match="stopped"):
            renderer.render([{}])
        assert renderer.is_stopped


def use_child(monkeypatch: pytest.MonkeyPatch, folder: Path, old: str, new: str) -> None:
    """Run a child process of which a line is replaced."""
    text = rendering._CHILD.read_text("utf-8")
    assert text.count(old) == 1
    file = folder / "child.py"
    file.write_text(text.replace(old, new), "utf-8")
    monkeypatch.setattr(rendering, "_CHILD", file)
