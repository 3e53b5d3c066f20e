"""A new release while runs are alive: the code and the tables of before beside those of now."""
