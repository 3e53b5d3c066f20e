"""State graphs: what is refused, what is followed, what is stored."""
