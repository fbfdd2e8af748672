"""What the coordinator must not lose: values with revisions, leases with terms."""
