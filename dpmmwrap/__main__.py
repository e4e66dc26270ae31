"""`python -m dpmmwrap` is the same as `dpmmwrap`."""

from dpmmwrap.cli import main

if __name__ == "__main__":
    main()
