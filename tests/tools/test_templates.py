"""Each format against what writes it elsewhere; `chat_templates` compares with the templates in a folder."""

from __future__ import annotations

from logitkit import Tools
from logitkit.tools.formats import TOOL_FORMATS, detect
from tests.tools.chat_templates import CALLS, KNOWN, rendered
from tests.tools.turns import EOS, TOOLS, ids_of, same, vocabulary


def test_the_format_of_mistral_is_that_of_the_templates_of_mistral_common() -> None:
    from mistral_common.integrations.chat_templates.template_generator import TemplateConfig, build_chat_template
    from mistral_common.tokens.tokenizers.base import TokenizerVersion

    template = build_chat_template(TemplateConfig(version=TokenizerVersion.v13))
    form = detect(template)
    assert form.name == "mistral"
    tools = Tools(TOOLS, form, choice="required")
    for calls in ([CALLS[0]], CALLS):
        turn = tools.parse([*ids_of(rendered(template, calls, "</s>", as_text=False), form), EOS], vocabulary(form))
        assert same(turn.calls, calls)
        assert (turn.outside_at, turn.problem, turn.text) == (None, None, "")


def test_formats_that_could_not_be_checked_say_so() -> None:
    assert [form.name for form in TOOL_FORMATS.values() if not form.verified] == ["json"]
    assert {form for form, _ in KNOWN.values()} == set(TOOL_FORMATS) - {"json"}
