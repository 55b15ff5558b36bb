"""A processor and its JSON form say the same."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
import torch

import logitkit as lk
from logitkit.configuration import KINDS
from logitkit.errors import ConfigurationError
from logitkit.languages import LanguageConstraint
from tests.automata.nested_grammars import Nested
from tests.batches import run, same_result
from tests.continue_saved import batch
from tests.registry import EOS, ROWS, TOKENS, Row, vocabulary

SCHEMA = jsonschema.Draft202012Validator(lk.config_schema())


def has_json_form(processor: lk.Processor[Any]) -> bool:
    """Whether there is no function in it, no network, no language that was composed in Python, and no limits of its own."""
    parts = processor.processors if isinstance(processor, lk.Chain) else (processor,)
    if any(isinstance(part, lk.Regex) and part.limits != lk.Limits() for part in parts):
        return False
    return not any(isinstance(part, lk.Stateless | Nested) or type(part) is LanguageConstraint for part in parts)


WRITTEN = [row for row in ROWS if has_json_form(row.processor)]


@pytest.mark.parametrize("row", WRITTEN, ids=str)
def test_a_processor_comes_back_from_its_json_form(row: Row) -> None:
    config = json.loads(json.dumps(lk.to_config(row.processor)))
    SCHEMA.validate(config)
    back = lk.from_config(config, vocabulary())
    assert lk.to_config(back) == config
    # The parts of an intersection are written as those of a chain, which intersects them.
    written = lk.chain(row.processor) if isinstance(row.processor, lk.Intersection) else row.processor
    for seed in range(3):
        drawn = batch(row, seed)
        assert same_result(run(back, drawn), run(written, drawn))


def test_every_kind_is_in_the_registry() -> None:
    made = {type(part) for row in ROWS for part in getattr(row.processor, "processors", (row.processor,))}
    assert {kind.made for kind in KINDS.values()} <= made


def test_functions_have_no_json_form() -> None:
    with pytest.raises(ConfigurationError, match=r"a Stateless has no JSON form; those that have are .*Regex"):
        lk.to_config(lk.chain(lk.RepetitionPenalty(1.1), lk.Stateless(lambda logits, _: logits)))


def test_one_object_says_a_chain_in_the_canonical_order() -> None:
    config = {"regex": "[0-9]+", "repetition_penalty": 1.1}
    made = lk.from_config(config, vocabulary())
    assert made == lk.chain(lk.RepetitionPenalty(1.1), lk.Regex("[0-9]+", vocabulary()))
    assert list(lk.to_config(made).items()) == [("repetition_penalty", 1.1), ("regex", "[0-9]+")]


def test_other_orders_and_repeated_kinds_are_lists() -> None:
    penalties = lk.chain(
        lk.Regex("[0-9]+", vocabulary()), lk.RepetitionPenalty(1.1), lk.RepetitionPenalty(1.2, window=3)
    )
    config = {
        "chain": [
            {"regex": "[0-9]+"},
            {"repetition_penalty": 1.1},
            {"repetition_penalty": {"penalty": 1.2, "window": 3}},
        ]
    }
    assert lk.to_config(penalties) == config
    assert lk.from_config(config, vocabulary()) == penalties


def test_constraints_of_a_chain_come_back_intersected() -> None:
    both = lk.chain(lk.Regex("[a-z]+", vocabulary()), lk.Choice(["cat", "1"], vocabulary()))
    assert lk.to_config(both) == {"regex": "[a-z]+", "choice": ["cat", "1"]}
    assert lk.from_config(lk.to_config(both), vocabulary()) == both
    assert lk.to_config(both.processors[0]) == lk.to_config(both)


def test_an_empty_configuration_changes_nothing() -> None:
    assert lk.from_config({}, vocabulary()) == lk.chain()
    assert lk.to_config(lk.chain()) == {}
    assert lk.from_config({"chain": []}, vocabulary()) == lk.chain()


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ('{"maximum": 1e400, "title": "\u00e9"}', '{"maximum": 1E+400, "title": "\u00e9"}'),
        ('{"enum": [0.1234567890123456789, 1e-400]}', '{"enum": [0.1234567890123456789, 1E-400]}'),
        ('{"items": ' * 250 + '{"const": 1e400}' + "}" * 250, '{"items": ' * 250 + '{"const": 1E+400}' + "}" * 250),
    ],
)
def test_a_schema_with_numbers_beyond_floats_is_written_as_text(schema: str, written: str) -> None:
    every_byte = lk.Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_ids=[256])
    documents = {"other.json": schema}
    for made, form in [
        (lk.JsonSchema(schema, every_byte), written),
        (
            lk.JsonSchema({"$ref": "other.json"}, every_byte, resources=documents),
            {"schema": {"$ref": "other.json"}, "resources": {"other.json": written}},
        ),
    ]:
        config = json.loads(json.dumps(lk.to_config(made)))
        assert config == {"json_schema": form}
        again = lk.from_config(config, every_byte)
        assert again == made
        assert again.automaton is made.automaton


def test_bytes_that_are_not_text_are_written_in_hex() -> None:
    choice = lk.Choice([b"\xc3", "é"], vocabulary())
    assert lk.to_config(choice) == {"choice": [{"hex": "c3"}, "é"]}
    assert lk.from_config(lk.to_config(choice), vocabulary()) == choice


def test_limits_are_the_callers_and_not_the_configurations() -> None:
    few = lk.Limits(states=5)
    regex = lk.from_config({"regex": "[ab]"}, vocabulary(), limits=few)
    assert regex == lk.Regex("[ab]", vocabulary(), limits=few)
    assert lk.to_config(regex) == {"regex": "[ab]"}


def test_the_result_works() -> None:
    made = lk.from_config({"choice": ["1", "2"]}, vocabulary())
    context = lk.Context.of([[]], 72)
    masked = made.process_logits(made.init_state(context), torch.zeros(1, 72), context)[1]
    assert (masked[0] == 0).sum() == 2


def test_a_row_that_is_left_nothing_ends_as_the_vocabulary_says() -> None:
    made = lk.from_config({"allow_tokens": [5], "ban_tokens": [5]}, vocabulary())
    context = lk.Context.of([[]], 72)
    masked = made.process_logits(made.init_state(context), torch.ones(1, 72), context)[1]
    assert masked[0, EOS] == 0
    assert masked.isneginf().sum() == 71


def test_sections_of_a_text_may_have_several_constraints() -> None:
    config = {
        "then": {"first": {"regex": "[ab]*", "banned_strings": ["aa"]}, "second": {"choice": ["1", "2"]}, "marker": "-"}
    }
    made = lk.from_config(config, vocabulary())
    assert lk.to_config(made) == config
    context = lk.Context.of([[]], 72)
    state = made.advance(made.init_state(context), torch.tensor([[TOKENS.index(b"a")]]))
    masked = made.process_logits(state, torch.zeros(1, 72), context)[1][0]
    assert masked[[TOKENS.index(t) for t in (b"a", b"b", b"-", b"1")]].tolist() == [-torch.inf, 0, 0, -torch.inf]


def test_what_is_for_several_rows_has_no_json_form() -> None:
    with pytest.raises(ConfigurationError, match=r"\(1, 2\) is for several rows"):
        lk.to_config(lk.ForcedTokens([[1, 2], [3]]))
    with pytest.raises(ConfigurationError, match=r"\['forced_tokens'\]\[0\] is \[1, 2\]; allowed is an integer"):
        lk.from_config({"forced_tokens": [[1, 2], [3]]}, vocabulary())
