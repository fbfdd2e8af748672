"""Scenarios in virtual time: the production client, agent and coordinator with a workload of a paper."""
