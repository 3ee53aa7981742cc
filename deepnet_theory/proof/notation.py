"""The notation of the whole project: what every symbol stands for, and how named sizes are shown.

A name is looked up whole, then without its last subscripts: the part (``alpha_e``), the kind of
sublayer (``r_ffn``), the matrix (``lambda_q``) or the order (``norm_dF_2``) that it belongs to.
"""

from __future__ import annotations

import sympy as sp
from sympy.core.function import AppliedUndef
from sympy.printing.printer import Printer

# the symbols of a claim are its source's own
NOTATION = {
    "N": "layers of the encoder",
    "M": "layers of the decoder",
    "S": "residual sublayers of the part",
    "alpha": "residual multiplier: what x is multiplied by before the branch is added",
    "beta": "initialisation gain: the scaled matrices' standard deviation over Xavier's",
    "kappa": "learning-rate multiplier of the scaled matrices",
    "eta": "learning rate",
    "eta_0": "learning rate in units of that of a shallow stack",
    "rho": "relative update: size of an update of a matrix against eta and the matrix's own",
    "r": "branch weight: size of the branch against that of the identity path",
    "tau": "number of updates",
    "theta": "a matrix",
    "g": "gradient of the loss with respect to a matrix",
    "s": "a factor on theta, to count degrees",
    "t": "a factor on g, to count degrees",
    "epsilon": "what an optimizer or a norm adds under a divisor",
    "omega": "weight decay beside the update",
    "mu": "weight decay in the gradient",
    "m_t": "running mean of the gradient",
    "v_t": "running mean of the gradient's square",
    "lambda": "magnitude of a matrix, W = lambda U",
    "U": "direction of a matrix, of order one",
    "V": "direction across that of a matrix",
    "W'": "the matrix that is stepped where c W' stands in the forward pass",
    "h": "a small move: along V, or of the branch",
    "P": "product of the gains of the branch's scaled matrices",
    "v": "magnitude of the last scaled matrix of the branch",
    "w": "magnitude of the first scaled matrix of the branch",
    "b": "magnitude of a scaled matrix of the branch",
    "c": "multiplier in the forward pass, of a map or of a whole branch",
    "C": "constant of order one, which an order drops",
    "x": "stream that enters the sublayer",
    "x_rms": "root mean square of the stream",
    "y": "memory: the encoder's output, which cross-attention reads",
    "G": "a branch with its weight taken out, as a map of the stream",
    "z": "what the sublayer's norm reads, divided by alpha",
    "dz": "change of z, which is path and branch, to first order",
    "z_i": "entry i of z",
    "dz_i/dx_j": "derivative of z_i in an entry of the stream",
    "dz_i/dV_kj": "derivative of z_i in an entry of the last scaled matrix",
    "dz_i/dW_jk": "derivative of z_i in an entry of the first scaled matrix",
    "L_x": "size of the loss's gradient with respect to the sublayer's output",
    "delta": "the loss's gradient with respect to an entry of the stream",
    "delta_i": "entry i of the loss's gradient with respect to z",
    "xi": "sign of the branch, at random",
    "A": "amplification of a change of the encoder's output by the decoder's cross-attentions",
    "A_sum": "A where all cross-attentions push one way",
    "q": "weight of a cross-attention: its branch against the decoder's stream",
    "K": "cross-attentions of the decoder",
    "Q": "sublayers that a product of Jacobians runs over",
    "X": "size of the change of a sublayer's input; that of the encoder's output is X_e",
    "X()": "size of the change of the l-th sublayer's input",
    "X_d()": "X of the decoder's sublayers",
    "J": "size of a sublayer's Jacobian with respect to its input",
    "J()": "size of the l-th sublayer's Jacobian with respect to its input",
    "J_norm": "largest singular value of a norm's Jacobian",
    "D": "size of a sublayer's Jacobian with respect to its parameters",
    "D()": "size of the i-th sublayer's Jacobian with respect to its parameters",
    "D_d()": "D of the decoder's sublayers",
    "T": "size of the change of a sublayer's parameters",
    "T()": "size of the change of the i-th sublayer's parameters",
    "T_e()": "T of the encoder's sublayers",
    "T_d()": "T of the decoder's sublayers",
    "d": "width of the model, that of the stream",
    "k": "entries of a head",
    "m": "hidden width of the branch",
    "sigma": "root mean square of a parameter's entries at the start",
    "gamma": "root mean square of the gradient's entries",
    "u": "root mean square of the update's entries per unit of learning rate",
    "a": "how far the update moves an output of the map per unit of learning rate",
    "i": "index of a sublayer, or of an entry",
    "j": "index of a sublayer, or of an entry",
    "l": "index of a layer or sublayer",
    "n_u": "uses of one layer: how many layers of the part are the same one",
    "n": "order of an update, or index of a hidden unit",
    "Branch()": "the branch with its gains taken out",
    "Normalise()": "the norm",
    "Softmax()": "the softmax of the attention scores",
    "Activation()": "the activation",
    "Transpose()": "the transpose",
    "Hadamard()": "the product entry by entry",
    "DirectionalDifferential()": "the change of a function along a direction, to first order",
    "u()": "the optimizer's update, as a function of eta, g and theta",
    "L()": "the loss, as a function of a matrix",
}
NORM_OF = {
    "B": "the branch with its gains taken out",
    "Pz": "z without its mean",
    "a": "the attention's average of the memory",
    "da": "the change of that average",
    "dm": "the change of the memory",
    "dF": "the change of the stack's output",
    "dF_d": "the change of the decoder's output",
    "dL_dF": "the loss's gradient with respect to the stack's output",
    "dV": "the change of the last scaled matrix",
    "dW": "the change of the first scaled matrix",
    "xdW": "x times the change of the first scaled matrix",
    "delta": "the loss's gradient with respect to z",
    "dtheta": "the change of the sublayer's parameters",
    "g": "the loss's gradient behind a cross-attention",
    "x": "the stream that enters the sublayer",
    "dx": "the change of the stream",
    "dx_next": "the change behind the norm that follows the sublayer",
    "y": "what the branch reads",
    "dy": "the change of what the branch reads",
    "z": "what the norm reads",
    "z_theta": "the change of z through the sublayer's parameters",
    "z_x": "the change of z through the sublayer's input",
}


def named(expression: sp.Basic) -> dict[str, sp.Expr]:
    """What in it has a name: its symbols, and its functions, whose names end in parentheses."""
    # of several with one name the first in order of what is printed, whatever the sets' order is
    applied = sorted(expression.atoms(sp.Function), key=str, reverse=True)
    functions = {
        f"{type(f).__name__}()": f
        for f in applied
        if isinstance(f, AppliedUndef) or "deepnet_theory" in type(f).__module__
    }
    return {symbol.name: symbol for symbol in expression.free_symbols} | functions


def meaning(name: str) -> str | None:
    """What the symbol stands for; None where nobody has said it."""
    bare = name.split("[")[0]
    norm = bare.startswith("norm_")
    known = NORM_OF if norm else NOTATION
    bare = bare.removeprefix("norm_") if norm else bare
    while bare not in known and "_" in bare:  # alpha_d_ffn is the α of the decoder's ffn
        bare = bare.rsplit("_", 1)[0]
    words = known.get(bare)
    return f"Euclidean norm of {words}" if norm and words else words


# ---- named sizes ----


class NamedQuantity(sp.Symbol):  # type: ignore[misc]
    """A named real quantity, positive unless its assumptions say otherwise, with its own LaTeX."""

    latex: str

    def __new__(cls, name: str, latex: str = "", **assumptions: bool) -> NamedQuantity:
        quantity = super().__new__(cls, name, **(assumptions or {"positive": True}))
        quantity.latex = latex or sp.latex(sp.Symbol(name))
        return quantity  # type: ignore[no-any-return]

    def __getnewargs_ex__(self) -> tuple[tuple[str, str], dict[str, bool]]:
        return (self.name, self.latex), self._assumptions_orig

    def _latex(self, printer: Printer) -> str:
        return self.latex


def norm_of(name: str, latex: str = "") -> NamedQuantity:
    """The norm of the named vector or matrix."""
    return NamedQuantity(f"norm_{name}", rf"\|{latex or name}\|")


def output_change(of: str = "") -> NamedQuantity:
    """‖ΔF‖, how far an update moves the stack's output; of a sublayer or an order its share."""
    below = f"_{{{of}}}" if len(of) < 2 else rf"_{{\mathrm{{{of}}}}}"
    return norm_of(f"dF_{of}", rf"\Delta F{below}") if of else norm_of("dF", r"\Delta F")
