"""``python -m deepnet_theory`` is the command ``deepnet-theory``."""

from deepnet_theory.cli import run

if __name__ == "__main__":
    run()
