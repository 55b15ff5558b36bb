"""Processors of other packages by name in configurations: `lk.register`, and the entry points of installed packages."""

from __future__ import annotations

import json
import logging
import math
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from importlib.metadata import EntryPoint
from typing import Any

import jsonschema
import numpy as np
import pytest
import torch

import logitkit as lk
from logitkit.configuration import registry
from logitkit.configuration.declared_schema import DeclaredSchema
from logitkit.errors import ConfigurationError, LogitkitError, ProcessorError
from tests.own import UNIT, EveryNth, OwnTopA
from tests.registry import vocabulary

LOGITS = torch.tensor([[0.0, 1.0, 3.0, 2.0]]).repeat(1, 18)


def test_a_registered_processor_is_built_from_its_parameters() -> None:
    lk.register("own_top_a", OwnTopA)
    made = lk.from_config({"own_top_a": 0.9}, vocabulary())
    context = lk.Context.of([[]], 72)
    found = made.process_logits(made.init_state(context), LOGITS.clone(), context)[1]
    assert torch.equal(found, OwnTopA(0.9).process_logits((), LOGITS.clone(), context)[1])
    assert (
        made
        == lk.from_config({"own_top_a": {"a": 0.9}}, vocabulary())
        != lk.from_config({"own_top_a": 0.8}, vocabulary())
    )
    assert made.a == 0.9  # type: ignore[attr-defined]


def test_it_runs_at_its_place_of_the_canonical_order() -> None:
    lk.register("own_top_a", OwnTopA)
    lk.register("every_nth", EveryNth)
    lk.register("first_of_all", OwnTopA, order=-1)
    config = {
        "temperature": 0.5,
        "first_of_all": 0.5,
        "own_top_a": 0.9,
        "every_nth": {"n": 2, "token": 7},
        "top_k": 5,
        "regex": "a*",
    }
    made = lk.from_config(config, vocabulary())
    assert isinstance(made, lk.Chain)
    assert [type(link).__name__ for link in made.processors] == [
        *("Regex", "EveryNth", "Temperature", "OwnTopA", "TopK", "OwnTopA"),
    ]
    assert lk.to_config(made) == config
    assert lk.from_config(lk.to_config(made), vocabulary()) == made


def test_a_processor_made_by_hand_has_the_json_form_of_its_class() -> None:
    lk.register("own_top_a", OwnTopA)
    assert lk.to_config(lk.chain(lk.TopK(5), OwnTopA(0.25))) == {"top_k": 5, "own_top_a": 0.25}


@dataclass(frozen=True)
class Shifted(OwnTopA):
    by: int = 0
    weights: torch.Tensor | None = None
    note: str = field(default="", compare=False)


def test_a_field_that_no_parameter_describes_is_not_lost() -> None:
    lk.register("shifted", Shifted)
    assert lk.to_config(Shifted(0.25, note="n")) == {"shifted": 0.25}
    with pytest.raises(ConfigurationError, match=r"a Shifted with weights=.* cannot be written as JSON"):
        lk.to_config(Shifted(0.25, weights=torch.ones(2)))
    with pytest.raises(ConfigurationError, match="a Shifted with by=3 cannot be written as JSON"):
        lk.to_config(Shifted(0.25, by=3))


def test_the_published_schema_has_it() -> None:
    lk.register("own_top_a", OwnTopA)
    lk.register("every_nth", EveryNth)
    schema = lk.config_schema()
    for config, fits in (
        ({"own_top_a": 0.5}, True),
        ({"own_top_a": {"a": 1}}, True),
        ({"own_top_a": 2}, False),
        ({"chain": [{"every_nth": {"n": 2, "token": 7}}]}, True),
        ({"every_nth": {"n": 2}}, False),
        ({"every_nth": {"n": 0, "token": 7}}, False),
        ({"every_nth": {"n": 2, "token": 7, "m": 1}}, False),
    ):
        assert jsonschema.Draft202012Validator(schema).is_valid(config) == fits, config
        try:
            lk.from_config(config, vocabulary())
        except ConfigurationError:
            assert not fits, config
        else:
            assert fits, config


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"own_top_a": 1.5},
            r"config\['own_top_a'\] is 1.5; allowed is a value of \{\"type\": \"number\", \"minimum\": 0, \"maximum\": 1\}",
        ),
        ({"own_top_a": 10**400}, r"config\['own_top_a'\] is 1000.*; allowed is a value of"),
        ({"own_top_a": True}, r"config\['own_top_a'\] is True; allowed is"),
        ({"own_top_a": float("nan")}, r"config\['own_top_a'\] is nan; allowed is"),
        ({"own_top_a": {"b": 1}}, r"config\['own_top_a'\] has the unknown key 'b'"),
        ({"every_nth": {"n": 2}}, r"config\['every_nth'\] lacks 'token'"),
        ({"every_nth": 5}, r"config\['every_nth'\] is 5; allowed is an object with n, token, fails_at"),
        ({"every_nth": {"n": 2.0, "token": 7}}, r"config\['every_nth'\]\['n'\] is 2.0; allowed is a value of"),
        ({"own_topa": 1}, "unknown key 'own_topa'; did you mean 'own_top_a'?"),
    ],
)
def test_wrong_parameters_are_refused(config: Any, message: str) -> None:
    lk.register("own_top_a", OwnTopA)
    lk.register("every_nth", EveryNth)
    with pytest.raises(ConfigurationError, match=message):
        lk.from_config(config, vocabulary())


def fails(kind: type[Exception]) -> Any:
    def factory(a: float = 0.5) -> Any:
        raise kind("a must be prime")

    return factory


def test_errors_of_a_factory_name_the_key() -> None:
    declared: Any = {"parameters": {"a": UNIT}, "role": lk.Role.PENALTY}
    lk.register("refuses", fails(ValueError), **declared)
    with pytest.raises(ConfigurationError, match=r"config\['refuses'\]: a must be prime"):
        lk.from_config({"refuses": 1}, vocabulary())
    lk.register("fails", fails(KeyError), **declared)
    with pytest.raises(
        ConfigurationError, match=r"config\['fails'\]: its factory failed with KeyError: 'a must be prime'"
    ):
        lk.from_config({"fails": 1}, vocabulary())
    lk.register("makes_none", lambda: None, role=lk.Role.PENALTY)
    with pytest.raises(ProcessorError, match="the factory of 'makes_none' made a NoneType, which is not a processor"):
        lk.from_config({"makes_none": {}}, vocabulary())


def test_a_factory_may_take_the_vocabulary_and_make_a_processor_of_logitkit() -> None:
    lk.register("year", lambda vocabulary: lk.Regex("[0-9]{4}", vocabulary), role=lk.Role.CONSTRAINT)
    made = lk.from_config({"year": {}, "regex": "1.*"}, vocabulary())
    assert isinstance(made, lk.Chain)
    assert [type(link).__name__ for link in made.processors] == ["Intersection"]


def test_lists_and_objects_are_checked_to_their_ground() -> None:
    words = {
        "type": "array",
        "items": {"type": "object", "properties": {"w": {"type": "string", "maxLength": 3}}, "required": ["w"]},
        "minItems": 1,
    }
    made: list[Any] = []

    def factory(words: Any, mode: str | None = None) -> Any:
        made.append((words, mode))
        return OwnTopA(0.5)

    modes = {"anyOf": [{"enum": ["soft", "hard"]}, {"type": "null"}], "description": "How."}
    lk.register(
        "words",
        factory,
        parameters={"words": words, "mode": modes},
        role=lk.Role.BIAS,
        examples=[{"words": [{"w": "a"}]}],
    )
    lk.from_config({"words": {"words": [{"w": "abc"}], "mode": "soft"}}, vocabulary())
    assert made == [([{"w": "abc"}], "soft")]
    for config, message in (
        ({"words": []}, r"\['words'\] is \[\]; allowed is"),
        ({"words": [{"w": "abcd"}]}, r"\['words'\]\[0\]\['w'\] is 'abcd'; allowed is a value of"),
        ({"words": [{}]}, r"\['words'\]\[0\] is \{\}; allowed is"),
        ({"words": [{"w": "a"}], "mode": "loud"}, r"\['mode'\] is 'loud'; allowed is"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            lk.from_config({"words": config}, vocabulary())


def test_bounds_may_be_numbers_of_any_kind() -> None:
    for bound in (np.int64(1), np.float32(1), Fraction(1), Decimal(1), -math.inf):
        form = DeclaredSchema({"type": "number", "minimum": bound})
        assert form.fits(2)
        # A float of numpy is not compared with an integer beyond all floats.
        assert form.fits(10**400) is not isinstance(bound, np.floating)
    assert DeclaredSchema({"enum": [[1.0], {"a": 2.0}]}).fits([1])
    assert DeclaredSchema({"enum": [[1.0], {"a": 2.0}]}).fits({"a": 2})
    assert not DeclaredSchema({"enum": [[1.0], {"a": 2.0}]}).fits([True])


def test_values_are_compared_and_nested_as_in_json() -> None:
    class Tries(OwnTopA):
        pass

    lk.register(
        "tries_values",
        Tries,
        parameters={"a": {"enum": [[1, {"b": 0}]]}},
        role=lk.Role.BIAS,
        examples=[{"a": [1, {"b": 0}]}],
    )
    assert lk.to_config(lk.from_config({"tries_values": {"a": [1, {"b": 0}]}}, vocabulary())) == {
        "tries_values": [1, {"b": 0}]
    }
    with pytest.raises(ConfigurationError, match="allowed is a value of"):
        lk.from_config({"tries_values": {"a": [1, {"b": False}]}}, vocabulary())
    deep: list[Any] = []
    for _ in range(900):
        deep = [deep]
    with pytest.raises(ConfigurationError, match="is nested more than 64 deep"):
        lk.from_config({"tries_values": {"a": deep}}, vocabulary())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("regex", OwnTopA), "the name 'regex' is taken by logitkit"),
        (("Top-A", OwnTopA), "name is 'Top-A'; allowed are up to 64 lowercase letters"),
        (("chain", OwnTopA), "name is 'chain'"),
        (("x", 5), "the factory of 'x' is of type int; pass a class or a function"),
        (("x", lambda: None), "the factory of 'x' has no role; declare one"),
        (("x", OwnTopA, {"parameters": {}}), "the factory of 'x' takes 'a', which `parameters` does not describe"),
        (("x", OwnTopA, {"parameters": {"a": UNIT, "b": UNIT}}), "does not take the parameter 'b'"),
        (("x", OwnTopA, {"examples": []}), r"'x' needs examples=\[...\], because its parameter 'a' has no default"),
        (
            ("x", OwnTopA, {"parameters": {"a": {"type": "numbr"}}}),
            "the schema has the type 'numbr'; allowed are string",
        ),
        (("x", OwnTopA, {"parameters": {"a": {"pattern": "a"}}}), "the keyword 'pattern', which is not supported"),
        (("x", OwnTopA, {"parameters": {"a": 5}}), "the schema is of type int; pass a JSON Schema"),
        (("x", OwnTopA, {"parameters": {"a": {"minimum": "x"}}}), "has 'minimum': 'x'; allowed is a number"),
        (("x", OwnTopA, {"parameters": {"a": {"enum": 5}}}), "has 'enum': 5; allowed is a list of values"),
        (("x", OwnTopA, {"parameters": {"a": {"anyOf": 5}}}), "has 'anyOf': 5; allowed is a list of schemas"),
        (
            ("x", OwnTopA, {"parameters": {"a": {"properties": 5}}}),
            "has 'properties': 5; allowed is an object of schemas",
        ),
        (("x", OwnTopA, {"parameters": {"a": {"minLength": -1}}}), "has 'minLength': -1; allowed is a number from 0"),
    ],
)
def test_what_cannot_be_registered(arguments: Any, message: str) -> None:
    name, factory, *more = arguments
    with pytest.raises(ConfigurationError, match=message):
        lk.register(name, factory, **(more[0] if more else {}))


def test_a_name_is_taken_once() -> None:
    lk.register("own_top_a", OwnTopA)
    lk.register("own_top_a", OwnTopA)
    with pytest.raises(ConfigurationError, match="'own_top_a' is taken by another package"):
        lk.register("own_top_a", EveryNth)


def installed(monkeypatch: pytest.MonkeyPatch, **entries: str) -> None:
    """Have packages installed that have these entry points."""
    found = [EntryPoint(name, value, registry.GROUP) for name, value in entries.items()]
    monkeypatch.setattr(registry, "entry_points", lambda group: found)
    monkeypatch.setattr(registry, "_loaded", False)
    monkeypatch.setattr(registry, "_problems", {})


def test_installed_packages_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, own_top_a="tests.own:OwnTopA", every_nth="tests.own:EveryNth")
    assert lk.to_config(lk.from_config({"own_top_a": 0.5}, vocabulary())) == {"own_top_a": 0.5}
    assert "every_nth" in lk.config_schema()["$defs"]
    registry.check_installed()


def test_a_broken_package_is_named_and_others_work(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    installed(monkeypatch, lost="tests.nowhere:OwnTopA", regex="tests.own:OwnTopA", own_top_a="tests.own:OwnTopA")
    with caplog.at_level(logging.WARNING, "logitkit"):
        lk.from_config({"own_top_a": 0.5, "regex": "a"}, vocabulary())
    assert "lost = tests.nowhere:OwnTopA of an installed package cannot be used: No module named" in caplog.text
    with pytest.raises(ConfigurationError, match=r"lost = .* of an installed package cannot be used"):
        lk.from_config({"lost": {}}, vocabulary())
    with pytest.raises(ConfigurationError, match="cannot be used"):
        registry.check_installed()


def test_a_state_of_it_is_saved(tmp_path: Any) -> None:
    lk.register("every_nth", EveryNth)
    made = lk.from_config({"every_nth": {"n": 2, "token": 7}, "top_k": 5}, vocabulary())
    context = lk.Context.of([[3]], 72)
    state = made.advance(made.init_state(context), torch.tensor([[4, 5]]))
    lk.save_state(tmp_path / "state", state, made)
    loaded = lk.load_state(tmp_path / "state", made)
    assert json.dumps(loaded[0].tokens.tolist()) == "[2]"


def test_it_keeps_the_laws() -> None:
    lk.register("every_nth", EveryNth)
    lk.check_processor(lk.from_config({"every_nth": {"n": 2, "token": 7}}, vocabulary()), vocabulary(), examples=10)


def test_registered_names_are_errors_of_logitkit() -> None:
    with pytest.raises(LogitkitError):
        lk.from_config({"own_top_a": 1}, vocabulary())
