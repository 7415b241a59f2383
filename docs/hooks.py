"""Hooks of mkdocs: pages that stand beside the code, and GitHub's Markdown put as Python-Markdown reads it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "METHODS.md", "PRIVACY.md", "CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/README.md")
BARE_LIST = re.compile(r"^((?![ \t]*(?:[-*] |\d+\. |[|#])).+)\n(?=(?:- |1\. ))", re.MULTILINE)  # under a paragraph
FENCE = re.compile(r"^(```.*?^```[^\S\n]*$)", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that stand beside the code, at their own paths, so that their links hold."""
    for page in PAGES:
        files.append(File.generated(config, page, abs_src_path=str(ROOT / page)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Mark examples with prompts as such, and set lists off from the paragraph above them."""
    parts = FENCE.split(markdown)  # text and code by turns
    parts[::2] = [BARE_LIST.sub(r"\1\n\n", text) for text in parts[::2]]
    parts[1::2] = [re.sub(r"\A```python(?=\n>>> )", "```pycon", code) for code in parts[1::2]]
    return "".join(parts)
