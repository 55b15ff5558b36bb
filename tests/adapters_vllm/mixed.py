"""Requests that ask for different things, and what their tokens must be: worked out without logitkit, of a model's logits."""

from __future__ import annotations

import codecs
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import regex  # type: ignore[import-untyped]
import torch
from numpy.typing import NDArray

from tests.adapters_vllm import engine

DATE = r"\d{4}-\d{2}-\d{2}"
PHONE = r"\+\d{1,3}( \d{2,4}){2,4}"
FREE = r"(?s).*"
EOS = 2

# How far apart two engines' own float32 logits of one text are.
NEAR = 2e-3

Logits = NDArray[np.float64]
Ids = Sequence[int]
# Changes the logits that follow a prompt and an output.
Change = Callable[[Logits, Ids, Ids], None]


def repeated(penalty: float, window: int | None = None) -> Change:
    def change(logits: Logits, prompt: Ids, said: Ids) -> None:
        text = [*prompt, *said]
        for token in set(text if window is None else text[-window:]):
            logits[token] *= penalty if logits[token] < 0 else 1 / penalty

    return change


def counted(frequency: float = 0.0, presence: float = 0.0) -> Change:
    def change(logits: Logits, prompt: Ids, said: Ids) -> None:
        for token, count in Counter(said).items():
            logits[token] -= frequency * count + presence

    return change


def biased(token: int, bias: float) -> Change:
    def change(logits: Logits, prompt: Ids, said: Ids) -> None:
        logits[token] += bias

    return change


def banned(token: int) -> Change:
    return biased(token, -np.inf)


def no_repeats(n: int) -> Change:
    def change(logits: Logits, prompt: Ids, said: Ids) -> None:
        text = [*prompt, *said]
        for begin in range(len(text) - n + 1):
            if text[begin : begin + n - 1] == text[len(text) - n + 1 :]:
                logits[text[begin + n - 1]] = -np.inf

    return change


def not_before(n: int) -> Change:
    def change(logits: Logits, prompt: Ids, said: Ids) -> None:
        if len(said) < n:
            logits[EOS] = -np.inf

    return change


def dry(multiplier: float, base: float, allowed: int) -> Change:
    def change(logits: Logits, prompt: Ids, said: Ids) -> None:
        text = [*prompt, *said]
        longest: dict[int, int] = {}
        for place in range(1, len(text)):
            n = 0
            while n < place and text[place - 1 - n] == text[-1 - n]:
                n += 1
            longest[text[place]] = max(longest.get(text[place], 0), n)
        for token, n in longest.items():
            if n >= allowed:
                logits[token] -= multiplier * base ** (n - allowed)

    return change


class Case(NamedTuple):
    """The configuration of a request, with checks of its output.

    Args:
        config: For the plugin, or None.
        pattern: A pattern that the whole text matches.
        changes: The changes to the logits, in order.
        spares: Whether the likely tokens may all be left out but for the least likely one, by a draw of XTC.
        free: Whether ids without text are allowed.
    """

    config: dict[str, Any] | str | None
    pattern: str
    changes: tuple[Change, ...] = ()
    spares: bool = False
    free: bool = False


CASES = (
    Case(None, FREE, free=True),
    Case({"regex": DATE, "repetition_penalty": 1.1}, DATE, (repeated(1.1),)),
    Case({"choice": ["yes", "no", "perhaps not"]}, "yes|no|perhaps not"),
    Case({"regex": r"[a-z ]{5,60}\.", "no_repeat_ngram": 3, "top_k": 20}, r"[a-z ]{5,60}\.", (no_repeats(3),)),
    Case(
        '{"regex": "[0-9](,[0-9]){20,40}", "frequency_penalty": 0.5}', "[0-9](,[0-9]){20,40}", (counted(frequency=0.5),)
    ),
    Case({"banned_strings": ["e", "a"], "min_new_tokens": 30}, r"(?s)[^ea]*", (not_before(30),), free=True),
    Case(
        {"repetition_penalty": {"penalty": 1.3, "window": 16}, "logit_bias": {"40": 2.0}, "top_p": 0.9},
        FREE,
        (biased(40, 2.0), repeated(1.3, window=16)),
        free=True,
    ),
    Case(
        {"forced_prefix": {"text": "Well, ", "then": {"regex": "[A-Z][a-z]+"}}, "temperature": 0.7}, "Well, [A-Z][a-z]+"
    ),
    Case(
        {"stop_strings": ["1", "\n"], "presence_penalty": 0.3},
        r"(?s)[^1\n]*([1\n].*)?",
        (counted(presence=0.3),),
        free=True,
    ),
    Case(None, FREE, free=True),
    Case(
        {
            "dry": {"multiplier": 0.8, "base": 1.75, "allowed_length": 2, "breakers": []},
            "xtc": {"probability": 0.5, "seed": 3},
            "min_p": 0.01,
        },
        FREE,
        (dry(0.8, 1.75, 2),),
        spares=True,
        free=True,
    ),
    Case(
        {"regex": PHONE, "ban_tokens": [300], "thinking_budget": {"max_tokens": 400, "end": "#"}}, PHONE, (banned(300),)
    ),
)

# Above it, XTC takes a token for likely; below it, in parts of the likeliest, min-p leaves none.
THRESHOLD, LEAST = 0.1, 0.01


def case(number: int) -> Case:
    return CASES[number % len(CASES)]


def is_drawn(number: int) -> bool:
    """Whether its tokens are drawn, and so are others each time."""
    return number % 5 == 1 and case(number).config is not None


def asked(number: int, max_tokens: int = 100, plain: bool = False) -> dict[str, Any]:
    """Return the parameters of a request; without a seed: with one, vLLM on a CPU fails in prompts that it prefills in chunks."""
    config = None if plain else case(number).config
    return {
        "max_tokens": max_tokens,
        "temperature": 0.8 if is_drawn(number) else 0.0,
        "extra_args": None if config is None else {"logitkit": config},
    }


def requests(count: int, max_tokens: int = 100) -> list[tuple[str, dict[str, Any]]]:
    return [(engine.prompt(number), asked(number, max_tokens)) for number in range(count)]


def model_logits(prompt: Ids, said: Ids) -> Logits:
    """Return what the model says before each token of an output, in transformers, [T, V]."""
    from tests.adapters.demo import model

    with torch.no_grad():
        logits = model()(torch.tensor([[*prompt, *said]])).logits[0]
    found: Logits = logits[len(prompt) - 1 : -1].double().numpy()
    return found


@cache
def _tokens() -> list[bytes | None]:
    from tests.adapters.demo import vocabulary

    return [*vocabulary().tokens]


# Digits of Python's patterns that are not ASCII; other patterns here have no such characters.
DIGITS = [chr(code) for code in range(128, sys.maxunicode + 1) if chr(code).isdecimal()]


@cache
def begins(pattern: str, text: bytes) -> bool:
    """Whether a text of ASCII and digits is the beginning of a match; it may end amid a character."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        known = decoder.decode(text)
    except UnicodeDecodeError:
        return False
    amid = bytes(decoder.getstate()[0])
    ends = [digit for digit in DIGITS if digit.encode().startswith(amid)] if amid else [""]
    return any(regex.fullmatch(pattern, known + end, partial=True) for end in ends)


def allowed(one: Case, text: bytes, token: int) -> bool:
    """Whether a token may follow a text of a case."""
    if "stop_strings" in (one.config or ()) and (b"1" in text or b"\n" in text):
        return token == EOS
    if token == EOS:
        # An incomplete character does not match a character in a pattern.
        return regex.fullmatch(one.pattern, text.decode("utf-8", "replace")) is not None
    spelled = _tokens()[token]
    if spelled is None:
        return one.free
    if one.free:
        return regex.fullmatch(one.pattern.encode(), text + spelled, partial=True) is not None
    return begins(one.pattern, text + spelled)


def check(number: int, found: dict[str, Any]) -> None:
    """Assert that an output, with its prompt, is one that its request asks for: the likeliest, if it is not drawn."""
    one, drawn = case(number), is_drawn(number)
    prompt, said = found["prompt"], found["tokens"]
    assert said
    if found["reason"] == "stop":
        assert said[-1] == EOS
        assert regex.fullmatch(one.pattern, found["text"]), (number, found["text"])
    text = b""
    for step, logits in enumerate(model_logits(prompt, said)):
        token = said[step]
        assert allowed(one, text, token), (number, step, text, token)
        scores = logits.copy()
        for change in one.changes:
            change(scores, prompt, said[:step])
        assert np.isfinite(scores[token]), (number, step, text, token)
        if not drawn:
            likeliest = _likeliest(one, text, scores)
            wanted = [likeliest]
            if one.spares:
                wanted.append(_least_of_the_likely(scores))
            near = [t for t in wanted if abs(scores[token] - scores[t]) < NEAR]
            assert near, (number, step, text, token, wanted)
        text += _tokens()[token] or b""


def _likeliest(one: Case, text: bytes, scores: Logits) -> int:
    found: int = next(token for token in np.argsort(-scores, kind="stable").tolist() if allowed(one, text, token))
    return found


def _least_of_the_likely(scores: Logits) -> int:
    chances = np.exp(scores - scores.max())
    chances[chances < LEAST] = 0
    likely = np.flatnonzero(chances / chances.sum() >= THRESHOLD)
    return int(likely[scores[likely].argmin()] if len(likely) else scores.argmax())
