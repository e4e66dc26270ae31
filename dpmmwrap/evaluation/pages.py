"""A report as Markdown and as one HTML file that opens without a network: words, tables and pictures."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dpmmwrap.evaluation.summary import Table
from dpmmwrap.files import write_atomically


@dataclass(frozen=True)
class Picture:
    """A PNG in the folder of the report."""

    file: str
    caption: str


@dataclass(frozen=True)
class Section:
    title: str
    words: list[str] = field(default_factory=list)
    table: Table | None = None
    pictures: list[Picture] = field(default_factory=list)


@dataclass(frozen=True)
class Report:
    title: str
    command: str
    sections: list[Section]


STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 64rem; margin: 2rem auto; padding: 0 1rem }
h1, h2 { line-height: 1.2 }
pre { background: #f3f3f3; padding: .7rem 1rem; overflow-x: auto; white-space: pre-wrap }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-size: .8rem; font-variant-numeric: tabular-nums }
th, td { padding: .25rem .45rem; text-align: right; white-space: nowrap; border-bottom: 1px solid #ddd }
th { border-bottom: 2px solid #222 } td:first-child, th:first-child, td.word, th.word { text-align: left }
figure { margin: 1.5rem 0 } img { max-width: 100%; height: auto }
figcaption { color: #555; font-size: .9rem }
"""


def write_report(folder: Path, report: Report) -> None:
    page, text = to_html(report, folder).encode(), to_markdown(report).encode()
    write_atomically(folder / "report.html", lambda file: file.write(page))
    write_atomically(folder / "report.md", lambda file: file.write(text))


def to_markdown(report: Report) -> str:
    parts = [f"# {report.title}", f"    {report.command}"]
    for section in report.sections:
        parts += [f"## {section.title}", *section.words]
        if section.table is not None:
            parts.append(markdown_table(section.table))
        parts += [f"![{picture.caption}]({picture.file})\n\n{picture.caption}" for picture in section.pictures]
    return "\n\n".join(parts) + "\n"


def markdown_table(table: Table) -> str:
    lines = [table.header, ["---"] * len(table.header), *table.lines]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def to_html(report: Report, folder: Path) -> str:
    title = html.escape(report.title)
    parts = [
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n<pre>{html.escape(report.command)}</pre>",
    ]
    for section in report.sections:
        parts.append(f"<h2>{html.escape(section.title)}</h2>")
        parts += [f"<p>{with_code(html.escape(words))}</p>" for words in section.words]
        if section.table is not None:
            parts.append(html_table(section.table))
        parts += [html_picture(picture, folder) for picture in section.pictures]
    return "\n".join([*parts, "</body>\n</html>\n"])


def with_code(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", text)


def html_table(table: Table) -> str:
    word = {number for number, name in enumerate(table.header) if name == "method"}
    lines = [html_line(table.header, "th", word), *(html_line(line, "td", word) for line in table.lines)]
    return '<div class="wide"><table>\n' + "\n".join(lines) + "\n</table></div>"


def html_line(cells: Sequence[str], kind: str, words: set[int]) -> str:
    marks = (' class="word"' if number in words else "" for number in range(len(cells)))
    inside = "".join(f"<{kind}{mark}>{html.escape(cell)}</{kind}>" for cell, mark in zip(cells, marks, strict=True))
    return f"<tr>{inside}</tr>"


def html_picture(picture: Picture, folder: Path) -> str:
    """Embedded, so that the file can be sent on its own."""
    content = base64.b64encode((folder / picture.file).read_bytes()).decode()
    caption = html.escape(picture.caption)
    image = f'<img src="data:image/png;base64,{content}" alt="{caption}">'
    return f"<figure>{image}<figcaption>{caption}</figcaption></figure>"
