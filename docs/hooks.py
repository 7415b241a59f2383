"""Hooks of mkdocs: they add pages and vignettes to the site, and adapt GitHub's Markdown to Python-Markdown."""

from __future__ import annotations

import base64
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "METHODS.md", "PRIVACY.md", "CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/README.md")
FIGURES, GALLERY = ROOT / "benchmarks" / "figures", ROOT / "benchmarks" / "gallery.toml"  # drawn by `make figures`
NOTEBOOKS = ROOT / "build" / "vignettes"  # written by `make docs` (docs/notebooks.py)
BARE_LIST = re.compile(r"^((?![ \t]*(?:[-*] |\d+\. |[|#])).+)\n(?=(?:- |1\. ))", re.MULTILINE)  # below a text line
FENCE = re.compile(r"^(```.*?^```[^\S\n]*$)", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: Any) -> Files:
    """Add the Markdown pages of the repository, the vignettes and the figures; paths are kept, so that links work."""
    for page in PAGES:
        files.append(File.generated(config, page, abs_src_path=str(ROOT / page)))
    for notebook in sorted(NOTEBOOKS.glob("*.ipynb")):
        for path, content in _vignette(notebook):
            files.append(File.generated(config, f"vignettes/{path}", content=content))
    for picture in sorted(FIGURES.glob("*.png")):
        files.append(File(f"figures/{picture.name}", str(FIGURES.parent), config.site_dir, False))
    return files


def _gallery() -> Iterator[str]:
    """Yield the Markdown of each figure: paper, verdict of the comparison, picture and table."""
    for figure in tomllib.loads(GALLERY.read_text())["figure"]:
        yield f"## {figure['paper']}\n\n{figure['shows']}\n\n**{figure['verdict']}.** {figure['sentence']}"
        picture = FIGURES / f"{figure.get('picture', figure['script'])}.png"
        table = FIGURES / f"{figure['script']}.txt"
        if not (picture.exists() and table.exists()):
            yield f"*Not drawn yet:* `python -m benchmarks.gallery --seed 1 --names {figure['script']}`"
            continue
        yield f"![{figure['shows']}](figures/{picture.name})"
        printed = "\n".join(f"    {line}" for line in table.read_text().splitlines())
        yield f'??? abstract "Its table"\n\n    ```text\n{printed}\n    ```'


def _vignette(notebook: Path) -> Iterator[tuple[str, str | bytes]]:
    """Yield the path and content of each file of a vignette: the notebook, its pictures and its Markdown page."""
    name = notebook.stem
    yield notebook.name, notebook.read_text()
    page = []
    for cell in json.loads(notebook.read_text())["cells"]:
        source = "".join(cell["source"])
        if "notebook-only" in cell["metadata"].get("tags", []):
            page.append(f"[The same as a notebook]({notebook.name})")
        elif cell["cell_type"] == "markdown":
            page.append(source)
        else:
            page.append(f"```python\n{source}\n```")
            for output in cell["outputs"]:
                if "text" in output:
                    page.append("```text\n" + "".join(output["text"]).strip("\n") + "\n```")
                else:
                    yield f"{name}.png", base64.b64decode(output["data"]["image/png"])
                    page.append(f"![Figure of this vignette]({name}.png)")
    yield f"{name}.md", "\n\n".join(page)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return the Markdown of a page, adapted to Python-Markdown; the gallery page also gets the figures.

    Code blocks that begin with a prompt (>>>) are labelled "pycon", and a blank line is inserted above each list that
    directly follows a paragraph.
    """
    if page.file.src_uri == "gallery.md":
        markdown = "\n\n".join([markdown, *_gallery()])
    parts = FENCE.split(markdown)  # text and code by turns
    parts[::2] = [BARE_LIST.sub(r"\1\n\n", text) for text in parts[::2]]
    parts[1::2] = [re.sub(r"\A```python(?=\n>>> )", "```pycon", code) for code in parts[1::2]]
    return "".join(parts)
