"""An audit for continuous integration: JUnit's XML and GitHub's annotations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from deepnet_theory.definitions.audit import REMARK, Finding
from deepnet_theory.definitions.outcome import Verdict
from deepnet_theory.report.audit import answer, not_understood

if TYPE_CHECKING:
    from deepnet_theory.definitions.audit import Audit

ERROR, WARNING, NOTICE = "error", "warning", "notice"
LEVELS = {Verdict.SUPPORTED: NOTICE, Verdict.UNDECIDED: WARNING, Verdict.REFUTED: ERROR}
OUTCOMES = {ERROR: "failure", WARNING: "error", NOTICE: "system-out"}  # as JUnit calls them
NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(audit: Audit) -> str:
    """JUnit's XML: a case of the verdict, and one of each finding.

    A difference is a failure, a model that was not understood an error, and a remark passes.
    """
    found = [*_findings(audit)]
    levels = [level for level, _, _ in found]
    counts = {"failures": levels.count(ERROR), "errors": levels.count(WARNING)}
    told = {"name": "deepnet-theory audit", "tests": len(found), **counts}
    suite = ElementTree.Element("testsuite", {name: str(value) for name, value in told.items()})
    for level, finding, place in found:
        case = _element(suite, "testcase", classname=audit.model, name=finding.where, **place)
        message = {} if level == NOTICE else {"message": finding.what}
        outcome = _element(case, OUTCOMES[level], **message)
        outcome.text = NO_XML.sub("?", finding.mend if message else _text(finding))
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)


def _element(parent: ElementTree.Element, tag: str, **texts: str) -> ElementTree.Element:
    """An element in its parent, whose texts lose the characters that XML lacks."""
    valid = {name: NO_XML.sub("?", text) for name, text in texts.items()}
    return ElementTree.SubElement(parent, tag, valid)


def github(audit: Audit) -> str:
    """GitHub's annotations, one a line: the verdict, and each finding.

    A finding is at the line that adds its branch to the stream, else at the model's file.
    """
    lines, file = [], audit.model.rpartition(":")[0]
    for level, finding, place in _findings(audit):
        at = place or ({"file": file} if file.endswith(".py") else {})
        named = {"title": f"{audit.model}: {finding.where}", **at}
        given = ",".join(f"{name}={_escaped(value, ':,')}" for name, value in named.items())
        lines.append(f"::{level} {given}::{_escaped(_text(finding))}")
    return "\n".join(lines)


def _findings(audit: Audit) -> Iterator[tuple[str, Finding, dict[str, str]]]:
    """The verdict as a finding, then the audit's own, each with its level and the line of code."""
    verdict, rest = answer(audit)
    missing = "\n".join(not_understood(audit))
    yield LEVELS[audit.verdict], Finding("verdict", f"{verdict}{rest}", 1.0, missing), {}
    for one in audit.findings:
        place = {"file": one.line.file, "line": str(one.line.number)} if one.line else {}
        yield NOTICE if one.severity == REMARK else ERROR, one, place


def _text(finding: Finding) -> str:
    return f"{finding.what}\n{finding.mend}".strip()


def _escaped(text: str, more: str = "") -> str:
    """As GitHub writes the data of a workflow command; in a property ``more`` is escaped, too."""
    return re.sub(f"[%\r\n{more}]", lambda found: f"%{ord(found[0]):02X}", text)
