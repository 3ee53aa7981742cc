"""The commands: each parses its options, makes one call of the library, and renders."""

from __future__ import annotations

import json
import shlex
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deepnet_theory.cli import deliver, save, save_page, say, shows_colour
from deepnet_theory.cli.options import (
    MEASURE,
    OWN,
    SELECT,
    SIZES,
    TRAIN,
    TRANSFER,
    Given,
    Takes,
    Talk,
    Work,
    beside_scheme,
    chosen,
    file_to_write,
    flag,
    goes_on,
    in_lower_case,
    of_scheme,
    one_of,
    refuse_beside,
    require_both,
    rule_of,
    selection_of,
    words_of,
)
from deepnet_theory.definitions.constants import FORMS, Constants
from deepnet_theory.definitions.outcome import InputError, UnstableWarning
from deepnet_theory.definitions.record import Option
from deepnet_theory.definitions.selection import ACROSS, ALIGNMENTS, DepthLike

if TYPE_CHECKING:
    from deepnet_theory.definitions.rule import Rule
    from deepnet_theory.definitions.selection import Selection
    from deepnet_theory.report.document import Document

    Composer = Callable[[Any], Document | str]

# A command imports its rooms when it is called: `derive` must not wait for torch, nor `--help` for
# SymPy. It parses, calls the library once and shows what comes back; nothing is computed here.

TextOrJson = Annotated[str, one_of("text", "json")]
Output = Annotated[str | None, file_to_write("Write the JSON there.", "--output", "-o")]
Page = Annotated[str | None, file_to_write("Write an HTML page there.", "--page")]
Text = str | None
Number = int | None
Across = Annotated[str, Option("NAME", "depth, width or both", ("depth", *ACROSS))]
Alignment = Annotated[Text, Option("NAME", "In width, full (default) or none", ALIGNMENTS)]
Widths = Annotated[Text, Option("LIST", "Widths: 64,128,256 or 64:1024")]
BaseWidth = Annotated[Number, Option("D0", "Width of the model that was tuned")]
Select = Annotated[Given, SELECT]
Own = Annotated[Given, OWN]
MODEL = "FILE.py:FACTORY or package.module:FACTORY"


def derive(
    select: Select,
    talk: Talk,
    depth: Annotated[Text, Option("N[,M]", "Print numbers for this many layers")] = None,
    steps: Annotated[bool, Option("", "Show every step")] = False,
    section: Annotated[Text, Option("NAME", "Show one part, such as assumptions")] = None,
    compare_closures: Annotated[
        bool, Option("", "Every closure's rule and what it implies")
    ] = False,
    across: Across = "depth",
    alignment: Alignment = None,
    form: Annotated[
        Text,
        Option(
            "NAME", "In width, forward (default): a multiplier on the head; weights: none", FORMS
        ),
    ] = None,
    width: Annotated[Number, Option("D", "Print numbers for this width")] = None,
    base_width: BaseWidth = None,
    base_depth: Annotated[Text, Option("N0[,M0]", "Layers of the model that was tuned")] = None,
    format: Annotated[str, one_of("text", "latex", "json")] = "text",
) -> int:
    """Derive alpha and beta: the answer, or with --steps every checked step that leads to it.

    With --across width or both: sizes, multipliers and learning rates by role, in the width.
    """
    from deepnet_theory.cli import deriving

    in_width = _typed(
        alignment=alignment, form=form, width=width, base_width=base_width, base_depth=base_depth
    )
    in_one = chosen("across", across, ("depth", *ACROSS)) == "depth"
    if "scheme" in select:
        if compare_closures or depth is not None or in_width or not in_one:
            raise InputError("a scheme is judged in every depth: leave the other options out")
        return _show(deriving.judge_scheme(**of_scheme(select)), format)
    if not in_one:
        if compare_closures or section is not None:
            raise InputError(
                f"--across {across} has one table: leave --compare-closures and --section out"
            )
        from deepnet_theory.report import tables

        wide = deriving.derive_across(selection_of(select), across, depth=depth, **in_width)
        return _show(wide, format, tables.wide if steps else tables.wide_short)
    _refuse_in_depth(in_width)
    from deepnet_theory.report import rule

    selection = selection_of(select)
    if compare_closures:
        compared = deriving.compare_closures(selection, depth=depth)
        return _show(compared, format)
    derivation = deriving.derive(selection, depth=depth)
    talk.note("".join(rule.conclusion(derivation)))
    part: Callable[[Any], Document] = rule.document if steps else rule.short
    if section is not None and format != "json":
        part = partial(rule.section, name=section)
    _show(derivation, format, part)
    return derivation.verdict.exit_code


def _typed(**values: object) -> Given:
    """Those of some options that were typed."""
    return {name: value for name, value in values.items() if value is not None}


def _show(result: Any, format: str, page_of: Composer | None = None) -> int:
    """Print a result, as JSON or as its page, the whole of it or another; its exit code."""
    from deepnet_theory.report.formatters import composed

    compose = page_of or composed
    print(result.to_json() if format == "json" else _printed(compose(result), format))
    return int(getattr(result, "exit_code", 0))


def _printed(document: Document | str, format: str = "text") -> str:
    from deepnet_theory.report import text as terminal

    if format == "text":
        page = document if isinstance(document, str) else terminal.text(document)
        return terminal.coloured(page) if shows_colour(sys.stdout) else page
    assert not isinstance(document, str)
    from deepnet_theory.report.latex import latex

    return latex(document)


def _measured(
    run: Callable[..., Any],
    work: Work,
    talk: Talk,
    title: str,
    *,
    format: str = "text",
    output: str | None = None,
    page: str | None = None,
    page_of: Composer | None = None,
    saved: Callable[[Any], str] = lambda result: result.to_json() + "\n",
) -> int:
    """Have something measured where ``work`` says, show it and save it; the exit code.

    Who watches sees ``title`` and the progress. Work without a first point is not saved.
    """
    from deepnet_theory.report.text import live

    with (
        warnings.catch_warnings(action="ignore", category=UnstableWarning),  # the page says it
        work.place(talk) as place,
        live(title, talk.quiet) as seen,
    ):
        result = run(**seen, **place)
    stopped = getattr(result, "stopped", "")
    goes_on(stopped, place)
    if stopped and not getattr(result, "points", True):
        output = page = None
    deliver(
        lambda: _show(result, format, page_of),
        lambda: save(output, saved, result, talk.quiet, whole=not stopped),
        lambda: save_page(page, result, talk.quiet, whole=not stopped),
    )
    return int(getattr(result, "exit_code", 0))


def _of_subject(
    run: Callable[..., Any],
    select: Select,
    own: Own,
    derived: Callable[[Selection], Any] = lambda selection: selection,
) -> tuple[Callable[..., Any], str]:
    """What measures the scheme, the derived rule or your own, and its name."""
    if "scheme" in select:
        named = f"scheme {select['scheme']}"
        refuse_beside(own, f"--{named}")
        stepped = {n: value for n, value in of_scheme(select).items() if n != "scheme"}
        asked = Selection(**stepped) if stepped else None
        return partial(run, asked, scheme=select["scheme"]), f"the {named}"
    from deepnet_theory.report.rule import title

    selection = selection_of(select)
    rule = rule_of(own, selection)
    named = f"{'' if rule is None else 'your own rule, '}{title(selection)}"
    return partial(run, derived(selection), rule=rule), named


def _stack_and_rule(select: Select, own: Own) -> tuple[Selection, Rule | None]:
    """The stack that is made, of a scheme or a rule, and the rule of one's own where one is."""
    if "scheme" in select:
        from deepnet_theory.definitions.scheme import scheme as scheme_named

        scheme = select["scheme"]
        refuse_beside(own, f"--scheme {scheme}")
        return beside_scheme(select, scheme_named(scheme)), None
    selection = selection_of(select)
    return selection, rule_of(own, selection)


def _noted(talk: Talk, selection: Selection) -> Any:
    from deepnet_theory.cli import deriving

    derivation = deriving.derive(selection)
    talk.note(f"derived the rule for {selection.to_dict()}; measuring")
    return derivation


def verify(
    select: Select,
    own: Own,
    measure: Annotated[Given, MEASURE],
    work: Work,
    talk: Talk,
    across: Across = "depth",
    widths: Annotated[
        Text, Option("LIST", "Across the width: 64,128,256 or 64:1024, the default")
    ] = None,
    alignment: Alignment = None,
    format: TextOrJson = "text",
    output: Output = None,
) -> int:
    """Measure the exponent of the model update on torch Transformer stacks.

    With --across width: how far one update moves the features and the loss at every width.
    """
    from deepnet_theory.cli import experiments
    from deepnet_theory.report.experiment import Y_LABEL

    in_width = _typed(widths=widths, alignment=alignment)
    if chosen("across", across, ("depth", *ACROSS)) != "depth":
        refuse_beside(own, f"--across {across}")
        selection = selection_of(select)
        wide = partial(experiments.verify, selection, across=across, **in_width, **measure)
        return _measured(
            wide, work, talk, "one update across the width", format=format,
            output=output,
        )  # fmt: skip
    _refuse_in_depth(in_width)
    run, named = _of_subject(experiments.verify, select, own, partial(_noted, talk))
    return _measured(
        partial(run, **measure), work, talk, f"{Y_LABEL}, {named}", format=format, output=output,
    )  # fmt: skip


def _refuse_in_depth(in_width: Given) -> None:
    for name, value in in_width.items():
        raise InputError(f"{flag(name)} {value} needs --across width or --across both")


def predict(
    select: Select,
    own: Own,
    measure: Annotated[Given, MEASURE, Takes(("updates", "eta"))],
    work: Work,
    talk: Talk,
    format: TextOrJson = "text",
    page: Page = None,
) -> int:
    """Predict the model update in absolute size from single sublayers, at any depth."""
    from deepnet_theory.cli import experiments

    run, _ = _of_subject(experiments.predict_update, select, own)
    run = partial(run, **measure)
    return _measured(run, work, talk, "predict", format=format, page=page)


def check(
    work: Work,
    talk: Talk,
    ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ID]...", help="Claims; all if none is given.", parser=in_lower_case
        ),
    ] = None,
    full: Annotated[bool, Option("", "The long measurements instead of the quick ones")] = False,
    seed: Annotated[int, Option("S", "Seed of all draws; no verdict should depend on it")] = 0,
    format: TextOrJson = "text",
) -> int:
    """Check the claims of the literature and compare with the recorded verdicts."""
    from deepnet_theory.cli.claims import runner

    claims = runner()
    run = partial(claims.check, tuple(ids or ()), full=full, seed=seed)
    return _measured(run, work, talk, "check", format=format, page_of=claims.Checked.table)


def export(
    select: Annotated[Select, Takes(helps={"scheme": "A published scheme's own constants."})],
    own: Own,
    model: Annotated[Given, SIZES],
    talk: Talk,
    depth: Annotated[str, Option("N[,M]", "Layers of the model")],
    form: Annotated[
        str,
        Option(
            "NAME",
            "forward: alpha in the residual sum; weights: in initial sizes and rates alone",
            FORMS,
        ),
    ] = "forward",
    base_width: BaseWidth = None,
    base_depth: Annotated[
        Text, Option("N0[,M0]", "Layers of that model, if it is a plain one, alpha 1")
    ] = None,
    base_heads: Annotated[
        Number, Option("H0", "Heads of that model, if they are not as wide as this one's")
    ] = None,
    alignment: Annotated[str, Option("NAME", "In width, full or none", ALIGNMENTS)] = ALIGNMENTS[0],
    output: Annotated[
        str | None, file_to_write("File; standard output if not given.", "--output", "-o")
    ] = None,
) -> int:
    """Write the constants of one model as JSON, with where each number came from."""
    from deepnet_theory.cli import deriving

    selection, rule = _stack_and_rule(select, own)
    scheme = select.get("scheme")
    with warnings.catch_warnings(action="ignore", category=UnstableWarning):
        base = None if base_width is None and base_depth is None else (base_width, base_depth)
        constants = deriving.export(
            selection, depth, scheme=scheme, rule=rule, form=form, base=base,
            base_heads=base_heads, alignment=alignment, **model,
        )  # fmt: skip
    if not talk.quiet:
        # which rule the constants are of, the other one beside it, and what to know of them
        rows, row = constants.origin["rows"], constants.origin["row"]
        for name, formulas in sorted(rows.items(), key=lambda one: one[0] != row):
            exported = ", exported" * (name == row)
            say(f"{name}{exported}: {formulas}")
        if constants.condition:
            say(f"note: {constants.condition}")
        if constants.warning:
            say(f"warning: {constants.warning}")
    if output is None:
        print(constants.to_json(), end="")
    save(output, Constants.to_json, constants, talk.quiet)
    return 0


def train(
    course: Annotated[Given, TRAIN],
    work: Work,
    talk: Talk,
    constants: Annotated[str, typer.Argument(metavar="CONSTANTS.JSON", help="From `export`.")],
    output: Output = None,
    format: TextOrJson = "text",
    page: Page = None,
) -> int:
    """Train the model of a constants file for a short while, beside its rivals."""
    loaded = Constants.load(Path(constants))
    from deepnet_theory.laboratory.transfer import train as train_constants

    if loaded.warning and not talk.quiet:
        say(f"warning: {loaded.warning}")
    run = partial(train_constants, loaded, **course)
    return _measured(run, work, talk, "train", format=format, output=output, page=page)


def transfer(
    select: Annotated[
        Select,
        Takes(
            helps={"stack": "encoder or decoder; encoder.", "scheme": "Train a published scheme."}
        ),
    ],
    own: Annotated[Own, Takes(("decoder_alpha", "decoder_beta"))],
    measure: Annotated[
        Given,
        TRANSFER,
        Takes(
            ("draws", "updates", "eta", "data"),
            {"depths": "8,16,32 or 8:1000. Default 8,16,32,64,128."},
        ),
    ],
    work: Work,
    talk: Talk,
    rates: Annotated[str, Option("LIST", "Learning rates: 1e-4,1e-3 or 1e-4:1e-1")],
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODEL]",
            help="Your own code instead of a selection, FILE.py:NAME. NAME(depth, width, lr, seed) "
            "returns step, which trains once, and evaluate, which returns what should be lowest. "
            "With --optimizer or --update NAME(depth) or NAME(depth, width) gives a model, which "
            "is trained on text.",
        ),
    ] = None,
    closures: Annotated[
        Text,
        Option(
            "LIST",
            "One curve each, and the first one's verdict is the exit code; complete, and what "
            "derive shows",
            folder="closures",
        ),
    ] = None,
    widths: Widths = None,
    rules: Annotated[
        Text,
        Option(
            "LIST",
            "Across widths, one curve each: rule, sp (standard, one rate), sp-sizes (at the "
            "derived rates); all",
            ("rule", "sp", "sp-sizes"),
        ),
    ] = None,
    steps: Annotated[int, Option("N", "Steps of the optimizer")] = 100,
    text: Annotated[Text, Option("FILE", "Text to train on")] = None,
    outer: Annotated[
        str,
        Option(
            "WHICH",
            "Embedding and head: stepped, or held as they are drawn",
            ("stepped", "held"),
        ),
    ] = "stepped",
    format: TextOrJson = "text",
    output: Output = None,
    page: Page = None,
) -> int:
    """Train at several depths and learning rates: does the best rate transfer?"""
    stepped: dict[str, Any] = {}
    if model is not None:
        refuse_beside([*(select.keys() - {"optimizer", "update"}), *own], model)
        stepped = {n: v for n, v in select.items() if n in ("optimizer", "update")}
        if ":" not in model:
            raise InputError(f"the model {model!r} is not of the form FILE.py:NAME")
    selection, rule = _stack_and_rule(select, own) if model is None else (None, None)
    from deepnet_theory.cli import experiments

    named = None if closures is None else [name.strip() for name in closures.split(",")]
    run = partial(
        experiments.transfer, model or selection, rates=rates, closures=named, rule=rule,
        scheme=select.get("scheme"),
        steps=steps, text=text, outer=outer, widths=widths,
        rules=rules and rules.split(","), **stepped, **measure,
    )  # fmt: skip
    return _measured(run, work, talk, "transfer", format=format, output=output, page=page)


def measure(
    work: Work,
    talk: Talk,
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help=f"{MODEL}; it is run, and FACTORY(depth) gives "
            "a torch.nn.Module, or (module, inputs); FACTORY(depth, width) across widths.",
        ),
    ],
    depths: Annotated[Text, Option("LIST", "Layers: 6,12,24 or 8:128")] = None,
    widths: Widths = None,
    optimizer: Annotated[
        Text,
        Option(
            "NAME", "See `list optimizers`; or FILE.py:FUNCTION, which gives a model's optimizer"
        ),
    ] = None,
    update: Annotated[Text, Option("EXPR", "Instead: a first update, in eta, g and theta")] = None,
    seeds: Annotated[int, Option("N", "Independent repetitions")] = 8,
    seed: Annotated[int, Option("S", "Seed of all random draws")] = 0,
    final_state: Annotated[
        Text, Option("MODULE", "Take its output as F; what enters the head if not given")
    ] = None,
    updates: Annotated[
        int, Option("K", "Also take K steps, and follow what all tokens come to share: R, cosine")
    ] = 0,
    eta: Annotated[float | None, Option("ETA", "Their learning rate; the optimizer's own")] = None,
    format: TextOrJson = "text",
    output: Output = None,
    page: Page = None,
) -> int:
    """Measure how far one step moves your own models, against depth or width."""
    from deepnet_theory.laboratory.measuring import measure
    from deepnet_theory.report.experiment import Y_LABEL

    run = partial(
        measure, model, depths, widths=widths, optimizer=optimizer, update=update,
        final_state=final_state, updates=updates, eta=eta, seeds=seeds,
        seed=seed,
    )  # fmt: skip
    return _measured(
        run, work, talk, f"{Y_LABEL}, {model}", format=format,
        output=output, page=page,
    )  # fmt: skip


def report(
    select: Annotated[Select, Takes(without=("scheme",))],
    measure: Annotated[Given, MEASURE],
    work: Work,
    talk: Talk,
    output: Annotated[str, file_to_write("The HTML page.", "--output", "-o")],
    depth: Annotated[
        list[str] | None, Option("N[,M]", "Print constants at this depth; repeatable")
    ] = None,
    rivals: Annotated[bool, Option("", "Other optimizers' rules beside it; measured")] = True,
) -> int:
    """Derive, verify and export in one self-contained HTML page."""
    selection = selection_of(select)
    from deepnet_theory.cli import reporting
    from deepnet_theory.report.experiment import Y_LABEL, document
    from deepnet_theory.report.rule import title

    run = partial(
        reporting.make_report,
        _noted(talk, selection),
        depth=list[DepthLike](depth or ()),
        command=shlex.join(["deepnet-theory", *sys.argv[1:]]),
        rivals=rivals,
        **measure,
    )
    return _measured(
        run,
        work,
        talk,
        f"{Y_LABEL}, {title(selection)}",
        output=output,
        page_of=lambda made: document(made.verification, made.rivals),
        saved=lambda made: str(made.html),
    )


def _kinds(incomplete: str) -> list[str]:
    from deepnet_theory.cli.listing import KINDS

    return words_of(*KINDS)(incomplete)


def list_(
    talk: Talk,
    what: Annotated[
        str,
        typer.Argument(
            metavar="[WHAT]",
            help="optimizers, placements, norms, sublayers, closures, methods, assumptions, "
            "claims or schemes; without, these kinds.",
            autocompletion=_kinds,
            parser=in_lower_case,
        ),
    ] = "kinds",
    format: TextOrJson = "text",
) -> int:
    """List what can be chosen, and where it comes from."""
    from deepnet_theory.cli.listing import KINDS, listing, listing_text

    rows = listing(chosen("list", what, KINDS))
    data = {"schema": "deepnet-theory/list/1", "list": what, what: rows}
    as_json = format == "json"
    print(json.dumps(data, indent=2, ensure_ascii=False) if as_json else listing_text(rows))
    return 0


def audit(
    talk: Talk,
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help=f"{MODEL}, whose code is run; the factory gives a module, or (module, inputs).",
        ),
    ],
    own: Own,
    optimizer: Annotated[
        Text,
        Option(
            "NAME",
            "Compare with the rules of this one; with those of all if not given",
            folder="optimizers",
        ),
    ] = None,
    constants: Annotated[Text, Option("FILE", "Compare with exported constants instead")] = None,
    scheme: Annotated[
        Text,
        Option(
            "NAME", "Compare with this published scheme alone; see `list schemes`", folder="schemes"
        ),
    ] = None,
    depth: Annotated[Number, Option("N", "Depth given to the factory; 12")] = None,
    format: TextOrJson = "text",
    page: Page = None,
) -> int:
    """Say whether your model follows a rule, and where it does not."""
    from deepnet_theory.cli import auditing
    from deepnet_theory.models.factory import load_factory
    from deepnet_theory.report.text import live

    if scheme is not None and constants is not None:
        raise InputError(f"--scheme {scheme} was given with --constants {constants}: give one")
    require_both(own)
    for other, value in ("scheme", scheme), ("constants", constants):
        if value is not None:
            refuse_beside(own, f"{flag(other)} {value}")
    if own and optimizer is None:
        raise InputError(
            f"{flag(next(iter(own)))} was given: a rule of your own needs --optimizer NAME"
        )
    made = load_factory(model).make(depth)
    talk.note(f"made {type(made.module).__name__}")
    with live("Reading the model", talk.quiet) as seen:
        result = auditing.audit(
            made,
            optimizer=optimizer,
            constants=constants,
            scheme=scheme,
            own=own,
            name=model,
            **seen,
        )
    deliver(lambda: _show(result, format), lambda: save_page(page, result, talk.quiet))
    return result.exit_code


def cache(
    talk: Talk,
    what: Annotated[
        str, typer.Argument(metavar="[WHAT]", help="show or clear; show.", parser=in_lower_case)
    ] = "show",
    cache: Annotated[Text, Option("DIR", "Folder of the cache; the user's own")] = None,
    format: TextOrJson = "text",
) -> int:
    """Show or clear what is kept of finished work."""
    chosen("cache", what, ("show", "clear"))
    from deepnet_theory.processes.keep import cache_of

    kept = cache_of(cache if cache is not None else True)
    folder = None if kept is None else str(kept.folder)
    sizes = []
    for file in () if kept is None else kept.files():
        with suppress(OSError):  # another process has cleared it meanwhile
            sizes.append(file.stat().st_size)
    if what == "clear" and kept is not None:
        kept.clear()
    if format == "json":
        data = {"schema": "deepnet-theory/cache/1", "folder": folder}
        print(json.dumps({**data, "results": len(sizes), "bytes": sum(sizes)}, indent=2))
    elif kept is None:
        print("nothing is kept: DEEPNET_THEORY_CACHE is empty")
    else:
        size = f"{len(sizes)} results, {sum(sizes) / 2**20:.1f} MiB"
        print(f"{folder}: {size}{', cleared' if what == 'clear' else ''}")
    return 0


_ALL = (
    derive, verify, predict, check, export, train, transfer, measure, report, audit, list_, cache,
)  # fmt: skip
COMMANDS: dict[str, Callable[..., int]] = {run.__name__.rstrip("_"): run for run in _ALL}
