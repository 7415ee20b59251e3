"""Configuration: one file that says which tools there are and what limits them."""
