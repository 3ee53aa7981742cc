"""Every option of every command with hostile values: a documented exit and one sentence."""

import time

from hypothesis import given

from deepnet_theory.cli import main
from deepnet_theory.cli.commands import COMMANDS
from deepnet_theory.definitions.discovery import KINDS, names

from .hostile import RANDOM, tried

ORDINARY = 45
SECONDS = 30.0  # for one command of the smallest sizes
HOSTILE = (
    "", " ", "-1", "0", "1", "2", "3.5", "nan", "inf", "-inf", "1e308", "1e-308", "9" * 400,
    "9" * 5000, "-" + "9" * 400, "0x10", "1e1", "１", "²", "None", "True", "[]", "{}", "\ud800",
    "a\nb", "\t", "é" * 300, "../..", "/", "/dev/null", "/dev/full", "no/such/file", "~", "--",
    "-", "-q", ",", ",,", "8,", "8,8", "8x8", "x", "8x", ":", "2:4", "4:2", "1:1", "N", "1/N",
    "N**N", "0*N", "(" * 300, "sqrt(-N)", "g", "-g", "-eta*g", "eta*g", "-eta*g/0", "-eta",
    "__import__('os')", "$(true)", "'", '"', "\\", "%s", "{0}", "A>B", ">", "gaussian:",
    "N/0", "gaussian:0", "gaussian:2", "adam", "ADAM", "lamb", "sgd", "pre-ln", "sandwich-ln",
    "rms", "encoder-decoder",
    "ffn", "cross", "attention,cross,ffn", "ffn:swiglu", "lemma", "moments", "unit-init", "silu",
    "all", "cuda", "meta", "float64", "float16", "json", "text", "latex",
)  # fmt: skip
SMALL = (
    "--depths", "1,2", "--seeds", "2", "--draws", "1", "--width", "4", "--heads", "1",
    "--tokens", "3", "--processes", "1",
)  # fmt: skip
BASE = {
    "derive": (),
    "verify": SMALL,
    "predict": (*SMALL, "--draws", "1"),
    "check": ("no-such-claim",),  # never all of them
    "export": ("--depth", "2"),
    "train": ("constants.json", *["--steps", "1", "--batch", "1", "--tokens", "3", "--seeds", "1"]),
    "report": (*SMALL, "-o", "report.html"),
    "list": ("norms",),
    "cache": (),
    "transfer": (*SMALL, "--rates", "1e-3,2e-3,4e-3", "--steps", "1"),
    "measure": ("torch.nn:Identity", "--depths", "1,2"),
    "audit": ("torch.nn:Identity",),
}
VERDICTS = ("verify", "report", "train", "check", "transfer", "measure", "audit")  # may be REFUTED
SELECTS = ("derive", "verify", "predict", "export", "report", "transfer")
NUMBERS = ("1", "2", "3", "4", "0.5")  # for an option that has no words and is not named here
PLAUSIBLE = {
    "update": ("-eta*g", "-eta*sign(g)*abs(g)**(1/3)", "-eta/g", "-eta*max(g,theta)", "eta*g"),
    "layer": ("ffn", "attention", "ffn:swiglu", "attention,cross,ffn"),
    "closures": ("complete,symmetric", "unit-residual,x"),
    "rates": ("1e-3,2e-3", "1e-4:1e-3", "1,0"),
    "alpha": ("1", "N", "N**(1/4)", "1/N", "N-2", "10**30", "log(N)"),
    "depth": ("1", "200", "1000000", "3,2"),
    "depths": ("1,2", "1:4", "1x1,2x2", "3,1"),
    "data": ("text", "gaussian:0", "gaussian:1"),
    "output": ("made", "made/", "constants.json"),
    "cache": ("kept", "constants.json"),
    "processes": ("1", "0", "1.5"),  # to start more takes seconds, and has its own tests
    "cluster": ("8786", "tcp://", "here"),
    "text": ("constants.json", "."),
}


def fitting(name, option):
    """Values that an option takes: those named here, or its own words and names."""
    own = names(option.folder) if option.folder in KINDS else option.words
    named = PLAUSIBLE.get("alpha" if name.endswith(("alpha", "beta")) else name)
    return named or own or NUMBERS


def hostile_words(command, draw):
    """A small command with up to three of its options set to anything, most to what fits."""
    settings = COMMANDS[command].settings
    offered = {name: one.option for name, one in settings.items() if one.kind is not bool}
    chosen = dict.fromkeys(draw.choices([*offered], k=draw.randint(1, 3)))
    if command in SELECTS and "update" not in chosen and draw.random() < 0.95:
        chosen.setdefault("optimizer")
    for partner, name in (("beta", "alpha"), ("alpha", "beta")):
        if name in chosen and draw.random() < 0.8:
            chosen.setdefault(partner)
    words = [command, *BASE[command]]
    for name in chosen:
        value = draw.choice(HOSTILE if draw.random() < 0.2 else fitting(name, offered[name]))
        words.append(f"--{name.replace('_', '-')}={value}")
    if draw.random() < 0.05:
        words.insert(draw.randint(1, len(words)), draw.choice(HOSTILE))
    return words


@tried(ORDINARY)
@given(draw=RANDOM)
def test_no_option_breaks_a_command(tmp_path, monkeypatch, capsys, draw):
    monkeypatch.chdir(tmp_path)
    made = "export --optimizer adam --depth 1 --width 4 --heads 1 -o constants.json -q"
    assert main(made.split()) == 0
    words = hostile_words(draw.choice(list(COMMANDS)), draw)
    started = time.process_time()
    code = main(words)
    taken = time.process_time() - started
    said = capsys.readouterr().err
    assert code in ((0, 1, 2, 3, 4) if words[0] in VERDICTS else (0, 2, 4)), (words, said)
    assert code not in (2, 4) or (said.count("\n") == 1 and len(said) < 6000), (words, said)
    assert taken < SECONDS, words
