"""What starts, follows and steers runs from any process."""
