"""All stacks, by name; a file per language."""

from stacks import go, java, node, python

STACKS = {**go.STACKS, **node.STACKS, **python.STACKS, **java.STACKS}
