"""`python -m podsim.cli`."""

from podsim.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
