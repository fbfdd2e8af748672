"""Experiments on real servers: a fleet of processes on this machine, and client processes that keep a journal."""
