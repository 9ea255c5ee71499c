"""The static pages of ``make site``: explorers stand still, links lead somewhere, nothing hidden is on them."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote, urlsplit

import ipywidgets
import pytest
from ipywidgets.embed import dependency_state

from autograder.chapter import Chapter, find_chapters

from ..leaks import all_secrets, fix_lines, leaks

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = find_chapters(ROOT)


@dataclass
class Reading(HTMLParser):
    """What is on a page: its text, the names that links can go to, and what it refers to (tag, address)."""

    html: str
    text: str = ""
    anchors: set[str] = field(default_factory=set)
    references: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.html)

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value or "")
            elif name in ("href", "src", "srcset", "data", "action"):
                self.references.append((tag, value or ""))


# --- explorers --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def widgets() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_widgets", ROOT / "docs" / "site" / "widgets.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _explorer() -> ipywidgets.VBox:
    hidden = ipywidgets.IntSlider(3, description="unseen", layout=ipywidgets.Layout(display="none"))
    choice = ipywidgets.Dropdown(options=[("<one>", 1), ("two", 2)], value=1, description="choose")
    slider = ipywidgets.FloatSlider(0.5, max=2, description="x")
    line = ipywidgets.HTML("<b>What is seen.</b>")
    return ipywidgets.VBox([ipywidgets.HBox([choice, hidden]), slider, line, ipywidgets.Image(value=b"a picture")])


def test_an_explorer_shows_what_it_shows_when_it_opens(widgets: ModuleType) -> None:
    box = _explorer()
    page = Reading(widgets.html_of(box.model_id, dependency_state(box, drop_defaults=False)))
    assert "choose <one>; x 0.5." in page.text
    assert "What is seen." in page.text and "<b>What is seen.</b>" in page.html
    assert "unseen" not in page.html
    assert page.references == [("img", "data:image/png;base64,YSBwaWN0dXJl")]


def test_an_unknown_kind_of_widget_is_an_error(widgets: ModuleType) -> None:
    """It would be missing from the page, and nobody would notice."""
    box = ipywidgets.VBox([ipywidgets.ColorPicker()])
    with pytest.raises(ValueError, match="ColorPickerModel"):
        widgets.html_of(box.model_id, dependency_state(box))


# --- the pages --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, lesson_runs: Path) -> Path:
    """All pages, built once; what the lessons' tests have run before, in the same process, is not run again."""
    out = tmp_path_factory.mktemp("site") / "html"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, str(ROOT / "docs" / "site" / "build.py"), "--out", str(out), "--runs", str(lesson_runs)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Reading]:
    """Every page by its file; the theme's own templates, which it leaves among its scripts, are none."""
    files = [path for path in site.rglob("*.html") if "_static" not in path.parts]
    return {path: Reading(path.read_text(encoding="utf-8")) for path in files}


def _references(pages: dict[Path, Reading]) -> Iterator[tuple[Path, str, str]]:
    for path, page in pages.items():
        for tag, address in page.references:
            if not address.startswith("data:"):
                yield path, tag, address


@pytest.mark.slow
def test_lessons_and_exercises_have_a_page(site: Path, pages: dict[Path, Reading]) -> None:
    for name, chapter in CHAPTERS.items():
        lesson = pages[site / "course" / f"{name}.html"]
        assert 'class="explorer"' in lesson.html
        assert lesson.html.count("<img ") > 3
        exercise = pages[site / "exercises" / name / f"{name}.html"]
        for task in chapter.tasks:
            assert f'check("{task.name}")' in exercise.text
    assert "A training step: the loss went from" in pages[site / "course" / "00_start_here.html"].text, (
        "the lessons have been run"
    )


@pytest.mark.slow
def test_every_link_leads_to_what_is_there(pages: dict[Path, Reading]) -> None:
    lost = []
    for path, _, address in _references(pages):
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        known = pages[target].anchors if target in pages else set()
        if not target.is_file() or (target in pages and parts.fragment and unquote(parts.fragment) not in known):
            lost.append(f"{path.name}: {address}")
    assert lost == []


@pytest.mark.slow
def test_pages_load_nothing_from_other_hosts(site: Path, pages: dict[Path, Reading]) -> None:
    """A link may go there; scripts, styles and pictures are all at hand."""
    asked = [(tag, address) for _, tag, address in _references(pages) if urlsplit(address).netloc and tag != "a"]
    assert asked == []
    styles = [path.read_text(encoding="utf-8") for path in site.rglob("*.css")]
    assert styles
    assert not [style for style in styles if "url(http" in style or 'url("http' in style or "url(//" in style]


@pytest.mark.slow
def test_nothing_says_where_it_was_built(pages: dict[Path, Reading]) -> None:
    places = (str(ROOT), sys.prefix)
    assert [path.name for path, page in pages.items() if any(place in page.html for place in places)] == []


def _planted(chapter: Chapter) -> str:
    return max(fix_lines(chapter) & all_secrets(ROOT), key=len)


@pytest.mark.slow
def test_nothing_hidden_is_on_a_page(site: Path, pages: dict[Path, Reading]) -> None:
    """Also where colours of the code stand between its words."""
    texts = {path.relative_to(site).as_posix(): page.text.encode() for path, page in pages.items()}
    texts |= {path.name: path.read_bytes() for path in site.glob("*.js")}
    assert leaks(texts, all_secrets(ROOT)) == []
    first, *more = _planted(CHAPTERS["ch01_tensor_views"]).split(" ")
    page = Reading("<pre><span>" + "</span> <span>".join([first, *more]) + "</span></pre>")
    assert leaks({"page": page.text.encode()}, all_secrets(ROOT))
