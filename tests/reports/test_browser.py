"""The page in a real browser: it sorts, filters and scrolls nowhere it should not, on a desk and
on a phone, by day and by night.

Needs Debian's chromium and playwright; the accessibility checks also need axe-core, which `.ci/run`
puts into .axe/.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ecgbench import reports
from tests import by_hand as make

pytestmark = pytest.mark.rendered

AXE = Path(__file__).parents[2] / ".axe/package/axe.min.js"
CHROMIUM = shutil.which("chromium")
SIZES = {"desk": (1400, 900), "phone": (390, 844)}
LOOKS = [
    pytest.param("desk", "light"),
    *(
        pytest.param(size, theme, marks=pytest.mark.long)
        for size, theme in (("desk", "dark"), ("phone", "light"), ("phone", "dark"))
    ),
]
MAIN = "#main_table"
RUN = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}

OUTSIDE = """() => [...document.querySelectorAll('body *')].filter(e => {
  if (!e.checkVisibility() || e.closest('.wide, nav, .vh, .skip, svg')) return false;
  const box = e.getBoundingClientRect();
  return box.width && (box.right > innerWidth + 1 || box.left < -1);
}).map(e => e.outerHTML.slice(0, 90))"""
"""What stands beyond the sides of the window, and in nothing that scrolls."""

OVER = """() => {
  const css = 'h1, h2, .sub, .opening p, .notices li, .opening figure, nav, .filters';
  const seen = [...document.querySelectorAll(css)].filter(e => e.checkVisibility());
  const boxes = seen.map(e => [e, e.getBoundingClientRect()]);
  const over = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;
  return boxes.flatMap(([a, x], i) => boxes.slice(i + 1)
    .filter(([b, y]) => !a.contains(b) && !b.contains(a) && over(x, y))
    .map(([b]) => a.outerHTML.slice(0, 60) + ' | ' + b.outerHTML.slice(0, 60)));
}"""
"""Pairs of texts that lie on one another."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with two policies, a failure, untrained and synthetic columns, and a model whose
    name is a script.
    """
    place = tmp_path_factory.mktemp("browser")
    reports.write(make.crowded(), place)
    return place


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """The browser."""
    driver = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("there is no chromium here: apt-get install chromium")
    with driver.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium: Any, folder: Path) -> Iterator[Any]:
    """Opens the page in a size and a theme. A complaint of the console, a window of the page's own
    and a request to anything but the page are failures.
    """
    wrong: list[str] = []
    contexts = []

    def opened(size: str = "desk", theme: str = "light") -> Any:
        width, height = SIZES[size]
        context = chromium.new_context(
            viewport={"width": width, "height": height}, color_scheme=theme
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: wrong.append(said.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: wrong.append(f"dialog: {dialog.message}"))
        page.on("request", lambda asked: wrong.append(asked.url) if there(asked.url) else None)
        page.goto((folder / "index.html").as_uri())
        return page

    def there(url: str) -> bool:
        return not url.startswith(folder.as_uri())

    yield opened
    for context in contexts:
        context.close()
    assert wrong == []


def column(page: Any, place: int, section: str = MAIN) -> list[str]:
    """The scores of a column of the first group of a table, as they stand."""
    cells = page.locator(f"{section} tbody >> nth=0").locator(f"tr:not(.g) > :nth-child({place})")
    return [text.split()[0] for text in cells.all_inner_texts()]


@pytest.mark.parametrize(("size", "theme"), LOOKS)
def test_nothing_is_cut_off_and_nothing_overlaps(visit: Any, size: str, theme: str) -> None:
    page = visit(size, theme)
    assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size][0]
    assert page.evaluate(OUTSIDE) == []
    assert page.evaluate(OVER) == []
    assert page.locator(".sentence").bounding_box()["y"] < SIZES[size][1] / 3
    words = page.locator(".notices").inner_text().split()
    assert {"Synthetic", "Random"} < set(words)
    if size == "desk":  # the first screen holds sentence, numbers, notices and the curve
        plot = page.locator(".opening .sheet svg").bounding_box()
        assert plot["y"] + plot["height"] < SIZES[size][1]
        table = page.locator(f"{MAIN} .wide").first
        assert table.evaluate("box => box.scrollWidth <= box.clientWidth")


@pytest.mark.parametrize(("size", "theme"), LOOKS)
def test_axe_finds_nothing(visit: Any, size: str, theme: str) -> None:
    if not AXE.is_file():
        pytest.skip("axe-core is not here: .ci/run puts it into .axe/")
    page = visit(size, theme)
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate(f"axe.run(document, {{runOnly: {json.dumps(RUN)}}})")
    told = [
        (each["id"], each["help"], [node["html"][:120] for node in each["nodes"][:3]])
        for each in found["violations"]
    ]
    assert told == []
    assert len(found["passes"]) > 20


def test_a_table_is_sorted_and_gets_its_first_order_back(visit: Any) -> None:
    page = visit()
    first = column(page, 1, "#survival")
    head = page.locator("#survival thead th >> nth=2")
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    numbers = column(page, 3, "#survival")
    assert numbers == ["54", "27", "27", "--"]
    head.locator("button").click()
    assert column(page, 3, "#survival") == ["27", "27", "54", "--"]
    head.locator("button").click()
    assert column(page, 1, "#survival") == first


def test_one_filter_acts_on_tables_and_figures(visit: Any) -> None:
    page = visit()
    everywhere = {
        "columns": page.locator(f"{MAIN} thead th:visible"),
        "groups": page.locator(f"{MAIN} tbody:visible"),
        "rows": page.locator(f"{MAIN} tbody tr:not(.g):visible"),
        "series": page.locator("#lead_curve svg [data-m]:not(.off)"),
    }

    def there() -> dict[str, int]:
        return {name: found.count() for name, found in everywhere.items()}

    before = there()
    assert (before["columns"], before["groups"]) == (8, 3)
    page.locator(".filters summary").click()
    page.get_by_role("checkbox", name="ST-MEM", exact=True).uncheck()
    page.get_by_role("checkbox", name="PTB-XL Diag", exact=True).uncheck()
    page.locator("input[name=l]").first.uncheck()
    after = there()
    assert after["columns"] == 4
    assert (after["groups"], after["rows"]) == (2, 2)
    assert 0 < after["series"] < before["series"]
    assert "3 hidden" in page.locator(".filters summary").inner_text()
    page.get_by_role("button", name="Show all").click()
    assert there() == before


def test_a_link_leads_to_a_file_and_the_model_that_is_a_script_is_text(
    visit: Any, folder: Path
) -> None:
    page = visit()
    assert "A&B_<script>alert(1)</script>" in page.locator("h1").inner_text()
    with page.expect_download() as got:
        page.locator(f"{MAIN} .files a").first.click()
    assert Path(got.value.path()).read_bytes() == (folder / "main_table.csv").read_bytes()
