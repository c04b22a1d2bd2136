"""`python -m vesica` is the `vesica` command."""

from ._command import main

main()
