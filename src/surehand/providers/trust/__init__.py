"""Trust on first use: pins the definitions of foreign tools, and holds back changes until a person accepts them."""
