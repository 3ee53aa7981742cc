"""What the site adds to its pages: pages from elsewhere in the tree, rules as data, mathematics.

Hooks of mkdocs, called by it in this order. Nothing of a rule is typed into a page: the form that
chooses one reads ``rules.js``, which the engine writes here.
"""

from __future__ import annotations

import json
import posixpath
import re
import sys
from collections.abc import Iterator
from html import escape, unescape
from itertools import product
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parent))  # mkdocs calls this file from elsewhere
import faults
import gallery

import deepnet_theory as dt
from deepnet_theory.definitions.optimizer import OPTIMIZERS, optimizer
from deepnet_theory.definitions.placement import PLACEMENTS, placement
from deepnet_theory.definitions.selection import Selection
from deepnet_theory.definitions.sublayer import NORMS
from deepnet_theory.report.document import GREEK
from deepnet_theory.report.notation import formula_latex
from deepnet_theory.sizes.answer import Answer, in_depth
from deepnet_theory.sizes.width import role_table, texts

ROOT = Path(__file__).parents[1]
# pages from elsewhere in the tree: a pattern of files, and their folder on the site
ELSEWHERE = (
    ("paper_checks/**/README.md", "findings"),
    ("benchmarks/results/*.md", "measured"),
    ("notebooks/*.ipynb", "notebooks"),
)
# what the form offers
LAYERS = ("attention,ffn", "attention,ffn:swiglu")
MATRICES = ("embedding", "query", "key", "value", "output", "fc1", "fc2", "gate", "head")
SUMMARISED = {"placement": placement, "optimizer": optimizer}
SINGLE = {"CONTRIBUTING.md": "extending.md", "CHANGELOG.md": "changes.md"}


def sources() -> dict[str, str]:
    """The path in the tree of every page of the site, by its path there."""
    found = {to: source for source, to in SINGLE.items()}
    for pattern, folder in ELSEWHERE:
        for path in sorted(ROOT.glob(pattern)):
            source = path.relative_to(ROOT).as_posix()
            found[posixpath.join(folder, source.removeprefix(_fixed(pattern)))] = source
    for path in sorted((ROOT / "docs").rglob("*.md")):
        found[path.relative_to(ROOT / "docs").as_posix()] = path.relative_to(ROOT).as_posix()
    return found


def _fixed(pattern: str) -> str:
    return pattern.split("*")[0]


@event_priority(100)  # before the plugin that makes pages of notebooks
def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Pages from elsewhere, and the rules of the form."""
    for to, source in sources().items():
        if files.get_file_from_path(to) is None:
            if to == source:  # a notebook, which its plugin reads as a file of a folder
                page = File(to, str(ROOT), config.site_dir, config.use_directory_urls)
            else:
                page = File.generated(config, to, abs_src_path=str(ROOT / source))
            files.append(page)
    made = {**gallery.pages(), **faults.pages()}
    for to, written in made.items():
        files.append(File.generated(config, to, content=written))
    # a script and not JSON, since a page that is read from a disk fetches nothing
    entries = rules()
    drawn = {formula: convert(formula_latex(formula)) for formula in formulas(entries)}
    named = {"deepnetRules": entries, "deepnetDrawn": drawn}
    data = "".join(f"window.{name} = {json.dumps(of)};\n" for name, of in named.items())
    files.append(File.generated(config, "rules.js", content=data))
    return files


def rules() -> list[dict[str, Any]]:
    """One entry for every selection of the form: what the engine answers, or its refusal."""
    return list(_rules())


def _rules() -> Iterator[dict[str, Any]]:
    named = ("placement", "norm", "layer", "optimizer")
    for values in product(PLACEMENTS, NORMS, LAYERS, OPTIMIZERS):
        select = dict(zip(named, values, strict=True))
        answer = Answer(Selection(**select))
        words = {n: of(select[n]).summary for n, of in SUMMARISED.items()}
        try:
            below = [answer.source] if len(answer.rows) > 1 and answer.source else []
        except dt.Refusal as refusal:
            yield {**select, "words": words, "refused": str(refusal)}
            continue
        yield {
            **select,
            "words": words,
            "closure": answer.closure,
            "equation": answer.selection.the_placement.equation,
            "rows": [_row(one) for one in (answer, *below)],
            "advice": answer.advice,
            "widths": widths(answer.selection),
        }


def _row(answer: Answer) -> dict[str, Any]:
    """One of the two rules of a selection."""
    shares: dict[str, list[str]] = {}
    for share in answer.parameters:
        if share.standing == "dominant":
            shares.setdefault(str(share.balancing), []).append(share.place.parameter)
    return {
        "named": answer.rows[0].named,
        "rule": [entry.to_dict() for entry in answer.rule.entries],
        "eta": answer.rule.eta,
        "beside": {formula: sorted(set(names)) for formula, names in shares.items()},
        "in_depth": _scripts(escape(_sentence(in_depth(answer.table)))),
    }


def _sentence(words: str) -> str:
    """A sentence with ρ for rho."""
    words = re.sub(r"\brho\b", GREEK["rho"], words)
    return f"{words[0].upper()}{words[1:]}."


def widths(selection: Selection) -> list[dict[str, Any]]:
    """What depth and width together ask of each kind of matrix: roles that agree together."""
    roles: dict[tuple[str, ...], list[str]] = {}
    for row in role_table(selection, "both").rows:
        sizes = texts(row)
        if row.role.endswith(MATRICES) and row.role != "tied-head":
            key = tuple(str(sizes[size]) for size in ("init", "multiplier", "rate"))
            roles.setdefault(key, []).append(row.role)
    return [
        {"roles": list(dict.fromkeys(names)), "init": i, "multiplier": m, "rate": r}
        for (i, m, r), names in roles.items()
    ]


def formulas(entries: list[dict[str, Any]]) -> set[str]:
    """Every formula that the form shows."""
    derived = [entry for entry in entries if "refused" not in entry]
    rows = [row for entry in derived for row in entry["rows"]]
    found = {entry["equation"] for entry in derived} | {row["eta"] for row in rows}
    found.update(formula for row in rows for formula in row["beside"])
    knobs = [entry for row in rows for entry in row["rule"]]
    return found.union(*((e["alpha"], e["beta"], e["rate"]) for e in knobs))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links within the tree become links within the site; a link without a page there is text."""
    pages = sources()
    here = pages.get(page.file.src_uri)
    if here is None:
        return markdown
    if here == gallery.TABLE:
        markdown = gallery.linked(markdown)
        page.meta["hide"] = ["toc"]  # the room is the table's
    elif here == faults.TABLE:
        markdown = faults.linked(markdown)

    def linked(match: re.Match[str]) -> str:
        words, target, anchor = match["words"], match["target"], match["anchor"] or ""
        if "://" in target or not target:
            return match[0]
        if (
            posixpath.normpath(posixpath.join(posixpath.dirname(page.file.src_uri), target))
            in pages
        ):
            return match[0]  # written for the site
        source = posixpath.normpath(posixpath.join(posixpath.dirname(here), target))
        to = _place(source, pages)
        if to is None:  # a link to nowhere stays, for mkdocs to complain of
            return words if (ROOT / source).exists() else match[0]
        return f"[{words}]({posixpath.relpath(to, posixpath.dirname(page.file.src_uri))}{anchor})"

    return re.sub(
        r"\[(?P<words>[^\]\n]+)\]\((?P<target>[^)#\s]*)(?P<anchor>#[^)\s]*)?\)",
        linked,
        markdown,
    )


def _place(source: str, pages: dict[str, str]) -> str | None:
    """The path on the site of a file of the tree; None if it is no page."""
    if source.startswith("docs/") and source.endswith(".svg"):  # a figure
        return source.removeprefix("docs/")
    by_source = {source: to for to, source in pages.items()}
    return by_source.get(source) or by_source.get(posixpath.join(source, "README.md"))


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Formulas as MathML, which a browser draws without a script; a notebook's links."""
    if page.file.src_uri.endswith(".ipynb"):  # the plugin that writes it knows no other page
        html = _linked_notebook(html, page, files)

    def drawn(match: re.Match[str]) -> str:
        formula, display = unescape(match["formula"]), match["open"] == r"\["
        return convert(formula, display="block" if display else "inline")

    pattern = (
        r'<(?P<tag>span|div) class="arithmatex">(?P<open>\\[(\[])(?P<formula>.*?)\\[)\]]</(?P=tag)>'
    )
    return _scripts(re.sub(pattern, drawn, html, flags=re.S))


# tags whose text is kept as written, and the powers and indices of all other texts
AS_WRITTEN = "code|pre|math|script|style|svg|textarea"
POWER = re.compile(r"(?<=[\w)\]}²‖])\^(?:\{([^{}]+)\}|\(([^()]+)\)|([-−+]?\d+(?:\.\d+)?|\w\b))")
INDEX = re.compile(
    r"(?:(?<=[Α-ω])|(?<![a-z_][A-Za-z])(?<=[A-Za-z]))_(?:\{([^{}]+)\}|(\w)(?![a-z_]))"
)


def _scripts(html: str) -> str:
    """N^(1/2) and x_{l+1}, as a text for terminals writes them, with raised and lowered letters."""

    def script(tag: str, match: re.Match[str]) -> str:
        letters = next(filter(None, match.groups()))
        return f"<{tag}>{letters.replace('-', '−')}</{tag}>"

    parts = re.split(rf"(<(?:{AS_WRITTEN})\b.*?</(?:{AS_WRITTEN})>|<[^>]*>)", html, flags=re.S)
    for i, part in enumerate(parts):
        if not part.startswith("<"):
            part = INDEX.sub(lambda match: script("sub", match), part)
            parts[i] = POWER.sub(lambda match: script("sup", match), part)
    return "".join(parts)


def _linked_notebook(html: str, page: Page, files: Files) -> str:
    """Links to pages of the site as links to what they have become; others lose their link."""
    pages = sources()

    def linked(match: re.Match[str]) -> str:
        folder = posixpath.dirname(page.file.src_uri)
        to = _place(posixpath.normpath(posixpath.join(folder, match["target"])), pages)
        file = files.get_file_from_path(to) if to else None
        if file is None:
            return match["words"]
        url = file.url_relative_to(page.file) + (match["anchor"] or "")
        return f'<a href="{url}">{match["words"]}</a>'

    pattern = r'<a href="(?P<target>[^"#:]+)(?P<anchor>#[^"]*)?">(?P<words>.*?)</a>'
    return re.sub(pattern, linked, html, flags=re.S)
