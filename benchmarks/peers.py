"""One interface for logitkit and its peers: compile a pattern, mask rows of float32 logits, advance.

Each peer is used in its own fastest way on one CPU thread: without the wrapper of an engine, with masks written to memory by
pointer if the peer offers that, and with its own kernel to apply them. The constructor does all work that depends only on the
vocabulary.

    pip install -c constraints.txt llguidance outlines-core apache-tvm-ffi && pip install --no-deps -c constraints.txt xgrammar
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

import logitkit as lk
from benchmarks.peer import NotTaken, Peer, Refused, Rows
from logitkit.errors import PatternSyntaxError
from logitkit.vocabulary import Vocabulary

# Entries beyond the default limits are measured all the same; the report says which they are.
LIMITS = lk.Limits(states=200_000, work=100_000_000)

Backend = Literal["cpu", "torch_compile"]


def bits_of(rows: int, size: int) -> Tensor:
    """Make bit masks: [B, ceil(V / 32)] int32."""
    return torch.full((rows, (size + 31) // 32), -1, dtype=torch.int32)


class Logitkit(Peer):
    """`Regex`, through its public methods, as processors in an engine use it."""

    name = "logitkit"
    distribution = "logitkit"

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        assert vocabulary.trie.depth > 0
        assert vocabulary.content_key

    def compile(self, pattern: str) -> lk.Regex:
        try:
            return lk.Regex(pattern, self.vocabulary, limits=LIMITS)
        except PatternSyntaxError as error:
            raise Refused(str(error)) from error

    def start(self, compiled: lk.Regex, rows: int) -> Rows:
        return LogitkitRows(compiled, rows)


class LogitkitRows:
    def __init__(self, regex: lk.Regex, rows: int) -> None:
        self.regex = regex
        self.context = lk.Context.of([[]] * rows, vocabulary_size=regex.vocabulary.size)
        self.state = self.beginning = regex.init_state(self.context)

    def mask(self, logits: Tensor) -> None:
        self.regex.process_logits(self.state, logits, self.context)

    def advance(self, tokens: Tensor) -> None:
        self.state = self.regex.advance(self.state, tokens)
        ended = tokens == -1
        if ended.any():
            state = torch.where(ended, self.beginning.at.state, self.state.at.state)
            self.state = self.state._replace(at=self.state.at._replace(state=state))


class LLGuidance(Peer):
    """`LLMatcher` on a `LLTokenizer` made from the bytes of the tokens; masks applied by its compiled torch kernel."""

    name = "LLGuidance"
    distribution = "llguidance"

    def __init__(self, vocabulary: Vocabulary) -> None:
        from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper

        self.size = vocabulary.size
        self.matcher = LLMatcher
        wrapper = TokenizerWrapper(_Greedy(vocabulary))
        self.tokenizer = LLTokenizer(wrapper, n_vocab=vocabulary.size, eos_token=vocabulary.eos_ids[0])

    def compile(self, pattern: str) -> Any:
        try:
            matcher = self.matcher(self.tokenizer, self.grammar(pattern), log_level=0)
        except ValueError as error:
            raise Refused(str(error)) from error
        if matcher.is_error():
            raise Refused(matcher.get_error())
        return matcher

    def grammar(self, pattern: str) -> Any:
        """Return LLGuidance's form of what is to be compiled."""
        return self.matcher.grammar_from_regex(pattern)

    def start(self, compiled: Any, rows: int) -> Rows:
        return LLGuidanceRows([compiled, *(compiled.deep_copy() for _ in range(rows - 1))], bits_of(rows, self.size))


class LLGuidanceRows:
    def __init__(self, matchers: Sequence[Any], bits: Tensor) -> None:
        from llguidance.torch import apply_token_bitmask_inplace

        width = bits.shape[1] * 4
        self.matchers = matchers
        self.bits = bits
        self.fills = [(m.unsafe_compute_mask_ptr, bits.data_ptr() + i * width, width) for i, m in enumerate(matchers)]
        self.apply = apply_token_bitmask_inplace

    def mask(self, logits: Tensor) -> None:
        for fill, pointer, width in self.fills:
            fill(pointer, width)
        self.apply(logits, self.bits)

    def advance(self, tokens: Tensor) -> None:
        for matcher, token in zip(self.matchers, tokens.tolist(), strict=True):
            if token == -1:
                matcher.reset()
            elif not matcher.consume_token(token):
                raise NotTaken(f"LLGuidance does not take token {token}")


class _Greedy:
    """The tokenizer interface that LLGuidance requires; text is encoded by the longest token at each place."""

    bos_token_id = None

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.eos_token_id = vocabulary.eos_ids[0]
        self.tokens = [t or b"" for t in vocabulary.tokens]
        self.special_token_ids = [i for i, t in enumerate(vocabulary.tokens) if t is None]
        self._ids = {t: i for i, t in enumerate(vocabulary.tokens) if t}
        self._longest = max(map(len, self._ids))

    def __call__(self, text: str | bytes) -> list[int]:
        text = text.encode() if isinstance(text, str) else text
        ids, at = [], 0
        while at < len(text):
            widths = range(min(self._longest, len(text) - at), 0, -1)
            width = next(w for w in widths if text[at : at + w] in self._ids)
            ids.append(self._ids[text[at : at + width]])
            at += width
        return ids


class XGrammar(Peer):
    """`GrammarCompiler` on a `TokenizerInfo` made from the bytes of the tokens.

    Args:
        vocabulary: The tokens.
        backend: Which of its kernels applies masks: "cpu", which it chooses by itself, is fast where most tokens are allowed;
            "torch_compile" elsewhere.
    """

    name = "XGrammar"
    distribution = "xgrammar"

    def __init__(self, vocabulary: Vocabulary, backend: Backend = "cpu") -> None:
        import xgrammar

        self.library = xgrammar
        self.size = vocabulary.size
        self.backend = backend
        tokens = [t or b"" for t in vocabulary.tokens]
        stop = list(vocabulary.eos_ids)
        info = xgrammar.TokenizerInfo(tokens, xgrammar.VocabType.RAW, vocab_size=vocabulary.size, stop_token_ids=stop)
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)

    def compile(self, pattern: str) -> Any:
        try:
            return self.compiler.compile_regex(pattern)
        except RuntimeError as error:
            raise Refused(str(error)) from error

    def start(self, compiled: Any, rows: int) -> Rows:
        matchers = [self.library.GrammarMatcher(compiled) for _ in range(rows)]
        return XGrammarRows(matchers, bits_of(rows, self.size), self.backend)


class XGrammarRows:
    def __init__(self, matchers: Sequence[Any], bits: Tensor, backend: Backend) -> None:
        import xgrammar

        self.matchers = matchers
        self.bits = bits
        self.backend = backend
        self.apply = xgrammar.apply_token_bitmask_inplace

    def mask(self, logits: Tensor) -> None:
        needed = False
        for row, matcher in enumerate(self.matchers):
            needed |= matcher.fill_next_token_bitmask(self.bits, row)
        if needed:
            self.apply(logits, self.bits, backend=self.backend)

    def advance(self, tokens: Tensor) -> None:
        for matcher, token in zip(self.matchers, tokens.tolist(), strict=True):
            if token == -1:
                matcher.reset()
            elif not matcher.accept_token(token):
                raise NotTaken(f"XGrammar does not take token {token}")


class OutlinesCore(Peer):
    """`Index` over a `Vocabulary`, one `Guide` a row; masks written and applied by its own torch kernels."""

    name = "outlines-core"
    distribution = "outlines-core"

    def __init__(self, vocabulary: Vocabulary) -> None:
        import outlines_core

        self.library = outlines_core
        self.size = vocabulary.size
        ids: dict[bytes, list[int]] = {}
        for i, token in enumerate(vocabulary.tokens):
            if token:
                ids.setdefault(token, []).append(i)
        self.vocabulary = outlines_core.Vocabulary(vocabulary.eos_ids[0], ids)

    def compile(self, pattern: str) -> Any:
        try:
            return self.library.Index(pattern, self.vocabulary)
        except ValueError as error:
            raise Refused(str(error)) from error

    def start(self, compiled: Any, rows: int) -> Rows:
        return OutlinesRows([self.library.Guide(compiled) for _ in range(rows)], bits_of(rows, self.size))


class OutlinesRows:
    def __init__(self, guides: Sequence[Any], bits: Tensor) -> None:
        from outlines_core.kernels.torch import apply_token_bitmask_inplace

        width = bits.shape[1]
        self.guides = guides
        self.bits = bits
        self.fills = [(g.write_mask_into, bits.data_ptr() + i * width * 4, width) for i, g in enumerate(guides)]
        self.apply = apply_token_bitmask_inplace

    def mask(self, logits: Tensor) -> None:
        for write, pointer, width in self.fills:
            write(pointer, width, 4)
        self.apply(logits, self.bits)

    def advance(self, tokens: Tensor) -> None:
        for guide, token in zip(self.guides, tokens.tolist(), strict=True):
            if token == -1:
                guide.reset()
            else:
                try:
                    guide.advance(token, return_tokens=False)
                except ValueError as error:
                    raise NotTaken(f"outlines-core does not take token {token}: {error}") from error
