"""All stacks, by name; a file per language."""

from stacks import java, node, python

STACKS = {**node.STACKS, **python.STACKS, **java.STACKS}
