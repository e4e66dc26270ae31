"""A report in sections with words, a table and pictures, as HTML, Markdown or text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dpmmwrap.describe.report.engine import rendered, write_page


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
    write_page(folder / "report.md", to_markdown(title, command, sections))


def to_markdown(title: str, command: str, sections: Sequence[Section]) -> str:
    parts = [f"# {title}", f"    {command}"]
    for section in sections:
        parts += [f"## {section.title}", *section.words]
        if section.table is not None:
            parts.append(markdown_table(section.table))
        parts += [f"![{picture.caption}]({picture.file.name})\n\n{picture.caption}" for picture in section.pictures]
    return "\n\n".join(parts) + "\n"


def markdown_table(table: ReportTable) -> str:
    lines = [table.header, ["---"] * len(table.header), *table.lines]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def text_table(table: ReportTable) -> str:
    """A table for a terminal, with the first column to the left and the others to the right."""
    lines = [table.header, *table.lines]
    first, *others = [max(map(len, column)) for column in zip(*lines, strict=True)]
    form = "  ".join([f"{{:<{first}}}", *(f"{{:>{width}}}" for width in others)])
    return "\n".join(form.format(*line).rstrip() for line in lines)
