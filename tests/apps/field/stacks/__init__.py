"""All stacks, by name; a file per language."""

from stacks import go, java, node, php, python, ruby

STACKS = {**go.STACKS, **node.STACKS, **python.STACKS, **java.STACKS, **ruby.STACKS, **php.STACKS}
