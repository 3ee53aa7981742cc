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
NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(audit: Audit) -> str:
    """JUnit's XML: a case of the verdict, and one of each finding.

    A difference is a failure, a model that was not understood an error, and a remark passes.
    """
    outcomes = {ERROR: "failure", WARNING: "error", NOTICE: "system-out"}
    suite = ElementTree.Element("testsuite", name="deepnet-theory audit")
    levels = []
    for level, finding in _findings(audit):
        levels.append(level)
        case = ElementTree.SubElement(
            suite, "testcase", classname=_xml(audit.model), name=_xml(finding.where)
        )
        if finding.line is not None:
            case.set("file", _xml(finding.line.file))
            case.set("line", str(finding.line.number))
        outcome = ElementTree.SubElement(case, outcomes[level])
        if level == NOTICE:
            outcome.text = _xml(_text(finding))
        else:
            outcome.set("message", _xml(finding.what))
            outcome.text = _xml(finding.mend)
    suite.set("tests", str(len(levels)))
    suite.set("failures", str(levels.count(ERROR)))
    suite.set("errors", str(levels.count(WARNING)))
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)


def github(audit: Audit) -> str:
    """GitHub's annotations, one a line: the verdict, and each finding.

    A finding is at the line that adds its branch to the stream, else at the model's file.
    """
    lines = []
    for level, finding in _findings(audit):
        place = {"title": f"{audit.model}: {finding.where}"}
        if finding.line is not None:
            place |= {"file": finding.line.file, "line": str(finding.line.number)}
        elif (file := audit.model.rpartition(":")[0]).endswith(".py"):
            place["file"] = file
        given = ",".join(f"{name}={_escaped(value, ':,')}" for name, value in place.items())
        lines.append(f"::{level} {given}::{_escaped(_text(finding))}")
    return "\n".join(lines)


def _findings(audit: Audit) -> Iterator[tuple[str, Finding]]:
    """The verdict as a finding, then the audit's own, each with its level."""
    verdict, rest = answer(audit)
    missing = "\n".join(not_understood(audit))
    yield LEVELS[audit.verdict], Finding("verdict", f"{verdict}{rest}", 1.0, missing)
    for finding in audit.findings:
        yield NOTICE if finding.severity == REMARK else ERROR, finding


def _text(finding: Finding) -> str:
    return f"{finding.what}\n{finding.mend}".strip()


def _xml(text: str) -> str:
    """The text without the characters that XML has not."""
    return NO_XML.sub("?", text)


def _escaped(text: str, more: str = "") -> str:
    """As GitHub writes the data of a workflow command; in a property ``more`` is escaped, too."""
    return re.sub(f"[%\r\n{more}]", lambda found: f"%{ord(found[0]):02X}", text)
