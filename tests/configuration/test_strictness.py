"""Invalid configurations are refused, with the key, the value and the allowed values; and the schema agrees."""

from __future__ import annotations

import inspect
import json
import math
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.configuration import KINDS
from logitkit.errors import ConfigurationError, LogitkitError, PatternSyntaxError, PatternTooLarge
from logitkit.parameters import Integer, Number
from tests.configuration import published
from tests.examples import examples
from tests.registry import vocabulary

SCHEMA = jsonschema.Draft202012Validator(lk.config_schema())


def dfa(*transitions: Any) -> dict[str, Any]:
    return {"dfa": {"transitions": list(transitions), "start": 0, "accepting": [0]}}


def penalty(**parameters: Any) -> dict[str, Any]:
    return {"repetition_penalty": parameters}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"regx": "a"}, r" has the unknown key 'regx'; did you mean 'regex'\? Allowed are .*regex"),
        ({"zzz": 1}, r" has the unknown key 'zzz'\. Allowed are .*regex"),
        ({1: 1}, r" has the unknown key 1\. Allowed are"),
        (penalty(penalty=2, windw=3), r"\['repetition_penalty'\] has the unknown key 'windw'; did you mean 'window'"),
        (penalty(window=3), r"\['repetition_penalty'\] lacks 'penalty': a number from 0.0001 to 10000"),
        (penalty(penalty=2, window=2.0), r"\['window'\] is 2.0; allowed is an integer from 1 to 16777216, or null"),
        ({"repetition_penalty": "1.1"}, r"\['repetition_penalty'\] is '1.1'; allowed is a number from 0.0001 to 10000"),
        ({"repetition_penalty": True}, r"\['repetition_penalty'\] is True; allowed is a number"),
        ({"repetition_penalty": 0}, r"\['repetition_penalty'\] is 0; allowed is a number from"),
        ({"repetition_penalty": math.nan}, r"\['repetition_penalty'\] is nan; allowed"),
        ({"repetition_penalty": 10**5000}, r"\['repetition_penalty'\] is (a huge int|<int instance .*>); allowed"),
        ({"regex": None}, r"\['regex'\] is None; allowed is a string"),
        ({"regex": {"pattern": {"hex": "61"}}}, r"\['regex'\]\['pattern'\] is .*; allowed is a string"),
        ({"choice": []}, r"\['choice'\] is \[\]; allowed is a list that is not empty"),
        ({"choice": "yes"}, r"\['choice'\] is 'yes'; allowed is a list"),
        ({"choice": ["a", 3]}, r"\['choice'\]\[1\] is 3; allowed is a string or"),
        ({"choice": ["a", {"hex": "c"}]}, r"\['choice'\]\[1\] is \{'hex': 'c'\}; allowed is a string or"),
        ({"choice": ["\ud800"]}, r"\['choice'\]: options\[0\] has a lone surrogate"),
        ({"chain": {"regex": "a"}}, r"\['chain'\] is \{'regex': 'a'\}; allowed is a list"),
        ({"chain": [], "regex": "a"}, r" has 'chain' and other keys"),
        ({"chain": ["regex"]}, r"\['chain'\]\[0\] is 'regex'; allowed is an object"),
        ({"regex": "a+", "choice": ["b"]}, r": no text is allowed by all constraints"),
        ([], r" is \[\]; allowed is an object"),
        ("{}", r" is '\{\}'; allowed is an object"),
        (dfa([0, 5, 0], [0, 5, 1]), r"\['transitions'\]\[1\] is \[0, 5, 1\]; allowed is only one move"),
        (dfa([0, 99, 0]), r"\['transitions'\]\[0\]\[1\] is 99; allowed is an integer from 0 to 71"),
        (dfa([0, 5]), r"\['transitions'\]\[0\] is \[0, 5\]; allowed is a move"),
    ],
)
def test_errors_name_the_place_the_value_and_what_is_allowed(config: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        lk.from_config(config, vocabulary())
    assert str(caught.value).startswith("config")


def test_patterns_are_refused_as_patterns_are() -> None:
    with pytest.raises(PatternSyntaxError, match="unterminated"):
        lk.from_config({"chain": [{"regex": "(a"}]}, vocabulary())
    with pytest.raises(PatternTooLarge, match="more than 10 states"):
        lk.from_config({"regex": "a{20}"}, vocabulary(), limits=lk.Limits(states=10))


def test_nesting_is_bounded() -> None:
    config: dict[str, Any] = {"regex": "a"}
    for _ in range(16):
        config = {"chain": [config]}
    assert isinstance(lk.from_config(config, vocabulary()), lk.Chain)
    with pytest.raises(ConfigurationError, match="nested 17 deep; allowed are 16 levels"):
        lk.from_config({"chain": [config]}, vocabulary())


def test_long_values_are_not_echoed_whole() -> None:
    with pytest.raises(ConfigurationError) as caught:
        lk.from_config({"choice": "x" * 10_000}, vocabulary())
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "config",
    [
        {"x" * 100_000: 1},
        {10**5000: 1},
        {"banned_strings": {"strings": [{"hex": "61" * 10_000}], "ignore_case": True}},
        {"regex": "\ud800" * 10_000},
    ],
    ids=["key", "number as key", "text", "pattern"],
)
def test_nor_what_a_processor_itself_refuses(config: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^config.*(unknown key|\]: )") as caught:
        lk.from_config(config, vocabulary())
    assert len(str(caught.value)) < 1000


def test_the_number_of_processors_is_limited() -> None:
    """In all of the configuration: each may take as long as one pattern may."""
    link = {"then": {"first": {"regex": "a"}, "second": {"regex": "b"}, "marker": "-"}}
    chain = lk.from_config({"chain": [{"temperature": 2}, *[{"chain": [link, {"temperature": 1}]}] * 15]}, vocabulary())
    assert len(lk.to_config(chain)["chain"]) == 31
    with pytest.raises(
        ConfigurationError, match=r"\['chain'\]\[16\].* is one processor too many; allowed are 64 in a config"
    ):
        lk.from_config({"chain": [{"chain": [link, {"temperature": 1}]}] * 17}, vocabulary())


def test_limits_hold_for_intersections_too() -> None:
    limits = lk.Limits(work=100_000)
    made: Any = lk.from_config({"regex": "(ab?)*", "choice": ["ab", "a"]}, vocabulary(), limits=limits)
    assert made.processors[0].limits == limits


RANGES = [
    (kind.name, name, form)
    for kind in KINDS.values()
    for name, form in kind.parameters.items()
    if isinstance(form, Number | Integer)
]


@pytest.mark.parametrize(("kind", "name", "form"), RANGES, ids=lambda value: value if isinstance(value, str) else "")
def test_the_ranges_are_those_of_the_processors(kind: str, name: str, form: Number | Integer) -> None:
    """A bound is taken by both; beyond it the processor itself refuses too, so none allows more than the other."""
    others: dict[str, Any] = {"probability": 0.5, "multiplier": 1.0, "penalty": 1.0, "n": 1, "k": 1, "p": 0.5, "a": 0.5}
    others |= {"max_tokens": 1, "schema": True, "document": {"format": {"type": "any_text"}}, "tools": [{"name": "f"}]}
    others |= {
        "epsilon": 0.1,
        "h": 0.5,
        "z": 0.5,
        "low": 0.5,
        "high": 2.0,
        "factor": 0.3,
        "start": 1,
        "bonus": 1.0,
        "boost": 1.0,
        "key": 1,
        "keys": [1, 2],
    }
    others |= {"text": 'root ::= "a"'}
    required = {other: others[other] for other in KINDS[kind].required if other in others}
    step = 1 if isinstance(form, Integer) else 1e-7
    for bound, beyond in ((form.least, form.least - step), (form.most, form.most * (1 + 1e-6) + step)):
        config: dict[str, Any] = {**required, name: bound}
        if "end" in KINDS[kind].required:
            config["end"] = "a"
        if name == "min_period":
            config["max_period"] = form.most
        if name == "min_tokens" and "max_tokens" in config:
            config["max_tokens"] = form.most
        lk.from_config({kind: config}, vocabulary())
        too_far = {**config, name: int(beyond) if isinstance(form, Integer) else beyond}
        with pytest.raises(ConfigurationError, match=f"{name}'\\] is .*; allowed is"):
            lk.from_config({kind: too_far}, vocabulary())
        taken = inspect.signature(KINDS[kind].make).parameters
        given = {"vocabulary": vocabulary()} if "vocabulary" in taken else {}
        with pytest.raises(ConfigurationError, match=f"{name} is .*; allowed"):
            KINDS[kind].make(**too_far, **given)


scalars = st.none() | st.booleans() | st.integers(-3, 80) | st.sampled_from([10**9, 10**30, 1e300]) | st.floats(-2, 2)
junk = st.recursive(
    scalars | st.text("a[0", max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["hex", "5", "start", "a"]), inner, max_size=2)
    ),
    max_leaves=4,
)


@pytest.mark.filterwarnings("ignore:JsonSchema ignores unknown keywords")
@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=examples(120))
@given(st.data())
def test_the_schema_allows_what_is_read(name: str, data: st.DataObject) -> None:
    """And what it refuses, the reader refuses too, by a configuration error and no other."""
    parameters = st.fixed_dictionaries({}, optional=dict.fromkeys(KINDS[name].parameters, junk))
    config = {name: data.draw(junk | parameters)}
    try:
        lk.from_config(config, vocabulary(), limits=lk.Limits(states=2_000, work=100_000))
    except LogitkitError:
        return
    assert SCHEMA.is_valid(json.loads(json.dumps(config)))


def test_what_is_published_is_what_the_code_does() -> None:
    jsonschema.Draft202012Validator.check_schema(lk.config_schema())
    again = "write it anew: python -m tests.configuration.published"
    assert published.SCHEMA.read_text() == published.schema(), again
    assert published.PAGE.read_text() == published.page(), again


def own_word(word: str) -> lk.TopK:
    return lk.TopK(len(word))


def test_who_changes_the_published_schema_changes_a_copy() -> None:
    words = {"type": "string", "enum": ["a", "b"]}
    lk.register("own_word", own_word, parameters={"word": words}, role=lk.Role.PENALTY, examples=[{"word": "a"}])
    before = json.dumps(lk.config_schema())

    def change(part: Any) -> None:
        for value in part.values() if isinstance(part, dict) else part:
            if isinstance(value, dict | list):
                change(value)
        if isinstance(part, list):
            part.append("changed")

    change(lk.config_schema())
    assert json.dumps(lk.config_schema()) == before
