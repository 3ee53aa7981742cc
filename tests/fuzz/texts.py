"""Random texts of a grammar, from its own names and functions, and what spoils them."""

import string

_NUMBERS = ["0", "1", "2", "-1", "3", "0.5", "1e-3", "7/3", "1000", "1e300", "1e-300", "10**99",
            "9" * 40]  # fmt: skip
_EXPONENTS = ["2", "3", "-1", "0", "(1/2)", "0.5", "(-1/3)", "256", "(255/256)", "(2**3)", "1.5",
              "-2"]  # fmt: skip
_ODD = ["", "eta", "__import__('os')", "g if g else 1", "1j", "nan", "inf", "None", "N N", "²", "π"]


def text(rng, grammar, levels):
    """A text of the grammar with at most so many levels."""
    kind = rng.random()
    if levels == 0 or kind < 0.2:
        names = [*grammar.symbols] * 3
        return rng.choice([*names, rng.choice(_NUMBERS)])

    def inner():
        return text(rng, grammar, levels - 1)

    if kind < 0.55:
        return f"({inner()}{rng.choice('+-**/')}{inner()})"
    if kind < 0.7:
        return f"({inner()})**{rng.choice(_EXPONENTS)}"
    if kind < 0.75 or not grammar.functions:
        return f"-{inner()}"
    name = rng.choice([*grammar.functions])
    least, most = grammar.functions[name]
    return f"{name}({', '.join(inner() for _ in range(rng.randint(least, min(most, least + 2))))})"


def spoiled(rng, written, letters=(*string.printable, *_ODD)):
    """A text, or a list of bytes, with a few items lost, doubled, put in or cut off."""
    items = list(written)
    for _ in range(rng.randint(1, 4)):
        at, length = rng.randrange(len(items) + 1), rng.randint(1, 5)
        changed = ([], items[at : at + length] * 2, [rng.choice(letters)])
        items[at : at + length] = rng.choice(changed)
        if rng.random() < 0.1:
            del items[at:]
    return items


def any_text(rng, grammar):
    """A text of some shape: of the grammar, spoiled, or of something else."""
    kind = rng.random()
    if kind < 0.7:
        return text(rng, grammar, rng.randint(0, 6))
    if kind < 0.95:
        return "".join(spoiled(rng, text(rng, grammar, rng.randint(0, 4))))
    return rng.choice(_ODD) * rng.randint(1, 300)
