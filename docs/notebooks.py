"""Write a vignette as a notebook: the cells are run in order, and each cell gets its printed text and its figures.

``python docs/notebooks.py vignettes/housing.py build/vignettes/housing.ipynb``
"""

from __future__ import annotations

import base64
import io
import sys
from contextlib import redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jupytext
import nbformat
from nbformat.v4 import new_code_cell, new_output

BESIDE = 'import sys\n\nsys.argv = ["vignette", "."]  # pictures are written beside the notebook'


def executed(script: Path) -> Any:
    """Run a script in the percent format (cells separated by # %%); return its notebook, with the cells' outputs."""
    notebook = jupytext.read(script)
    names = {"__name__": "__main__", "__file__": str(script)}
    with TemporaryDirectory() as folder:
        sys.argv = [str(script), folder]
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs = list(_outputs(cell.source, names, Path(folder)))
    beside = new_code_cell(BESIDE, metadata={"tags": ["notebook-only"]})
    notebook.cells.insert(1, beside)
    for k, cell in enumerate(notebook.cells):
        cell.id = f"cell-{k}"  # fixed identifiers, so that a rewritten notebook has no changes
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return notebook


def _outputs(source: str, names: dict[str, Any], folder: Path) -> Any:
    before = set(folder.iterdir())
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(source, "vignette", "exec"), names)  # `compile` also applies the __future__ import of this file
    if text := printed.getvalue():
        yield new_output("stream", name="stdout", text=text)
    for picture in sorted(set(folder.iterdir()) - before):
        drawn = base64.b64encode(picture.read_bytes()).decode()
        yield new_output("display_data", data={"image/png": drawn, "text/plain": picture.stem})


if __name__ == "__main__":
    script, target = map(Path, sys.argv[1:])
    target.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(executed(script), target)
