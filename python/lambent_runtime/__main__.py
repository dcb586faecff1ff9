"""python3 -m lambent_runtime module.function: serves a handler at AWS_LAMBDA_RUNTIME_API."""
import os
import sys


def main():
    handler = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("_HANDLER", "")
    address = os.environ.get("AWS_LAMBDA_RUNTIME_API")
    if not address:
        sys.stderr.write("lambent_runtime: AWS_LAMBDA_RUNTIME_API is not set: "
                         "this program is started by Lambent\n")
        return 19
    from .loop import serve

    return serve(address, handler)


sys.exit(main())
