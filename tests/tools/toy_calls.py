"""Three toy tools in formats of few characters, whose turns can be listed: brute force over all tokenizations."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import torch

from logitkit import Context, ToolFormat, Tools, Vocabulary
from logitkit.errors import ConfigurationError

NAMES = ("a", "ab", "b.c")
MOST = 3
TOOLS = [
    {"name": "a", "parameters": {"type": "object", "properties": {}}},
    {"name": "ab", "parameters": {"type": "object", "properties": {"x": {"type": "boolean"}}}},
    {"name": "b.c"},
]


def form(**given: Any) -> ToolFormat:
    """A format that writes `<a:{}>,<b.c:{}>`, with some changes."""
    plain: dict[str, Any] = {"name": "toy", "call_begin": "<", "name_end": ":", "call_end": ">", "separator": ","}
    return ToolFormat(**{**plain, "text_begin": "T", "whitespace": "compact", **given})


TAGS: dict[str, Any] = {"arguments": "xml", "parameter_begin": "<p={name}>", "parameter_end": "</p>"}
# Every way to write arguments; special tokens before, in and after what a rule may read, and in names; arguments that begin like
# the end of a call; names after which nothing stands; numbers; several beginnings, of which one is the beginning of another; and
# calls that begin like the end of all calls.
FORMS = {
    "json": form(),
    "special begin": form(call_begin="[C]", trigger="[C]", separator="", call_end="", tokens=("[C]",)),
    "special name end": form(
        call_begin="[C]", trigger="[C]", separator="", name_end="[A]", call_end="", tokens=("[C]", "[A]")
    ),
    "special end": form(call_end="[E]", tokens=("[E]",)),
    "one object": form(call_begin='{"', name_end='":', call_end="}"),
    "quoted": form(arguments="json_string", call_end=""),
    "python": form(
        calls_begin="[",
        call_begin="",
        name_end="(",
        call_end=")",
        calls_end="]",
        arguments="python",
        parameter_begin="{name}=",
        parameter_separator=",",
    ),
    "tags": form(call_end="</c>", trigger="<", text_begin="", **TAGS),
    "tags, special end": form(call_end=">[E]", tokens=("[E]",), **TAGS),
    "tags without a bracket at the end": form(call_end="\n", call_begin="C ", **{**TAGS, "parameter_end": "[/p]"}),
    "tags that begin like the end": form(**{**TAGS, "parameter_begin": ">{name}="}),
    "special token in names": form(tokens=("b",)),
    "no name end": form(name_end="", **{**TAGS, "parameter_begin": "(k){name}(v)", "parameter_end": "(/v)"}),
    "numbered": form(call_begin="n{number}-", separator=" "),
    "two beginnings": form(also=(("<<", "::"),)),
    "two name ends": form(also=(("<", "="),)),
    "list": form(separator="\n", calls_begin="[", calls_end="\n]", trigger="["),
}
CASES: list[dict[str, Any]] = [
    {"parallel_calls": (2, 3)},
    {"unique": True},
    {"allowed_after": {"b.c": ["ab"]}, "parallel_calls": (0, 3)},
    {"unique": True, "parallel_calls": (1, 2)},
    {"unique": True, "parallel_calls": (2, None), "allowed_after": {"a": ["ab", "b.c"]}},
    {"parallel_calls": (2, 2), "allowed_after": {"ab": "a"}},
    {"unique": True, "allowed_after": {"a": ["ab"], "b.c": ["a"]}, "parallel_calls": [3, 3]},
]


def is_allowed(names: tuple[str, ...], case: dict[str, Any]) -> bool:
    """Whether some calls are allowed by the options of a case, in plain words."""
    least, most = case.get("parallel_calls", (1, None))
    if not max(least, 1) <= len(names) <= (len(names) if most is None else most):
        return False
    if case.get("unique") and len({*names}) < len(names):
        return False
    after = {name: [few] if isinstance(few, str) else few for name, few in case.get("allowed_after", {}).items()}
    return all(name not in after or any(other in names[:at] for other in after[name]) for at, name in enumerate(names))


def texts(form: ToolFormat, case: dict[str, Any]) -> Iterator[str]:
    """All turns of at most three calls. Numbers are 0."""
    for count in range(1, MOST + 1):
        for names in itertools.product(NAMES, repeat=count):
            if is_allowed(names, case):
                for calls in itertools.product(*(_calls(form, name) for name in names)):
                    yield form.calls_begin + str(form.separator).join(calls) + form.calls_end


def _calls(form: ToolFormat, name: str) -> list[str]:
    begin = form.parameter_begin.replace("{name}", "x")
    written = {"json": '{"x":%s}', "json_string": '"{\\"x\\":%s}"', "python": begin + "%s"}
    some = written.get(form.arguments, begin + "%s" + form.parameter_end)
    nothing = {"json": "{}", "json_string": '"{}"'}.get(form.arguments, "")
    arguments = [nothing, *([some % value for value in ("true", "false")] if name == "ab" else [])]
    heads = [(before.replace("{number}", "0"), after) for before, after in form.heads]
    return [before + name + after + inside + form.call_end for before, after in heads for inside in arguments]


class Toy:
    """The turns of a case, and a vocabulary of pieces of them that lie anywhere in these texts.

    Args:
        form: The format.
        case: The options.
        seed: Decides the pieces.
        lacking: Whether some bytes are not tokens.
    """

    def __init__(self, form: ToolFormat, case: dict[str, Any], seed: int, lacking: bool = False) -> None:
        self.rng, self.form, self.case = random.Random(seed), form, case
        self.texts = {self.symbols(text) for text in texts(form, case)}
        used = sorted({s for text in self.texts for s in text if s < 256} | {*"".join(form.tokens).encode()})
        tokens = [bytes([byte]) for byte in used if not lacking or self.rng.random() < 0.8]
        tokens += [*sorted({*self._pieces()}), b"zz", b'"z']
        tokens = list(dict.fromkeys(tokens))
        self.eos = len(tokens)
        special = {name: self.eos + 1 + number for number, name in enumerate(form.tokens)}
        self.vocabulary = Vocabulary([*tokens, None, *[None] * len(special)], eos_ids=[self.eos], special=special)
        # The symbols that each token adds to a text.
        self.adds = [tuple(token) for token in tokens] + [(), *((256 + n,) for n in range(len(special)))]
        self.beginnings = {text[:size] for text in self.texts for size in range(len(text) + 1)}
        self.can_end: dict[tuple[int, ...], bool] = {}
        for text in sorted(self.beginnings, key=len, reverse=True):
            others = (self.can_end[text + more] for more in self.adds if more and text + more in self.beginnings)
            self.can_end[text] = text in self.texts or any(others)

    def symbols(self, text: str) -> tuple[int, ...]:
        """The bytes of a text, and numbers from 256 on for special tokens."""
        found: list[int] = []
        while text:
            name = next((name for name in self.form.tokens if text.startswith(name)), text[0])
            found += [256 + self.form.tokens.index(name)] if name in self.form.tokens else name.encode()
            text = text.removeprefix(name)
        return tuple(found)

    def _pieces(self) -> Iterator[bytes]:
        for text in self.rng.sample(sorted(self.texts), min(len(self.texts), 60)) * 3:
            at = self.rng.randrange(len(text))
            piece = text[at : at + self.rng.choice([2, 2, 3, 4, 6, 9, 14])]
            if max(piece) < 256:
                yield bytes(piece)

    def wrong_masks(self) -> Iterator[tuple[tuple[int, ...], set[int], set[int]]]:
        """Compare the mask of each beginning of a turn, in many tokenizations, with what can be completed by tokens.

        Yields:
            Each beginning whose mask is another one, the tokens that it allows, and those that it must allow.
        """
        tools = Tools(TOOLS, self.form, choice="required", **self.case)
        try:
            constraint = tools.constraint(self.vocabulary)
        except ConfigurationError:
            # Without the tokens for any turn.
            if self.can_end[()]:
                yield (), set(), {0}
            return
        todo: list[tuple[tuple[int, ...], Any]] = [
            ((), constraint.init_state(Context.of([[]], vocabulary_size=self.vocabulary.size)))
        ]
        met = {()}
        for text, state in todo:
            allowed = {*constraint.allowed_tokens(state)[0].nonzero()[:, 0].tolist()}
            expected = {token for token, more in enumerate(self.adds) if more and self.can_end.get(text + more)}
            expected |= {self.eos} if text in self.texts else set()
            if allowed != expected:
                yield text, allowed, expected
            for token in allowed & expected - {self.eos}:
                longer = text + self.adds[token]
                # Some texts in several tokenizations.
                if longer not in met or self.rng.random() < 0.1:
                    met.add(longer)
                    todo.append((longer, constraint.advance(state, torch.tensor([token]))))
