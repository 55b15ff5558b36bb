"""How many calls a turn has, none twice, and some only after others: the constraint and the reader against plain rules."""

from __future__ import annotations

import itertools
import json
import time
from typing import Any

import pytest
import torch

import logitkit as lk
from logitkit import ToolCall, ToolFormat, Tools
from logitkit.errors import ConfigurationError, PatternTooLarge
from logitkit.tools.turn import CallDone, CallStarted
from tests.examples import of_all
from tests.tools.toy_calls import CASES, FORMS, TOOLS, Toy, is_allowed
from tests.tools.turns import EOS, FORMATS, ids_of, tools_of, vocabulary
from tests.tools.turns import TOOLS as REAL_TOOLS

SEVERAL = [name for name, form in FORMATS.items() if form.separator is not None]
CALLS = {
    "ping": ToolCall("ping", {}),
    "get_weather": ToolCall("get_weather", {"city": "B", "days": 2}),
    "save": ToolCall("save", {"note": {"a": [1, {}]}, "tags": ["x", "y"], "title": None}),
}
# The names of the toy tools stand for these.
REAL = {"a": "ping", "ab": "save", "b.c": "get_weather"}


def real(value: Any) -> Any:
    """A case with the names of real tools."""
    if isinstance(value, dict):
        return {real(name): real(inside) for name, inside in value.items()}
    return (
        [*map(real, value)] if isinstance(value, list) else REAL.get(value, value) if isinstance(value, str) else value
    )


def sequences(most: int) -> list[tuple[str, ...]]:
    return [names for count in range(1, most + 1) for names in itertools.product(CALLS, repeat=count)]


@pytest.mark.parametrize(
    ("name", "case"), of_all([(name, number) for name in FORMS for number in range(len(CASES))], one_in=8)
)
def test_masks_are_those_of_brute_force_in_all_tokenizations(name: str, case: int) -> None:
    assert [*Toy(FORMS[name], CASES[case], case).wrong_masks()] == []


@pytest.mark.parametrize("name", of_all(FORMS, one_in=5))
def test_without_tokens_for_some_bytes_nothing_else_is_allowed(name: str) -> None:
    for seed, case in enumerate(CASES):
        # Some tokens that could be completed may be illegal, as after any object.
        assert not [
            allowed - right for _, allowed, right in Toy(FORMS[name], case, seed, True).wrong_masks() if allowed - right
        ]


@pytest.mark.parametrize(
    ("name", "choice"), [*((name, "required") for name in SEVERAL), *((name, "auto") for name in SEVERAL[::3])]
)
def test_the_constraint_and_the_reader_agree_with_plain_rules(name: str, choice: str) -> None:
    form, plain = FORMATS[name], tools_of(name)
    for case in of_all(map(real, CASES), one_in=4):
        tools = Tools(REAL_TOOLS, form, choice=choice, **case)
        for names in of_all([*sequences(3), *sequences(4)[len(sequences(3)) :: 15]], one_in=4, in_ci=2):
            text = plain.write([CALLS[called] for called in names])
            expected = is_allowed(names, case)
            of_ids = tools.parse([*ids_of(text, form), EOS], vocabulary(form))
            assert (of_ids.outside_at is None) == expected
            for turn in (of_ids, tools.parse(text)):
                found = (turn.problem is None, turn.broken_at is None, turn.complete)
                assert found == (expected,) * 3, (case, names, turn)
            assert turn.calls == plain.parse(text).calls[: len(turn.calls)]


@pytest.mark.parametrize("name", SEVERAL)
def test_orders_beside_answers_preambles_and_reasoning(name: str) -> None:
    form = FORMATS[name]
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    # Where a new message begins after the reasoning, no line breaks stand between the two.
    gap = "" if form.reasoning_opened else "\n\n"
    before = f"{form.reasoning_begin}Hm.{form.reasoning_end}{gap}"
    for options, first in (
        ({"answer": {**schema, "additionalProperties": False}}, ""),
        ({"answer": True, "preamble": True}, "Let me"),
        ({"choice": "required", "preamble": True}, "Let me"),
        ({"reasoning": True}, before),
        ({"reasoning": 40}, before),
    ):
        if ("preamble" in options and form.trigger is None) or ("reasoning" in options and form.reasoning_end is None):
            continue
        tools = Tools(REAL_TOOLS, form, unique=True, parallel_calls=(1, 2), **options)
        for names in of_all(sequences(3), one_in=4, in_ci=2):
            text = first + tools_of(name).write([CALLS[called] for called in names])
            turn = tools.parse([*ids_of(text, form), EOS], vocabulary(form))
            assert turn.complete == (len({*names}) == len(names) < 3), (options, names, turn)
        if "answer" in options:
            turn = tools.parse([*ids_of(form.text_begin + '{"name": "ping"}', form), EOS], vocabulary(form))
            assert (turn.complete, turn.calls) == (True, ())


def test_a_turn_with_too_few_calls_has_a_problem_but_text_alone_has_none() -> None:
    form = FORMATS["hermes"]
    tools = Tools(REAL_TOOLS, form, parallel_calls=(2, 3))
    one = tools_of("hermes").write([CALLS["ping"]])
    turn = tools.parse(one)
    assert (turn.problem, turn.broken_at, turn.rest) == ("the turn has 1 of at least 2 calls", len(one), "")
    assert [call.name for call in turn.calls] == ["ping"]
    assert tools.parse("Hello").complete
    # An incomplete call is the first problem.
    assert tools.parse(one[:-3]).problem == "a call ends with '}\\n</tool_call>'"


@pytest.mark.parametrize(
    ("options", "names", "problem"),
    [
        ({"unique": True}, ["ping", "save", "ping"], "the tool 'ping' is called twice"),
        ({"parallel_calls": (1, 2)}, ["ping"] * 3, "there are more than 2 calls in the turn"),
        (
            {"allowed_after": {"ping": ["save", "get_weather"]}},
            ["ping"],
            "the tool 'ping' is called before 'save' or 'get_weather', after which alone it is allowed",
        ),
    ],
)
def test_a_stream_says_what_is_wrong_as_soon_as_the_name_is_known(
    options: dict[str, Any], names: list[str], problem: str
) -> None:
    form, tools = FORMATS["hermes"], Tools(REAL_TOOLS, "hermes", **options)
    text = tools_of("hermes").write([CALLS[name] for name in names])
    stream = tools.stream()
    events = [event for character in text for event in stream.feed(character)]
    last, turn = stream.finish()
    assert [event.name for event in events if isinstance(event, CallStarted)] == names[:-1]
    assert [event.call.name for event in events if isinstance(event, CallDone)] == names[:-1]
    assert (turn.problem, turn.rest, last) == (problem, text[turn.broken_at :], [])
    assert turn.rest.startswith("<tool_call>")
    assert turn.rest.count("<tool_call>") == 1
    assert turn == tools.parse(text)
    # The constraint refuses the name, or the text before a call that would be one too many.
    assert turn.outside_at is not None
    assert text[: turn.outside_at].endswith('{"name": "' if "parallel_calls" not in options else "</tool_call>")
    refusal = lk.explain(tools.constraint(vocabulary(form)), vocabulary(form), [], ids_of(text, form)).refusal
    assert refusal is not None
    assert refusal.byte == turn.outside_at


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"parallel_calls": 3}, r"parallel_calls is 3; allowed are True, False, and a pair"),
        ({"parallel_calls": (3, 2)}, r"parallel_calls is \(3, 2\)"),
        ({"parallel_calls": (0, 0)}, r"parallel_calls is \(0, 0\)"),
        ({"parallel_calls": (-1, 2)}, r"parallel_calls is \(-1, 2\)"),
        ({"parallel_calls": (1.5, 2)}, "parallel_calls is"),
        ({"parallel_calls": (1, 2, 3)}, "parallel_calls is"),
        ({"parallel_calls": "12"}, "parallel_calls is '12'"),
        ({"parallel_calls": (1, 2), "parallel": False}, r"parallel is False, but parallel_calls is \(1, 2\); leave"),
        ({"parallel_calls": True, "parallel": False}, "parallel is False, but parallel_calls is True"),
        ({"parallel_calls": (1, 2), "format": "llama3_json"}, "in the format 'llama3_json' a turn has one call only"),
        ({"parallel_calls": (2, None), "format": "harmony"}, "in the format 'harmony' a turn has one call only"),
        ({"unique": 1}, "unique is 1; allowed are True and False"),
        ({"unique": True, "parallel_calls": (4, None)}, "at least 4 calls, and with unique=True at most 3"),
        ({"unique": True, "parallel_calls": (2, 3), "choice": "ping"}, "at most 1, the number of tools"),
        ({"allowed_after": 5}, "allowed_after is 5; allowed is a dict"),
        ({"allowed_after": ["ping"]}, r"allowed_after is \['ping'\]; allowed is a dict"),
        ({"allowed_after": {"ping": []}}, r"allowed_after has \[\] for 'ping'; allowed are lists of names"),
        ({"allowed_after": {"ping": 5}}, "allowed_after has 5 for 'ping'"),
        (
            {"allowed_after": {"pong": ["ping"]}},
            "allowed_after names 'pong', which is not a tool; .* 'get_weather', 'ping'",
        ),
        ({"allowed_after": {"ping": ["pong"]}}, "allowed_after names 'pong'"),
        (
            {"allowed_after": {"ping": ["ping"]}},
            "'ping' is allowed only after 'ping', which cannot be called before it",
        ),
        ({"allowed_after": {"ping": ["save"], "save": ["ping"]}}, "the tool 'ping' is allowed only after 'save'"),
        ({"allowed_after": {"ping": "save"}, "choice": ["ping"]}, "add such a tool to 'choice'"),
        ({"allowed_after": {"ping": "save"}, "parallel": False}, "'ping' needs 1 calls before it .* has at most 1"),
        ({"allowed_after": {"ping": "save"}, "format": "llama3_json"}, "'ping' needs 1 calls before it"),
        (
            {"allowed_after": {"ping": "save", "save": "get_weather"}, "parallel_calls": (1, 2)},
            "'ping' needs 2 calls before it .* has at most 2",
        ),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Tools(REAL_TOOLS, **options)


def test_a_bool_means_the_same_as_before() -> None:
    one, several = Tools(REAL_TOOLS, parallel=False), Tools(REAL_TOOLS)
    for given, same in ((False, one), ((1, 1), one), (True, several), ((0, None), several), ((1, None), several)):
        assert Tools(REAL_TOOLS, parallel_calls=given).language() == same.language()
    # One call only is no order, and where no tool is called, there is none.
    assert Tools(REAL_TOOLS, parallel=False, unique=True).language() == one.language()
    Tools(REAL_TOOLS, choice="none", allowed_after={"ping": "ping"}).constraint(vocabulary(FORMATS["hermes"]))


@pytest.mark.parametrize(
    "options",
    [
        {"parallel_calls": [1, 3]},
        {"parallel_calls": [2, None], "unique": True},
        {"parallel_calls": False},
        {"allowed_after": {"b.c": ["a", "ab"]}, "choice": "required"},
        {"allowed_after": {"ab": "a"}, "parallel_calls": (2, 2)},
    ],
)
def test_configurations_have_the_order(options: dict[str, Any]) -> None:
    every = vocabulary(FORMATS["hermes"])
    constraint: Any = Tools(TOOLS, **options).constraint(every)
    config = json.loads(json.dumps(lk.to_config(constraint)))
    read: Any = lk.from_config(config, every)
    assert read == constraint
    assert lk.to_config(read) == config
    assert read.automaton.content_key == constraint.automaton.content_key
    given = lk.from_config({"tools": {"tools": TOOLS, **json.loads(json.dumps(options))}}, every)
    assert given == constraint


def test_a_turn_is_complete_within_its_budget() -> None:
    form = FORMATS["hermes"]
    tools = Tools(TOOLS, form, choice="required", unique=True, parallel_calls=(2, None))
    every = vocabulary(form)
    context = lk.Context.of([[]], vocabulary_size=every.size)
    for seed in range(12):
        generator = torch.Generator().manual_seed(seed)
        constraint, ids = tools.constraint(every, closing=130), []
        state = constraint.init_state(context)
        for _ in range(131):
            token = int(torch.multinomial(constraint.allowed_tokens(state)[0].float(), 1, generator=generator))
            if token == EOS:
                break
            ids.append(token)
            state = constraint.advance(state, torch.tensor([token]))
        turn = tools.parse([*ids, EOS], every)
        assert (turn.complete, token) == (True, EOS)
        assert len({call.name for call in turn.calls}) == len(turn.calls) >= 2


def test_a_derived_format_has_the_order() -> None:
    template = (
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}"
        "{% for c in m.tool_calls or [] %}<call>functions.{{ c.function.name }}:{{ loop.index0 }} "
        "{{ c.function.arguments | tojson }}</call>{% endfor %}<|end|>{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    form = ToolFormat.from_chat_template(template)
    tools = Tools(REAL_TOOLS, form, unique=True, allowed_after={"ping": ["save"]})
    for names in sequences(3):
        text = Tools(REAL_TOOLS, form).write([CALLS[name] for name in names])
        assert tools.parse(text).complete == is_allowed(names, {"unique": True, "allowed_after": {"ping": ["save"]}})


def test_custom_tools_with_a_grammar_have_the_order() -> None:
    rules = {"type": "grammar", "grammar": {"syntax": "lark", "definition": 'start: "(" start ")" | "x"'}}
    custom = [{"type": "custom", "custom": {"name": name, "format": rules}} for name in ("first", "second")]
    for name in ("hermes", "qwen_coder", "keywords", "quoted"):
        form = FORMATS[name]
        tools = Tools([*custom, REAL_TOOLS[1]], form, unique=True, allowed_after={"second": ["ping"]})
        for names in itertools.chain(*(itertools.product(("first", "second", "ping"), repeat=n) for n in (1, 2, 3))):
            calls = [ToolCall(called, {} if called == "ping" else {"input": "((x))"}) for called in names]
            turn = tools.parse(
                [*ids_of(Tools([*custom, REAL_TOOLS[1]], form).write(calls), form), EOS], vocabulary(form)
            )
            expected = is_allowed(names, {"unique": True, "allowed_after": {"second": ["ping"]}})
            assert turn.complete == expected, (name, names, turn)


def many(count: int) -> list[dict[str, Any]]:
    return [{"name": f"tool_{number}"} for number in range(count)]


def test_orders_with_too_many_states_are_refused_in_words() -> None:
    every = vocabulary(FORMATS["hermes"])
    # The greatest number that fits into the default limits, whatever the tools are.
    Tools(many(9), unique=True).constraint(every)
    for options in (
        {"unique": True},
        {"allowed_after": {f"tool_{n}": [f"tool_{n - 1}", f"tool_{n - 3}"] for n in range(3, 40)}},
        {"parallel_calls": (1, 2**40)},
    ):
        begin = time.process_time()
        with pytest.raises(PatternTooLarge) as error:
            Tools(many(40), **options).constraint(every)
        assert "allow fewer calls with parallel_calls=(least, most)" in str(error.value)
        assert next(iter(options)) in str(error.value)
        assert time.process_time() - begin < 5
    Tools(many(40), unique=True, parallel_calls=(1, 2)).constraint(every)
    # Reading needs no constraint.
    tools = Tools(many(40), unique=True)
    text = Tools(many(40)).write([ToolCall(f"tool_{number}", {}) for number in range(40)])
    assert tools.parse(text).complete
    assert tools.parse(f"{text}\n{text}").problem == "the tool 'tool_0' is called twice"


def test_hostile_options_take_no_time() -> None:
    tools = many(2000)
    names = [tool["name"] for tool in tools]
    begin = time.process_time()
    every = vocabulary(FORMATS["hermes"])
    with pytest.raises(PatternTooLarge):
        Tools(tools, allowed_after={after: [before] for before, after in itertools.pairwise(names)}).constraint(every)
    # With the same others before all of them, there are few states.
    Tools(tools, allowed_after=dict.fromkeys(names[1:], names[:200])).constraint(every)
    assert time.process_time() - begin < 15
