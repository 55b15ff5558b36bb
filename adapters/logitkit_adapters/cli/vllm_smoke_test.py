"""Write a text with the demo model in vLLM, whose engine prints much: a program of its own, run by `logitkit doctor --slow`.

The arguments are a pattern and a prompt; the line of the output that begins with `text: ` has the text.
"""

from __future__ import annotations

import sys

__all__ = ["main"]


def main(pattern: str, prompt: str) -> None:
    """Start vLLM and print the text.

    Args:
        pattern: The pattern of the text.
        prompt: The prompt.
    """
    from vllm import LLM, SamplingParams

    from logitkit_adapters.demo import model_dir

    llm = LLM(str(model_dir()), max_model_len=128, enforce_eager=True, gpu_memory_utilization=0.1)
    params = SamplingParams(temperature=0, max_tokens=8, extra_args={"logitkit": {"regex": pattern}})
    print(f"text: {llm.generate([prompt], params)[0].outputs[0].text}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
