"""All stacks, by name; a file per language."""

from stacks import node, python

STACKS = {**node.STACKS, **python.STACKS}
