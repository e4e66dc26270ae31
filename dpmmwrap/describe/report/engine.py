"""The engine of all pages, with a common frame and style. Each page is one HTML file that needs no network."""

from __future__ import annotations

import base64
import re
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from dpmmwrap.describe.wording import counted, share
from dpmmwrap.files import write_atomically


@lru_cache(maxsize=1)
def environment() -> Any:
    from jinja2 import Environment, FunctionLoader

    folder = files("dpmmwrap.describe.report")
    templates = Environment(
        loader=FunctionLoader(lambda name: (folder / name).read_text(encoding="utf-8")),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {"counted": counted, "share": share, "code": with_code, "embedded": embedded}
    return templates


def rendered(template: str, **content: Any) -> str:
    return str(environment().get_template(template).render(**content))


def write_page(path: str | Path, text: str) -> None:
    write_atomically(path, lambda file: file.write(text.encode()))


def with_code(text: str) -> Any:
    """Turn words between backticks into code."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def embedded(path: Path) -> str:
    """A file as base64, so that the page needs no other file."""
    return base64.b64encode(path.read_bytes()).decode()
