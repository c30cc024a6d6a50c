"""Links between the pages of the project lead somewhere."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def _pages() -> list[Path]:
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", "*.md"]
    names = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return [ROOT / name for name in sorted(set(names)) if (ROOT / name).is_file()]


PAGES = _pages()


def text_of(page: Path) -> str:
    return FENCE.sub("", page.read_text())


def anchors_of(page: Path) -> set[str]:
    """Headings as a link names them: lower case, words joined by dashes."""
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in HEADING.findall(text_of(page))
    }


def broken_links(page: Path) -> list[str]:
    """Relative links of a page without a target."""
    found = []
    for link in LINK.findall(text_of(page)):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            found.append(link)
    return found


@pytest.mark.parametrize("page", [pytest.param(page, id=str(page.relative_to(ROOT))) for page in PAGES])
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_a_link_without_a_target_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A heading, here\n[a](#a-heading-here) [b](#none) [c](none.md) [d](page.md)\n")
    assert broken_links(page) == ["#none", "none.md"]


def test_every_page_of_the_documentation_is_in_its_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    pages = {page.name for page in PAGES if page.parent == ROOT / "docs"} - {"README.md"}
    assert {name for name in pages if f"]({name})" not in index} == set()
