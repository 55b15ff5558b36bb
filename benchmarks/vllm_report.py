"""The results of `bench_vllm` as Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

OURS = "logitkit"
Record = dict[str, Any]

PLACES = {name: (f"<!-- {name} -->", f"<!-- end of {name} -->") for name in ("serving", "streams", "first tokens")}


def report(result: dict[str, Record]) -> str:
    """Write the results as Markdown."""
    lines = ["# On vLLM, beside its structured output", ""]
    parts = {"steps": _steps, "admission": _admission, "worker": _worker, "serving": _serving, "streams": _streams}
    parts |= {"first tokens": _first_tokens}
    for name, part in parts.items():
        if name in result:
            lines += [*part(result[name]["cases"]), "", result[name]["conditions"], ""]
    return "\n".join([*lines, *_losses({name: part["cases"] for name, part in result.items()})])


def _steps(found: dict[str, dict[str, Record]]) -> Iterator[str]:
    yield "## A step"
    yield ""
    yield "Logits of all requests masked, and their tokens taken; the logits are new each time, no request arrives, and the"
    yield "vocabulary has 131,072 tokens (Tekken). V1 and V2 are the model runners that the plugin is in. Medians. As ours: rows"
    yield "that drew the same tokens as with logitkit, since their masks agreed. Wrong: texts that begin no match. Times"
    yield "are those of the processor, threads included."
    yield ""
    yield "| requests | | median ms | over logitkit | worst ms | first step, ms | steps | as ours | wrong |"
    yield "|---|---|---:|---:|---:|---:|---:|---:|---:|"
    for case, subjects in found.items():
        for name, row in subjects.items():
            over = row["step_s"] / subjects[OURS]["step_s"]
            times = (
                f"{_ms(row['step_s'])} | {over:.2f}x | {_ms(row['worst_s'])} | {_ms(row['first_s'])} | {row['steps']}"
            )
            yield f"| {case} | {name} | {times} | {row['rows_as_ours']} | {row['wrong']} |"


def _admission(found: dict[str, dict[str, Record]]) -> Iterator[str]:
    yield "## Admission"
    yield ""
    yield "From the parameters of requests whose patterns nobody has seen to the first masked logits of all; in the time of the"
    yield "processor, threads included."
    yield ""
    yield "| patterns | | all, s | over logitkit | one, median ms | one, worst ms | first masks of all, ms |"
    yield "|---|---|---:|---:|---:|---:|---:|"
    for case, subjects in found.items():
        ours = subjects[OURS]["total_s"]
        for name, row in subjects.items():
            if "refused" in row:
                why = "by a timeout of vLLM" if "timed out" in row["refused"] else "as too hard"
                yield f"| {case} | {name} | the first one refused {why}, after {row['after_s']:.1f} s | | | | |"
                continue
            times = f"{_ms(row['median_s'])} | {_ms(row['worst_s'])} | {_ms(row['first_masks_s'])}"
            yield f"| {case} | {name} | {row['total_s']:.2f} | {row['total_s'] / ours:.2f}x | {times} |"


def _worker(found: dict[str, Record]) -> Iterator[str]:
    yield "## The worker's share"
    yield ""
    yield "The front end compiles a pattern when the request is admitted; the worker, another process, needs it in a step: until"
    yield "its first mask. Time of the processor."
    yield ""
    yield "| pattern | front end, ms | worker, which finds it, ms | a worker without a front end, ms |"
    yield "|---|---:|---:|---:|"
    for name, row in found.items():
        yield f"| {name} | {_ms(row['admitted_s'])} | {_ms(row['found_s'])} | {_ms(row['compiled_s'])} |"


def _serving(found: dict[str, Record]) -> Iterator[str]:
    from benchmarks.vllm_serving import REQUESTS, ROUNDS, TOKENS

    yield "## Serving"
    yield ""
    yield f"The small model that ships, over HTTP on one machine: {REQUESTS} clients at once, to each of which {TOKENS} tokens"
    yield f"are streamed; {ROUNDS} rounds in turns. No prompt is cached, and the pattern has been compiled before. Time of the"
    yield "clock on the wall, which other work lengthens, and of the processor. Servers and clients share the machine."
    yield ""
    yield from serving_lines(found)


def serving_lines(found: dict[str, Record]) -> Iterator[str]:
    """Write the table of serving."""
    yield (
        "| | tokens a second | between tokens, median ms | between parts of a stream, p99 ms | processor time a token, us "
        "| of no plugin's |"
    )
    yield "|---|---:|---:|---:|---:|---:|"
    plain = found["no plugin"]["processor_s"]
    for name, row in found.items():
        share = f"{row['processor_s'] / plain:.0%}"
        between = f"{_ms(row['between_tokens_s'])} | {_ms(row['between_tokens_p99_s'])}"
        yield f"| {name} | {row['tokens_per_s']:,.0f} | {between} | {row['processor_s'] * 1e6:,.0f} | {share} |"


def _streams(found: dict[str, Record]) -> Iterator[str]:
    from benchmarks.vllm_streams import RATE, ROUNDS, SECONDS, STREAMS

    yield "## Streams beside admission"
    yield ""
    yield f"{STREAMS} clients stream from the small model that ships while {RATE:g} requests a second arrive, each with a"
    yield f"schema or a pattern that nobody has seen; {ROUNDS} turns of {SECONDS:g} s each way, in another order each round."
    yield "Servers and clients share the machine."
    yield ""
    yield from streams_lines(found)


def streams_lines(found: dict[str, Record]) -> Iterator[str]:
    """Write the table of streams."""
    yield "| what arrives is compiled by | between tokens, median ms | p99 ms | an arrival's answer, median ms |"
    yield "|---|---:|---:|---:|"
    for name, row in found.items():
        answer = _ms(row["answer_s"]) if "answer_s" in row else ""
        yield f"| {name} | {_ms(row['median_s'])} | {_ms(row['p99_s'])} | {answer} |"


def _first_tokens(found: dict[str, dict[str, Record]]) -> Iterator[str]:
    from benchmarks.vllm_first_tokens import ROUNDS

    yield "## First tokens"
    yield ""
    yield "The time from a request to its first token, from the small model that ships, over HTTP on one machine. The"
    yield "requests of a burst come at once, each with a schema of its own. Medians of"
    yield f"{ROUNDS} bursts in turns, in ms: of the median request and of the last one."
    yield ""
    yield from first_tokens_lines(found)


def first_tokens_lines(found: dict[str, dict[str, Record]]) -> Iterator[str]:
    """Write the table of first tokens."""
    names = [*[*found.values()][-1]]
    yield f"| requests at once | {' | '.join(names)} |"
    yield f"|---|{'---:|' * len(names)}"
    for case, ways in found.items():
        times = [_median_and_last(ways[name]) if name in ways else "" for name in names]
        yield f"| {case} | {' | '.join(times)} |"


def _median_and_last(row: Record) -> str:
    shown = [_ms(row["median_s"]), _ms(row["last_s"])]
    return ", ".join(dict.fromkeys(shown))


def publish(result: dict[str, Record], page: Path) -> None:
    """Write the tables of servers into the page."""
    text = page.read_text("utf-8")
    writers = {"serving": serving_lines, "streams": streams_lines, "first tokens": first_tokens_lines}
    for name, write in writers.items():
        if name in result:
            begin, end = PLACES[name]
            before, rest = text.split(begin)
            lines = [begin, "", *write(result[name]["cases"]), "", f"({result[name]['conditions']})", "", end]
            text = before + "\n".join(lines) + rest.split(end)[1]
    page.write_text(text, "utf-8")


def _losses(result: Record) -> Iterator[str]:
    """List every number in which vLLM's own is ahead."""
    found = []
    for part, keys in (("steps", ("step_s", "worst_s", "first_s")), ("admission", ("total_s",))):
        for case, subjects in result.get(part, {}).items():
            for own in (name for name in subjects if name.startswith("logitkit")):
                for name, row in subjects.items():
                    found += [
                        f"- {case}, {_NAMES[key]}: {own} {_ms(subjects[own][key])} ms, {name} {_ms(row[key])} ms"
                        for key in keys
                        if not name.startswith("logitkit") and key in row and row[key] < subjects[own][key]
                    ]
    serving = result.get("serving", {})
    ours = serving.get("plugin, a regex", {})
    found += [
        f"- Serving, processor: {name} {row['processor_s'] * 1e6:,.0f} us a token, the plugin {ours['processor_s'] * 1e6:,.0f}"
        for name, row in serving.items()
        if name.startswith("vLLM") and row["processor_s"] < ours["processor_s"]
    ]
    yield "## Where vLLM's own is ahead"
    yield ""
    yield from found or ["Nowhere."]
    yield ""


_NAMES = {"step_s": "a step", "worst_s": "the worst step", "first_s": "the first step", "total_s": "admission of all"}


def _ms(seconds: float) -> str:
    value = seconds * 1e3
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
