"""``python -m deepnet_theory`` is the command ``deepnet-theory``."""

from deepnet_theory.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
