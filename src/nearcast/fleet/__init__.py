"""Processes of this machine: real servers, nearcast's own processes, what supervises them, and the WAN emulator.

Linux only: a child is tied to its parent's life by the kernel.
"""
