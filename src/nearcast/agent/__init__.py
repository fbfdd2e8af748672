"""The agent beside each broker."""

from nearcast.agent.agent import Agent

__all__ = ["Agent"]
