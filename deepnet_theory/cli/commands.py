"""The commands: each parses its options, makes one call of the library, and renders."""

from __future__ import annotations

import json
import shlex
import sys
import textwrap
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deepnet_theory.cli.options import (
    Measure,
    Model,
    Own,
    Select,
    Talk,
    Work,
    chosen,
    goes_on,
    grouped,
    in_lower_case,
    names_of,
    output_path,
    real,
    whole,
    words_of,
)
from deepnet_theory.cli.streams import say
from deepnet_theory.report.printing.columns import page_columns
from deepnet_theory.spec import __version__
from deepnet_theory.spec.constants import FORMS, Constants
from deepnet_theory.spec.depth import DepthLike
from deepnet_theory.spec.errors import InputError, UnstableWarning
from deepnet_theory.spec.files import write_text

if TYPE_CHECKING:
    from deepnet_theory.report.document import Document
    from deepnet_theory.spec.prediction import UpdatePrediction
    from deepnet_theory.spec.selection import Selection
    from deepnet_theory.spec.verification import Verification

DEFAULT_TEXT_JSON = ("text", "json")


def _format(*formats: str) -> Any:
    return typer.Option(
        "--format",
        metavar="NAME",
        help=f"{', '.join(formats)}.",
        autocompletion=words_of(*formats),
        parser=in_lower_case,
    )


TextOrJson = Annotated[str, _format("text", "json")]
DERIVATION_FORMATS = ("text", "markdown", "latex", "json")
DepthOption = Annotated[
    str | None,
    typer.Option("--depth", metavar="N[,M]", help="Layers at which to print numbers."),
]


def derive(
    select: Select,
    talk: Talk,
    depth: DepthOption = None,
    steps: Annotated[bool, typer.Option("--steps", help="Show every step.")] = False,
    section: Annotated[
        str | None,
        typer.Option("--section", metavar="NAME", help="Show one part, such as assumptions."),
    ] = None,
    background: Annotated[
        bool,
        typer.Option("--background", help="Begin with what the route rests on, step by step."),
    ] = False,
    compare_closures: Annotated[
        bool,
        typer.Option("--compare-closures", help="Every closure's rule and what it implies."),
    ] = False,
    format: Annotated[str, _format(*DERIVATION_FORMATS)] = "text",
) -> int:
    """Derive alpha and beta: the answer, or with --steps every checked step that leads to it."""
    chosen("format", format, DERIVATION_FORMATS)
    if select.scheme is not None:
        if depth is not None or background or compare_closures:
            raise InputError("a scheme is judged in every depth: leave the other options out")
        return _judge(select, format)
    if compare_closures:
        if background:
            raise InputError("--background was given with --compare-closures, which has no steps")
        return _compare(select.selection(), depth, format)
    from deepnet_theory.report import of_derivation
    from deepnet_theory.workflow import derive

    derivation = derive(select.selection(), depth=depth, background=background)
    talk.note("".join(of_derivation.conclusion(derivation)))
    if format == "json":
        print(derivation.to_json())
    else:
        whole = of_derivation.document if steps or background else of_derivation.short
        told = whole(derivation) if section is None else of_derivation.section(derivation, section)
        print(_printed(told, format))
    return derivation.verdict.exit_code


def _printed(document: Document, format: str) -> str:
    from deepnet_theory.report.printing.latex import latex
    from deepnet_theory.report.printing.markdown import markdown
    from deepnet_theory.report.printing.text import text

    if format == "text":  # a small plot is for a terminal alone
        return text(document, plots=sys.stdout.isatty())
    return {"markdown": markdown, "latex": latex}[format](document)


def _judge(select: Select, format: str) -> int:
    from deepnet_theory.report import of_scheme
    from deepnet_theory.workflow import judge_scheme

    select.require_scheme_alone()
    assert select.scheme is not None
    found = judge_scheme(select.scheme, select.optimizer, update=select.update)
    print(found.to_json() if format == "json" else _printed(of_scheme.document(found), format))
    return 0


def _compare(selection: Selection, depth: str | None, format: str) -> int:
    from deepnet_theory.report import of_closures
    from deepnet_theory.workflow import compare_closures

    found = compare_closures(selection, depth=depth)
    if format == "json":
        print(found.to_json())
    else:
        print(_printed(of_closures.document(found), format))
    return 0


def verify(
    select: Select,
    own: Own,
    measure: Measure,
    work: Work,
    talk: Talk,
    format: TextOrJson = "text",
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Write the JSON there.")
    ] = None,
) -> int:
    """Measure the exponent of the model update on torch Transformer stacks."""
    chosen("format", format, DEFAULT_TEXT_JSON)
    path = output_path(output)
    from deepnet_theory import workflow
    from deepnet_theory.report import of_verification
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
            depths=measure.depths, progress=progress, watch=watch, **place, **measure.settings()
        )
    if result.points or not result.stopped:
        _save(path, result.to_json() + "\n", talk, whole=not result.stopped)
    goes_on(result.stopped, place)
    if format == "json":
        print(result.to_json())
    else:
        print(_printed(of_verification.document(result), "text"))
    return result.exit_code


def _of_a_rule(select: Select, own: Own, talk: Talk) -> tuple[Callable[..., Verification], str]:
    """What measures the derived rule, or one's own, and its name."""
    from deepnet_theory import workflow
    from deepnet_theory.report.of_derivation import title

    selection = select.selection()
    rule = own.rule(selection)
    derivation = workflow.derive(selection)
    talk.note(f"derived the rule for {selection.to_dict()}; measuring")
    named = title(selection) if rule is None else f"your own rule, {title(selection)}"
    return partial(workflow.verify, derivation, rule=rule), named


def predict(
    select: Select,
    own: Own,
    measure: Measure,
    work: Work,
    talk: Talk,
    format: TextOrJson = "text",
) -> int:
    """Predict the model update in absolute size from single sublayers, at any depth."""
    chosen("format", format, DEFAULT_TEXT_JSON)
    from deepnet_theory import workflow
    from deepnet_theory.report import of_prediction
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
        result = run(depths=measure.depths, progress=progress, **place, **measure.settings())
    print(
        result.to_json() if format == "json" else _printed(of_prediction.document(result), "text")
    )
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
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed", metavar="S", help="Of all draws; 0. Verdicts should stand.", parser=whole
        ),
    ] = None,
    format: TextOrJson = "text",
) -> int:
    """Check the claims of the literature and compare with the recorded verdicts."""
    chosen("format", format, DEFAULT_TEXT_JSON)
    from deepnet_theory.claims.check import check
    from deepnet_theory.report.live import live

    with work.place(talk) as place, live("check", talk.quiet) as progress:
        results = check(tuple(ids or ()), full=full, seed=seed or 0, progress=progress, **place)
    goes_on(results.stopped, place)
    print(results.to_json() if format == "json" else results.table())
    return results.exit_code


def export(
    select: Select,
    own: Own,
    model: Model,
    talk: Talk,
    depth: Annotated[str, typer.Option("--depth", metavar="N[,M]", help="Layers of the model.")],
    form: Annotated[
        str,
        typer.Option(
            "--form",
            metavar="NAME",
            help="forward: alpha in the residual sum; weights: in initial sizes and rates alone.",
            autocompletion=words_of(*FORMS),
            parser=in_lower_case,
        ),
    ] = "forward",
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="File; standard output if not given."),
    ] = None,
) -> int:
    """Write the constants of one model as JSON, with where each number came from."""
    path = output_path(output)
    selection = select.selection()
    rule = own.rule(selection)
    from deepnet_theory import workflow

    with warnings.catch_warnings(action="ignore", category=UnstableWarning):
        constants = workflow.export(selection, depth, rule=rule, form=form, **model.architecture())
    if constants.warning and not talk.quiet:
        say(f"warning: {constants.warning}")
    if path is None:
        print(constants.to_json(), end="")
    else:
        _save(path, constants.to_json(), talk)
    return 0


def train(
    work: Work,
    talk: Talk,
    constants: Annotated[str, typer.Argument(metavar="CONSTANTS.JSON", help="From `export`.")],
    text: Annotated[
        str | None, typer.Option("--text", metavar="FILE", help="Text to train on.")
    ] = None,
    steps: Annotated[
        int | None, typer.Option("--steps", metavar="N", help="Steps; 300.", parser=whole)
    ] = None,
    batch: Annotated[
        int | None, typer.Option("--batch", metavar="N", help="Windows a step; 8.", parser=whole)
    ] = None,
    tokens: Annotated[
        int | None, typer.Option("--tokens", metavar="N", help="Bytes a window; 64.", parser=whole)
    ] = None,
    lr: Annotated[
        float | None, typer.Option("--lr", metavar="ETA", help="Learning rate; 3e-4.", parser=real)
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="S", help="Of all draws; 0.", parser=whole)
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option("--seeds", metavar="N", help="Independent repetitions; 3.", parser=whole),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option("--device", metavar="NAME", help="auto, cpu or cuda.", parser=in_lower_case),
    ] = None,
    state: Annotated[
        str | None,
        typer.Option("--state", metavar="FILE", help="Kept while training, to go on from."),
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Write the JSON there.")
    ] = None,
    format: TextOrJson = "text",
) -> int:
    """Train the model of a constants file for a short while, beside its rivals."""
    chosen("format", format, DEFAULT_TEXT_JSON)
    from deepnet_theory.report import of_training
    from deepnet_theory.report.live import live

    path = output_path(output)
    loaded = Constants.load(Path(constants))
    from deepnet_theory import training

    given: dict[str, Any] = {
        "steps": steps,
        "batch": batch,
        "tokens": tokens,
        "lr": lr,
        "seed": seed,
        "seeds": seeds,
        "device": device,
        "state": state,
    }
    settings = {name: value for name, value in given.items() if value is not None}
    if loaded.warning and not talk.quiet:
        say(f"warning: {loaded.warning}")
    with (
        warnings.catch_warnings(action="ignore", category=UnstableWarning),
        work.place(talk) as place,
        live("train", talk.quiet) as progress,
    ):
        result = training.train(loaded, text=text, progress=progress, **place, **settings)
    _save(path, result.to_json() + "\n", talk, whole=result.complete)
    print(result.to_json() if format == "json" else _printed(of_training.document(result), "text"))
    return result.exit_code


def transfer(
    select: Select,
    own: Own,
    measure: Measure,
    work: Work,
    talk: Talk,
    rates: Annotated[
        str,
        typer.Option("--rates", metavar="LIST", help="Learning rates: 1e-4,1e-3 or 1e-4:1e-1."),
    ],
    closures: Annotated[
        str | None,
        typer.Option(
            "--closures",
            metavar="LIST",
            help="One curve each, and the first one's verdict is the exit code; complete, and "
            "what derive shows.",
            parser=in_lower_case,
        ),
    ] = None,
    steps: Annotated[
        int, typer.Option("--steps", metavar="N", help="Of the optimizer; 100.", parser=whole)
    ] = 100,
    text: Annotated[
        str | None, typer.Option("--text", metavar="FILE", help="Text to train on.")
    ] = None,
    outer: Annotated[
        str,
        typer.Option(
            "--outer",
            metavar="WHICH",
            help="Embedding and head: stepped (default), or held as they are drawn.",
            autocompletion=words_of("stepped", "held"),
            parser=in_lower_case,
        ),
    ] = "stepped",
    format: TextOrJson = "text",
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Write the JSON there.")
    ] = None,
    page: Annotated[
        str | None, typer.Option("--page", metavar="FILE", help="Write an HTML page there.")
    ] = None,
) -> int:
    """Train at several depths and learning rates: does the best rate transfer?"""
    chosen("format", format, DEFAULT_TEXT_JSON)
    path, shown = output_path(output), output_path(page)
    selection = select.selection()
    rule = own.rule(selection)
    from deepnet_theory import workflow
    from deepnet_theory.report import of_transfer
    from deepnet_theory.report.live import live

    with work.place(talk) as place, live("transfer", talk.quiet) as progress:
        result = workflow.transfer(
            selection,
            measure.depths,
            rates,
            None if closures is None else [name.strip() for name in closures.split(",")],
            rule=rule,
            steps=steps,
            text=text,
            outer=outer,
            progress=progress,
            **place,
            **measure.settings(),
        )
    _save(path, result.to_json() + "\n", talk, whole=not result.stopped)
    goes_on(result.stopped, place)
    document = of_transfer.document(result)
    if shown is not None:
        from deepnet_theory.report.printing.html import page as html

        _save(shown, html(document), talk, whole=not result.stopped)
    print(result.to_json() if format == "json" else _printed(document, "text"))
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
    depths: Annotated[
        str, typer.Option("--depths", metavar="LIST", help="Layers: 6,12,24 or 8:128.")
    ],
    optimizer: Annotated[
        str | None,
        typer.Option(
            "--optimizer",
            metavar="NAME",
            help="See `list optimizers`; or FILE.py:FUNCTION, which gives a model's optimizer.",
        ),
    ] = None,
    update: Annotated[
        str | None,
        typer.Option("--update", metavar="EXPR", help="Or a first update, in eta, g and theta."),
    ] = None,
    seeds: Annotated[
        int, typer.Option("--seeds", metavar="N", help="Independent repetitions; 8.", parser=whole)
    ] = 8,
    seed: Annotated[
        int, typer.Option("--seed", metavar="S", help="Of all random draws; 0.", parser=whole)
    ] = 0,
    share: Annotated[
        list[str] | None,
        typer.Option(
            "--share", metavar="PATTERN", help='Of names to step alone, "*.mlp.*"; repeatable.'
        ),
    ] = None,
    final_state: Annotated[
        str | None,
        typer.Option(
            "--final-state",
            metavar="MODULE",
            help="Whose output is F; what enters the head if not given.",
        ),
    ] = None,
    format: TextOrJson = "text",
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Write the JSON there.")
    ] = None,
) -> int:
    """Measure how far one step moves your own models, against depth."""
    chosen("format", format, DEFAULT_TEXT_JSON)
    path = output_path(output)
    from deepnet_theory.models.measuring import measure
    from deepnet_theory.report import of_model
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
    _save(path, result.to_json() + "\n", talk, whole=not result.stopped)
    goes_on(result.stopped, place)
    print(result.to_json() if format == "json" else _printed(of_model.document(result), "text"))
    return result.exit_code


def report(
    select: Select,
    measure: Measure,
    work: Work,
    talk: Talk,
    output: Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="The HTML page.")],
    depth: Annotated[
        list[str] | None,
        typer.Option("--depth", metavar="N[,M]", help="Print constants at this depth; repeatable."),
    ] = None,
    rivals: Annotated[
        bool,
        typer.Option("--rivals/--no-rivals", help="Other optimizers' rules beside it; measured."),
    ] = True,
) -> int:
    """Derive, verify and export in one self-contained HTML page."""
    path = output_path(output)
    selection = select.selection()
    from deepnet_theory import workflow
    from deepnet_theory.report import of_verification
    from deepnet_theory.report.live import live_table
    from deepnet_theory.report.of_derivation import title
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
            measure.depths,
            depth=at,
            command=_command_of(sys.argv[1:]),
            rivals=rivals,
            progress=progress,
            watch=watch,
            **place,
            **measure.settings(),
        )
    _save(path, result.html, talk, whole=not result.stopped)
    goes_on(result.stopped, place)
    print(_printed(of_verification.document(result.verification, result.rivals), "text"))
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
    chosen("format", format, DEFAULT_TEXT_JSON)
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
        typer.Option(
            "--optimizer",
            metavar="NAME",
            help="Hold it against the rules of this one; of all without.",
            autocompletion=names_of("optimizers"),
            parser=in_lower_case,
        ),
    ] = None,
    constants: Annotated[
        str | None,
        typer.Option("--constants", metavar="FILE", help="Against exported constants instead."),
    ] = None,
    depth: Annotated[
        int | None,
        typer.Option("--depth", metavar="N", help="Given to the factory; 12.", parser=whole),
    ] = None,
    format: TextOrJson = "text",
    page: Annotated[
        str | None, typer.Option("--page", metavar="FILE", help="Write an HTML page there.")
    ] = None,
) -> int:
    """Say whether a model of one's own follows a rule, and where not."""
    chosen("format", format, DEFAULT_TEXT_JSON)
    shown = output_path(page)
    from deepnet_theory import workflow
    from deepnet_theory.models.factory import load_factory
    from deepnet_theory.report import of_audit

    made = load_factory(model).make(depth)
    talk.note(f"made {type(made.module).__name__}")
    result = workflow.audit(made, optimizer=optimizer, constants=constants, name=model)
    document = of_audit.document(result)
    if shown is not None:
        from deepnet_theory.report.printing.html import page as html

        _save(shown, html(document), talk)
    print(result.to_json() if format == "json" else _printed(document, "text"))
    return result.exit_code


def cache(
    talk: Talk,
    what: Annotated[
        str, typer.Argument(metavar="[WHAT]", help="show or clear; show.", parser=in_lower_case)
    ] = "show",
    cache: Annotated[
        str | None, typer.Option("--cache", metavar="DIR", help="Its folder; the user's own.")
    ] = None,
    format: TextOrJson = "text",
) -> int:
    """Show or clear what is kept of finished work."""
    chosen("format", format, DEFAULT_TEXT_JSON)
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


EXAMPLES: dict[str, tuple[str, str]] = {
    "derive": (
        "derive --optimizer adam --depth 200 --format markdown",
        'derive --update "-eta*norm(theta)*sign(g)" --compare-closures',
    ),
    "verify": (
        "verify --optimizer adam --depths 8,16,32,64,128",
        'verify --optimizer sgd --alpha "N**(1/3)" --beta "N**(-1/3)"',
    ),
    "predict": (
        "predict --optimizer adam --depths 8,10000",
        'predict --optimizer sgd --alpha "N**(1/3)" --beta "N**(-1/3)"',
    ),
    "check": ("check", "check su-probe cake-constants --seed 1 --format json"),
    "export": (
        "export --optimizer lamb --depth 200 -o constants.json",
        "export --optimizer sgd --stack encoder-decoder --depth 9,6",
    ),
    "train": (
        "train constants.json",
        "train constants.json --text book.txt --steps 300",
    ),
    "transfer": (
        "transfer --optimizer adam --depths 8,32 --rates 1e-3:6e-2",
        "transfer --optimizer sgd --rates 0.1:10 --steps 50 -o t.json",
    ),
    "measure": (
        "measure model.py:make --depths 6,12,24 --optimizer adamw",
        'measure model.py:make --depths 8:64 --update "-eta*sign(g)"',
    ),
    "report": (
        "report --optimizer sgd -o report.html",
        "report --optimizer adam --depth 99 --depth 999 -o report.html",
    ),
    "audit": (
        "audit mine.py:make --optimizer adamw",
        "audit mine.py:make --constants constants.json --format json",
    ),
    "cache": ("cache", "cache clear"),
    "list": ("list", "list schemes --format json"),
}

EXIT_CODES = {
    0: "done; every step PROVED, the exponent SUPPORTED, verdicts as recorded",
    1: "REFUTED, or a verdict that is not as recorded",
    2: "bad input, or something to install is missing",
    3: "UNDECIDED",
    4: "refused: no rule exists, or a law is missing",
    70: "an error of ours",
    130: "interrupted",
    141: "the output's reader has gone",
}

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


def command_line(words: Sequence[str]) -> Any:
    """The parser for ``words``; only the command that is called is built, to start quickly."""
    app = typer.Typer(
        name="deepnet-theory",
        help="Derive and measure how residual connections and initialisation of deep "
        "Transformers must scale with depth.",
        epilog=_epilog(("derive --optimizer adam --depth 200", "list optimizers")),
        no_args_is_help=True,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
    )

    @app.callback()
    def top(
        version: Annotated[
            bool, typer.Option("--version", help="Show the version.", callback=_version)
        ] = False,
    ) -> None:
        pass

    called = words[0] if words and words[0] in COMMANDS else None
    for name, command in COMMANDS.items():
        if called in (None, name):
            # given, because one that the parser takes from the docstring is cut to the line
            summary = (command.__doc__ or "").partition("\n")[0]
            taken = app.command(name, short_help=summary, epilog=_epilog(EXAMPLES[name]))
            taken(grouped(command))
    return typer.main.get_command(app)


def _version(asked: bool) -> None:
    if asked:
        print(f"deepnet-theory {__version__}")
        raise typer.Exit


def _epilog(examples: tuple[str, str]) -> str:
    # \b keeps the parser from joining the lines into one paragraph
    commands = (_hanging(f"deepnet-theory {example}", 4, " \\") for example in examples)
    codes = (_hanging(f"{code:<4}{meaning}", 4) for code, meaning in EXIT_CODES.items())
    return "\b\nExamples:\n{}\n\n\b\nExit codes:\n{}".format("\n".join(commands), "\n".join(codes))


def _hanging(line: str, indent: int, broken: str = "") -> str:
    """A line of a help on the columns there are; ``broken`` ends all but its last."""
    lines = textwrap.wrap(
        line,
        page_columns() - 2 - len(broken),  # the parser indents by two
        initial_indent="  ",
        subsequent_indent=" " * (2 + indent),
        break_on_hyphens=False,
        break_long_words=False,
    )
    return f"{broken}\n".join(lines)


def _save(path: Path | None, content: str, talk: Talk, whole: bool = True) -> Path | None:
    """Write a result, and where it went; part of one replaces no whole one, and goes beside it."""
    if path is None:
        return None
    if not whole and path.is_file() and not _is_part(path):
        path = path.with_name(f"{path.name}.partial")
    write_text(path, content)
    if not talk.quiet:
        say(f"wrote {path}")
    return path


def _is_part(path: Path) -> bool:
    """Whether a file holds part of a result, as the commands write it when interrupted."""
    try:
        return json.loads(path.read_bytes()).get("complete") is False
    except (OSError, ValueError, AttributeError, RecursionError):
        return False


def _command_of(words: Sequence[str]) -> str:
    return shlex.join(["deepnet-theory", *words])
