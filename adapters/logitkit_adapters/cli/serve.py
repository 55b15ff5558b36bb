"""`logitkit serve`: the server of an engine, with structured output."""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

from logitkit_adapters.cli.usage import UsageError, ctrl_c_exits

__all__ = ["ENGINES", "add", "missing_modules", "run", "server_of"]


class ServerEngine(NamedTuple):
    """An engine with a server.

    Args:
        module: The module of ours that starts it.
        needs: The modules that it needs.
        install: The package to install if one of them is missing.
        example: The arguments with which it starts.
    """

    module: str
    needs: tuple[str, ...]
    install: str
    example: str


ENGINES = {
    "mlx-lm": ServerEngine("mlx_lm_server", ("mlx_lm",), "logitkit[mlx]", "--model MODEL"),
    "llama-cpp": ServerEngine(
        "llama_cpp_server",
        ("llama_cpp", "fastapi", "uvicorn", "sse_starlette", "starlette_context", "pydantic_settings"),
        "logitkit[llama-cpp,serve]",
        "--model FILE.gguf",
    ),
    "transformers": ServerEngine(
        "transformers_server", ("transformers", "fastapi", "uvicorn", "openai"), "logitkit[transformers,serve]", "MODEL"
    ),
}


def add(commands: Any) -> None:
    """Add the command to a parser.

    Args:
        commands: The commands of the parser.
    """
    says = "start the server of an engine, with structured output and tool calls for OpenAI's clients"
    parser: argparse.ArgumentParser = commands.add_parser(
        "serve",
        allow_abbrev=False,
        help=says,
        description=f"{says[0].upper()}{says[1:]}. It listens on 127.0.0.1 unless --host is among the arguments of the engine. "
        "The limits on configurations are environment variables (LOGITKIT_SERVER_MAX_WORK and others).",
    )
    parser.add_argument(
        "--tool-format",
        metavar="NAME",
        default="auto",
        help="the call format of the model (default: as its chat template writes calls)",
    )
    parser.add_argument("--reasoning", action="store_true", help="turns with tools begin with reasoning")
    parser.add_argument("engine", choices=ENGINES, help="the engine")
    parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, metavar="ARGS", help="the arguments of its own server, such as --model"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command until the server is stopped, and return its exit status.

    Args:
        arguments: The parsed arguments.

    Raises:
        UsageError: The engine is not installed, or the format is not known.
        LogitkitError: The server cannot be started, or a limit in the environment is not allowed.
    """
    missing = missing_modules(arguments.engine)
    if missing:
        install = ENGINES[arguments.engine].install
        raise UsageError(f"logitkit serve {arguments.engine} needs {', '.join(missing)}: pip install '{install}'")
    with ctrl_c_exits():
        from logitkit.tools.formats import TOOL_FORMATS
        from logitkit_adapters.admission.settings import check_names, server_settings
        from logitkit_adapters.serving.served_model import Options

        server = server_of(arguments.engine)
    if arguments.tool_format not in ("auto", *TOOL_FORMATS):
        allowed = ", ".join(["auto", *TOOL_FORMATS])
        raise UsageError(f"--tool-format is {arguments.tool_format!r}; allowed are {allowed}")
    check_names()
    server_settings()
    server.main(own_arguments(arguments.arguments), Options(arguments.tool_format, arguments.reasoning))
    return 0


def missing_modules(engine: str) -> list[str]:
    """Return the modules that the server of an engine needs and that are not installed.

    Args:
        engine: The name of the engine, a key of `ENGINES`.
    """
    return [name for name in ENGINES[engine].needs if importlib.util.find_spec(name) is None]


def server_of(engine: str) -> ModuleType:
    """Return the module whose `main` starts the server of an engine.

    Args:
        engine: The name of the engine, a key of `ENGINES`.

    Raises:
        ImportError: The installed engine lacks something that the module needs.
    """
    return import_module(f"logitkit_adapters.serving.{ENGINES[engine].module}")


def own_arguments(given: Sequence[str]) -> list[str]:
    """Return the arguments of the engine, with the address that it listens on.

    Args:
        given: Those of the command line.

    Example:
        >>> own_arguments(["--port", "8000"])
        ['--port', '8000', '--host', '127.0.0.1']
    """
    named = any(argument == "--host" or argument.startswith("--host=") for argument in given)
    return [*given] if named else [*given, "--host", "127.0.0.1"]
