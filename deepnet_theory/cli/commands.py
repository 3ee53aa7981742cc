"""The commands: each parses its options, makes one call of the library, and renders."""

from __future__ import annotations

import json
import shlex
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deepnet_theory.cli.options import (
    MEASURE,
    SIZES,
    TRAIN,
    TRANSFER,
    Own,
    Select,
    Takes,
    Talk,
    Work,
    choice,
    chosen,
    file_to_write,
    goes_on,
    in_lower_case,
    names_of,
    one_of,
    whole,
    words_of,
)
from deepnet_theory.cli.saving import deliver, save, save_json, save_page
from deepnet_theory.cli.streams import say
from deepnet_theory.spec.constants import FORMS, Constants
from deepnet_theory.spec.depth import DepthLike
from deepnet_theory.spec.errors import InputError, UnstableWarning

if TYPE_CHECKING:
    from deepnet_theory.report.document import Document
    from deepnet_theory.spec.results.prediction import UpdatePrediction
    from deepnet_theory.spec.results.result import Result
    from deepnet_theory.spec.results.verification import Verification
    from deepnet_theory.spec.selection import Selection

DERIVATION_FORMATS = ("text", "markdown", "latex", "json")
TextOrJson = Annotated[str, one_of("text", "json")]
Output = Annotated[str | None, file_to_write("Write the JSON there.", "--output", "-o")]
Page = Annotated[str | None, file_to_write("Write an HTML page there.", "--page")]
Derived = Annotated[Select, Takes(without=("scheme",))]
Given = dict[str, Any]
Text = Annotated[str | None, typer.Option(metavar="FILE", help="Text to train on.")]


def derive(
    select: Select,
    talk: Talk,
    depth: Annotated[
        str | None, typer.Option(metavar="N[,M]", help="Layers at which to print numbers.")
    ] = None,
    steps: Annotated[bool, typer.Option("--steps", help="Show every step.")] = False,
    section: Annotated[
        str | None, typer.Option(metavar="NAME", help="Show one part, such as assumptions.")
    ] = None,
    compare_closures: Annotated[
        bool,
        typer.Option("--compare-closures", help="Every closure's rule and what it implies."),
    ] = False,
    format: Annotated[str, one_of(*DERIVATION_FORMATS)] = "text",
) -> int:
    """Derive alpha and beta: the answer, or with --steps every checked step that leads to it."""
    if select.scheme is not None:
        if depth is not None or compare_closures:
            raise InputError("a scheme is judged in every depth: leave the other options out")
        return _judge(select, format)
    if compare_closures:
        return _compare(select.selection(), depth, format)
    from deepnet_theory.report.composing import of_derivation
    from deepnet_theory.workflow import derive

    derivation = derive(select.selection(), depth=depth)
    talk.note("".join(of_derivation.conclusion(derivation)))
    if format == "json":
        print(derivation.to_json())
    else:
        whole = of_derivation.document if steps else of_derivation.short
        told = whole(derivation) if section is None else of_derivation.section(derivation, section)
        print(_printed(told, format))
    return derivation.verdict.exit_code


def _printed(document: Document, format: str) -> str:
    if format == "text":
        from deepnet_theory.report.printing.text import text

        return text(document, plots=sys.stdout.isatty())  # a small plot is for a terminal alone
    # the printers of formulas import SymPy, which text is printed without
    from deepnet_theory.report.printing.latex import latex
    from deepnet_theory.report.printing.markdown import markdown

    return {"markdown": markdown, "latex": latex}[format](document)


def _show(result: Result, format: str) -> None:
    """Print a result, as JSON or as the document that its composer makes of it."""
    from deepnet_theory.report.composing import document

    print(result.to_json() if format == "json" else _printed(document(result), format))


def _judge(select: Select, format: str) -> int:
    from deepnet_theory.workflow import judge_scheme

    select.require_scheme_alone()
    assert select.scheme is not None
    found = judge_scheme(select.scheme, select.optimizer, update=select.update)
    _show(found, format)
    return 0


def _compare(selection: Selection, depth: str | None, format: str) -> int:
    from deepnet_theory.workflow import compare_closures

    _show(compare_closures(selection, depth=depth), format)
    return 0


def verify(
    select: Select,
    own: Own,
    measure: Annotated[Given, MEASURE],
    work: Work,
    talk: Talk,
    format: TextOrJson = "text",
    output: Output = None,
) -> int:
    """Measure the exponent of the model update on torch Transformer stacks."""
    from deepnet_theory import workflow
    from deepnet_theory.report.live import live_table
    from deepnet_theory.report.update import Y_LABEL

    run: Callable[..., Verification]
    if select.scheme is not None:
        select.require_scheme_alone()
        own.refuse_beside_scheme(select.scheme)
        run = partial(
            workflow.verify_scheme, select.scheme, optimizer=select.optimizer, update=select.update
        )
        named = f"the scheme {select.scheme}"
    else:
        run, named = _of_a_rule(select, own, talk)
    with (
        work.place(talk) as place,
        live_table(f"{Y_LABEL}, {named}", talk.quiet) as (progress, watch),
    ):
        result = run(
            progress=progress,
            watch=watch,
            **place,
            **measure,
        )
    goes_on(result.stopped, place)
    anything = bool(result.points) or not result.stopped
    file = output if anything else None
    deliver(
        lambda: _show(result, format),
        lambda: save_json(file, result, talk, whole=not result.stopped),
    )
    return result.exit_code


def _of_a_rule(select: Select, own: Own, talk: Talk) -> tuple[Callable[..., Verification], str]:
    """What measures the derived rule, or one's own, and its name."""
    from deepnet_theory import workflow
    from deepnet_theory.report.composing.of_derivation import title

    selection = select.selection()
    rule = own.rule(selection)
    derivation = workflow.derive(selection)
    talk.note(f"derived the rule for {selection.to_dict()}; measuring")
    named = title(selection) if rule is None else f"your own rule, {title(selection)}"
    return partial(workflow.verify, derivation, rule=rule), named


def predict(
    select: Select,
    own: Own,
    measure: Annotated[Given, MEASURE, Takes(("updates", "eta"))],
    work: Work,
    talk: Talk,
    format: TextOrJson = "text",
) -> int:
    """Predict the model update in absolute size from single sublayers, at any depth."""
    from deepnet_theory import workflow
    from deepnet_theory.report.live import live

    run: Callable[..., UpdatePrediction]
    if select.scheme is not None:
        select.require_scheme_alone()
        own.refuse_beside_scheme(select.scheme)
        run = partial(
            workflow.predict_scheme, select.scheme, optimizer=select.optimizer, update=select.update
        )
    else:
        selection = select.selection()
        run = partial(workflow.predict_update, selection, rule=own.rule(selection))
    with work.place(talk) as place, live("predict", talk.quiet) as progress:
        result = run(progress=progress, **place, **measure)
    _show(result, format)
    return 0


def check(
    work: Work,
    talk: Talk,
    ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ID]...", help="Claims; all if none is given.", parser=in_lower_case
        ),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="The long measurements instead of the quick ones.")
    ] = False,
    seed: Annotated[int | None, whole("S", "Of all draws; 0. Verdicts should stand.")] = None,
    format: TextOrJson = "text",
) -> int:
    """Check the claims of the literature and compare with the recorded verdicts."""
    from deepnet_theory.claims.check import check
    from deepnet_theory.report.live import live

    with work.place(talk) as place, live("check", talk.quiet) as progress:
        results = check(tuple(ids or ()), full=full, seed=seed or 0, progress=progress, **place)
    goes_on(results.stopped, place)
    print(results.to_json() if format == "json" else results.table())
    return results.exit_code


def export(
    select: Derived,
    own: Own,
    model: Annotated[Given, SIZES],
    talk: Talk,
    depth: Annotated[str, typer.Option(metavar="N[,M]", help="Layers of the model.")],
    form: Annotated[
        str,
        choice(
            "forward: alpha in the residual sum; weights: in initial sizes and rates alone.",
            words_of(*FORMS),
        ),
    ] = "forward",
    output: Annotated[
        str | None, file_to_write("File; standard output if not given.", "--output", "-o")
    ] = None,
) -> int:
    """Write the constants of one model as JSON, with where each number came from."""
    selection = select.selection()
    rule = own.rule(selection)
    from deepnet_theory import workflow

    with warnings.catch_warnings(action="ignore", category=UnstableWarning):
        constants = workflow.export(selection, depth, rule=rule, form=form, **model)
    if not talk.quiet:
        _say_which(constants)
    if output is None:
        print(constants.to_json(), end="")
    save(output, constants.to_json(), talk)
    return 0


def _say_which(constants: Constants) -> None:
    """Which rule the constants are of, the other one beside it, and what to know of them."""
    for name, formulas in constants.origin["rows"].items():
        exported = ", exported" * (name == constants.origin["row"])
        say(f"{name}{exported}: {formulas}")
    if constants.condition:
        say(f"note: {constants.condition}")
    if constants.warning:
        say(f"warning: {constants.warning}")


def train(
    course: Annotated[Given, TRAIN],
    work: Work,
    talk: Talk,
    constants: Annotated[str, typer.Argument(metavar="CONSTANTS.JSON", help="From `export`.")],
    output: Output = None,
    format: TextOrJson = "text",
) -> int:
    """Train the model of a constants file for a short while, beside its rivals."""
    from deepnet_theory.report.live import live

    loaded = Constants.load(Path(constants))
    from deepnet_theory import training

    if loaded.warning and not talk.quiet:
        say(f"warning: {loaded.warning}")
    with (
        warnings.catch_warnings(action="ignore", category=UnstableWarning),
        work.place(talk) as place,
        live("train", talk.quiet) as progress,
    ):
        result = training.train(loaded, progress=progress, **place, **course)
    deliver(
        lambda: _show(result, format),
        lambda: save_json(output, result, talk, whole=result.complete),
    )
    goes_on(result.stopped, place)
    return result.exit_code


def transfer(
    select: Annotated[Select, Takes(("scheme",), {"stack": "encoder or decoder; encoder."})],
    own: Annotated[Own, Takes(("decoder_alpha", "decoder_beta"))],
    measure: Annotated[Given, TRANSFER, Takes(("draws", "updates", "eta", "data"))],
    work: Work,
    talk: Talk,
    rates: Annotated[
        str, typer.Option(metavar="LIST", help="Learning rates: 1e-4,1e-3 or 1e-4:1e-1.")
    ],
    closures: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="One curve each, and the first one's verdict is the exit code; complete, and "
            "what derive shows.",
            parser=in_lower_case,
        ),
    ] = None,
    steps: Annotated[int, whole("N", "Of the optimizer; 100.")] = 100,
    text: Text = None,
    outer: Annotated[
        str,
        choice(
            "Embedding and head: stepped (default), or held as they are drawn.",
            words_of("stepped", "held"),
            "WHICH",
        ),
    ] = "stepped",
    format: TextOrJson = "text",
    output: Output = None,
    page: Page = None,
) -> int:
    """Train at several depths and learning rates: does the best rate transfer?"""
    selection = select.selection()
    rule = own.rule(selection)
    from deepnet_theory import workflow
    from deepnet_theory.report.live import live

    with work.place(talk) as place, live("transfer", talk.quiet) as progress:
        result = workflow.transfer(
            selection,
            rates=rates,
            closures=None if closures is None else [n.strip() for n in closures.split(",")],
            rule=rule,
            steps=steps,
            text=text,
            outer=outer,
            progress=progress,
            **place,
            **measure,
        )
    goes_on(result.stopped, place)
    deliver(
        lambda: _show(result, format),
        lambda: save_json(output, result, talk, whole=not result.stopped),
        lambda: save_page(page, result, talk, whole=not result.stopped),
    )
    return result.exit_code


def measure(
    work: Work,
    talk: Talk,
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="FILE.py:FACTORY or package.module:FACTORY; it is run, and FACTORY(depth) gives "
            "a torch.nn.Module, or (module, inputs).",
        ),
    ],
    depths: Annotated[str, typer.Option(metavar="LIST", help="Layers: 6,12,24 or 8:128.")],
    optimizer: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="See `list optimizers`; or FILE.py:FUNCTION, which gives a model's optimizer.",
        ),
    ] = None,
    update: Annotated[
        str | None, typer.Option(metavar="EXPR", help="Or a first update, in eta, g and theta.")
    ] = None,
    seeds: Annotated[int, whole("N", "Independent repetitions; 8.")] = 8,
    seed: Annotated[int, whole("S", "Of all random draws; 0.")] = 0,
    share: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help='Of names to step alone, "*.mlp.*"; repeatable.'),
    ] = None,
    final_state: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE", help="Whose output is F; what enters the head if not given."
        ),
    ] = None,
    format: TextOrJson = "text",
    output: Output = None,
) -> int:
    """Measure how far one step moves your own models, against depth."""
    from deepnet_theory.models.measuring import measure
    from deepnet_theory.report.live import live_table
    from deepnet_theory.report.update import Y_LABEL

    with (
        work.place(talk) as place,
        live_table(f"{Y_LABEL}, {model}", talk.quiet) as (progress, watch),
    ):
        result = measure(
            model,
            depths,
            optimizer=optimizer,
            update=update,
            final_state=final_state,
            shares=tuple(share or ()),
            seeds=seeds,
            seed=seed,
            progress=progress,
            watch=watch,
            **place,
        )
    goes_on(result.stopped, place)
    deliver(
        lambda: _show(result, format),
        lambda: save_json(output, result, talk, whole=not result.stopped),
    )
    return result.exit_code


def report(
    select: Derived,
    measure: Annotated[Given, MEASURE],
    work: Work,
    talk: Talk,
    output: Annotated[str, file_to_write("The HTML page.", "--output", "-o")],
    depth: Annotated[
        list[str] | None,
        typer.Option(metavar="N[,M]", help="Print constants at this depth; repeatable."),
    ] = None,
    rivals: Annotated[
        bool,
        typer.Option("--rivals/--no-rivals", help="Other optimizers' rules beside it; measured."),
    ] = True,
) -> int:
    """Derive, verify and export in one self-contained HTML page."""
    selection = select.selection()
    from deepnet_theory import workflow
    from deepnet_theory.report.composing import of_verification
    from deepnet_theory.report.composing.of_derivation import title
    from deepnet_theory.report.live import live_table
    from deepnet_theory.report.update import Y_LABEL

    derivation = workflow.derive(selection)
    talk.note(f"derived the rule for {selection.to_dict()}; measuring")
    at: list[DepthLike] = [*depth] if depth else []
    with (
        work.place(talk) as place,
        live_table(f"{Y_LABEL}, {title(selection)}", talk.quiet) as (progress, watch),
    ):
        result = workflow.make_report(
            derivation,
            depth=at,
            command=_command_of(sys.argv[1:]),
            rivals=rivals,
            progress=progress,
            watch=watch,
            **place,
            **measure,
        )
    goes_on(result.stopped, place)
    shown = of_verification.document(result.verification, result.rivals)
    deliver(
        lambda: print(_printed(shown, "text")),
        lambda: save(output, result.html, talk, whole=not result.stopped),
    )
    return result.exit_code


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
    print(
        json.dumps(
            {"schema": "deepnet-theory/list/1", "list": what, what: rows},
            indent=2,
            ensure_ascii=False,
        )
        if format == "json"
        else listing_text(rows)
    )
    return 0


def audit(
    talk: Talk,
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="FILE.py:FACTORY or package.module:FACTORY, whose code is run; the factory gives "
            "a module, or (module, inputs).",
        ),
    ],
    optimizer: Annotated[
        str | None,
        choice("Hold it against the rules of this one; of all without.", names_of("optimizers")),
    ] = None,
    constants: Annotated[
        str | None, typer.Option(metavar="FILE", help="Against exported constants instead.")
    ] = None,
    depth: Annotated[int | None, whole("N", "Given to the factory; 12.")] = None,
    format: TextOrJson = "text",
    page: Page = None,
) -> int:
    """Say whether a model of one's own follows a rule, and where not."""
    from deepnet_theory import workflow
    from deepnet_theory.models.factory import load_factory

    made = load_factory(model).make(depth)
    talk.note(f"made {type(made.module).__name__}")
    result = workflow.audit(made, optimizer=optimizer, constants=constants, name=model)
    deliver(
        lambda: _show(result, format),
        lambda: save_page(page, result, talk),
    )
    return result.exit_code


def cache(
    talk: Talk,
    what: Annotated[
        str, typer.Argument(metavar="[WHAT]", help="show or clear; show.", parser=in_lower_case)
    ] = "show",
    cache: Annotated[
        str | None, typer.Option(metavar="DIR", help="Its folder; the user's own.")
    ] = None,
    format: TextOrJson = "text",
) -> int:
    """Show or clear what is kept of finished work."""
    chosen("cache", what, ("show", "clear"))
    from deepnet_theory.processes.cache import cache_of

    kept = cache_of(cache if cache is not None else True)
    folder = None if kept is None else str(kept.folder)
    found: dict[str, Any] = {"folder": folder, "results": 0, "bytes": 0}
    for file in () if kept is None else kept.files():
        with suppress(OSError):  # another process has cleared it meanwhile
            found["bytes"] += file.stat().st_size
            found["results"] += 1
    if what == "clear" and kept is not None:
        kept.clear()
    if format == "json":
        print(json.dumps({"schema": "deepnet-theory/cache/1", **found}, indent=2))
    elif kept is None:
        print("nothing is kept, for DEEPNET_THEORY_CACHE is empty")
    else:
        size = f"{found['results']} results, {found['bytes'] / 2**20:.1f} MiB"
        print(f"{folder}: {size}{', cleared' if what == 'clear' else ''}")
    return 0


COMMANDS: dict[str, Callable[..., int]] = {
    "derive": derive,
    "verify": verify,
    "predict": predict,
    "check": check,
    "export": export,
    "train": train,
    "transfer": transfer,
    "measure": measure,
    "report": report,
    "audit": audit,
    "list": list_,
    "cache": cache,
}


def _command_of(words: Sequence[str]) -> str:
    return shlex.join(["deepnet-theory", *words])
