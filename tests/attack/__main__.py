"""`python -m tests.attack`: run the slow attacks, and print a table of what held."""

from __future__ import annotations

import logging
import sys
from argparse import ArgumentParser, Namespace

from tests.attack.runner import collect_attacks, run_attacks

MAX_NOTE_LENGTH = 160


def parse_options() -> Namespace:
    parser = ArgumentParser(prog="scripts/attack", description="Attack a runtime, and print what held.")
    parser.add_argument("--only", default="", metavar="WORDS", help="only attacks whose family or promise has these")
    parser.add_argument("--list", action="store_true", help="only list the attacks")
    return parser.parse_args()


def main() -> int:
    options = parse_options()
    attacks = [each for each in collect_attacks() if options.only.lower() in f"{each.family} {each.promise}".lower()]
    if options.list:
        for each in attacks:
            print(f"{each.family:<12} {each.promise}")
        return 0
    logging.disable(logging.ERROR)  # what goes wrong here is meant to
    broken = 0
    print(f"{'family':<12} {'result':<8} {'seconds':>7}  promise")
    for result in run_attacks(attacks):
        broken += result.word == "BROKE"
        each = result.attack
        print(f"{each.family:<12} {result.word:<8} {result.seconds:>7.1f}  {each.promise}", flush=True)
        if result.note:
            print(f"{'':<30} {result.note.splitlines()[0][:MAX_NOTE_LENGTH]}", flush=True)
    print(f"{len(attacks) - broken} of {len(attacks)} attacks did no harm.")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
