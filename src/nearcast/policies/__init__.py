"""Pure functions from a snapshot to a plan, one file per policy; `registry.py` names them."""
