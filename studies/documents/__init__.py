"""What README.md and docs/ show of this program: is it what the program prints? No part of the installed package."""
