"""A real OpenAI-compatible server of vLLM, in a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from logitkit_adapters.demo import model_dir
from tests.adapters_vllm import engine

PATIENCE = 1000.0

# A template is needed for chats, and the model has none.
TEMPLATE = (
    "{% for tool in tools or [] %}{{ tool.function.name }}: {{ tool.function.description }}\n{% endfor %}"
    "{% for message in messages %}{{ message['content'] }}{% endfor %}"
)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def is_up(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


@contextmanager
def served(log: Path) -> Iterator[Any]:
    """Serve the small model while the block runs; yields a client."""
    import openai

    url = f"http://127.0.0.1:{free_port()}"
    settings = ["--max-model-len", "256", "--max-num-seqs", "16", "--enforce-eager", "--served-model-name", "demo"]
    settings += ["--host", "127.0.0.1", "--port", url.rpartition(":")[2], "--chat-template", TEMPLATE]
    settings += ["--dtype", "float32", "--logits-processors", engine.PLUGIN]
    settings += ["--enable-auto-tool-choice", "--tool-call-parser", "hermes"]
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model_dir()), *settings]
    with log.open("w") as out, subprocess.Popen(command, stdout=out, stderr=out, env=os.environ.copy()) as server:
        try:
            end = time.monotonic() + PATIENCE
            while not is_up(url):
                assert server.poll() is None, Path(log).read_text()[-3000:]
                assert time.monotonic() < end, Path(log).read_text()[-3000:]
                time.sleep(0.5)
            with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=120) as made:
                yield made
            assert is_up(url)
        finally:
            server.terminate()
            try:
                server.wait(30)
            except subprocess.TimeoutExpired:  # it may not listen while it starts
                server.kill()
