"""A campaign finds a fault that was planted, shrinks the case, and says how to find it again."""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from importlib import import_module
from typing import Any

import pytest
import torch
from torch import Tensor

from logitkit.compiler.bytes.sorting import examples
from logitkit.runtime.constraint import Constraint
from tests.automata.digest_attacks import MODULES
from tests.campaigns import hostile, patterns
from tests.campaigns.__main__ import main
from tests.campaigns.campaign import Campaign, drawn
from tests.campaigns.towers import towers


def test_a_campaign_without_a_difference_counts_what_it_tried(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["patterns", "--minutes", "0", "--seed", "5"]) == 0
    said = capsys.readouterr().out
    assert "texts that match\n" in said
    assert "no difference" in said


def test_re_gives_up_on_a_text_that_it_would_read_for_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "JUDGING_SECONDS", 0.1)
    with pytest.raises(TimeoutError):
        patterns.Judge("(a|aa)*(a|aa)*").matches("a" * 100 + "b")
    tried = Counter[str]()
    patterns.check(patterns.Case("(a|aa)*(a|aa)*", ("a" * 100 + "b",)), tried)
    assert tried["patterns left, as re takes too long"] == 1


def test_a_difference_is_shrunk_and_can_be_found_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    advance = Constraint.advance

    def forgetful(self: Constraint, state: Any, tokens: Tensor) -> Any:
        return advance(self, state, tokens[:, 1:] if tokens.dim() == 2 and tokens.shape[1] > 3 else tokens)

    monkeypatch.setattr(Constraint, "advance", forgetful)
    assert main(["patterns", "--minutes", "1", "--seed", "5"]) == 1
    said = capsys.readouterr().out
    assert "DIFFERENCE in the round of seed 5" in said
    assert "Again: scripts/fuzz patterns --minutes 0 --seed 5" in said
    shrunk = said.split("case=Case(")[1].split("texts=")[0]
    assert len(shrunk) < 30, said


def test_a_token_too_many_in_a_mask_is_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mask = Constraint.process_logits

    def generous(self: Constraint, state: Any, logits: Tensor, context: Any) -> Any:
        state, masked = mask(self, state, logits, context)
        masked[:, 97] = 1
        return state, masked

    monkeypatch.setattr(Constraint, "process_logits", generous)
    assert main(["masks", "--minutes", "0", "--seed", "5"]) == 1
    assert "which is illegal" in capsys.readouterr().out


def test_a_request_that_is_rewound_and_not_replayed_is_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("logitkit.tracking.requests._continues", lambda now, before: True)
    assert main(["hooks", "--minutes", "0", "--seed", "5"]) == 1
    assert "differs from a replay of Request" in capsys.readouterr().out


def test_a_digest_that_is_trusted_is_found(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for module in MODULES:
        monkeypatch.setattr(module, "distinct_sets", lambda digest, kind, sets: examples(digest))
    monkeypatch.setattr(hostile, "CAMPAIGN", Campaign("hostile", "", drawn(hostile.collisions(), 1, hostile.check)))
    assert main(["hostile", "--minutes", "0", "--seed", "5"]) == 1
    assert "are legal, not" in capsys.readouterr().out


def test_a_tower_that_takes_long_is_found(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(hostile, "MOST_SECONDS", 0.0)
    monkeypatch.setattr(hostile, "CAMPAIGN", Campaign("hostile", "", drawn(towers(), 1, hostile.check)))
    assert main(["hostile", "--minutes", "0", "--seed", "5"]) == 1
    assert " took 0." in capsys.readouterr().out


def test_a_row_that_is_left_nothing_is_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(import_module("logitkit.composition.chain"), "end_rows", lambda logits, eos_ids: (logits, None))
    assert main(["chains", "--minutes", "0.5", "--seed", "7"]) == 1
    assert "a row is left without a legal token" in capsys.readouterr().out


def test_an_end_that_a_constraint_does_not_allow_is_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("logitkit_adapters.sessions.end_of_row.refused_ends", lambda *_: torch.tensor([False]))
    assert main(["typed", "--minutes", "0.5", "--seed", "7"]) == 1
    assert "is not valid" in capsys.readouterr().out


def test_broken_logits_that_go_unnoticed_are_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("logitkit.runtime.logit_arrays.is_broken", lambda row, never: False)
    assert main(["typed", "--minutes", "0.5", "--seed", "7"]) == 1
    assert re.search("a model with .* writes|broken logits are processed", capsys.readouterr().out)


def test_an_error_that_is_not_ours_is_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("logitkit.configuration.reading.check_has_eos", lambda vocabulary: vars(vocabulary)["eos"])
    assert main(["configurations", "--minutes", "0", "--seed", "7"]) == 1
    assert "KeyError: 'eos'" in capsys.readouterr().out


# Torch compiles rules for dual numbers at their first use.
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_a_replay_that_forgets_the_tokens_is_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("logitkit.training.state_blocks.advance_checked", lambda processor, state, tokens: state)
    assert main(["training", "--minutes", "0", "--seed", "7"]) == 1
    assert "DIFFERENCE in the round of seed 7" in capsys.readouterr().out


def test_a_marker_that_is_derived_wrong_is_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Formats are kept by the text of their template: none that is wrong may stay for other tests.
    monkeypatch.setattr("logitkit.tools.derivation.from_template._found", OrderedDict())
    # Without the proof, only the campaign knows what the template writes.
    monkeypatch.setattr("logitkit.tools.derivation.from_template.proved", lambda *_: None)
    monkeypatch.setattr("logitkit.tools.derivation.segments.shared_start", lambda first, second: first[:1])
    assert main(["tools", "--minutes", "0", "--seed", "7"]) == 1
    assert "WrittenTemplate(" in capsys.readouterr().out


def test_an_unknown_campaign_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["patternz"])
    assert "there is not a campaign patternz; choose from patterns" in capsys.readouterr().err
