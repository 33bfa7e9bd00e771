"""``python -m tocsin`` is the same as ``tocsin``."""

from tocsin.cli.main import main

main()
