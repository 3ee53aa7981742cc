"""What the user asked for: the SELECT of the command line, resolved into spec values."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Annotated, TypedDict

from deepnet_theory.spec.closure import Closure, closure
from deepnet_theory.spec.errors import InputError, Refusal, shown, unknown
from deepnet_theory.spec.norm import Norm, norm
from deepnet_theory.spec.optimizer import Optimizer, custom_optimizer, optimizer
from deepnet_theory.spec.placement import Placement, placement
from deepnet_theory.spec.settings import Option
from deepnet_theory.spec.stack import STACKS, Part, Stack, stack
from deepnet_theory.spec.sublayer import Sublayer

METHODS = ("probe", "lemma", "moments")
ACROSS = ("width", "both")  # dimensions beside the depth alone
ALIGNMENTS = ("full", "none")  # of updates and moved features with what they meet
AMPLIFICATIONS = ("published", "worst-case", "independent")
_NAMES = (
    "optimizer", "placement", "norm", "stack", "layer", "method", "closure", "amplification",
)  # fmt: skip


class Select(TypedDict, total=False):
    """The fields of a :class:`Selection`, as keywords."""

    optimizer: str | None
    update: str | None
    regime: tuple[tuple[str, str], ...]
    placement: str
    norm: str
    stack: str
    layer: str | None
    uses: str
    method: str
    closure: str | None
    amplification: str
    one_alpha: bool
    allow_ascent: bool


@dataclass(frozen=True)
class Selection:
    """The optimizer (by name or by update expression), placement, norm, stack, method, closure.

    ``closure=None`` asks for the default, which is computed. ``amplification`` names how the
    decoder's cross-attentions amplify a change of the encoder's output; ``one_alpha`` asks for
    a single α in the whole part where the kinds of sublayers would take different ones;
    ``allow_ascent`` admits an update that raises the loss.
    """

    optimizer: Annotated[
        str | None,
        Option("NAME", "Optimizer; see `deepnet-theory list optimizers`", folder="optimizers"),
    ] = None
    update: Annotated[
        str | None, Option("EXPR", "Or your own first update, in eta, g and theta")
    ] = None
    regime: tuple[tuple[str, str], ...] = ()
    placement: Annotated[
        str,
        Option("NAME", "post-ln, pre-ln, res-post-ln or sandwich-ln", folder="placements"),
    ] = "post-ln"
    norm: Annotated[str, Option("NAME", "layer or rms", folder="norms")] = "layer"
    stack: Annotated[str, Option("NAME", "encoder, decoder or encoder-decoder", STACKS)] = "encoder"
    layer: Annotated[
        str | None,
        Option(
            "SPEC",
            'Your own layer, e.g. "attention,ffn:swiglu"; in parallel "attention+ffn"; with 2 of 8 '
            'experts "attention,ffn@2/8"; of a quarter of the layers "1/4*ffn"; placed by itself '
            '"attention,ffn:post-ln"; of both parts '
            '"attention,ffn;attention,cross,ffn"',
        ),
    ] = None
    uses: Annotated[
        str, Option("N", 'How often each layer is used: "N", one for all; "N/6", six looped; "4"')
    ] = "1"
    method: Annotated[str, Option("NAME", "probe, lemma or moments", METHODS)] = "probe"
    closure: Annotated[
        str | None,
        Option(
            "NAME", "The condition beside the balance; computed if not given", folder="closures"
        ),
    ] = None
    amplification: Annotated[
        str,
        Option(
            "NAME",
            "Of an encoder by its decoder: published, worst-case or independent",
            AMPLIFICATIONS,
        ),
    ] = "published"
    one_alpha: Annotated[bool, Option("", "One alpha for all kinds of sublayers of a part")] = False
    allow_ascent: Annotated[bool, Option("", "Admit an update that raises the loss")] = False

    def __post_init__(self) -> None:
        for name in ("update", "layer", "uses"):
            if not isinstance(value := getattr(self, name), str | None):
                raise InputError(f"{name} {shown(value)} is not a text")
        for name in _NAMES:  # kept in one case, the one that is compared everywhere
            if isinstance(value := getattr(self, name), str):
                object.__setattr__(self, name, value.lower())
        if (self.optimizer is None) == (self.update is None):
            raise InputError(
                "a selection needs exactly one of optimizer, a name, and update, an expression: "
                'derive(optimizer="adam") or derive(update="-eta*g")'
            )
        if self.method not in METHODS:
            raise unknown("method", self.method, METHODS)
        if self.amplification not in AMPLIFICATIONS:
            raise unknown("amplification", self.amplification, AMPLIFICATIONS)
        _ = (self.the_optimizer, self.the_placement, self.the_norm, self.the_stack)
        _ = self.the_closure
        if self.one_alpha and any(s.placement for s in self.the_stack.sublayers):
            raise InputError(
                f"the layer {self.layer!r} has several placements, whose alphas are not one alpha"
            )
        if len(self.placements) > 1 and any(p.streams for p in self.placements):
            names = " and ".join(p.name for p in self.placements)
            raise Refusal(
                f"no law for {names} in one stack: the law of several streams is that of sublayers "
                "which all read and write them alike"
            )

    @cached_property
    def the_optimizer(self) -> Optimizer:
        if self.optimizer is not None:
            return optimizer(self.optimizer)
        assert self.update is not None
        return custom_optimizer(self.update, self.regime)

    @cached_property
    def the_placement(self) -> Placement:
        return placement(self.placement)

    def placed(self, sublayer: Sublayer) -> Placement:
        """The placement of a sublayer, its own or that of all, in a stack that ends as this one.

        The placement of the last sublayer says whether the stack ends in a norm.
        """
        where, last = (placement(s.placement or self.placement) for s in (sublayer, self._last))
        alike = where.final_norm == last.final_norm
        return where if alike else replace(where, final_norm=last.final_norm)

    @property
    def _last(self) -> Sublayer:
        return self.the_stack.parts[-1].layer[-1]

    @property
    def final_norm(self) -> bool:
        """Whether the stack ends in a norm."""
        return self.placed(self._last).final_norm

    @property
    def placements(self) -> tuple[Placement, ...]:
        """The placements of all sublayers, each once."""
        return tuple(dict.fromkeys(map(self.placed, self.the_stack.sublayers)))

    @property
    def training_condition(self) -> str:
        """What training needs beside the rule, in words; "" where nothing is known."""
        return next((p.training_condition for p in self.placements if p.training_condition), "")

    @cached_property
    def the_norm(self) -> Norm:
        return norm(self.norm)

    @cached_property
    def the_stack(self) -> Stack:
        return stack(self.stack, self.layer, self.uses)

    @cached_property
    def the_closure(self) -> Closure | None:
        """The closure, or None for the default."""
        return None if self.closure is None else closure(self.closure)

    def has_one_alpha(self, part: Part) -> bool:
        """Whether all sublayers of a part share α, as the branches of one normalised sum do."""
        return self.one_alpha or (self.the_placement.normalises_sum and any(part.parallel))

    @property
    def named(self) -> tuple[object, ...]:
        """What its names stand for, which tells apart what two files of one name held."""
        return (
            self.the_optimizer,
            self.the_placement,
            self.placements,
            self.the_norm,
            self.the_stack,
            self.the_closure,
        )

    def to_dict(self) -> dict[str, object]:
        """The selection as plain data, for JSON."""
        return {k: v for k, v in asdict(self).items() if v not in (None, (), False, "1")}
