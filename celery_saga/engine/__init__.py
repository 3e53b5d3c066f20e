"""What moves runs: coordinator, claims, sweeper and operators' verbs, over ports to the store and to the broker."""
