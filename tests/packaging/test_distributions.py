"""The built wheel and sdist hold what they should, no more and no less."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from email.parser import HeaderParser
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {"logitkit": ROOT / "processors", "logitkit_adapters": ROOT / "adapters"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the sdist from the sources, and the wheel from the sdist, as a release does."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    return folder


def sources() -> set[str]:
    return {
        file.relative_to(root).as_posix()
        for package, root in PACKAGES.items()
        for file in (root / package).rglob("*")
        if file.is_file()
        and not any(part == "__pycache__" or part.startswith(".") for part in file.relative_to(root).parts)
    }


def test_wheel(built: Path) -> None:
    (file,) = built.glob("logitkit-*-py3-none-any.whl")
    with zipfile.ZipFile(file) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
        (metadata_name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = HeaderParser().parsestr(wheel.read(metadata_name).decode())
        info = PurePosixPath(metadata_name).parent
        scripts = wheel.read(f"{info}/entry_points.txt").decode()
        licence = wheel.read(f"{info}/licenses/LICENSE").decode()

    assert names == sources()
    assert {"logitkit/py.typed", "logitkit_adapters/py.typed"} <= names
    assert "logitkit_adapters/demo/model/model.safetensors" in names
    assert "logitkit_adapters/demo/model/model.onnx" in names
    assert "logitkit = logitkit_adapters.cli:main" in scripts
    assert "Apache License" in licence
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == "<3.15,>=3.11"
    urls = {url.split(", ")[0] for url in metadata.get_all("Project-URL", [])}
    assert urls == {"Changelog", "Documentation", "Issues", "Repository", "Security"}
    assert {"structured output", "transformers", "vllm", "mlx", "llama.cpp"} <= set(metadata["Keywords"].split(","))
    classifiers = set(metadata.get_all("Classifier", []))
    assert {f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13)} < classifiers
    assert "Typing :: Typed" in classifiers
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert set(metadata.get_all("Provides-Extra", [])) == {
        *("transformers", "mlx", "mlx-vlm", "llama-cpp", "onnx", "vllm", "serve", "explain", "all"),
    }
    description = str(metadata.get_payload())
    assert "https://raw.githubusercontent.com/logitkit/logitkit/main/docs/pictures/explanation.svg" in description
    assert "(https://github.com/logitkit/logitkit/blob/main/docs/migration.md)" in description
    # PyPI would look for files on its own server.
    assert re.findall(r"\]\((?!https://)[^)]*\)", description) == []
    core = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert sorted(line.split(">=")[0] for line in core) == ["numpy", "safetensors", "torch"]


def test_sdist_installs(built: Path, tmp_path: Path) -> None:
    (file,) = built.glob("logitkit-*.tar.gz")
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--no-compile"]
    command = [sys.executable, "-m", "pip", "install", *offline, "--target", str(tmp_path), str(file)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    installed = {file.relative_to(tmp_path).as_posix() for file in tmp_path.rglob("*") if file.is_file()}
    assert {name for name in installed if name.split("/")[0] in PACKAGES} == sources()


def test_sdist_holds_sources_tests_and_scripts_alone(built: Path) -> None:
    (file,) = built.glob("logitkit-*.tar.gz")
    with tarfile.open(file) as sdist:
        names = {PurePosixPath(*PurePosixPath(member.name).parts[1:]) for member in sdist if member.isfile()}
    assert {"processors", "adapters", "tests", "scripts"} < {name.parts[0] for name in names}
    assert {PurePosixPath("scripts/test"), PurePosixPath("constraints.txt"), PurePosixPath("LICENSE")} < names
    assert {PurePosixPath("CITATION.cff"), PurePosixPath("SECURITY.md")} < names
    hidden = {name for name in names if any(part.startswith(".") for part in name.parts)}
    assert hidden <= {PurePosixPath(".gitignore")}
    assert not any("__pycache__" in name.parts for name in names)
