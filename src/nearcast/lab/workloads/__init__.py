"""Workloads: who is there, what they publish and what they listen to. Seeded; they know no brokers and no policies."""
