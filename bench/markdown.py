"""The part of Markdown that the pages use, as one HTML page that needs nothing else."""

from __future__ import annotations

import re
from html import escape

CSS = """
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 1100px; padding: 24px 16px; background: #fff; color: #24292f }
h1 { border-top: 2px solid #d0d7de; padding-top: 28px; margin-top: 48px }
table { border-collapse: collapse; display: block; overflow-x: auto; margin: 12px 0 20px }
th, td { border: 1px solid #d0d7de; padding: 4px 9px; text-align: left; font-variant-numeric: tabular-nums }
th { background: #f6f8fa; position: sticky; top: 0 }
pre, code { background: #f6f8fa; border-radius: 4px; font: 13px ui-monospace, monospace } pre { padding: 12px; overflow-x: auto }
code { padding: 1px 4px } pre code { padding: 0 } figure { margin: 12px 0 } svg { max-width: 100%; height: auto } a { color: #0969da }
@media (prefers-color-scheme: dark) {
body { background: #0d1117; color: #e6edf3 } th, pre, code { background: #161b22 } th, td, h1 { border-color: #30363d } a { color: #4493f8 }
}
"""


def page(title: str, pages: dict[str, str], images: dict[str, str]) -> str:
    """All pages in one. Images are set in as they are; links between the pages lead within the page."""
    body = "".join(f'<section id="{name.removesuffix(".md")}">\n{html(text, images)}</section>\n' for name, text in pages.items())
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>{escape(title)}</title>'
    return f'<!doctype html>\n<html lang="en"><head>{head}<style>{CSS}</style></head><body>\n{body}</body></html>\n'


def html(text: str, images: dict[str, str]) -> str:
    """Headings, paragraphs, lists, tables, code and images."""
    out: list[str] = []
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith("```"):
            end = lines.index("```", at + 1)
            out.append(f"<pre><code>{escape(chr(10).join(lines[at + 1 : end]))}</code></pre>")
            at = end + 1
        elif heading := re.match(r"(#+) (.*)", line):
            level = len(heading[1])
            out.append(f"<h{level}>{inline(heading[2])}</h{level}>")
            at += 1
        elif image := re.match(r"!\[.*?\]\((.*?)\)$", line):
            out.append(f"<figure>{images[image[1]]}</figure>")
            at += 1
        elif line.startswith("|"):
            end = after(lines, at, "|")
            out.append(table(lines[at:end]))
            at = end
        elif line.startswith("- "):
            end = after(lines, at, "- ")
            items = "".join(f"<li>{inline(item[2:])}</li>" for item in lines[at:end])
            out.append(f"<ul>{items}</ul>")
            at = end
        elif line.strip():
            end = at
            while end < len(lines) and lines[end].strip() and not lines[end].startswith(("|", "```", "#", "- ", "![")):
                end += 1
            out.append(f"<p>{inline(' '.join(lines[at:end]))}</p>")
            at = end
        else:
            at += 1
    return "\n".join(out) + "\n"


def after(lines: list[str], at: int, start: str) -> int:
    """The first line after `at` that does not begin so."""
    while at < len(lines) and lines[at].startswith(start):
        at += 1
    return at


def table(lines: list[str]) -> str:
    rows = [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])] for line in lines]
    head = "".join(f"<th>{inline(cell)}</th>" for cell in rows[0])
    body = "".join("<tr>" + "".join(f"<td>{inline(cell)}</td>" for cell in cells) + "</tr>\n" for cells in rows[2:])
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>"


def inline(text: str) -> str:
    """Code, links, bold, italics."""
    pieces = re.split(r"(`[^`]*`)", text)
    for place, piece in enumerate(pieces):
        if piece.startswith("`") and piece.endswith("`") and len(piece) > 1:
            pieces[place] = f"<code>{escape(piece[1:-1])}</code>"
            continue
        piece = escape(piece, quote=False)
        piece = re.sub(r"\[(.*?)\]\((.*?)\)", link, piece)
        piece = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", piece)
        pieces[place] = re.sub(r"(?<!\w)\*(\w[^*]*)\*", r"<i>\1</i>", piece)
    return "".join(pieces)


def link(match: re.Match) -> str:
    """A link to another page of the benchmarks leads to its section; one that leads out of the book is text only."""
    words, target = match[1], match[2]
    if re.fullmatch(r"[\w-]+\.md", target):
        return f'<a href="#{target.removesuffix(".md")}">{words}</a>'
    return f'<a href="{target}">{words}</a>' if target.startswith("http") else words
