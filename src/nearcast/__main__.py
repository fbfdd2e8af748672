"""`python -m nearcast` is the command line."""

from nearcast.cli.main import main

main()
