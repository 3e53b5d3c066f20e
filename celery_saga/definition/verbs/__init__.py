"""What a body can say to its run, a file for each kind of verb."""
