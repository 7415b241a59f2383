"""The web site: links resolve, every public name is on a page, and built pages load nothing from elsewhere."""

import re
import tomllib
from ast import literal_eval
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import privstats

ROOT = Path(__file__).parents[2]
DOCS, SITE = ROOT / "docs", ROOT / "site"
# pages of the site with sources outside the folder docs
BESIDE = re.search(r"^PAGES = (\(.*\))$", (DOCS / "hooks.py").read_text(), re.MULTILINE)[1]
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def pages():
    """Return the source file of each page of the site, by the page's path."""
    own = {str(page.relative_to(DOCS)): page for page in sorted(DOCS.rglob("*.md"))}
    return {**own, **{page: ROOT / page for page in literal_eval(BESIDE)}}


def local_links(text):
    links = (urlsplit(link) for link in LINK.findall(CODE.sub("", text)))
    return [link for link in links if not link.scheme]


def anchors(text):
    """The anchors of a page's headings, as mkdocs makes them."""
    headings = re.findall(r"^#+ (.+)$", CODE.sub(lambda code: code[0] if code[0][:3] != "```" else "", text), re.M)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}


@pytest.mark.parametrize("page", pages())
def test_links_of_a_page_lead_to_pages_of_the_site(page):
    text = pages()[page].read_text()
    for link in local_links(text):
        target = str((ROOT / page).parent.joinpath(link.path).resolve().relative_to(ROOT)) if link.path else page
        assert target in pages(), f"{page} links to {target}, which is no page of the site"
        if link.fragment:
            assert link.fragment in anchors(pages()[target].read_text()), f"{page}: {target} has no #{link.fragment}"


def test_the_menu_has_every_page_once():
    menu = re.findall(r"[\w/]+\.md", (ROOT / "mkdocs.yml").read_text())
    vignettes = [
        f"vignettes/{file.stem}.md" for file in (ROOT / "vignettes").glob("*.py") if "# %% [" in file.read_text()
    ]
    assert Counter(menu) == Counter([*pages(), *vignettes])


def test_the_reference_has_every_public_name_once():
    written = re.findall(
        r"^::: privstats\.(\w+)$", "\n".join(p.read_text() for p in DOCS.glob("api/*.md")), re.MULTILINE
    )
    assert Counter(written) == Counter(privstats.__all__)


def test_the_gallery_has_every_figure_of_a_paper_and_only_scripts_that_draw():
    listed = [figure["script"] for figure in tomllib.loads((ROOT / "benchmarks/gallery.toml").read_text())["figure"]]
    drawing = {file.stem for file in (ROOT / "benchmarks").glob("*.py") if "save" in file.read_text()}
    assert len(set(listed)) == len(listed) and drawing.issuperset(listed)
    assert {file.stem for file in (ROOT / "benchmarks").glob("*figure*.py")}.issubset(listed)


def test_the_guide_adds_a_mechanism_in_under_40_lines():
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "guides/mechanism.md").read_text(), re.DOTALL)
    classes = next(block for block in blocks if "class Logistic(" in block)
    assert len(classes.splitlines()) < 40


class Built(HTMLParser):
    """Parser of a built page: its links, the files that a browser loads to show it, and its anchors."""

    def __init__(self, text):
        super().__init__()
        self.links, self.fetched, self.ids = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids |= {given.get("id"), given.get("name")}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload", "preconnect"):
            self.fetched.append(given["href"])
        elif given.get("src"):
            self.fetched.append(given["src"])


@pytest.mark.slow
def test_the_built_site_links_to_itself_and_fetches_nothing_from_elsewhere():
    if not (SITE / "index.html").exists():
        pytest.skip("the site is not built: make docs")
    built = {page: Built(page.read_text()) for page in SITE.rglob("*.html") if page.name != "404.html"}
    for page, found in built.items():
        for address in [*found.fetched, *found.links]:
            link = urlsplit(address)
            if link.scheme or link.netloc:
                assert address in found.links, f"{page.relative_to(SITE)} fetches {address}"
                continue
            target = (page.parent / unquote(link.path)).resolve() if link.path else page
            assert target.exists(), f"{page.relative_to(SITE)} links to {address}"
            if link.fragment and target in built:
                assert unquote(link.fragment) in built[target].ids, f"{page.relative_to(SITE)}: no {address}"
