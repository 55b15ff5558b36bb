"""Lists that a new processor must join, and that nothing else compares: each is a step of a recipe in CONTRIBUTING.md."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from benchmarks.bench_sampling import CASES
from logitkit.configuration import KINDS
from logitkit.protocol.kind import Kind, Role
from logitkit.tools.formats import TOOL_FORMATS
from logitkit_adapters.sessions.sampling_options import PROCESSORS
from tests.processors.test_sampling import NEUTRAL, SHARP
from tests.tools.chat_templates import KNOWN

DOCS = Path(__file__).parents[2] / "docs"
SAMPLERS = [kind for kind in KINDS.values() if kind.made and kind.role in (Role.TEMPERATURE, Role.TRUNCATION)]


# Users write these where the class has another name.
WRITTEN = {"Then": "`then(", "ToolsConstraint": "`Tools`"}


@pytest.mark.parametrize("name", KINDS)
def test_the_page_of_processors_has_every_class(name: str) -> None:
    made = KINDS[name].made
    if made is not None:
        assert WRITTEN.get(made.__name__, f"`{made.__name__}`") in (DOCS / "processors.md").read_text("utf-8")


@pytest.mark.parametrize("kind", SAMPLERS, ids=lambda kind: kind.name)
def test_every_sampler_is_in_the_shared_tests_and_the_benchmark(kind: Kind) -> None:
    made = kind.made
    assert made in {type(processor) for processor in NEUTRAL}
    assert made in {type(processor) for processor in SHARP}
    assert made in {type(case[0]) for case in CASES.values()}


@pytest.mark.parametrize("name", TOOL_FORMATS)
def test_every_tool_format_is_on_its_page_and_is_compared_with_a_template(name: str) -> None:
    form = TOOL_FORMATS[name]
    assert f'`"{name}"`' in (DOCS / "tool-calling.md").read_text("utf-8")
    assert not form.verified or name in {known for known, _ in KNOWN.values()}


def test_options_of_engines_that_are_processors_here_are_refused_with_them() -> None:
    import llama_cpp
    import transformers
    from mlx_lm.sample_utils import make_logits_processors, make_sampler

    options = {*transformers.GenerationConfig().to_dict()}
    for function in (llama_cpp.Llama.sample, llama_cpp.Llama.create_completion, make_sampler, make_logits_processors):
        options |= {*inspect.signature(function).parameters}
    assert len(options) > 100
    # A grammar and a stop are arguments of a session, or a processor with a vocabulary.
    assert options & {*KINDS} <= {*PROCESSORS} | {"grammar"}
