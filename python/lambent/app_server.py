"""python3 -m lambent.app_server ENTRY: serves the ASGI application that a function of the app returns, by uvicorn, at PORT. The
program of @app.asgi functions."""
import os
import re
import sys


def main() -> int:
    folder = os.environ.get("LAMBDA_TASK_ROOT", os.getcwd())
    sys.path.insert(0, folder)
    with open(os.path.join(folder, "_lambent_app.py"), encoding="utf-8") as launcher:
        module = re.search(r"handler_of\('(\w+)'", launcher.read())
    if module is None or len(sys.argv) != 2:
        sys.stderr.write("lambent.app_server: this is no package of an app\n")
        return 2
    try:
        import uvicorn
    except ImportError:
        sys.stderr.write("lambent.app_server: uvicorn is not among the function's requirements\n")
        return 2
    import importlib

    application = getattr(importlib.import_module(module[1]), sys.argv[1])()
    uvicorn.run(application, host="127.0.0.1", port=int(os.environ["PORT"]), log_level="warning", lifespan="auto")
    return 0


sys.exit(main())
