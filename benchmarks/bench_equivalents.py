"""Processors of `docs/equivalents.md` beside those of transformers and llama.cpp, in turns within one run.

Both get the same logits of 131,072 columns on the CPU, with one thread, and return new ones: ours is given a copy, which is
timed, since transformers returns new scores. llama.cpp changes an array of candidates in place, which it is given again at each
call, not timed. The numbers are minima of the processor time of the thread, so that other programs on the machine count little.
The last column has the reference measured a second time, in the same turns: what differs there is noise.

Run `python -m benchmarks.bench_equivalents [--rounds N] [--watermarks]`. It compares the results before it measures. With
`--watermarks`, it measures the watermarks only, of which transformers takes up to a second.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

import logitkit as lk
from benchmarks.bench_sampling import COLUMNS, logits_of

Call = Callable[[], object]

PROMPT, OUTPUT, EOS = 2000, 300, [2, 7]


def texts(rows: int) -> tuple[Tensor, Tensor]:
    """Return prompts and outputs of some rows."""
    rng = torch.Generator().manual_seed(1)
    drawn = torch.randint(0, COLUMNS, (rows, PROMPT + OUTPUT), generator=rng)
    # Outputs quote their prompts, so that runs of tokens occur again.
    drawn[:, PROMPT:] = drawn[:, 100 : 100 + OUTPUT]
    return drawn[:, :PROMPT], drawn[:, PROMPT:]


def pairs(rows: int) -> dict[str, tuple[lk.Processor[Any], Any]]:
    """Return our processor and that of transformers, by name."""
    import transformers as hf

    prompts, _ = texts(rows)
    sequences: Any = {tuple(range(i, i + 1 + i % 4)): 0.5 + i for i in range(50)}
    prompt_ids: Any = prompts
    return {
        "EpsilonCutoff(3e-4)": (lk.EpsilonCutoff(3e-4), hf.EpsilonLogitsWarper(3e-4)),
        "EtaCutoff(3e-3)": (lk.EtaCutoff(3e-3), hf.EtaLogitsWarper(3e-3)),
        "TopH(0.4)": (lk.TopH(0.4), hf.TopHLogitsWarper(0.4)),
        "MinLength(9999)": (lk.MinLength(9999, EOS), hf.MinLengthLogitsProcessor(9999, EOS)),
        "SuppressAtBegin, later": (lk.SuppressAtBegin(EOS), hf.SuppressTokensAtBeginLogitsProcessor(EOS, PROMPT)),
        "LengthDecay(9, 1.01)": (
            lk.LengthDecay(9, 1.01, EOS),
            hf.ExponentialDecayLengthPenalty((9, 1.01), EOS, PROMPT),
        ),
        "EncoderRepetitionPenalty(1.2)": (
            lk.EncoderRepetitionPenalty(1.2),
            hf.EncoderRepetitionPenaltyLogitsProcessor(1.2, prompt_ids),
        ),
        "EncoderNoRepeatNGram(3)": (lk.EncoderNoRepeatNGram(3), hf.EncoderNoRepeatNGramLogitsProcessor(3, prompt_ids)),
        "SequenceBias of 50": (lk.SequenceBias(sequences), hf.SequenceBiasLogitsProcessor(sequences)),
    }


def in_transformers(rows: int) -> dict[str, tuple[Call, Call]]:
    """Return calls of ours, on a copy, and of transformers, which agree."""
    prompts, outputs = texts(rows)
    ids, logits = torch.cat([prompts, outputs], 1), logits_of(rows, "float32")
    context = lk.Context.of(prompts.tolist(), COLUMNS)
    found: dict[str, tuple[Call, Call]] = {}
    for name, (processor, theirs) in pairs(rows).items():
        state = processor.advance(processor.init_state(context), outputs)

        def ours(processor: Any = processor, state: Any = state) -> Tensor:
            return processor.process_logits(state, logits.clone(), context)[1]  # type: ignore[no-any-return]

        def reference(theirs: Any = theirs) -> Tensor:
            return theirs(ids, logits)  # type: ignore[no-any-return]

        assert torch.equal(ours(), reference()), f"{name} differs"
        found[name] = ours, reference
    return found


def in_guidance(rows: int) -> dict[str, tuple[Call, Call]]:
    """Return calls of ours, on a copy, and of transformers, which agree; the second pass of the model takes no time."""
    import transformers as hf
    from transformers.modeling_outputs import CausalLMOutput

    prompts, _ = texts(rows)
    logits, second = logits_of(rows, "float32"), logits_of(rows, "float32").flip(1)
    output, processor = CausalLMOutput(logits=second[:, None]), lk.Guidance(1.5)
    context = replace(lk.Context.of(prompts.tolist(), COLUMNS), guidance_logits=second)
    state = processor.init_state(context)
    model: Any = lambda *_, **__: output  # noqa: E731 - typed, since transformers asks for a model

    def ours() -> Tensor:
        return processor.process_logits(state, logits.clone(), context)[1]

    def reference() -> Tensor:
        # A new one each time, because its attention mask grows at every call.
        return hf.UnbatchedClassifierFreeGuidanceLogitsProcessor(1.5, model)(prompts, logits)  # type: ignore[no-any-return]

    torch.testing.assert_close(ours(), reference(), rtol=1e-5, atol=1e-4)
    return {"Guidance(1.5)": (ours, reference)}


def in_watermarks(rows: int) -> dict[str, tuple[Call, Call]]:
    """Return calls of our watermarks, on a copy, and of those of transformers, which agree.

    What ours remembers of earlier green lists is cleared before each call, not timed.
    """
    import transformers as hf

    from logitkit.watermarks.green_lists import left_greens

    prompts, _ = texts(rows)
    context = lk.Context.of(prompts.tolist(), COLUMNS)
    every, best = logits_of(rows, "float32"), logits_of(rows, "float32")
    best = best.masked_fill(best < best.topk(50).values[:, -1:], -torch.inf)
    found: dict[str, tuple[Call, Call]] = {}

    def add(name: str, processor: Any, theirs: Callable[[Tensor], Tensor], logits: Tensor) -> None:
        state = processor.init_state(context)
        if "Gumbel" in name:
            state = processor.advance(state, prompts[:, :9])

        def result() -> Tensor:
            return processor.process_logits(state, logits.clone(), context)[1]  # type: ignore[no-any-return]

        def ours() -> float:
            left_greens.cache_clear()
            begin = time.thread_time()
            result()
            return time.thread_time() - begin

        if "without" not in name:
            # transformers gives masked tokens the lowest finite number.
            torch.testing.assert_close(result().softmax(1), theirs(logits).softmax(1), atol=1e-5, rtol=1e-3)
        found[name] = ours, lambda: theirs(logits)

    kgw = {s: hf.WatermarkLogitsProcessor(COLUMNS, "cpu", seeding_scheme=s) for s in ("lefthash", "selfhash")}
    for scheme, theirs in kgw.items():
        ours = lk.KgwWatermark(15485863, scheme=scheme)
        add(f"KgwWatermark, {scheme}", ours, lambda given, theirs=theirs: theirs(prompts, given), every)  # type: ignore[misc]
    left = kgw["lefthash"]
    add(
        'KgwWatermark, "hash" (without an equal, beside lefthash)',
        lk.KgwWatermark(7),
        lambda x: left(prompts, x),
        every,
    )
    add("GumbelWatermark (without an equal, beside lefthash)", lk.GumbelWatermark(7), lambda x: left(prompts, x), every)
    keys = [654, 400, 836, 123, 340, 443, 597, 160, 57]
    tournament = hf.SynthIDTextWatermarkLogitsProcessor(5, keys, 2**16, 0, 1024, torch.device("cpu"))

    def anew(given: Tensor) -> Tensor:
        tournament.state = None
        return tournament(prompts, given)  # type: ignore[no-any-return]

    add("SynthIdWatermark of 9 keys, all tokens", lk.SynthIdWatermark(keys), anew, every)
    add("SynthIdWatermark of 9 keys, the 50 best", lk.SynthIdWatermark(keys), anew, best)
    return found


def in_llama_cpp() -> dict[str, tuple[Call, Call]]:
    """Return calls of ours and of llama.cpp, which agree within its rounding."""
    import llama_cpp

    logits = logits_of(1, "float32")
    processor, context = lk.DynamicTemperature(0.5, 1.5), lk.Context.of([[]], COLUMNS)
    state, sampler = processor.init_state(context), llama_cpp.llama_sampler_init_temp_ext(1.0, 0.5, 1.0)
    candidates_of: Any = llama_cpp.llama_token_data * COLUMNS
    room = candidates_of(*((i, x, 0.0) for i, x in enumerate(logits[0].tolist())))
    given = ctypes.string_at(room, ctypes.sizeof(room))

    def ours() -> Tensor:
        return processor.process_logits(state, logits.clone(), context)[1]

    def reference() -> float:
        ctypes.memmove(room, given, len(given))
        candidates = llama_cpp.llama_token_data_array(data=room, size=COLUMNS, selected=-1, sorted=False)
        begin = time.thread_time()
        llama_cpp.llama_sampler_apply(sampler, ctypes.byref(candidates))
        return time.thread_time() - begin

    reference()
    changed = torch.empty(COLUMNS)
    for token in room:
        changed[int(token.id)] = token.logit
    torch.testing.assert_close(ours()[0], changed, rtol=1e-3, atol=1e-3)
    return {"DynamicTemperature(0.5, 1.5), llama.cpp": (ours, reference)}


def minima(calls: dict[str, Call], rounds: int) -> dict[str, float]:
    """Return the least processor time of each call, in seconds; each has a turn in every round."""
    best = dict.fromkeys(calls, float("inf"))
    gc.disable()
    turns = list(calls.items())
    for turn in range(rounds):
        # The one before leaves its numbers in the caches, so each follows each of the others equally often.
        order = turns if turn % 2 else turns[::-1]
        first = turn % len(turns)
        for name, call in order[first:] + order[:first]:
            begin = time.thread_time()
            itself = call()
            took = time.thread_time() - begin
            # A call that must prepare something first says how long the rest took.
            best[name] = min(best[name], itself if isinstance(itself, float) else took)
    gc.enable()
    return best


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--watermarks", action="store_true", help="measure the watermarks only")
    arguments = parser.parse_args()
    rounds = arguments.rounds
    torch.set_num_threads(1)
    print("| processor, rows | theirs, us | ours on a copy, us | ours / theirs | theirs again / theirs |")
    print("|---|---|---|---|---|")
    for rows in (1, 8):
        ordinary = (
            {}
            if arguments.watermarks
            else in_transformers(rows) | in_guidance(rows) | (in_llama_cpp() if rows == 1 else {})
        )
        cases = in_watermarks(rows) if arguments.watermarks else ordinary
        for name, (ours, theirs) in cases.items():
            us = minima({"theirs": theirs, "ours": ours, "again": theirs}, rounds)
            first, own, again = (us[key] * 1e6 for key in ("theirs", "ours", "again"))
            print(f"| {name}, {rows} | {first:.0f} | {own:.0f} | {own / first:.2f} | {again / first:.2f} |")


if __name__ == "__main__":
    main()
