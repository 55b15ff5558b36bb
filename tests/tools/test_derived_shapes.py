"""Shapes of tool calls that templates may have: white space, spellings, messages, names, and reasoning."""

from __future__ import annotations

import pytest

from logitkit import ToolCall, ToolFormat, Tools
from logitkit.errors import ConfigurationError
from logitkit.tools.formats import TOOL_FORMATS
from logitkit.tools.turn import Turn
from tests.tools.turns import BARE, TOOLS, same
from tests.tools.written_templates import JSON, WrittenTemplate


@pytest.mark.parametrize(
    ("change", "whitespace"),
    [
        ("tojson(indent=4)", "bounded"),
        ("tojson(separators=(',', ':'))", "spaced"),
    ],
)
def test_json_in_any_white_space_is_derived(change: str, whitespace: str) -> None:
    form = ToolFormat.from_chat_template(JSON.template().replace("arguments | tojson", f"arguments | {change}"))
    assert (form.verified, form.whitespace, form.call_begin) == (True, whitespace, '<call>{"name": "')


@pytest.mark.parametrize("in_string", [False, True])
def test_json_with_ascii_characters_only_is_derived(in_string: bool) -> None:
    change = "tojson(ensure_ascii=True)" + " | tojson" * in_string
    form = ToolFormat.from_chat_template(JSON.template().replace("arguments | tojson", f"arguments | {change}"))
    assert (form.verified, form.strings, form.arguments) == (True, "ascii", "json_string" if in_string else "json")


@pytest.mark.parametrize("in_string", [False, True])
def test_json_with_sorted_members_is_derived(in_string: bool) -> None:
    change = "tojson(sort_keys=True)" + " | tojson" * in_string
    form = ToolFormat.from_chat_template(JSON.template().replace("arguments | tojson", f"arguments | {change}"))
    assert (form.verified, form.member_order) == (True, "sorted")


def test_json_in_a_spelling_that_constraints_do_not_allow_is_not_proved() -> None:
    change = "tojson | replace('w', '\\\\u0077')"
    with pytest.raises(ConfigurationError, match="the calls are not of the derived format from character"):
        ToolFormat.from_chat_template(JSON.template().replace("arguments | tojson", f"arguments | {change}"))


def test_a_template_that_writes_text_in_another_way_than_arguments_is_not_taken_by_its_text() -> None:
    given = "c.function.arguments"
    own = f"{{% if {given} is string %}}{{{{ {given} }}}}{{% else %}}{{{{ {given} | length }}}}{{% endif %}}"
    template = JSON.template().replace("{{ c.function.arguments | tojson }}", own)
    with pytest.raises(ConfigurationError, match="cannot be derived"):
        ToolFormat.from_chat_template(template)


def test_arguments_that_would_be_shown_as_a_dict_are_given_as_text() -> None:
    template = JSON.template().replace("{{ c.function.arguments | tojson }}", "{{ c.function.arguments }}")
    assert ToolFormat.from_chat_template(template).arguments == "json"
    only_dicts = (
        "{% if c.function.arguments is string %}{{ raise_exception('text') }}{% endif %}{{ c.function.arguments }}"
    )
    with pytest.raises(ConfigurationError, match="arguments are written as Python shows a dict"):
        ToolFormat.from_chat_template(template.replace("{{ c.function.arguments }}", only_dicts))


def test_calls_without_a_function_and_texts_as_parts_are_rendered() -> None:
    flat = JSON.template().replace("c.function.", "c.")
    assert ToolFormat.from_chat_template(flat).call_begin == '<call>{"name": "'
    parts = (
        JSON.template()
        .replace("m.content or ''", "m.content[0].text")
        .replace("{{ m.content }}", "{{ m.content[0].text }}")
    )
    assert ToolFormat.from_chat_template(parts).call_begin == '<call>{"name": "'


def test_calls_of_a_turn_that_is_not_the_last_are_rendered() -> None:
    # A turn that comes last is one to be continued: its calls are left out.
    template = JSON.template().replace("m.tool_calls", "([] if loop.last else m.tool_calls)")
    assert "[] if loop.last" in template
    form = ToolFormat.from_chat_template(template)
    assert (form.verified, form.call_begin, form.call_end) == (True, '<call>{"name": "', "}</call>")
    calls = [ToolCall("ping", {}), ToolCall("get_weather", {"city": "Bonn"})]
    assert same(Tools(TOOLS, form).parse(JSON.text(calls)).calls, calls)


def test_a_message_of_its_own_after_reasoning_is_a_part_of_the_end_of_reasoning() -> None:
    """The way of gpt-oss: each part of a turn is a message with its own head."""
    template = (
        "{% for m in messages %}<|start|>{{ m.role }}{% if m.role == 'user' %}<|message|>{{ m.content }}<|end|>{% else %}"
        "{% if m.thinking %}<|channel|>analysis<|message|>{{ m.thinking }}<|end|><|start|>assistant{% endif %}"
        "{% if m.tool_calls %} to=functions.{{ m.tool_calls[0].function.name }}<|channel|>commentary json<|message|>"
        "{{ m.tool_calls[0].function.arguments | tojson }}<|call|>"
        "{% else %}<|channel|>final<|message|>{{ m.content }}<|return|>{% endif %}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}<|start|>assistant{% endif %}"
    )
    assert ToolFormat.from_chat_template(template) is TOOL_FORMATS["harmony"]


def test_empty_reasoning_before_calls_is_not_a_part_of_them() -> None:
    template = (
        JSON.template()
        .replace("{% if m.reasoning_content %}", "")
        .replace('"\\n</think>\\n\\n" }}{% endif %}', '"\\n</think>\\n\\n" }}')
    )
    form = ToolFormat.from_chat_template(template)
    assert (form.trigger, form.reasoning_begin.strip(), form.reasoning_end) == ("<call>", "<think>", "</think>")


def test_calls_may_begin_with_the_name() -> None:
    template = (
        "{% for m in messages %}<|{{ m.role }}|>{% if m.tool_calls %}{% for c in m.tool_calls %}"
        "{% if not loop.first %}<|assistant|>{% endif %}{{ c.function.name }}\n{{ c.function.arguments | tojson }}{% endfor %}"
        "{% else %}{{ '\n' + m.content }}{% endif %}<|end|>{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    form = ToolFormat.from_chat_template(template)
    assert (form.call_begin, form.name_end, form.separator, form.text_begin) == ("", "\n", "<|assistant|>", "\n")
    tools = Tools(TOOLS, form)
    assert tools.parse("\nping").text == "ping"
    assert same(tools.parse("ping\n{}<|assistant|>ping\n{}").calls, [ToolCall("ping", {})] * 2)


@pytest.mark.parametrize("begun", ["", "Well. "])
def test_one_name_may_begin_another_where_no_text_follows_names(begun: str) -> None:
    nothing = {"type": "object", "properties": {}}
    tools = Tools([{"name": name, "parameters": nothing} for name in ("get", "get_time", "get_times")], BARE)
    for name in ("get", "get_time", "get_times"):
        text = begun + tools.write([ToolCall(name, {})])
        stream = tools.stream()
        for character in text:
            stream.feed(character)
        turn = stream.finish()[1]
        assert same(turn.calls, [ToolCall(name, {})])
        assert (turn.text, turn.outside_at) == (begun, None)
    assert tools.parse("<tool_call>get_tim</tool_call>").problem == "a call does not begin as the format says"


def test_a_tag_that_holds_the_name_starts_calls_anywhere() -> None:
    template = JSON.template().replace('<call>{\\"name\\": \\"', "<function=").replace('\\", \\"arguments\\": ', ">")
    template = template.replace("}</call>", "</function>")
    form = ToolFormat.from_chat_template(template)
    assert (form.trigger, form.call_begin, form.name_end, form.call_end) == (
        "<function=",
        "<function=",
        ">",
        "</function>",
    )
    assert same(Tools(TOOLS, form).parse("Well: <function=ping>{}</function>").calls, [ToolCall("ping", {})])


def test_calls_in_messages_of_their_own_are_one_in_a_turn() -> None:
    written = WrittenTemplate(
        ("", "<call>", "", "<|end|>\n<|assistant|>", ""),
        ('{"name": "', '", "arguments": ', "}"),
        *(None, "json", "", "<|assistant|>", "<|end|>\n", None, True, False),
    )
    assert ToolFormat.from_chat_template(written.template()).separator is None


def test_three_calls_that_are_not_three_times_one_are_shown() -> None:
    template = JSON.template().replace("{{ c.function.name }}", "{{ c.function.name }}{{ 'x' * loop.index0 }}")
    with pytest.raises(ConfigurationError, match="three calls are not written as one call is"):
        ToolFormat.from_chat_template(template)


def test_templates_may_ask_for_the_tools_by_another_name_and_write_what_a_filter_yields() -> None:
    head = "{{ functions | length }}{{ datetime }}{{ tools | map(attribute='function.name') | tojson }}"
    assert ToolFormat.from_chat_template(head + JSON.template()).verified
    nested = "{{ tools[0].function.parameters.properties.pobject.additionalProperties.type | upper }}"
    assert ToolFormat.from_chat_template(
        "{% if tools[0].function.name == 'zq_alpha' %}" + nested + "{% endif %}" + JSON.template()
    ).verified


SHOWN = "{{ v if v is string else v | string }}"


@pytest.mark.parametrize(
    ("value", "literals", "strings"),
    [
        (SHOWN, "python", "python"),
        ("{{ v if v is string else v | tojson(ensure_ascii=True) }}", "json", "ascii"),
        (
            "{{ v | tojson(ensure_ascii=True) if v is mapping or (v is iterable and v is not string) else v }}",
            "python",
            "ascii",
        ),
    ],
)
def test_strings_inside_of_values_between_tags_are_derived(value: str, literals: str, strings: str) -> None:
    member = "{% for k, v in c.function.arguments.items() %}<arg={{ k }}>" + value + "</arg>\n{% endfor %}"
    template = JSON.template().replace("{{ c.function.arguments | tojson }}", member)
    form = ToolFormat.from_chat_template(template)
    assert (form.arguments, form.literals, form.strings) == ("xml", literals, strings)


def test_values_as_python_shows_them_are_derived_as_keyword_arguments() -> None:
    around, head, member = ("[", "", ")", ", ", "]"), ("", "(", ""), ("", "=", "")
    raw = WrittenTemplate(around, head, member, "json", ", ", "A:", "</s>", None, True, False)
    # A list shows its items as Python does.
    shown = raw.template().replace("{{ v if v is string else v | tojson }}", "{{ ([v] | string)[1:-1] }}")
    form = ToolFormat.from_chat_template(shown)
    assert (form.arguments, form.literals, form.strings) == ("python", "python", "python")
    tools = Tools(TOOLS, form)
    text = "[save(note={'a': [None, \"it's\"]}, tags=[], title='\"\\''), ping()]"
    calls = [ToolCall("save", {"note": {"a": [None, "it's"]}, "tags": [], "title": "\"'"}), ToolCall("ping", {})]
    for turn in (tools.parse(text), streamed(tools, text)):
        assert same(turn.calls, calls)
        assert (turn.problem, turn.outside_at, turn.complete) == (None, None, True)
    assert tools.write(calls) == text


def test_values_that_all_stand_between_quotes_are_derived() -> None:
    """The way of templates that write `city="Bonn", days="2"`."""
    around, head, member = ("[", "", ")", ", ", "]"), ("", "(", ""), ("", '="', '"')
    quoted = WrittenTemplate(around, head, member, "json", ", ", "A:", "</s>", None, True, False)
    template = quoted.template().replace("{{ v if v is string else v | tojson }}", SHOWN)
    form = ToolFormat.from_chat_template(template)
    assert (form.parameter_begin, form.parameter_end, form.parameter_separator) == ('{name}="', '"', ", ")
    tools = Tools(TOOLS, form)
    calls = [ToolCall("ping", {}), ToolCall("save", {"note": {}, "tags": ["it's"]}), ToolCall("ping", {})]
    text = tools.write(calls)
    assert text == '[ping(), save(note="{}", tags="["it\'s"]"), ping()]'
    for turn in (tools.parse(text), streamed(tools, text)):
        assert same(turn.calls, calls)
        assert (turn.problem, turn.outside_at, turn.complete) == (None, None, True)


@pytest.mark.parametrize("arguments", ["tags", "json"])
def test_a_name_that_stands_twice_is_derived(arguments: str) -> None:
    """The recipient of a message is the tool, and so is the name in it."""
    member = '<arg name="{{ k }}">{{ v if v is string else v | tojson }}</arg>\n'
    members = f"{{% for k, v in c.function.arguments.items() %}}{member}{{% endfor %}}"
    inside = members if arguments == "tags" else "{{ c.function.arguments | tojson }}"
    template = (
        "{% for m in messages %}{% if m.role == 'user' %}<|start|>user<|message|>{{ m.content }}<|eot|>{% else %}"
        "{% if m.reasoning_content %}<|start|>assistant to=self<|message|>{{ m.reasoning_content }}<|eom|>{% endif %}"
        "{% for c in m.tool_calls or [] %}<|start|>assistant to={{ c.function.name }}<|message|><calls>"
        '<call name="{{ c.function.name }}">\n' + inside + "</call></calls>"
        "{{ '<|eot|>' if loop.last else '<|eom|>' }}{% else %}"
        "<|start|>assistant to=user<|message|>{{ m.content }}<|eot|>{% endfor %}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}<|start|>assistant{% endif %}"
    )
    form = ToolFormat.from_chat_template(template)
    assert (form.call_begin, form.name_end, form.name_again) == (" to=", '<|message|><calls><call name="', '">\n')
    assert (form.separator, form.text_begin) == ("<|eom|><|start|>assistant", " to=user<|message|>")
    assert (form.reasoning_begin, form.reasoning_end) == (" to=self<|message|>", "<|eom|><|start|>assistant")
    tools, thinking = Tools(TOOLS, form), Tools(TOOLS, form, reasoning=True)
    for calls in ([], [ToolCall("ping", {})], [ToolCall("ping", {}), ToolCall("get_weather", {"city": "Bonn"})]):
        text = tools.write(calls) if calls else form.text_begin + "Hello."
        thought = form.reasoning_begin + "Hm." + str(form.reasoning_end)
        for given, whole in ((tools, text), (thinking, thought + text)):
            for turn in (given.parse(whole), streamed(given, whole)):
                assert same(turn.calls, calls)
                assert (turn.text, turn.problem, turn.outside_at) == ("" if calls else "Hello.", None, None)
    other = tools.write([ToolCall("ping", {})]).replace('name="ping"', 'name="save"')
    assert tools.parse(other).outside_at is not None
    assert tools.parse(other).calls == ()


def streamed(tools: Tools, text: str) -> Turn:
    stream = tools.stream()
    for character in text:
        stream.feed(character)
    return stream.finish()[1]
