"""Real servers of engines, started by `logitkit serve` in processes of their own, with the small model."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from logitkit_adapters.demo import model_dir
from logitkit_adapters.demo.gguf_model import convert
from tests.adapters.cli_process import MAIN, ROOTS

PATIENCE = 120.0

# The model has no template. This one writes nothing but what is said, so that a prompt is known.
TEMPLATE = """{% for m in messages %}{{ m.content or '' }}{% for c in m.tool_calls or [] %}<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}{% if m.role == 'tool' or m.tool_calls %}
{% endif %}{% endfor %}"""


class Server(NamedTuple):
    """A server that runs.

    Args:
        engine: Its engine.
        url: Its address.
        client: A client of it.
        model: The name of its model.
    """

    engine: str
    url: str
    client: Any
    model: str

    def chat(self, prompt: str = "Answer in JSON: ", **asked: Any) -> Any:
        """Return the answer to a prompt, by greedy sampling."""
        said = [{"role": "user", "content": prompt}]
        return self.client.chat.completions.create(model=self.model, messages=said, **{"temperature": 0, **asked})


# The packages that the server of an engine needs. Without one of them, its tests are skipped.
NEEDS = {"mlx-lm": ("mlx_lm",), "llama-cpp": ("llama_cpp", "fastapi"), "transformers": ("fastapi",)}


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def arguments_of(engine: str, folder: Path) -> tuple[list[str], str]:
    """Return the arguments of an engine's server, without its port, and the name of its model in requests."""
    copy = folder / "model"
    shutil.copytree(model_dir(), copy)
    (copy / "chat_template.jinja").write_text(TEMPLATE)
    if engine == "mlx-lm":
        return ["--model", str(copy), "--max-tokens", "64"], "default_model"
    if engine == "llama-cpp":
        file = folder / "demo.gguf"
        file.write_bytes(convert(copy, {"tokenizer.chat_template": TEMPLATE}))
        return ["--model", str(file), "--n_ctx", "2048", "--interrupt_requests", "False"], "demo"
    if engine == "transformers":
        return [str(copy), "--device", "cpu"], str(copy)
    raise AssertionError(engine)


def is_up(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/v1/models", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


@contextmanager
def served(engine: str, folder: Path, *more: str) -> Iterator[Server]:
    """Serve the small model while the block runs.

    Args:
        engine: The engine.
        folder: An empty folder for the model and a log.
        more: More arguments of the engine's server.
    """
    import openai

    for package in NEEDS[engine]:
        import_module(package)
    port, log = free_port(), folder / "log.txt"
    arguments, model = arguments_of(engine, folder)
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-c", MAIN, "serve", "--tool-format", "hermes", engine, *arguments, *more]
    command += ["--port", str(port)]
    environment = {"PYTHONPATH": os.pathsep.join(ROOTS), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    environment["LOGITKIT_SERVER_PROCESSES"] = "1"
    (folder / "hub").mkdir()  # which servers search for models
    environment["HF_HOME"] = str(folder)
    with (
        log.open("w") as out,
        subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ, **environment}) as server,
    ):
        try:
            end = time.monotonic() + PATIENCE
            while not is_up(url):
                assert server.poll() is None, log.read_text()[-3000:]
                assert time.monotonic() < end, log.read_text()[-3000:]
                time.sleep(0.2)
            with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=120) as client:
                yield Server(engine, url, client, model)
            assert server.poll() is None, log.read_text()[-3000:]
            assert is_up(url)
        finally:
            server.terminate()
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()
