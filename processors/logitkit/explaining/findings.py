"""The data of an explanation: one step per token, and for a refused token the reason and its place in the source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["Effect", "Findings", "Refusal", "Source", "Step"]


@dataclass(frozen=True, slots=True)
class Source:
    """A place in the definition of a constraint: in a pattern, a schema, a grammar, a tool or a list of texts.

    Args:
        kind: The whole that `text` is a part of.
        text: The part, such as `[0-9]{4}` of a pattern, `maximum: 99` of a schema or `digit ::= [0-9]` of a grammar.
        span: For a pattern or a grammar, the indices [start, end) of the part in it.
        pointer: For a schema, the JSON pointer of the keyword in the schema, such as `/properties/age/maximum`.
        path: For a schema, the JSON pointer of the value in the output, such as `/age`.
        tool: The name of the tool whose arguments the schema describes.
        definition: For a pattern or a grammar, the whole of it, so that a reader can be shown where `span` is in it.
    """

    kind: Literal["pattern", "schema", "rule", "tool", "text"]
    text: str
    span: tuple[int, int] | None = None
    pointer: str | None = None
    path: str | None = None
    tool: str | None = None
    definition: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a token is illegal.

    Args:
        processor: The name of the first processor that bans the token.
        cause: `language`: the text is not the beginning of any legal text. `budget`: it is, but no legal text that begins with
            it is short enough for the token limit. `vocabulary`: it is, but the tokens cannot complete it. `ban`: a processor
            that is not a language bans the token. `end`: the token is an EOS and the text is incomplete, or a token after EOS.
        byte: The offset in the bytes of the output of the first byte that cannot stand there; None if the cause has none.
        expected: The characters that may stand there, to be read by people: `digit or '-'`.
        sources: Where the expected parts stand in the definition, the most specific first.
        open_brackets: The open brackets of JSON at that point, outermost first, as in `{[`.
        completion: The token ids of a shortest legal continuation of the output before this token, without EOS; None if there is
            none.
    """

    processor: str
    cause: Literal["language", "budget", "vocabulary", "ban", "end"]
    byte: int | None = None
    expected: str = ""
    sources: tuple[Source, ...] = ()
    open_brackets: str = ""
    completion: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Effect:
    """The effects of one processor of a chain on the logits of a step.

    Args:
        processor: The name of the processor.
        banned: How many tokens it banned that were legal before it.
        shift: The change of the logit of the token that was written; None if it was banned, or if it cannot be known without the
            logits of a model.
    """

    processor: str
    banned: int
    shift: float | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One token of an output.

    Args:
        token_id: Its id.
        data: The bytes that it adds to the text; empty for a special token.
        name: The name of the special token, or "".
        legal: How many tokens were legal in its place.
        effects: The processors that changed the logits, in order.
        refusal: Why the token is illegal; None if it is legal, or if an earlier token was illegal already.
        after_refusal: Whether an earlier token was illegal, so that nothing was legal here but the end.
        probability: The probability that the model gave the token, before any processor; only known to `trace`.
        removed: The probability of all tokens that the processors banned; only known to `trace`.
        wanted: The token that the model found most likely before any processor; only known to `trace`.
    """

    token_id: int
    data: bytes
    name: str
    legal: int
    effects: tuple[Effect, ...] = ()
    refusal: Refusal | None = None
    after_refusal: bool = False
    probability: float | None = None
    removed: float | None = None
    wanted: int | None = None


@dataclass(frozen=True, slots=True)
class Findings:
    """The effects of a processor at each token of an output: the data of an `Explanation`.

    Args:
        processor: The name of the processor.
        steps: One step per token.
        complete: Whether the output is a complete legal text, so that EOS may follow or has followed.
        completion: The token ids of a shortest legal continuation of the whole output, without EOS; None if there is none.
        token_bytes: The bytes of the tokens of completions and of `wanted`, by id; for a special token, its name.
        finished: Why the model ended the output, as in the `finished` of a session's row, such as `"eos"` or `"loop"`; only known
            to `trace`, if the model wrote the output.
    """

    processor: str
    steps: tuple[Step, ...]
    complete: bool
    completion: tuple[int, ...] | None = None
    token_bytes: Mapping[int, bytes] = field(default_factory=dict, hash=False)
    finished: str | None = None

    @property
    def refused_at(self) -> int | None:
        """The position of the first illegal token, or None if all tokens are legal."""
        return next((at for at, step in enumerate(self.steps) if step.refusal is not None), None)

    @property
    def refusal(self) -> Refusal | None:
        """The refusal of the first illegal token, or None if all tokens are legal."""
        return None if self.refused_at is None else self.steps[self.refused_at].refusal
