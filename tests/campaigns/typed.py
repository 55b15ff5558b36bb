"""Random chains, engines and faults: a text that is returned as complete is valid, or the result says why it is not."""

from __future__ import annotations

import atexit
import json
import re
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any

import jsonschema
import torch
import transformers
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

import logitkit as lk
from logitkit.composition import EngineLogits
from logitkit.errors import BrokenLogits, ConfigurationError, IncompleteOutput, PatternTooLarge, ProcessorError
from logitkit.sessions.token_choice import drawn_tokens
from logitkit_adapters.sessions import Session, continuous, generate_typed
from logitkit_adapters.transformers import EngineBansWarning, logits_processor
from tests.campaigns.campaign import Campaign, drawn
from tests.campaigns.own_processors import EOS, Own, V, ids_of, own
from tests.sessions.engines import ENGINES, loaded
from tests.sessions.faulty_models import FAULTS, Passes, faulty

PROMPT = [280, 661, 509]
DIGITS = ids_of("0123456789").tolist()
FORCED_EOS = "ForcedTokens of EOS"


@cache
def builtin() -> dict[str, Callable[[], Any]]:
    return {
        "RepetitionPenalty": lambda: lk.RepetitionPenalty(1.2),
        "LogitBias": lambda: lk.LogitBias(dict.fromkeys(DIGITS, -20.0)),
        "NoRepeatNGram": lambda: lk.NoRepeatNGram(2),
        "BanTokens of digits": lambda: lk.BanTokens(DIGITS),
        "BanTokens of EOS": lambda: lk.BanTokens([EOS]),
        "AllowTokens": lambda: lk.AllowTokens([*DIGITS, EOS, V.tokens.index(b"a")]),
        "MinNewTokens": lambda: lk.MinNewTokens(4, [EOS]),
        "ForcedTokens": lambda: lk.ForcedTokens([V.tokens.index(b"a"), V.tokens.index(b"b")]),
        FORCED_EOS: lambda: lk.ForcedTokens([EOS, V.tokens.index(b"a")]),
        "ForcedEos": lambda: lk.ForcedEos([EOS], 3),
        "BannedStrings": lambda: lk.BannedStrings(["1", "a0", '"b'], V),
        "StopStrings": lambda: lk.StopStrings(["1", "ab", "}"], V),
        "ThinkingBudget": lambda: lk.ThinkingBudget(2, "ab", V),
        "ThinkingBudget with a grace": lambda: lk.ThinkingBudget(2, ["ab", "1"], V, message="a", grace=2, min_tokens=1),
        "LoopStop": lambda: lk.LoopStop(V, count=2),
        "Regex": lambda: lk.Regex("[^x]{0,9}", V),
        "Temperature": lambda: lk.Temperature(1.7),
        "Temperature of 0": lambda: lk.Temperature(0.0),
        "TopK": lambda: lk.TopK(4),
        "TopP": lambda: lk.TopP(0.7),
        "Xtc": lambda: lk.Xtc(0.5, 0.1, seed=3),
    }


# A pattern or a schema.
TYPES: list[Any] = [
    *("a[0-9]{3}", "(yes|no|maybe)", "[ab]{2,5}", "a?", "[0-9]*[a-z]", "é{1,3}", "(ab)*c"),
    {"type": "integer"},
    {"enum": ["a", "ab", 12, None]},
    {
        "type": "object",
        "properties": {"a": {"type": "integer", "minimum": 3}},
        "required": ["a"],
        "additionalProperties": False,
    },
    {"type": "array", "items": {"type": "boolean"}, "maxItems": 3},
    {"type": "string", "maxLength": 4, "pattern": "^[a-d1]+$"},
]
# The errors that say why there is no text.
ENDS = (BrokenLogits, IncompleteOutput, ProcessorError, ConfigurationError, PatternTooLarge)
MODES = ("typed", "typed stream", "session", "beams", "continuous", "generate", "core")
# The front ends whose ends are known by the state of the processors alone.
BY_STATE = ("continuous", "generate", "core")
BANS: dict[str, dict[str, Any]] = {
    "none": {},
    "forced_eos_token_id": {"forced_eos_token_id": EOS},
    "suppress_tokens": {"suppress_tokens": DIGITS},
    "bad_words_ids": {"bad_words_ids": [[V.tokens.index(b"a")]]},
}


@dataclass(frozen=True)
class Case:
    """A generation.

    Args:
        mode: The front end.
        engine: The engine, for the front ends of several.
        type: The index of a pattern or schema.
        links: The other processors, by name.
        place: The place of the constraint among them, where it is free.
        fault: The name of a fault in the logits, or None.
        after: The number of forward passes before the fault.
        seed: The seed of sampling, or None.
        limit: The maximum number of new tokens.
        ban: A ban of `generate`.
    """

    mode: str
    engine: str
    type: int
    links: tuple[str | Own, ...]
    place: int
    fault: str | None
    after: int
    seed: int | None
    limit: int
    ban: str

    @property
    def allows_illegal(self) -> bool:
        """Whether a row may have an illegal token, after which its logits do not matter."""
        return any("again" in link.what if isinstance(link, Own) else "Forced" in link for link in self.links)

    def processors(self) -> list[Any]:
        """Return the other processors."""
        return [builtin()[link]() if isinstance(link, str) else link.make() for link in self.links]

    def chain(self) -> lk.Chain:
        """Return the constraint of the type among the other processors."""
        links, given = self.processors(), TYPES[self.type]
        place = min(self.place, len(links))
        constraint: Any = lk.Regex(given, V) if isinstance(given, str) else lk.JsonSchema(given, V)
        return lk.chain(*links[:place], constraint, *links[place:], eos_ids=[EOS])

    def is_valid(self, text: str) -> bool:
        """Whether a text is one of the type, as other libraries say."""
        given = TYPES[self.type]
        if isinstance(given, str):
            return re.fullmatch(given, text) is not None
        try:
            valid: bool = jsonschema.Draft202012Validator(given).is_valid(json.loads(text))
        except ValueError:
            return False
        return valid


@st.composite
def cases(draw: DrawFn) -> Case:
    mode = draw(st.sampled_from(MODES))
    # A forced EOS is text to a chain, whose state does not know that the engine ends there; a session does.
    known = [name for name in sorted(builtin()) if name != FORCED_EOS or mode not in BY_STATE]
    link = st.one_of(st.sampled_from(known), own)
    return Case(
        mode=mode,
        engine="transformers" if mode in ("generate", "core") else draw(st.sampled_from(ENGINES)),
        type=draw(st.integers(0, len(TYPES) - 1)),
        links=tuple(draw(st.lists(link, max_size=3))),
        place=draw(st.integers(0, 3)),
        fault=draw(st.none() | st.none() | st.sampled_from(sorted(FAULTS))),
        after=draw(st.integers(0, 4)),
        seed=draw(st.none() | st.integers(0, 5)),
        limit=draw(st.sampled_from((1, 3, 6, 12))),
        ban=draw(st.sampled_from(sorted(BANS))),
    )


@dataclass(frozen=True)
class Ended:
    """A row as its front end shows it: its text, without EOS, and why it ended."""

    text: str
    finished: str


def check(case: Case, tried: Counter[str]) -> None:
    """Generate, and raise if a text that is not valid looks complete, or if broken logits go unnoticed."""
    rows, reason = list[Ended](), ""
    passes: Any = nullcontext(Passes()) if case.fault is None else faulty(case.engine, FAULTS[case.fault], case.after)
    with passes as found:
        try:
            rows = RUN[case.mode](case)
        except ENDS as error:
            reason = type(error).__name__
    broken = found.faulty > 0 and case.mode != "core"
    assert reason != "BrokenLogits" or case.fault is not None, "the model is sound, but its logits are called broken"
    # A ban of `generate` may hide that the logits are broken.
    is_hidden = case.mode == "generate" and case.ban != "none"
    if broken and not (is_hidden or case.allows_illegal):
        assert reason not in ("", "IncompleteOutput"), f"a model with {case.fault} writes {rows or reason}"
    if not rows:
        tried[f"{case.mode}: {reason}"] += 1
    for row in rows:
        looks_complete = row.finished in ("eos", "closed")
        assert not looks_complete or case.is_valid(row.text), (
            f"{row.text!r} is not valid, but looks complete: {row.finished}"
        )
        if not case.links and case.ban == "none":
            assert looks_complete or row.finished == "length", f"the constraint alone ends a row with {row.finished}"
        tried[f"{case.mode}: {'valid' if looks_complete else row.finished.split(':')[0]}"] += 1


def _typed(case: Case) -> list[Ended]:
    links = case.processors()
    given = TYPES[case.type]
    options: dict[str, Any] = {
        "processor": lk.chain(*links, eos_ids=[EOS]) if links else None,
        "seed": case.seed,
        "max_new_tokens": case.limit,
        "closing": case.place % 2 == 0,
    }
    output = re.compile(given) if isinstance(given, str) else given
    found = generate_typed(*loaded(case.engine), PROMPT, output, stream=case.mode == "typed stream", **options)
    if case.mode == "typed stream":
        pieces = "".join(found)
        found = found.output
        assert pieces == found.text
    if not isinstance(given, str):
        assert found.value == json.loads(found.text)
    # Even after a stop, a value is one of the type.
    assert case.is_valid(found.text), f"the value {found.value!r} is not valid: {found.finished}"
    return [Ended(found.text, found.finished)]


def _session(case: Case) -> list[Ended]:
    beams: dict[str, Any] = {"num_beams": 2} if case.mode == "beams" else {"seed": case.seed}
    with Session(*loaded(case.engine), case.chain()) as session:
        found = session.generate(PROMPT, max_new_tokens=case.limit, **beams).rows
    # A beam for which there was no other text repeats another.
    return [Ended(row.text, row.finished) for row in found if row.log_prob is None or row.log_prob > -torch.inf]


def _continuous(case: Case) -> list[Ended]:
    chain = case.chain()
    state = continuous(*loaded(case.engine), chain, seed=case.seed)(PROMPT, max_new_tokens=case.limit)
    tokens = [i for i in state.rows[0][len(PROMPT) :] if i != EOS]
    return [_judged(chain, state.processor_state, tokens, bool(state.finished))]


def _generate(case: Case) -> list[Ended]:
    chain = case.chain()
    hook = logits_processor(chain)
    options = {"do_sample": case.seed is not None, "max_new_tokens": case.limit, **BANS[case.ban]}
    torch.manual_seed(case.seed or 0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ids = loaded("transformers")[0].generate(torch.tensor([PROMPT]), logits_processor=[hook], **options)
    tokens = ids[0, len(PROMPT) :].tolist()
    ended = tokens[-1] == EOS
    if ended and any(one.category is EngineBansWarning for one in caught):
        return [Ended(_text(tokens[:-1]), "warned")]
    # The state of a hook is that before the last token.
    state = chain.advance(hook.state, torch.tensor(tokens[-1:]))
    return [_judged(chain, state, [i for i in tokens if i != EOS], ended)]


def _core(case: Case) -> list[Ended]:
    """Run the processors as an engine does, on random logits."""
    chain, tokens = case.chain(), list[int]()
    process = EngineLogits(chain)
    context = lk.Context.of([PROMPT], V.size, max_length=len(PROMPT) + case.limit)
    state, chance = chain.init_state(context), torch.Generator().manual_seed(case.after + 7 * (case.seed or 0))
    while len(tokens) < case.limit and EOS not in tokens:
        logits = torch.randn(1, V.size, generator=chance) * 5
        if case.fault is not None and len(tokens) >= case.after:
            FAULTS[case.fault](logits[0].numpy())
        left = process(state, logits, context, [EOS])
        position = torch.tensor([len(tokens)])
        drawn_token = (
            left.argmax(1) if case.seed is None else drawn_tokens(left, case.seed, torch.tensor([0]), position)
        )
        tokens.append(int(drawn_token))
        assert left[0, tokens[-1]] > -torch.inf, "a banned token is chosen"
        assert case.fault is None or len(tokens) <= case.after or case.allows_illegal, "broken logits are processed"
        state, context = chain.advance(state, drawn_token), context.at(context.lengths + 1)
    return [_judged(chain, state, [i for i in tokens if i != EOS], tokens[-1] == EOS)]


def _judged(chain: lk.Chain, state: Any, tokens: list[int], ended: bool) -> Ended:
    """Return how a row ended, as the state of the processors after its last token says."""
    pairs = list(zip(chain.processors, state, strict=True))
    stopped = any(isinstance(p, lk.StopStrings | lk.LoopStop) and bool(p.fired(s)) for p, s in pairs)
    if stopped or not ended:
        return Ended(_text(tokens), "stop" if stopped else "length")
    return Ended(_text(tokens), "conflict" if bool(chain.conflicts(state, columns=V.size)) else "eos")


def _text(tokens: list[int]) -> str:
    return b"".join(V.tokens[i] or b"" for i in tokens).decode("utf-8", "replace")


RUN: dict[str, Callable[[Case], list[Ended]]] = {
    "typed": _typed,
    "typed stream": _typed,
    "session": _session,
    "beams": _session,
    "continuous": _continuous,
    "generate": _generate,
    "core": _core,
}

# llama-cpp-python cannot free a model when the interpreter has begun to end.
atexit.register(loaded.cache_clear)
transformers.utils.logging.disable_progress_bar()

CAMPAIGN = Campaign(
    "typed", "ends of random chains on sound and broken models, with `re` and `jsonschema`", drawn(cases(), 60, check)
)
