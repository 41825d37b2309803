"""Token ids in, events out: rounds of proposing and verifying."""
