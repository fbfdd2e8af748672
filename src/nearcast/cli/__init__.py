"""The command `nearcast`: one file per command, noun then verb."""
