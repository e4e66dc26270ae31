"""The engine of all pages, with a common frame and style, and reports in sections. A page needs no network."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
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
    templates.filters |= {"counted": counted, "share": share, "code": with_code}
    templates.filters["base64"] = lambda path: base64.b64encode(path.read_bytes()).decode()
    return templates


def rendered(template: str, **content: Any) -> str:
    return str(environment().get_template(template).render(**content))


def write_page(path: str | Path, text: str) -> None:
    write_atomically(path, lambda file: file.write(text.encode()))


def with_code(text: str) -> Any:
    """Turn words between backticks into code."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


@dataclass(frozen=True)
class ReportTable:
    """A table of words."""

    header: list[str]
    lines: list[list[str]]

    def is_word(self, column: int) -> bool:
        """Whether a column holds words, which are aligned to the left: the first one, and names of methods."""
        return column == 0 or self.header[column] == "method"


@dataclass(frozen=True)
class Picture:
    """A PNG file."""

    file: Path
    caption: str


@dataclass(frozen=True)
class Section:
    title: str
    words: list[str] = field(default_factory=list)
    table: ReportTable | None = None
    pictures: list[Picture] = field(default_factory=list)


def write_sections(folder: Path, title: str, command: str, sections: Sequence[Section]) -> None:
    """report.html and report.md."""
    write_page(folder / "report.html", rendered("sections.html", title=title, command=command, sections=sections))
    parts = [f"# {title}", f"    {command}"]
    for section in sections:
        parts += [f"## {section.title}", *section.words]
        if section.table is not None:
            parts.append(markdown_table(section.table))
        parts += [f"![{picture.caption}]({picture.file.name})\n\n{picture.caption}" for picture in section.pictures]
    write_page(folder / "report.md", "\n\n".join(parts) + "\n")


def markdown_table(table: ReportTable) -> str:
    lines = [table.header, ["---"] * len(table.header), *table.lines]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def text_table(table: ReportTable) -> str:
    """A table for a terminal, with the first column to the left and the others to the right."""
    lines = [table.header, *table.lines]
    first, *others = [max(map(len, column)) for column in zip(*lines, strict=True)]
    form = "  ".join([f"{{:<{first}}}", *(f"{{:>{width}}}" for width in others)])
    return "\n".join(form.format(*line).rstrip() for line in lines)
