"""`python -m supervisor` is the `brainy` command."""

from supervisor.entry import main

main()
