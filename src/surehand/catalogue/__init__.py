"""What tools there are, under which names, and how they are found and described."""
