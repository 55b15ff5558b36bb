"""A configuration is read and compiled once, however many requests and prompts come with it, and so is a refusal found."""

from __future__ import annotations

import gc
import itertools
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel

import logitkit as lk
from logitkit.batching import steps_of
from logitkit.configuration import installed_kinds
from logitkit.errors import ConfigurationError, LogitkitError
from logitkit.runtime.registry_user import RegistryUser
from logitkit.runtime.shared import shared_by
from logitkit_adapters.admission import configurations as compiling
from logitkit_adapters.admission import verdicts
from logitkit_adapters.admission.asked import DOCUMENTS, Asked
from logitkit_adapters.admission.bans import NO_BANS, EngineBans
from logitkit_adapters.admission.configurations import AUTOMATON_BYTES, Configurations, any_vocabulary
from logitkit_adapters.admission.verdicts import Verdict, Verdicts
from logitkit_adapters.hooks.recent import ENTRY_BYTES, Recent
from logitkit_adapters.vllm import configurations as engines
from logitkit_adapters.vllm.configurations import check_configuration
from logitkit_adapters.vllm.parameters import asked

TOKENS = [*(bytes([byte]) for byte in range(256)), None]


@pytest.fixture
def configurations() -> Configurations:
    return Configurations(lk.Vocabulary(TOKENS, eos_ids=[256]))


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How often configurations were read and compiled."""
    counts = {"read": 0, "compiled": 0}

    def counted(what: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            counts[what] += 1
            return original(*args, **kwargs)

        return call

    monkeypatch.setattr(json, "loads", counted("read", json.loads))
    monkeypatch.setattr(compiling, "from_config", counted("compiled", lk.from_config))
    return counts


class Engine:
    instance_id = ""


class Invoice(BaseModel):
    number: int


def params(config: Any, max_tokens: int | None = 16) -> Any:
    return SimpleNamespace(extra_args={"logitkit": config}, max_tokens=max_tokens)


def check(configurations: Configurations, config: Any, max_tokens: int | None = 16) -> None:
    what = asked(params(config, max_tokens))
    assert what is not None
    configurations.check(what)


def test_many_prompts_of_a_request_are_read_once(configurations: Configurations, work: dict[str, int]) -> None:
    text = json.dumps({"ban_tokens": [i % 256 for i in range(200_000)]})
    check(configurations, text)
    first, digests = dict(work), verdicts._digest_of_long.cache_info().misses
    for number in range(100):
        check(configurations, text, max_tokens=number + 1)
    assert work == first
    assert first["compiled"] == 1
    assert verdicts._digest_of_long.cache_info().misses == digests


def test_equal_texts_of_other_requests_are_read_once(configurations: Configurations, work: dict[str, int]) -> None:
    for number in range(10):
        text = json.dumps({"regex": "[0-9]{4}", "top_k": 5})
        check(configurations, text, max_tokens=number + 1)
    assert work["compiled"] == 1


@pytest.mark.parametrize("config", ['{"regex": "(a|b)*a(a|b){40}"}', '{"regx": "a"}', "{", "[1]", '{"top_k": "5"}'])
def test_refusals_are_found_once(configurations: Configurations, work: dict[str, int], config: str) -> None:
    with pytest.raises(ConfigurationError) as first:
        check(configurations, config)
    before = dict(work)
    with pytest.raises(ConfigurationError) as again:
        check(configurations, config, max_tokens=17)
    assert work == before
    assert str(again.value) == str(first.value)


def long(number: int) -> str:
    """Return a configuration of nearly a million characters that is refused."""
    return json.dumps({"regex": f"({number}{'a' * 900_000}"})


def test_long_refusals_do_not_take_the_place_of_other_verdicts(
    configurations: Configurations, work: dict[str, int]
) -> None:
    check(configurations, '{"choice": ["a", "b"]}')
    for number in range(10):
        with pytest.raises(ConfigurationError, match="unterminated"):
            check(configurations, long(number))
    before = dict(work)
    check(configurations, '{"choice": ["a", "b"]}')
    for number in range(10):
        with pytest.raises(ConfigurationError, match="unterminated"):
            check(configurations, long(number))
    assert work == before


def test_refusals_do_not_push_out_what_is_allowed() -> None:
    kept = Verdicts(limit=100_000)
    allowed = [asked(params(f'{{"top_k": {number}}}')) for number in range(20)]
    for what in allowed:
        assert what is not None
        kept.put(what, Verdict())
    for number in range(2_000):
        what = asked(params(f'{{"top_k": "{number}"}}'))
        assert what is not None
        kept.put(what, Verdict("top_k is a string"))
        assert kept.nbytes <= 100_000
        assert kept.get(what) == Verdict("top_k is a string")
    assert [kept.get(what) for what in allowed if what is not None] == [Verdict()] * 20


def test_verdicts_depend_on_all_that_the_processor_does() -> None:
    kept = Verdicts()
    texts = ["1", "1 1", "", "\ud800", "\\ud800", "é", "e\u0301"]
    bans = [NO_BANS, EngineBans((1, 2)), EngineBans((12,)), EngineBans(None, ((1, 2),)), EngineBans(None, ((1,), (2,)))]
    asked_for = itertools.product(texts, (None, 1, 11), bans)
    questions = [Asked(text, text, tokens, banned) for text, tokens, banned in asked_for]
    for what in questions:
        assert kept.get(what) is None
        kept.put(what, Verdict(repr(what)))
    for what in questions:
        assert kept.get(what) == Verdict(repr(what))
    unwritten = Asked({}, None, 1)
    kept.put(unwritten, Verdict("refused"))
    assert kept.get(unwritten) is None


def test_a_mapping_is_not_refused_for_what_its_json_says(configurations: Configurations) -> None:
    """JSON has one text for the keys 1 and "1", of which one may be right."""
    with pytest.raises(ConfigurationError, match="unknown key 1"):
        check(configurations, {1: 2})
    with pytest.raises(ConfigurationError, match="unknown key '1'"):
        check(configurations, {"1": 2})


@pytest.mark.parametrize("spelling", ["closing", "\\u0063losing", "clos\\u0069ng"])
@pytest.mark.parametrize("padding", ["", " " * 5000])
def test_what_shall_be_complete_depends_on_the_tokens_of_the_request(
    configurations: Configurations, spelling: str, padding: str
) -> None:
    config = f'{{"json_schema": {{"schema": {{"const": "abcd"}}, "{spelling}": true}}}}{padding}'
    for _ in range(2):
        check(configurations, config, max_tokens=7)
        with pytest.raises(ConfigurationError, match="closing is 2, but the shortest text"):
            check(configurations, config, max_tokens=2)


def test_a_structural_tag_is_complete_within_the_tokens_of_the_request(configurations: Configurations) -> None:
    """Only the parameters of the configuration count, not members of the document with the same names."""
    schema = {"type": "object", "properties": {"forced_eos": {"const": None}}, "required": ["forced_eos"]}
    tag = {"type": "tag", "begin": "ab", "content": {"type": "json_schema", "json_schema": schema}, "end": "cd"}
    config = {"structural_tag": {"document": {"type": "structural_tag", "format": tag}, "closing": True}}
    check(configurations, config, max_tokens=60)
    with pytest.raises(ConfigurationError, match="closing is 2, but the shortest text"):
        check(configurations, config, max_tokens=2)
    with pytest.raises(ConfigurationError, match=r"^config\['structural_tag'\]: format: the type 'peg'"):
        check(configurations, {"structural_tag": {"format": {"type": "peg"}}})


@pytest.mark.parametrize(
    "config",
    [
        {"forced_eos": {}},
        {"forced_eos": None},
        {"forced_eos": {"max_new_tokens": None}},
        '{"chain": [{"forced_eos": {}}]}',
        '{"forced\\u005feos": {}}',
    ],
    ids=str,
)
def test_eos_is_forced_within_the_tokens_of_the_request(configurations: Configurations, config: Any) -> None:
    for tokens in (5, 9):
        what = asked(params(config, tokens))
        assert what is not None
        made: Any = configurations.processor(what)
        (ending,) = getattr(made, "processors", [made])
        assert ending == lk.ForcedEos([256], tokens)


def test_a_budget_of_its_own_is_kept(configurations: Configurations) -> None:
    for config in ({"forced_eos": 3}, {"forced_eos": {"max_new_tokens": 3, "eos_ids": [256]}}):
        what = asked(params(config, 9))
        assert what is not None
        assert configurations.processor(what) == lk.ForcedEos([256], 3)


def test_the_processor_of_a_text_is_made_once(configurations: Configurations, work: dict[str, int]) -> None:
    first, second = (asked(params('{"choice": ["a", "b"]}', tokens)) for tokens in (5, 6))
    assert first is not None
    assert second is not None
    assert configurations.processor(first) is configurations.processor(second)
    assert work["compiled"] == 1


@pytest.mark.parametrize("schema", [list[int], {"schema": Invoice}])
def test_a_type_is_refused_as_it_cannot_be_sent_to_the_engine(configurations: Configurations, schema: Any) -> None:
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=r"is not JSON serializable\. Where a Python type"):
            check(configurations, {"json_schema": schema})
    with pytest.raises(ConfigurationError, match="allowed is a number from 0 to 1"):
        check(configurations, {"json_schema": schema, "top_p": "x"})


def test_each_kind_that_can_be_complete_in_time_depends_on_the_tokens_of_the_request() -> None:
    kinds = installed_kinds().items()
    assert {name: kind.main for name, kind in kinds if "closing" in dict(kind.parameters)} == DOCUMENTS


def test_a_grammar_is_complete_within_the_tokens_of_the_request(configurations: Configurations) -> None:
    config = {"grammar": {"text": 'root ::= "(" root? ")"', "closing": True}}
    check(configurations, config, max_tokens=2)
    with pytest.raises(ConfigurationError, match="closing is 1, but the shortest text"):
        check(configurations, config, max_tokens=1)


@pytest.mark.parametrize(
    "config",
    [
        '{"choice": ["a"]}',
        '{"chain": [{"choice": ["a"]}]}',
        '{"forced_tokens": [97]}',
        '{"grammar": "root ::= [x-z]+"}',
        '{"stop_strings": ["a"]}',
        '{"loop_stop": 3}',
        '{"forced_eos": 2}',
        '{"thinking_budget": {"max_tokens": 3, "end": "b"}}',
    ],
)
def test_a_language_is_refused_beside_a_grammar_of_the_engine(configurations: Configurations, config: str) -> None:
    what = asked(params(config))
    assert what is not None
    for _ in range(2):
        check_configuration(configurations, what, beside_grammar=False)
        with pytest.raises(ConfigurationError, match="Give one of them"):
            check_configuration(configurations, what, beside_grammar=True)


@pytest.mark.parametrize("config", ['{"top_k": 5}', '{"ban_tokens": [97]}', '{"banned_strings": ["a"]}', "{}"])
def test_all_else_goes_with_a_grammar_of_the_engine(configurations: Configurations, config: str) -> None:
    what = asked(params(config))
    assert what is not None
    check_configuration(configurations, what, beside_grammar=True)


def test_a_cache_keeps_what_was_used_last() -> None:
    cache = Recent[str, str](limit=3 * (ENTRY_BYTES + 100))
    for key in "abc":
        cache.put(key, key, nbytes=100)
    assert cache.get("a") == "a"
    cache.put("d", "d", nbytes=100)
    assert [cache.get(key) for key in "abcd"] == ["a", None, "c", "d"]
    cache.put("d", "e", nbytes=100)
    assert cache.get("d") == "e"
    assert cache.nbytes == 3 * (ENTRY_BYTES + 100)


def test_a_cache_does_not_keep_what_is_larger_than_all_of_it() -> None:
    cache = Recent[str, str](limit=1000)
    cache.put("a", "a", nbytes=10)
    cache.put("b", "b", nbytes=1000)
    assert cache.get("a") == "a"
    assert cache.get("b") is None
    cache.put("a", "b", nbytes=1000)
    assert len(cache) == cache.nbytes == 0


CONFIGS = (
    '{"regex": "item %d: [a-z]{1,20}"}',
    '{"json_schema": {"properties": {"field%d": {"type": "string", "maxLength": 20}}, "required": ["field%d"]}}',
    '{"stop_strings": ["word%d"], "banned_strings": ["other%d"]}',
    '{"thinking_budget": {"max_tokens": 5, "end": "end%d"}}',
    '{"ban_tokens": [1, 2, 3], "top_k": %d}',
)


def test_what_workers_keep_is_bounded() -> None:
    """However many different configurations come, and whatever they are."""
    vocabulary = lk.Vocabulary([*TOKENS, b"bounded"], eos_ids=[256])
    limit = 20 * 2**16
    configurations = Configurations(vocabulary, processor_bytes=limit, verdict_bytes=10_000)
    shared = shared_by(vocabulary)
    shared.cached_bytes = limit
    registries = set()
    for number in range(200):
        text = CONFIGS[number % len(CONFIGS)].replace("%d", str(number + 1))
        what = asked(params(text))
        assert what is not None
        configurations.check(what)
        for step in steps_of(configurations.processor(what)).values():
            if isinstance(step, RegistryUser):
                registries.add(step.handle().registry)
    gc.collect()
    assert 10 < len(configurations.processors) < 20
    assert configurations.processors.nbytes <= limit
    assert configurations.verdicts.nbytes <= 10_000
    assert shared._bytes <= limit
    assert len(registries) == 3
    # No registry holds an automaton whose processor has gone.
    assert sum(len(registry._handles) for registry in registries) <= 2 * len(configurations.processors)


def test_bans_of_a_request_count_where_its_processor_is_kept(configurations: Configurations) -> None:
    configurations.processors.limit = 2**23
    for number in range(20):
        # A tuple of ids of its own takes 36 bytes for each.
        allowed = tuple(json.loads(json.dumps([*range(number, 100_000 + number)])))
        configurations.processor(Asked("{}", "{}", None, EngineBans(allowed)))
        configurations.processor(Asked("{}", "{}", None, EngineBans(None, ((1,), allowed))))
    assert 1 <= len(configurations.processors) <= 2


def test_an_engine_s_own_caches_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    vocabulary = lk.Vocabulary([*TOKENS, b"engine"], eos_ids=[256])
    monkeypatch.setattr(engines, "engine_vocabulary", lambda config: vocabulary)
    engine = Engine()
    found = engines.configurations_of(engine)
    assert engines.configurations_of(engine) is found
    assert shared_by(vocabulary).cached_bytes == AUTOMATON_BYTES <= 2**26
    assert found.processors.limit <= 2**26
    assert found.verdicts.limit <= 2**26
    assert found.verdicts._allowed.limit + found.verdicts._refused.limit == found.verdicts.limit


def test_eos_ids_that_leave_out_one_of_the_engine_are_refused() -> None:
    two_ends = Configurations(lk.Vocabulary([*TOKENS, None], eos_ids=[256, 257]))
    for config in ({"min_new_tokens": 5}, {"min_new_tokens": {"n": 5, "eos_ids": [65, 256, 257]}, "regex": "a"}):
        check(two_ends, config)
    with pytest.raises(
        LogitkitError, match=r"at the ids \[256, 257\], but MinNewTokens knows the EOS ids \[256\] only"
    ):
        check(two_ends, {"min_new_tokens": {"n": 5, "eos_ids": [256]}, "regex": "a"})
    check(Configurations(any_vocabulary()), {"min_new_tokens": {"n": 5, "eos_ids": [2]}})
