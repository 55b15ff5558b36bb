"""The logits processors, samplers and stopping rules of an engine, read from its source.

Nothing is imported, so that the source of an engine that does not run here will do: that of an unpacked wheel, in a folder that
the caller names. A processor is what the engine itself treats as one: a subclass of its base class, a function of its module
of samplers, or a parameter of its requests.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

__all__ = ["ENGINES", "Engine"]

Reader = Callable[[ast.Module], Iterator[str]]


@dataclass(frozen=True)
class Engine:
    """Where the names of an engine are.

    Args:
        package: The name of its package.
        distribution: The name of its wheel.
        readers: For each file of the package, how names are read from it.
    """

    package: str
    distribution: str
    readers: tuple[tuple[str, Reader], ...]

    def folder(self, unpacked: Path | None = None) -> Path | None:
        """Return the folder of the package, among unpacked wheels or installed, or None."""
        if unpacked is not None and (unpacked / self.package).is_dir():
            return unpacked / self.package
        spec = find_spec(self.package)
        places = [] if spec is None else list(spec.submodule_search_locations or ())
        return Path(places[0]) if places else None

    def version(self, unpacked: Path | None = None) -> str:
        """Return the version of what `folder` returns."""
        if unpacked is not None and (unpacked / self.package).is_dir():
            found = unpacked.glob(f"{self.distribution.replace('-', '_')}-*.dist-info")
            return max(folder.name.removesuffix(".dist-info").rpartition("-")[2] for folder in found)
        try:
            return version(self.distribution)
        except PackageNotFoundError:
            return version(f"{self.distribution}-cpu")

    def names(self, folder: Path) -> list[str]:
        """Return all names in the order of the source, each once."""
        found: dict[str, None] = {}
        for file, reader in self.readers:
            for path in sorted(folder.glob(file)):
                found |= dict.fromkeys(reader(ast.parse(path.read_text("utf-8"))))
        assert found, f"{folder} has none of the files"
        return list(found)


def classes_of(*bases: str) -> Reader:
    """Read the classes that derive from a base class, in any number of steps."""

    def read(tree: ast.Module) -> Iterator[str]:
        known = {*bases}
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and known & {
                base.id for base in node.bases if isinstance(base, ast.Name)
            }:
                known.add(node.name)
                yield node.name

    return read


def fields_of(name: str) -> Reader:
    """Read the public fields of a class of parameters."""

    def read(tree: ast.Module) -> Iterator[str]:
        classes = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
        fields = (line.target for node in classes for line in node.body if isinstance(line, ast.AnnAssign))
        yield from (field.id for field in fields if isinstance(field, ast.Name) and not field.id.startswith("_"))

    return read


def functions_like(pattern: str) -> Reader:
    """Read the functions, also those inside of others, whose name matches a pattern; without its group, if it has one."""

    def read(tree: ast.Module) -> Iterator[str]:
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and (found := re.fullmatch(pattern, node.name)):
                yield found.group(found.re.groups)

    return read


ENGINES = {
    "transformers": Engine(
        "transformers",
        "transformers",
        (
            ("generation/logits_process.py", classes_of("LogitsProcessor")),
            ("generation/stopping_criteria.py", classes_of("StoppingCriteria")),
        ),
    ),
    "vLLM": Engine(
        "vllm",
        "vllm",
        (
            ("v1/sample/logits_processor/builtin.py", classes_of("LogitsProcessor")),
            ("sampling_params.py", fields_of("SamplingParams")),
            ("sampling_params.py", fields_of("StructuredOutputsParams")),
            ("sampling_params.py", fields_of("BeamSearchParams")),
        ),
    ),
    "mlx-lm": Engine(
        "mlx_lm",
        "mlx-lm",
        (
            ("sample_utils.py", functions_like(r"apply_.*|make_.*_penalty|.*_sampl(?:er|ing)|logit_bias_processor")),
            ("generate.py", functions_like("make_stop_.*")),
        ),
    ),
    "llama.cpp": Engine(
        "llama_cpp",
        "llama-cpp-python",
        (
            ("llama_cpp.py", functions_like("llama_sampler_init_(.*)")),
            ("llama.py", classes_of("LogitsProcessor", "StoppingCriteria")),
        ),
    ),
    "SGLang": Engine(
        "sglang",
        "sglang",
        (
            ("srt/sampling/custom_logit_processor.py", classes_of("CustomLogitProcessor")),
            ("srt/sampling/penaltylib/*.py", classes_of("_BatchedPenalizer")),
            ("srt/sampling/sampling_params.py", fields_of("SamplingParams")),
        ),
    ),
    "logits-processor-zoo": Engine(
        "logits_processor_zoo",
        "logits-processor-zoo",
        (("transformers/*.py", classes_of("BaseLogitsProcessor")),),
    ),
}
