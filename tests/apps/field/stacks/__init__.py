"""All stacks, by name; a file per language."""

from stacks import cpp, go, java, node, php, python, ruby, rust, systems

LANGUAGES = (cpp, go, node, python, java, ruby, php, rust, systems)
STACKS = {name: stack for language in LANGUAGES for name, stack in language.STACKS.items()}
