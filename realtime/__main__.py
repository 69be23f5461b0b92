"""Entry of the `realtime` command and of `python -m realtime`."""

from realtime.cli.app import build_app


def main() -> None:
    """Run the command line."""
    build_app()()


if __name__ == "__main__":
    main()
