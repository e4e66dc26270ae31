"""Reports in sections: by the engine of all pages, and as Markdown."""

import base64
from pathlib import Path

from dpmmwrap.describe.report.engine import Picture, ReportTable, Section, markdown_table, write_sections


def test_one_report_in_two_forms(tmp_path: Path) -> None:
    picture = tmp_path / "dots.png"
    picture.write_bytes(b"not really a picture")
    table = ReportTable(["set", "method", "ARI"], [["a|b", "<DPMM>", "0.50"]])
    sections = [Section("Results & more", ["see `x < y`"], table, [Picture(picture, "Dots.")]), Section("Nothing")]
    write_sections(tmp_path, "A <title>", "dpmmwrap evaluate --out 'x'", sections)
    page, text = ((tmp_path / name).read_text(encoding="utf-8") for name in ("report.html", "report.md"))
    assert "<h1>A &lt;title&gt;</h1>" in page and "<h2>Results &amp; more</h2>" in page
    assert "<p>see <code>x &lt; y</code></p>" in page
    # Words are aligned to the left, numbers to the right.
    assert '<td>a|b</td><td>&lt;DPMM&gt;</td><td class="n">0.50</td>' in page
    assert f'src="data:image/png;base64,{base64.b64encode(picture.read_bytes()).decode()}"' in page
    assert "img-src data:" in page and "http://" not in page
    assert text.startswith(
        "# A <title>\n\n    dpmmwrap evaluate --out 'x'\n\n## Results & more\n\nsee `x < y`\n\n| set |"
    )
    assert "![Dots.](dots.png)\n\nDots.\n\n## Nothing\n" in text


def test_a_bar_in_a_cell_does_not_end_it() -> None:
    assert markdown_table(ReportTable(["x"], [["a|b"]])).splitlines() == ["| x |", "| --- |", "| a\\|b |"]
