"""The page in a real browser: pointer, keyboard, widths, contrast."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpmmwrap import DPMM
from dpmmwrap.describe.report import Subject, write_report

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (BROWSER and DRIVER), reason="chromium or chromedriver is not installed")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def pages(flowers: Any, texts: Any, plane: Any, people: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    for name, fit in (("flowers", flowers), ("texts", texts), ("plane", plane), ("people", people)):
        ids = fit.X.index if name == "flowers" else None
        groups = fit.model.groups() if fit.model.n_clusters_ > 1 else None
        write_report(folder / f"{name}.html", Subject(fit.model, fit.X, ids=ids, groups=groups, notes=["a note"]))
    many = np.repeat(np.random.default_rng(0).uniform(-500, 500, (40, 3)), 10, axis=0)
    crowd = many + np.random.default_rng(1).normal(size=many.shape)
    fit = DPMM(covariance_type="spherical", init_clusters="many", max_iter=20, n_chains=1, random_state=0).fit(crowd)
    assert fit.n_clusters_ > 30, "more than the table of sizes shows at once"
    write_report(folder / "crowd.html", Subject(fit, crowd, groups=fit.groups()))
    long_ids = [f"{row}-{'x' * 60}" for row in range(len(plane.X))]
    write_report(folder / "long.html", Subject(plane.model, plane.X, ids=long_ids))
    return folder


def open_page(browser: Any, path: Path, width: int = 1400) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(path.as_uri())


def press(browser: Any, *keys: str) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    ActionChains(browser).send_keys(*keys).perform()


def element(browser: Any, selector: str) -> Any:
    return browser.find_element("css selector", selector)


def words_of(model: Any, row: int, name: object) -> str:
    return f"row {name}: cluster {model.labels_[row]}"


def test_nothing_is_fetched_and_nothing_is_wrong(browser: Any, pages: Path) -> None:
    browser.get_log("browser")
    for path in sorted(pages.iterdir()):
        open_page(browser, path)
        assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert browser.get_log("browser") == []


def test_the_pointer_shows_a_row_and_its_cluster(browser: Any, pages: Path, flowers: Any) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    open_page(browser, pages / "flowers.html")
    assert not element(browser, "#tip").is_displayed()
    circles = browser.find_elements("css selector", "#points circle")
    assert len(circles) == 90
    ActionChains(browser).move_to_element(circles[71]).perform()
    shown = element(browser, "#tip").text
    # Whatever row lies on top there, what is said of it is right.
    row = int(shown.split("plant ")[1].split(":")[0])
    assert shown.startswith(words_of(flowers.model, row, f"plant {row}"))
    place = [circles[71].get_attribute(name) for name in ("cx", "cy")]
    assert [circles[row].get_attribute(name) for name in ("cx", "cy")] == place
    assert element(browser, "#status").text.lower() == shown.lower()


def test_the_keyboard_reaches_every_row(browser: Any, pages: Path, flowers: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    open_page(browser, pages / "flowers.html")
    press(browser, Keys.TAB)
    assert browser.switch_to.active_element.text == "To the map"
    for _ in range(30):
        press(browser, Keys.TAB)
        if browser.switch_to.active_element.get_attribute("id") == "drawing":
            break
    assert browser.switch_to.active_element.get_attribute("id") == "drawing"
    assert element(browser, "#tip").is_displayed(), "the focus alone shows a row"
    met = []
    for key in (Keys.ARROW_RIGHT, Keys.ARROW_LEFT, Keys.ARROW_UP, Keys.ARROW_DOWN, Keys.ARROW_DOWN):
        before = element(browser, "#ring")
        place = [float(before.get_attribute(name)) for name in ("cx", "cy")]
        press(browser, key)
        focused = browser.switch_to.active_element
        label = focused.get_attribute("aria-label")
        row = int(label.split("plant ")[1].split(":")[0])
        assert label.startswith(words_of(flowers.model, row, f"plant {row}"))
        assert element(browser, "#tip").text == label and element(browser, "#status").text.lower() == label.lower()
        met.append((key, place, [float(focused.get_attribute(name)) for name in ("cx", "cy")]))
    for key, (x, y), (to_x, to_y) in met:
        ahead = {Keys.ARROW_RIGHT: to_x > x, Keys.ARROW_LEFT: to_x < x, Keys.ARROW_UP: to_y < y}
        assert ahead.get(key, to_y > y)
    press(browser, Keys.ESCAPE)
    assert not element(browser, "#tip").is_displayed()


def test_a_cluster_alone_another_view_and_a_doubtful_row(browser: Any, pages: Path, flowers: Any, plane: Any) -> None:
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import Select

    open_page(browser, pages / "flowers.html")
    button = element(browser, 'button.cluster[data-cluster="1"]')
    button.send_keys(Keys.ENTER)
    assert button.get_attribute("aria-pressed") == "true"
    dim = "return Array.from(document.querySelectorAll('#points circle')).map((c) => c.classList.contains('dim'))"
    assert browser.execute_script(dim) == [bool(label != 1) for label in flowers.model.labels_]
    button.send_keys(Keys.ENTER)
    assert not any(browser.execute_script(dim))
    places = "return Array.from(document.querySelectorAll('#points circle')).map((c) => c.getAttribute('cx'))"
    before = browser.execute_script(places)
    element(browser, 'input[name="view"][value="1"]').click()
    assert browser.execute_script(places) != before
    assert "discriminant" in element(browser, "#axes").text
    element(browser, 'input[name="view"][value="columns"]').click()
    chosen = [Select(one) for one in browser.find_elements("css selector", "#columns select")]
    chosen[0].select_by_visible_text("petal width")
    assert "Across: petal width, from" in element(browser, "#axes").text
    across = np.array(browser.execute_script(places), dtype=float)
    # The same order as in the data, as far as pixels go.
    assert np.corrcoef(across, flowers.X["petal width"])[0, 1] > 0.9999

    open_page(browser, pages / "plane.html")
    button = element(browser, "button.row")
    row = int(button.text)
    button.send_keys(Keys.ENTER)
    focused = browser.switch_to.active_element.get_attribute("aria-label")
    assert focused.startswith(words_of(plane.model, row, row))


CONTRAST = """
function light([r, g, b]) {
  const linear = [r, g, b].map((v) => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; });
  return .2126 * linear[0] + .7152 * linear[1] + .0722 * linear[2];
}
function numbers(colour) { return colour.match(/[\\d.]+/g).map(Number); }
function ground(node) {
  for (let one = node; one; one = one.parentElement) {
    const own = numbers(getComputedStyle(one).backgroundColor);
    if (own.length === 3 || own[3] === 1) return own;
  }
  return [255, 255, 255];
}
const found = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const node = walker.currentNode.parentElement;
  if (!walker.currentNode.textContent.trim() || !node.checkVisibility() || node.closest("script")) continue;
  const style = getComputedStyle(node);
  const inside = node.closest("svg");
  const front = numbers(inside ? style.fill : style.color);
  const [a, b] = [light(front), light(ground(inside || node))].sort((x, y) => y - x);
  const box = inside && inside.viewBox.baseVal;
  const scale = inside ? inside.getBoundingClientRect().width / box.width : 1;
  found.push([node.textContent.trim().slice(0, 40), (a + .05) / (b + .05), parseFloat(style.fontSize) * scale]);
}
return found;
"""


CUT = """
return Array.from(document.querySelectorAll(".wide"))
  .map((e) => [document.title, e.innerText.slice(0, 200), e.scrollWidth - e.clientWidth])
  .filter((found) => found[2] > 1);
"""


@pytest.mark.parametrize("width", [400, 1200, 1400])
def test_a_page_can_be_read(browser: Any, pages: Path, width: int) -> None:
    for path in sorted(pages.iterdir()):
        open_page(browser, path, width)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        texts = browser.execute_script(CONTRAST)
        assert len(texts) > 50
        assert [text for text in texts if text[1] < 4.5] == [], "contrast of text is at least 4.5"
        assert [text for text in texts if text[2] < 11] == [], "no text is tiny"
        assert browser.execute_script(CUT) == [], "no table is cut off"


def test_everything_that_takes_the_focus_has_a_name(browser: Any, pages: Path) -> None:
    open_page(browser, pages / "flowers.html")
    found = browser.find_elements("css selector", "a, button, input, summary, [tabindex='0']")
    assert len(found) > 10
    assert [
        one.get_attribute("outerHTML")[:80] for one in found if not one.accessible_name and one.tag_name != "pre"
    ] == []
    assert browser.execute_script("return document.documentElement.lang") == "en"
    levels = browser.execute_script("return Array.from(document.querySelectorAll('h1, h2, h3')).map((h) => h.tagName)")
    assert levels[0] == "H1" and levels.count("H1") == 1
