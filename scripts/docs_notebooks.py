"""Run the notebooks of the documentation, and show them as pages of the site.

The outputs are stored in the notebooks, so that a reader sees them on the site and on GitHub. `scripts/notebooks` runs the cells
and compares; `scripts/notebooks --write` stores what they print. mkdocs loads this file as a hook and calls `on_...`.

A code cell with the tag `skip-execution`, which nbclient knows too, needs another environment: its stored output is kept, and the
tests of that environment run it.
"""

from __future__ import annotations

import ast
import io
import json
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "notebooks"
SKIPPED = "skip-execution"


def read(path: Path) -> dict[str, Any]:
    """Return the content of a notebook."""
    notebook: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return notebook


def source_of(cell: dict[str, Any]) -> str:
    """Return the text of a cell."""
    return "".join(cell["source"])


def is_run(cell: dict[str, Any]) -> bool:
    """Return whether a cell is code that runs in this environment."""
    return cell["cell_type"] == "code" and SKIPPED not in cell["metadata"].get("tags", [])


def run(notebook: dict[str, Any]) -> dict[str, Any]:
    """Run the code cells in their order, in one namespace.

    Returns:
        A copy of the notebook with the new outputs. stderr is not stored: it has progress bars and warnings.

    Raises:
        Exception: A cell raised it; a note names the cell.
    """
    made: dict[str, Any] = json.loads(json.dumps(notebook))
    names: dict[str, Any] = {"__name__": "__main__"}
    for count, cell in enumerate((cell for cell in made["cells"] if is_run(cell)), start=1):
        try:
            cell["outputs"] = list(_outputs(source_of(cell), cell["id"], names, count))
        except Exception as error:
            error.add_note(f"in the cell {cell['id']}")
            raise
        cell["execution_count"] = count
    return made


def _outputs(code: str, name: str, names: dict[str, Any], count: int) -> Iterator[dict[str, Any]]:
    """Run a cell, and yield what it printed and the value of an expression at its end, as Jupyter shows them."""
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(tree, name, "exec", dont_inherit=True), names)  # noqa: S102 - the notebooks are ours
        expression = None if last is None else ast.Expression(last.value)
        value = None if expression is None else eval(compile(expression, name, "eval", dont_inherit=True), names)  # noqa: S307
    if printed.getvalue():
        yield {"name": "stdout", "output_type": "stream", "text": printed.getvalue().splitlines(keepends=True)}
    if value is not None:
        data = {"text/plain": str(value).splitlines(keepends=True)}
        if hasattr(value, "_repr_html_"):
            # The ids of tokens go on counting through a process, so those that are stored begin again in each cell.
            ids: dict[str, str] = {}
            html = re.sub(
                r"\blogitkit-\d+\b", lambda found: ids.setdefault(found[0], f"{name}-{len(ids)}"), value._repr_html_()
            )
            data["text/html"] = html.splitlines(keepends=True)
        yield {"data": data, "execution_count": count, "metadata": {}, "output_type": "execute_result"}


def markdown(notebook: dict[str, Any], name: str) -> str:
    """Return a notebook as Markdown, with a link to the file, which stands beside the page."""
    parts = [part for cell in notebook["cells"] for part in _blocks(cell)]
    title, _, rest = parts[0].partition("\n")
    link = f'<p><a class="md-button" href="{name}" download>Download the notebook</a></p>'
    return "\n\n".join([title, link, rest.strip(), *parts[1:]]) + "\n"


def _blocks(cell: dict[str, Any]) -> Iterator[str]:
    if cell["cell_type"] == "markdown":
        yield source_of(cell)
        return
    yield f"```python\n{source_of(cell)}\n```"
    for output in cell["outputs"]:
        data = output.get("data", {})
        if "text/html" in data:
            yield f'<div class="notebook-output">\n{"".join(data["text/html"])}\n</div>'
        else:
            text = "".join(data.get("text/plain", output.get("text", [])))
            yield f"```text\n{text.rstrip()}\n```"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Make each notebook a page: links and the navigation name the `.ipynb` file, as they do on GitHub."""
    from mkdocs.structure.files import File

    class NotebookFile(File):
        def is_documentation_page(self) -> bool:
            return True

    for file in list(files):
        if file.src_uri.endswith(".ipynb"):
            files.remove(file)
            files.append(NotebookFile(file.src_uri, config.docs_dir, config.site_dir, config.use_directory_urls))
    return files


def on_page_read_source(page: Page, config: MkDocsConfig) -> str | None:
    """Return the Markdown of a notebook, and nothing for other pages."""
    path = Path(config.docs_dir, page.file.src_uri)
    return markdown(read(path), path.name) if path.suffix == ".ipynb" else None


def on_post_build(config: MkDocsConfig) -> None:
    """Copy each notebook beside its page."""
    for path in sorted(Path(config.docs_dir).glob("notebooks/*.ipynb")):
        shutil.copy(path, Path(config.site_dir, "notebooks", path.stem, path.name))


def main(arguments: list[str]) -> int:
    """Run all notebooks, or those whose paths are given, and return how the process should exit: 1 if an output differs."""
    paths = [Path(name) for name in arguments if name != "--write"] or sorted(FOLDER.glob("*.ipynb"))
    failed = False
    for path in paths:
        before = read(path)
        after = run(before)
        if after == before:
            print(f"{path.name}: same outputs")
        elif "--write" in arguments:
            path.write_text(json.dumps(after, indent=1, ensure_ascii=False) + "\n", "utf-8")
            print(f"{path.name}: written")
        else:
            failed = True
            print(f"{path.name}: other outputs; store them with scripts/notebooks --write")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
