"""``python -m kvzero`` and the ``kvzero`` command."""

import sys
import warnings


def main() -> None:
    """Run the command line and exit."""
    try:
        import hypothesis  # noqa: F401 - is the extra installed?
        import rich  # noqa: F401 - is the extra installed?
        import typer  # noqa: F401 - is the extra installed?
    except ImportError as error:
        sys.stderr.write(
            f"kvzero: {error.name} is missing, but every verb needs the harness: "
            f"pip install 'kvzero[harness]'\n"
        )
        raise SystemExit(3) from error
    from kvzero.cli.app import run

    # Triton 3.9 says of every process that a default for floats will change.
    warnings.filterwarnings("ignore", "TRITON_DEFAULT_FP_FUSION is unset", UserWarning)
    run()


if __name__ == "__main__":
    main()
