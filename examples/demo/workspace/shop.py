"""What the tea shop took, by item."""

import csv
from collections import Counter
from pathlib import Path


def takings(path: Path) -> Counter[str]:
    """Pence per item, the most first."""
    total: Counter[str] = Counter()
    with path.open(newline="") as file:
        for order in csv.DictReader(file):
            total[order["item"]] += int(order["pieces"]) * int(order["price"])
    return total


if __name__ == "__main__":
    for item, pence in takings(Path(__file__).with_name("orders.csv")).most_common():
        print(f"{item:<12}{pence / 100:>8.2f}")
