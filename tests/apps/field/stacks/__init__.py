"""All stacks, by name; a file per language."""

from stacks import node

STACKS = {**node.STACKS}
