"""``python -m rcb_agent`` is the command line."""

from rcb_agent.cli import main

main()
