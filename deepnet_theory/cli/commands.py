"""The commands: each makes one call of the library and shows what comes back.

A command's options are those of the function that it calls, see :mod:`~deepnet_theory.cli.parser`.
It imports its rooms when it is called: `derive` must not wait for torch, nor `--help` for SymPy.
"""

from __future__ import annotations

import json
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from deepnet_theory.cli.parser import Command, Given
from deepnet_theory.cli.streams import save, say, shows_colour
from deepnet_theory.definitions.constants import Architecture, Constants
from deepnet_theory.definitions.files import require_writable
from deepnet_theory.definitions.measurement import QUANTITY
from deepnet_theory.definitions.outcome import InputError, UnstableWarning, unknown
from deepnet_theory.definitions.record import Measurement, Option, ShortRun, require_valid
from deepnet_theory.definitions.scheme import scheme as scheme_named
from deepnet_theory.definitions.selection import ACROSS, ALIGNMENTS, Selection

if TYPE_CHECKING:
    from deepnet_theory.report.document import Document

    Composer = Callable[[Any], Document | str]

T = TypeVar("T")

# ---- groups of options that several commands take ----


@dataclass(frozen=True)
class Beside:
    """What a selection is not made of as it is typed."""

    regime: Annotated[
        Sequence[str], Option("A>B", "Which of two terms of an update is the larger; repeatable")
    ] = ()
    scheme: Annotated[
        str | None, Option("NAME", "A published scheme; see `list schemes`", folder="schemes")
    ] = None


@dataclass(frozen=True)
class Own:
    """Your own rule in place of the derived one."""

    alpha: Annotated[str | None, Option("EXPR", 'Your own alpha, e.g. "N**(1/3)"')] = None
    beta: Annotated[str | None, Option("EXPR", "Your own beta")] = None
    decoder_alpha: Annotated[str | None, Option("EXPR", "The decoder's alpha, if another")] = None
    decoder_beta: Annotated[str | None, Option("EXPR", "The decoder's beta, if another")] = None


@dataclass(frozen=True)
class Work:
    """Where the work is done, and what of it is kept."""

    processes: Annotated[
        int | None, Option("N", "Processes that share the work; one per core if it is long")
    ] = None
    cluster: Annotated[str | None, Option("ADDRESS", "Dask scheduler; its workers do the work")] = (
        None
    )
    cache: Annotated[
        str | None, Option("DIR", "Keep finished work there; ~/.cache/deepnet-theory")
    ] = None
    no_cache: Annotated[
        bool,
        Option(
            "",
            "Measure again, keep nothing; not covered: what your code reads besides its folder's "
            "*.py",
        ),
    ] = False

    @contextmanager
    def place(self, quiet: bool) -> Iterator[dict[str, Any]]:
        """The keywords of whatever does the work; at the end, what the cache has spared or lacks.

        Raises :class:`InputError` for options that exclude each other.
        """
        for other, value in ("no-cache", self.cache), ("cluster", self.processes):
            if value is not None and getattr(self, other.replace("-", "_")):
                name = "cache" if other == "no-cache" else "processes"
                raise InputError(f"--{name} {value} was given with --{other}")
        from deepnet_theory.processes import cache_of
        from deepnet_theory.processes.cluster import cluster

        # A file a finished job, under the name of all that it depends on: a killed run is the same
        # command once more. Whoever does the work is an executor, and the result hangs on none.
        cache = cache_of(False if self.no_cache else self.cache or True)
        elsewhere = nullcontext() if self.cluster is None else cluster(self.cluster, say)
        try:
            with elsewhere as executor:
                yield {"processes": self.processes, "executor": executor, "cache": cache}
        finally:
            if cache is not None and not quiet:
                if cache.trouble:
                    say(f"warning: {cache.trouble}")
                if cache.taken:
                    say(
                        f"{cache.taken} of {cache.asked} results came from the cache; --no-cache "
                        "measures again"
                    )


def _json(result: Any) -> str:
    return f"{result.to_json()}\n"


@dataclass(frozen=True)
class Show:
    """How a result is shown, where it is saved, and how much is said on standard error."""

    format: Annotated[str, Option("NAME", "text or json", ("text", "json"))] = "text"
    output: Annotated[str | None, Option("FILE", "Write the JSON there", letter="-o")] = None
    page: Annotated[str | None, Option("FILE", "Write an HTML page there")] = None
    verbose: Annotated[bool, Option("", "Log to standard error", letter="-v")] = False
    quiet: Annotated[bool, Option("", "No progress, no notes on standard error", letter="-q")] = (
        False
    )

    def __post_init__(self) -> None:
        require_valid(self)
        for file in (self.output, self.page):
            if file is not None:
                require_writable(file)  # an impossible one is refused before any work is done

    def result(
        self,
        result: Any,
        page_of: Composer | None = None,
        saved: Callable[[Any], str] = _json,
    ) -> int:
        """Print a result, then save it; each is tried, whatever becomes of the others.

        A full disk takes nothing off the screen, a closed pipe nothing off the disk. What was
        interrupted before its first point is not saved.
        """
        from deepnet_theory.report.formatters import composed, page

        whole = not getattr(result, "stopped", "")
        if self.verbose and not self.quiet:
            say(f"{type(result).__name__}: {getattr(result, 'verdict', 'done')}")
        with ExitStack() as after:
            if whole or getattr(result, "points", True):
                for file, text_of in (self.page, page), (self.output, saved):
                    if file is not None:
                        after.callback(save, file, text_of, result, self.quiet, whole)
            if self.format == "json":
                print(result.to_json())
            else:
                print(self.printed((page_of or composed)(result)))
        return int(getattr(result, "exit_code", 0))

    def printed(self, document: Document | str) -> str:
        from deepnet_theory.report import text as terminal

        if self.format == "latex":
            from deepnet_theory.report.latex import latex

            assert not isinstance(document, str)
            return latex(document)
        page = document if isinstance(document, str) else terminal.text(document)
        return terminal.coloured(page) if shows_colour(sys.stdout) else page


@dataclass(frozen=True)
class ShowDerivation(Show):
    """What of a derivation is shown."""

    format: Annotated[str, Option("NAME", "text, latex or json", ("text", "latex", "json"))] = (
        "text"
    )
    steps: Annotated[bool, Option("", "Show every step")] = False
    section: Annotated[str | None, Option("NAME", "Show one part, such as assumptions")] = None
    compare_closures: Annotated[bool, Option("", "Every closure's rule and what it implies")] = (
        False
    )


@dataclass(frozen=True)
class Across:
    """The dimension that an answer is about."""

    across: Annotated[str, Option("NAME", "depth, width or both", ("depth", *ACROSS))] = "depth"
    alignment: Annotated[str | None, Option("NAME", "In width, full or none; full", ALIGNMENTS)] = (
        None
    )


@dataclass(frozen=True)
class OfBase:
    """The smaller model that was tuned: a larger one takes its numbers from it."""

    base_width: Annotated[int | None, Option("D0", "Width of the model that was tuned")] = None
    base_depth: Annotated[str | None, Option("N0[,M0]", "Layers of the model that was tuned")] = (
        None
    )


@dataclass(frozen=True)
class Checking:
    """How claims are checked."""

    full: Annotated[bool, Option("", "The long measurements instead of the quick ones")] = False
    seed: Annotated[int, Option("S", "Seed of all draws; no verdict should depend on it")] = 0


# ---- what was typed, as the library takes it ----


def taken(given: Given, kind: type[T]) -> T:
    """Settings of one group, taken out of what was typed."""
    return kind(**_part(given, kind))


def _part(given: Given, kind: type) -> Given:
    return {f.name: given.pop(f.name) for f in fields(kind) if f.name in given}


def subject_of(given: Given, *stack: str) -> Given:
    """The selection, your own rule or the published scheme, as the library's verbs take it.

    A scheme takes an optimizer, an update and the named parts of the ``stack`` from a selection.
    """
    select, own = {**_part(given, Selection), **_part(given, Beside)}, _part(given, Own)
    name = select.pop("scheme", None)
    if name is None:
        selection = selection_of(select)
        return {"derivation": selection, "rule": rule_of(own, selection)}
    kept = {"optimizer", "update", *stack}
    usual = {one.name: one.default for one in fields(Selection)}
    others = [n for n, value in select.items() if n not in kept and value != usual[n]]
    for other in (*own, *others):
        raise InputError(
            f"{flag(other)} was given with --scheme {name}, which has its own; a scheme is judged "
            "under --optimizer NAME or --update EXPR"
        )
    scheme = scheme_named(name)
    if not {"optimizer", "update"} & select.keys():
        select["optimizer"] = scheme.optimizer
    has = {"stack": scheme.stack, "norm": scheme.norm, "uses": scheme.uses}
    return {"derivation": Selection(**{**has, **select}), "scheme": name}


def selection_of(select: Given) -> Selection:
    """The selection that was typed; raises :class:`InputError` for anything unknown."""
    if ("optimizer" in select) == ("update" in select):
        raise InputError("give exactly one of --optimizer NAME and --update EXPR")
    regime = []
    for text in select.get("regime", ()):
        larger, sign, smaller = text.partition(">")
        if not (larger.strip() and sign and smaller.strip()):
            raise InputError(
                f'the regime {text!r} is not of the form "A>B", e.g. "rms(theta)>1/1000"'
            )
        regime.append((larger.strip(), smaller.strip()))
    return Selection(**{**select, "regime": tuple(regime)})


def flag(name: str) -> str:
    """An option as it is typed."""
    return f"--{name.replace('_', '-')}"


def rule_of(own: Given, selection: Selection | None = None) -> Any:
    """Your own rule, if one was typed; without a selection, its texts."""
    if own and not {"alpha", "beta"} <= own.keys():
        option = flag(next(iter(own)))
        raise InputError(f"{option} was given: --alpha and --beta must be given together")
    if not own or selection is None:
        return own or None
    from deepnet_theory.cli.deriving import own_rule

    return own_rule(selection, **own)


def measured(verb: Callable[..., Any], given: Given, title: str, **shown: Any) -> int:
    """Have something measured and show it; the exit code. Who watches sees ``title``."""
    from deepnet_theory.report.text import live

    show, work = taken(given, Show), taken(given, Work)
    with (
        warnings.catch_warnings(action="ignore", category=UnstableWarning),  # the page says it
        work.place(show.quiet) as place,
        live(title, show.quiet) as seen,
    ):
        result = verb(**given, **seen, **place)
    stopped, cache = getattr(result, "stopped", ""), place["cache"]
    if stopped and cache is not None and not cache.trouble:
        say(f"{stopped}: the same command goes on; what is finished is kept in {cache.folder}")
    return show.result(result, **shown)


# ---- the commands ----


def derive(given: Given) -> int:
    """Derive alpha and beta: the answer, or with --steps every checked step that leads to it.

    With --across width or both: sizes, multipliers and learning rates by role, in the width.

    Examples:
        derive --optimizer adam --depth 200 --format latex
        derive --update "-eta*norm(theta)*sign(g)" --compare-closures
    """
    from deepnet_theory.cli import deriving

    show, subject = taken(given, ShowDerivation), subject_of(given)
    selection = subject["derivation"]
    across, depth = given.pop("across", "depth"), given.pop("depth", None)
    if "scheme" in subject:
        if show.compare_closures or depth or given or across != "depth":
            raise InputError("a scheme is judged in every depth: leave the other options out")
        judged = deriving.judge_scheme(
            subject["scheme"], selection.optimizer, update=selection.update
        )
        return show.result(judged)
    if across != "depth":
        if show.compare_closures or show.section is not None:
            raise InputError(
                f"--across {across} has one table: leave --compare-closures and --section out"
            )
        from deepnet_theory.report import tables

        wide = deriving.derive_across(selection, across, depth=depth, **given)
        return show.result(wide, partial(tables.wide, proof=show.steps))
    for name, value in given.items():
        raise InputError(f"{flag(name)} {value} needs --across width or --across both")
    if show.compare_closures:
        return show.result(deriving.compare_closures(selection, depth=depth))
    from deepnet_theory.report import rule

    part: Composer = rule.document if show.steps else rule.short
    if show.section is not None:
        part = partial(rule.section, name=show.section)
    derivation = deriving.derive(selection, depth=depth)
    show.result(derivation, part)
    return derivation.verdict.exit_code


def verify(given: Given) -> int:
    """Measure the exponent of the model update on torch Transformer stacks.

    With --across width: how far one update moves the features and the loss at every width.

    Examples:
        verify --optimizer adam --depths 8,16,32,64,128
        verify --optimizer adam --across width --widths 64:512
        verify --optimizer sgd --alpha "N**(1/3)" --beta "N**(-1/3)"
    """

    from deepnet_theory.cli.experiments import verify as run

    given |= subject_of(given)
    across = given.get("across", "depth")
    title = f"{QUANTITY}, {_named(given)}" if across == "depth" else "one update across the width"
    return measured(run, given, title)


def _named(subject: Given) -> str:
    """A subject in words."""
    from deepnet_theory.report.rule import title

    if "scheme" in subject:
        return f"the scheme {subject['scheme']}"
    own = "your own rule, " * (subject["rule"] is not None)
    return f"{own}{title(subject['derivation'])}"


def predict(given: Given) -> int:
    """Predict the model update in absolute size from single sublayers, at any depth.

    Examples:
        predict --optimizer adam --depths 8,10000
        predict --optimizer sgd --alpha "N**(1/3)" --beta "N**(-1/3)"
    """
    from deepnet_theory.cli.experiments import predict_update as run

    return measured(run, given | subject_of(given), "predict")


def check(given: Given) -> int:
    """Check the claims of the literature and compare with the recorded verdicts.

    IDS are those of `list claims`; all claims are checked if none is given.

    Examples:
        check
        check su-lambda-argmin cake-constants --seed 1 --format json
    """
    from deepnet_theory.cli.claims import runner

    claims = runner()
    given["ids"] = [name.lower() for name in given.get("ids", ())]
    return measured(claims.check, given, "check", page_of=claims.Checked.table)


def export(given: Given) -> int:
    """Write the constants of one model as JSON, with where each number came from.

    Examples:
        export --optimizer lamb --depth 200 -o constants.json
        export --optimizer sgd --stack encoder-decoder --depth 9,6
    """
    from deepnet_theory.cli import deriving

    show, subject = taken(given, Show), subject_of(given, "stack", "layer", "norm")
    base = given.pop("base_width", None), given.pop("base_depth", None)
    with warnings.catch_warnings(action="ignore", category=UnstableWarning):
        constants = deriving.export(
            subject.pop("derivation"), base=None if base == (None, None) else base,
            **subject, **given,
        )  # fmt: skip
    if not show.quiet:
        # which rule the constants are of, the other one beside it, and what to know of them
        row = constants.origin["row"]
        for name, formulas in sorted(constants.origin["rows"].items(), key=lambda r: r[0] != row):
            say(f"{name}{', exported' * (name == row)}: {formulas}")
        if constants.condition:
            say(f"note: {constants.condition}")
        if constants.warning:
            say(f"warning: {constants.warning}")
    if show.output is None:
        print(constants.to_json(), end="")
    else:
        save(show.output, Constants.to_json, constants, show.quiet)
    return 0


def train(given: Given) -> int:
    """Train the model of a constants file for a short while, and compare it with its rivals.

    CONSTANTS is a file that `export` wrote.

    Examples:
        train constants.json
        train constants.json --text book.txt --steps 300
    """
    from deepnet_theory.laboratory.transfer import train as run

    given["constants"] = constants = Constants.load(Path(given["constants"]))
    if constants.warning and not given.get("quiet"):
        say(f"warning: {constants.warning}")
    return measured(run, given, "train")


def transfer(given: Given) -> int:
    """Train at several depths and learning rates: does the best rate transfer?

    MODEL is your own code instead of a selection, FILE.py:NAME. NAME(depth, width, lr, seed)
    returns step, which trains once, and evaluate, which returns the number to minimise. With
    --optimizer or --update NAME(depth) or NAME(depth, width) gives a model, which is trained on
    text.

    Examples:
        transfer --optimizer adam --depths 8,32 --rates 1e-3:6e-2
        transfer --optimizer adam --widths 32:256 --rates 1e-3:1e-1
        transfer own.py:train_setup --depths 4:16 --rates 1e-3:6e-2
    """

    from deepnet_theory.cli.experiments import transfer as run

    model = given.pop("model", None)
    if model is None:
        subject = subject_of(given, "stack", "layer", "norm")
        given |= {"selection": subject.pop("derivation"), **subject}
    elif ":" in model:
        given["selection"] = model
    else:
        raise InputError(f"the model {model!r} is not of the form FILE.py:NAME")
    return measured(run, given, "transfer")


def measure(given: Given) -> int:
    """Measure how far one step changes the output of your own models, against depth or width.

    MODEL is FILE.py:FACTORY or package.module:FACTORY; it is run. FACTORY(depth) gives a
    torch.nn.Module, or (module, inputs); FACTORY(depth, width) across widths.

    Examples:
        measure model.py:make --depths 6,12,24 --optimizer adamw
        measure model.py:make --widths 64:512 --optimizer adamw
        measure model.py:make --depths 8:64 --update "-eta*sign(g)"
    """
    from deepnet_theory.laboratory.measuring import measure as run

    given["make_model"] = model = given.pop("model")
    return measured(run, given, f"{QUANTITY}, {model}")


def report(given: Given) -> int:
    """Derive, verify and export in one self-contained HTML page.

    Examples:
        report --optimizer sgd -o report.html
        report --optimizer adam --depth 99 --depth 999 -o report.html
    """
    from deepnet_theory.cli import experiments
    from deepnet_theory.report.experiment import document

    subject = subject_of(given)
    given["derivation"] = subject["derivation"]
    given["command"] = shlex.join(["deepnet-theory", *sys.argv[1:]])
    return measured(
        experiments.make_report,
        given,
        f"{QUANTITY}, {_named(subject)}",
        page_of=lambda made: document(made.verification),
        saved=lambda made: str(made.html),
    )


def audit(given: Given) -> int:
    """Say whether your model follows a rule, and where it does not.

    MODEL is FILE.py:FACTORY or package.module:FACTORY, whose code is run; the factory gives a
    module, or (module, inputs).

    Examples:
        audit mine.py:make --optimizer adamw
        audit mine.py:make --constants constants.json --format json
    """
    from deepnet_theory.cli import auditing
    from deepnet_theory.report.text import live

    show = taken(given, Show)
    with live("Reading the model", show.quiet) as seen:
        result = auditing.audit(**given, **seen)
    return show.result(result)


def list_(given: Given) -> int:
    """List what can be chosen, and where it comes from.

    WHAT is optimizers, placements, norms, sublayers, closures, methods, assumptions, claims or
    schemes; without it the kinds are listed.

    Examples:
        list
        list schemes --format json
    """
    from deepnet_theory.cli import listing

    show, what = taken(given, Show), given.get("what", "kinds").lower()
    if what not in listing.KINDS:
        raise unknown("list", what, listing.KINDS)
    rows = listing.listing(what)
    data = {"schema": "deepnet-theory/list/1", "list": what, what: rows}
    as_json = show.format == "json"
    print(json.dumps(data, indent=2, ensure_ascii=False) if as_json else listing.text(rows))
    return 0


def cache(given: Given) -> int:
    """Show or clear what is kept of finished work.

    WHAT is show or clear; show.

    Examples:
        cache
        cache clear
    """
    show, what = taken(given, Show), given.get("what", "show").lower()
    if what not in ("show", "clear"):
        raise unknown("cache", what, ("show", "clear"))
    from deepnet_theory.processes import cache_of

    kept = cache_of(given.get("cache", True))
    count, size = (0, 0) if kept is None else kept.size()
    folder = None if kept is None else str(kept.folder)
    if what == "clear" and kept is not None:
        kept.clear()
    if show.format == "json":
        data = {"schema": "deepnet-theory/cache/1", "folder": folder}
        print(json.dumps({**data, "results": count, "bytes": size}, indent=2))
    elif kept is None:
        print("nothing is kept: DEEPNET_THEORY_CACHE is empty")
    else:
        cleared = ", cleared" if what == "clear" else ""
        print(f"{folder}: {count} results, {size / 2**20:.1f} MiB{cleared}")
    return 0


COMMANDS = {
    "derive": Command(
        derive,
        (
            "cli.deriving:derive",
            "cli.deriving:derive_across",
            Across,
            OfBase,
            Beside,
            Selection,
            ShowDerivation,
        ),
        without=("output", "page"),
    ),
    "verify": Command(
        verify,
        ("cli.experiments:verify", Across, Beside, Selection, Own, Measurement, Work, Show),
        without=("page",),
    ),
    "predict": Command(
        predict,
        ("cli.experiments:predict_update", Beside, Selection, Own, Measurement, Work, Show),
        without=("updates", "eta", "output"),
    ),
    "check": Command(
        check, (Checking, Work, Show), without=("output", "page"), argument="ids", many=True
    ),
    "export": Command(
        export,
        ("cli.deriving:export", OfBase, Across, Beside, Selection, Own, Architecture, Show),
        without=("across", "format", "page"),
        required=("depth",),
    ),
    "train": Command(train, (ShortRun, Work, Show), argument="constants", required=("constants",)),
    "transfer": Command(
        transfer,
        ("cli.experiments:transfer", Beside, Selection, Own, Measurement, Work, Show),
        without=("decoder_alpha", "decoder_beta", "draws", "updates", "eta", "data"),
        argument="model",
        required=("rates",),
    ),
    "measure": Command(
        measure, ("laboratory.measuring:measure", Work, Show), argument="model", required=("model",)
    ),
    "report": Command(
        report,
        ("cli.experiments:make_report", Beside, Selection, Measurement, Work, Show),
        without=("scheme", "format", "page"),
        required=("output",),
    ),
    "audit": Command(
        audit,
        ("cli.auditing:audit", Show),
        without=("output",),
        argument="model",
        required=("model",),
    ),
    "list": Command(list_, (Show,), without=("output", "page"), argument="what"),
    "cache": Command(
        cache,
        (Work, Show),
        without=("output", "page", "processes", "cluster", "no_cache"),
        argument="what",
    ),
}
