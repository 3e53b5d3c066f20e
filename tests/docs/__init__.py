"""README and docs say what is true: their code runs, their tables and links agree with the code."""
