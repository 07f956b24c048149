"""`python -m dflash_doctor` is the program too."""

from dflash_doctor.cli import main

main()
