"""What the documentation promises: its examples run, its links lead somewhere, no setting is left out."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import dpmmwrap
from dpmmwrap import DPMM, NIW, Dask, DataPrior, Dirichlet, Julia, Native, load, make_initializer
from dpmmwrap.mixture import Mixture
from dpmmwrap.posterior.groups import Groups
from dpmmwrap.sampler.draws import Draws

ROOT = Path(__file__).parents[1]
PAGES = [path for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if path.exists()]
OTHERS = [path for path in (ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md") if path.exists()]
PUBLIC_MODULES = [
    "estimator",
    "families.diagonal.prior",
    "families.diagonal.spherical",
    "families.full.prior",
    "families.multinomial.prior",
    "families.poisson.prior",
    "backends",
    "model.data_prior",
    "posterior.mixin",
    "posterior.mixture_file",
    "streams.mixin",
    "sampler.draws",
    "posterior.groups",
    "splitnet.network",
    "starts",
]
OPTIONS = doctest.NORMALIZE_WHITESPACE

pytestmark = pytest.mark.skipif(not (ROOT / "mkdocs.yml").exists(), reason="not in a clone")


def run(test: doctest.DocTest) -> None:
    """Run examples; what is not as it should be becomes the message of a failed test."""
    said: list[str] = []
    doctest.DocTestRunner(optionflags=OPTIONS).run(test, out=said.append)
    assert not said, "".join(said)


def public_methods(kind: type) -> list[str]:
    """Those of our own that take anything."""
    own = [name for name, method in inspect.getmembers(kind, inspect.isroutine) if is_own(method)]
    return [name for name in own if name[0] != "_" and parameters(getattr(kind, name))]


def is_own(method: Any) -> bool:
    return str(getattr(method, "__module__", "")).startswith("dpmmwrap.")


def parameters(method: Any) -> set[str]:
    return set(inspect.signature(method).parameters) - {"self"}


# Examples are short, and their notes say that they are.
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", PUBLIC_MODULES)
def test_the_examples_of_docstrings_run(name: str) -> None:
    module = importlib.import_module(f"dpmmwrap.{name}")
    found = [test for test in doctest.DocTestFinder().find(module) if test.examples]
    assert found
    for test in found:
        run(test)


def blocks(page: Path) -> str:
    """What stands between ```pycon and ``` on a page, one after the other."""
    return "\n".join(re.findall(r"```pycon\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.name)
def test_the_examples_of_pages_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # They write files.
    monkeypatch.chdir(tmp_path)
    run(doctest.DocTestParser().get_doctest(blocks(page), {}, page.name, str(page), 0))


def test_the_front_page_has_examples_and_is_short() -> None:
    assert blocks(ROOT / "README.md")
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < 150


def anchors(page: Path) -> set[str]:
    """What the headings of a page can be reached by."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES + OTHERS, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    # Links within code are no links.
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if link.startswith(("http://", "https://")):
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), f"{page.name} leads to {link}, which is not there"
        if anchor:
            assert anchor in anchors(target), f"{page.name} leads to {link}, but there is no such heading"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_of_code_are_shown_as_such(page: Path) -> None:
    # mkdocs knows a language and options by name; what else stands there makes the block a paragraph.
    fences = re.findall(r"^```(.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    wrong = [fence for fence in fences if not re.fullmatch(r'(\w+( \w+="[^"]*")*)?', fence)]
    assert not wrong and len(fences) % 2 == 0


def test_the_api_page_has_every_public_name() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    for name in set(dpmmwrap.__all__) - {"__version__"}:
        assert f"::: dpmmwrap.{name}\n" in page, name
    for name in public_methods(DPMM):
        assert re.search(rf"\b{name}\b", page), name
    for dotted in re.findall(r"^::: dpmmwrap\.([\w.]+)$", page, flags=re.MULTILINE):
        home, _, name = f"dpmmwrap.{dotted}".rpartition(".")
        assert getattr(importlib.import_module(home), name).__doc__, dotted


def described(documented: Any, section: str) -> set[str]:
    """The names in a section of a numpydoc docstring that have a type or a default."""
    text = inspect.getdoc(documented) or ""
    found = re.search(rf"^{section}\n-+\n(.*?)(?=^\w[\w ]*\n-+\n|\Z)", text, flags=re.DOTALL | re.MULTILINE)
    assert found, f"{documented.__qualname__} has no {section}"
    names = re.findall(r"^(\*{0,2}\w[\w, ]*)(?: : \S.*)?$", found.group(1), flags=re.MULTILINE)
    return {name.strip("* ") for several in names for name in several.split(",")}


def test_every_setting_is_described() -> None:
    for kind in (DPMM, Native, Julia, Dask, DataPrior):
        assert described(kind, "Parameters") == set(inspect.signature(kind).parameters), kind


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_attribute_is_described() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"a": [0.0, 1.0, 9.0, 10.0], "b": [1.0, 0.0, 8.0, 9.0]})
    model = DPMM(init="kmeans", covariance_type="full", max_iter=2, n_chains=1, random_state=0).fit(table)
    fitted = {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}
    ours = [kind for kind in DPMM.__mro__ if kind.__module__.startswith("dpmmwrap.")]
    computed = {
        name for kind in ours for name, value in vars(kind).items()
        if isinstance(value, property) and name.endswith("_")
    }  # fmt: skip
    events = DPMM(family="poisson", max_iter=2, n_chains=1, random_state=0).fit(table.round().astype(int))
    tails = DPMM(family="student", max_iter=2, n_chains=1, random_state=0).fit(table)
    batches = DPMM(covariance_type="full", max_iter=2, n_chains=1, random_state=0).fit(table)
    batches.partial_fit(table + 0.5)
    others = {name for one in (events, tails, batches) for name in vars(one)}
    others = {name for name in others if name.endswith("_") and not name.startswith("_")}
    assert described(DPMM, "Attributes") == fitted | computed | others


METHODS = [getattr(kind, name) for kind in (DPMM, Groups) for name in public_methods(kind)]
INTERNAL = {"shifted", "estimate", "from_statistics"}
METHODS += [getattr(Mixture, name) for name in public_methods(Mixture) if name not in INTERNAL]
METHODS += [Draws.save, Draws.load, NIW.reference, NIW.from_data, Dirichlet.from_data, load, make_initializer]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__qualname__)
def test_every_parameter_is_described(method: Any) -> None:
    assert described(method, "Parameters") == parameters(method)
