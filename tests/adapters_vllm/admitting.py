"""A front end of vLLM as servers have it, whose requests come at once; run as a script, in a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.adapters_vllm import compiling, engine


async def answer(llm: Any, number: int, config: str | None) -> str:
    """Return what a request is answered with."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    asks = None if config is None else {"logitkit": config}
    params = SamplingParams(
        max_tokens=20, temperature=0.0, extra_args=asks, output_kind=RequestOutputKind.FINAL_ONLY, skip_clone=True
    )
    try:
        async for output in llm.generate(engine.prompt(number), params, f"request {number}"):
            text: str = output.outputs[0].text
    except Exception as error:  # noqa: BLE001 - the test looks at it
        status = getattr(error, "http_status", None)
        return f"{type(error).__name__} {'' if status is None else int(status)}: {error}"
    return text


async def has_started() -> bool:
    """Whether processes are ready to compile, a while after the engine is, though nobody has asked for anything."""
    from logitkit_adapters.vllm import admission

    for _ in range(3000):
        if any(compiler._idle for compiler in admission._compilers.values()):
            return True
        await asyncio.sleep(0.02)
    return False


async def answers(configs: list[str | None]) -> dict[str, Any]:
    """Ask for all at once, and again, and then for something of a compiler that takes no more."""
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    from logitkit_adapters.vllm import admission

    settings = AsyncEngineArgs(**engine.settings(logits_processors=["tests.adapters_vllm.compiling:Watched"]))
    admission.install()  # as it is, where vLLM loads its general plugins
    llm = AsyncLLM.from_engine_args(settings)
    try:
        started = await has_started()
        rounds = [
            await asyncio.gather(*(answer(llm, 100 * turn + n, config) for n, config in enumerate(configs)))
            for turn in range(2)
        ]
        (compiler,) = admission._compilers.values()
        compiler._jobs.most = 0
        full = await answer(llm, 1000, '{"regex": "[0-9]{7}"}')
    finally:
        llm.shutdown()
    return {"rounds": rounds, "full": full, "started": started}


def main() -> None:
    configs, log = json.loads(sys.argv[1]), Path(f"{sys.argv[2]}.log")
    os.environ[compiling.LOG] = str(log)
    found = asyncio.run(answers(configs))
    done = [line.split() for line in log.read_text().splitlines()]
    own = str(os.getpid())
    found["here"] = [what for process, what in done if process == own]
    found["elsewhere"] = [what for process, what in done if process != own]
    Path(sys.argv[2]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
