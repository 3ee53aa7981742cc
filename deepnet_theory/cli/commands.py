"""The commands: each calls one function of the library, takes its options, and shows the result.

They import when they are called: `derive` must not wait for torch, nor for SymPy without --steps.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

from deepnet_theory.cli.parser import Command, Given, Verb
from deepnet_theory.cli.streams import save, say, shows_colour
from deepnet_theory.definitions.constants import Architecture, Budget, Constants
from deepnet_theory.definitions.files import require_writable
from deepnet_theory.definitions.outcome import InputError, Verdict, unknown
from deepnet_theory.definitions.record import Measurement, Option, require_valid, taken
from deepnet_theory.definitions.selection import Selection, parse_depth
from deepnet_theory.report import text as terminal

Composer = Callable[[Any], Any]  # of a document, or of a text
T = TypeVar("T")
COMMANDS: dict[str, Command] = {}


def command(*takes: Any, **more: str) -> Callable[[Callable[[Verb, Given], int]], None]:
    """Make a function a command of its name; see :class:`Command`."""

    def made(run: Callable[[Verb, Given], int]) -> None:
        COMMANDS[run.__name__.strip("_")] = Command(run, takes, **more)

    return made


# ---- groups of options that several commands take ----


@dataclass(frozen=True)
class Workplace:
    """Where the work is done, and where what is finished is kept."""

    processes: Annotated[int | None, Option("N", "Processes; one per core for long work")] = None
    cluster: Annotated[str | None, Option("ADDRESS", "Dask scheduler for the work")] = None
    cache: Annotated[str | None, Option("DIR", "Keep results; ~/.cache/deepnet-theory")] = None
    no_cache: Annotated[bool, Option("", "Measure again and keep nothing")] = False


FORMATS = ("text", "json", "latex")
AUDITS = ("text", "json", "junit", "github")


@dataclass(frozen=True)
class Show:
    """How a result is shown, where it is saved, and how much is said on standard error."""

    format: Annotated[str, Option("NAME", "text or json", FORMATS[:2])] = "text"
    output: Annotated[
        str | None, Option("FILE", "Write JSON there (report: HTML)", letter="-o")
    ] = None
    page: Annotated[str | None, Option("FILE", "Write an HTML page there")] = None
    verbose: Annotated[bool, Option("", "Log to standard error", letter="-v")] = False
    quiet: Annotated[bool, Option("", "No progress and no notes", letter="-q")] = False

    def __post_init__(self) -> None:
        require_valid(self)
        for file in (self.output, self.page):
            if file is not None:
                require_writable(file)  # an impossible one is refused before any work is done

    def result(
        self,
        result: Any,
        page_of: Composer | None = None,
        saved: Callable[[Any], str] = lambda result: f"{result.to_json()}\n",
        verdict: Verdict | None = None,
    ) -> int:
        """Print a result, then save it unless it was interrupted before its first point.

        What is printed reaches the screen where saving fails, too. A ``verdict`` ends the command
        in place of the result's own.
        """
        from deepnet_theory.report.formatters import composed, page

        whole, compose = not getattr(result, "stopped", ""), page_of or composed
        if self.verbose and not self.quiet:
            say(f"{type(result).__name__}: {verdict or getattr(result, 'verdict', 'done')}")
        match self.format:
            case "json":
                print(result.to_json())
            case "junit" | "github":
                from deepnet_theory.report import integration

                print(getattr(integration, self.format)(result))
            case "latex":
                from deepnet_theory.report.latex import latex

                print(latex(compose(result)))
            case _:
                document = compose(result)
                shown = document if isinstance(document, str) else terminal.text(document)
                print(terminal.coloured(shown) if shows_colour(sys.stdout) else shown)
        if whole or getattr(result, "begun", True):
            for file, text_of in (self.output, saved), (self.page, page):
                if file is not None:
                    save(file, text_of, result, self.quiet, whole)
        return verdict.exit_code if verdict else int(getattr(result, "exit_code", 0))


@dataclass(frozen=True)
class ShowDerivation(Show):
    """What of a derivation is shown."""

    format: Annotated[str, Option("NAME", "text, json or latex", FORMATS)] = "text"
    steps: Annotated[bool, Option("", "Show every step")] = False
    section: Annotated[str | None, Option("NAME", "Show one part, such as assumptions")] = None
    compare_closures: Annotated[bool, Option("", "Every closure's rule and its results")] = False


@dataclass(frozen=True)
class ShowAudit(Show):
    """How an audit is shown, in continuous integration too."""

    format: Annotated[str, Option("NAME", "text, json, junit or github", AUDITS)] = "text"


@dataclass(frozen=True)
class Checking:
    """How claims are checked."""

    full: Annotated[bool, Option("", "The long measurements instead of the quick ones")] = False
    seed: Annotated[int, Option("S", "Seed of all draws; no verdict should depend on it")] = 0


SELECT = ("cli.deriving:Instead", Selection)
OWN = "alpha beta decoder_alpha decoder_beta"
RUN = (Measurement, Workplace, Show)
CONSTANTS: tuple[Any, ...] = ("cli.deriving:export", *SELECT, Architecture, Budget)
CONSTANTS += ("cli.deriving:derive", "cli.exporting:export_for")  # a base; a MODEL's


def group(given: Given, kind: type[T]) -> T:
    """Settings of one group, taken out of what was typed."""
    return kind(**taken(given, [f.name for f in fields(kind)]))  # type: ignore[arg-type]


def measured(verb: Verb, given: Given, **shown: Any) -> int:
    """Have something measured and show it; the exit code.

    A finished job is a file under the name of all that it depends on, so that the same command
    goes on after it was killed.
    """
    from deepnet_theory.cli.deriving import refuse
    from deepnet_theory.processes.cluster import cluster as workers_of
    from deepnet_theory.processes.keep import cache_of

    show, place = group(given, Show), group(given, Workplace)
    if place.no_cache:
        refuse({"cache": place.cache}, "with --no-cache")
    if place.cluster is not None:
        refuse({"processes": place.processes}, "with --cluster")
    kept = cache_of(False if place.no_cache else place.cache or True)
    elsewhere = nullcontext() if place.cluster is None else workers_of(place.cluster, say)
    with elsewhere as executor:
        work = {"processes": place.processes, "executor": executor, "cache": kept}
        result = verb(**given, **terminal.live(show.quiet), **work)
    if kept is not None and not show.quiet:
        if kept.trouble:
            say(f"warning: {kept.trouble}")
        if kept.taken:
            came = f"{kept.taken} of {kept.asked} results came from the cache"
            say(f"{came}; --no-cache measures again")
    if kept is not None and (stopped := getattr(result, "stopped", "")) and not kept.trouble:
        say(f"{stopped}: the same command continues; finished work is kept in {kept.folder}")
    return show.result(result, **shown)


# ---- the commands, in the order of the help ----


@command("cli.deriving:derive", ShowDerivation, *SELECT, without=f"output {OWN}")
def derive(verb: Verb, given: Given) -> int:
    """Derive the rule (alpha, beta, kappa); with --steps print every checked step.

    With --across width or both: sizes, multipliers and learning rates by role, in the width.
    With --across batch: what rates, decays, epsilon and 1 - beta are multiplied by. With --across
    heads, head-size, kv-heads, ffn, vocab, experts, top-k or rank: the same as heads, their size,
    key and value heads, hidden units, tokens, experts, experts for a token or the rank of an
    adapter grow.

    Examples:
        derive --optimizer adam --depth 200 --format latex
        derive --update "-eta*norm(theta)*sign(g)" --compare-closures
        derive --optimizer adamw --across depth,width,batch
    """
    from deepnet_theory.cli.deriving import refuse, selection_of, subject_of
    from deepnet_theory.report.formatters import composed
    from deepnet_theory.report.rule import section, short
    from deepnet_theory.sizes.answer import compare_closures

    show = group(given, ShowDerivation)
    parts = {"section": show.section, "compare_closures": show.compare_closures or None}
    if "scheme" in given:
        from deepnet_theory.sizes.exponents import judge

        answer, _, scheme = subject_of(None, given)
        assert scheme is not None
        others = {**given, **parts, "steps": show.steps or None}
        refuse(others, "with a scheme, which is judged as one table in every depth")
        return show.result(judge(scheme, answer.selection.the_optimizer))
    if given.get("across", "depth") != "depth":
        refuse(parts, f"with across {given['across']}, which has one table")
        return show.result(verb(**given), partial(composed, proof=show.steps))
    if show.compare_closures:
        depth, _ = given.pop("depth", None), given.pop("across", None)
        selection = selection_of(None, given)
        at = {} if depth is None else parse_depth(depth, selection.the_stack)
        return show.result(compare_closures(selection, tuple(at.items())))
    if show.section is not None:
        return show.result(verb(**given), partial(section, name=show.section))
    found = verb(**given)
    # the answer alone makes no step
    alone = not (show.steps or show.page or show.format == "json")
    compose = composed if show.steps else short
    return show.result(found, compose, verdict=found.agreed if alone else None)


@command("cli.experiments:verify", *SELECT, *RUN, without="page")
def verify(verb: Verb, given: Given) -> int:
    """Measure how the output change of one step scales with depth, on torch Transformer stacks.

    With --across width: how much one update changes the features and the loss at every width.

    Examples:
        verify --optimizer adam --depths 8,16,32,64,128
        verify --optimizer adam --across width --widths 64:512
        verify --optimizer sgd --alpha "N**(1/3)" --beta "N**(-1/3)"
    """
    return measured(verb, given)


@command("cli.experiments:predict_update", *SELECT, *RUN, without="updates eta output")
def predict(verb: Verb, given: Given) -> int:
    """Predict the output change of one step at any depth, from single sublayers.

    Examples:
        predict --optimizer adam --depths 8,10000
        predict --optimizer sgd --alpha "N**(1/3)" --beta "N**(-1/3)"
    """
    return measured(verb, given)


@command("cli.claims:runner", Checking, Workplace, Show, without="output page", argument="ids...")
def check(verb: Verb, given: Given) -> int:
    """Check the claims of the literature and compare with the recorded verdicts.

    IDS are those of `list claims`; all claims are checked if none is given.

    Examples:
        check
        check su-lambda-argmin cake-constants --seed 1 --format json
    """
    claims = verb()
    given["ids"] = [name.lower() for name in given.get("ids", ())]
    return measured(claims.check, given, page_of=claims.Checked.table)


@command(*CONSTANTS, Show, without="across curve gradient_noise format page", argument="[model]")
def export(verb: Verb, given: Given) -> int:
    """Write the constants of one model as JSON, with the source of each number.

    MODEL is FILE.py:FACTORY as `audit` takes it. Its numbers are written by its parameters' names,
    in the form of a trainer (--for).

    Examples:
        export --optimizer lamb --depth 200 -o constants.json
        export --optimizer adamw --depth 24 --batch 64 --base-batch 8
        export model.py:make --for torchtitan --base-width 256
    """
    from deepnet_theory.cli.deriving import refuse
    from deepnet_theory.cli.exporting import export_for

    show = group(given, Show)
    base = given.pop("base_width", None), given.pop("base_depth", None)
    if base != (None, None):
        given["base"] = base
    if "model" in given:
        text, notes = export_for(for_=given.pop("for", None), **given)
        said = [f"note: {note}" for note in notes]
    else:
        its = ("for", "optimizers", "lr", "weight_decay", "eps", "betas")
        refuse(given, "without a MODEL, FILE.py:FACTORY", *its)
        if "depth" not in given:
            raise InputError("Missing option '--depth': the layers of the model, such as 12")
        constants = verb(**given)
        # which rule the constants are of, the other one beside it, and what to know of them
        row, rows = constants.origin["row"], constants.origin["rows"]
        said = [f"{n}{', exported' * (n == row)}: {rows[n]}" for n in sorted(rows, key=row.__ne__)]
        known = {"note": constants.condition, "warning": constants.warning}
        said += (f"{label}: {words}" for label, words in known.items() if words)
        text = constants.to_json()
    for line in () if show.quiet else said:
        say(line)
    if show.output is None:
        print(text, end="")
    else:
        save(show.output, str, text, show.quiet)
    return 0


@command("laboratory.transfer:train", Workplace, Show, argument="constants")
def train(verb: Verb, given: Given) -> int:
    """Train the model of a constants file for a short while, and compare it with its rivals.

    CONSTANTS is a file that `export` wrote.

    Examples:
        train constants.json
        train constants.json --text book.txt --steps 300
    """
    given["constants"] = constants = Constants.load(Path(given["constants"]))
    if constants.warning and not given.get("quiet"):
        say(f"warning: {constants.warning}")
    return measured(verb, given)


@command(
    "cli.experiments:transfer",
    Selection,
    *RUN,
    without="draws updates eta data",
    argument="[model]",
    required="rates",
)
def transfer(verb: Verb, given: Given) -> int:
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
    if (model := given.pop("model", None)) is not None:
        if ":" not in model:
            raise InputError(f"the model {model!r} is not of the form FILE.py:NAME")
        given["selection"] = model
    return measured(verb, given)


@command("laboratory.measuring:measure", Workplace, Show, argument="model")
def measure(verb: Verb, given: Given) -> int:
    """Measure how much one step changes the output of your model at each depth or width.

    MODEL is FILE.py:FACTORY or package.module:FACTORY; it is run. FACTORY(depth) gives a
    torch.nn.Module, or (module, inputs); FACTORY(depth, width) across widths. --noise alone
    measures B_noise, the batch whose gradient is half noise.

    Examples:
        measure model.py:make --depths 6,12,24 --optimizer adamw
        measure model.py:make --widths 64:512 --optimizer adamw
        measure model.py:make --noise --sequences 256
    """
    given["make_model"] = given.pop("model")
    return measured(verb, given)


TAKEN = ("cli.experiments:verify", "cli.deriving:export", Selection)  # export has the depth


@command(
    *TAKEN, *RUN, without="across widths form base_heads base_shape format page", required="output"
)
def report(verb: Verb, given: Given) -> int:
    """Derive, verify and export in one self-contained HTML page.

    Examples:
        report --optimizer sgd -o report.html
        report --optimizer adam --depth 999 -o report.html
    """
    from deepnet_theory.cli.deriving import derived, export, subject_of
    from deepnet_theory.report.html import page
    from deepnet_theory.report.one_page import document

    derivation = derived(subject_of(None, given).answer)
    depth, typed = given.pop("depth", None), shlex.join(["deepnet-theory", *sys.argv[1:]])
    at = None if depth is None else parse_depth(depth, derivation.selection.the_stack)

    def saved(found: Any) -> str:
        layers = at or dict(found.points[-1].at)
        constants = export(derivation, layers)
        return page(document(derivation.at(**layers), found, constants, typed))

    return measured(verb, {**given, "derivation": derivation}, saved=saved)


@command("cli.auditing:audit", ShowAudit, without="output", argument="model")
def audit(verb: Verb, given: Given) -> int:
    """Say whether your model follows a rule, and where it does not.

    MODEL is FILE.py:FACTORY or package.module:FACTORY, whose code is run; the factory gives a
    module, or (module, inputs).

    Examples:
        audit mine.py:make --constants constants.json --format json
        audit mine.py:make --optimizer adamw --noise --batch 64
        audit mine.py:make --scheme gpt-2 --format github
    """
    show = group(given, ShowAudit)
    return show.result(verb(**given, **terminal.live(show.quiet)))


@command("cli.listing:listing", Show, without="output page", argument="[what]")
def list_(verb: Verb, given: Given) -> int:
    """List the optimizers, placements, closures, schemes and other choices, with their sources.

    WHAT is optimizers, placements, norms, sublayers, closures, methods, assumptions, claims or
    schemes; without it the kinds are listed.

    Examples:
        list
        list schemes --format json
    """
    from deepnet_theory.cli.listing import text

    show, what = group(given, Show), given.get("what", "kinds").lower()
    rows = verb(what)
    data = {"schema": "deepnet-theory/list/1", "list": what, what: rows}
    as_json = show.format == "json"
    print(json.dumps(data, indent=2, ensure_ascii=False) if as_json else text(rows))
    return 0


@command(
    Workplace, Show, without="output page format processes cluster no_cache", argument="[what]"
)
def cache(_: Verb, given: Given) -> int:
    """Show or clear the cache of finished work.

    WHAT is show or clear; show.

    Examples:
        cache
        cache clear
    """
    from deepnet_theory.processes.keep import cache_of

    what = given.get("what", "show").lower()
    if what not in ("show", "clear"):
        raise unknown("cache", what, ("show", "clear"))
    if (kept := cache_of(given.get("cache", True))) is None:
        print("nothing is kept: DEEPNET_THEORY_CACHE is empty")
    else:
        print(f"{kept.folder}: {len(kept.files())} results{', cleared' * (what == 'clear')}")
        if what == "clear":
            kept.clear()
    return 0
