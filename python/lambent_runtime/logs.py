"""Records of `logging` in the function's log, as Lambda's Python runtime writes them: each names its invocation."""
import contextvars
import sys

FORMAT = "[%(levelname)s]\t%(asctime)s.%(msecs)03dZ\t%(aws_request_id)s\t%(message)s"


# The invocation that is at work, where there are several: its id is in every record.
REQUEST_ID = contextvars.ContextVar("lambent_request_id", default="")


class Served:
    """The invocation that is at work, where there is one."""

    request_id = ""


def take_over():
    """The root logger gets a handler: now if `logging` is loaded, else when the function imports it, as that takes its time."""
    if "logging" in sys.modules:
        _install(sys.modules["logging"])
    else:
        sys.meta_path.insert(0, _WhenImported())


class _WhenImported:
    """Finds `logging` once, by the finders behind it."""

    def find_spec(self, name, path, target=None):
        if name != "logging":
            return None
        sys.meta_path.remove(self)
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                spec.loader = _Loader(spec.loader)
                return spec
        return None


class _Loader:
    def __init__(self, loader):
        self._loader = loader

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__loader__ = module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        _install(module)


def _install(logging):
    # Not where there is one already, nor into a module of the function's that has this name.
    if not hasattr(logging, "StreamHandler") or logging.root.handlers:
        return

    class Records(logging.StreamHandler):
        @property
        def stream(self):  # whatever it is now
            return sys.stderr

        @stream.setter
        def stream(self, _):
            pass

        def filter(self, record):
            record.aws_request_id = REQUEST_ID.get() or Served.request_id
            return super().filter(record)

    records = Records()
    form = logging.Formatter(FORMAT, "%Y-%m-%dT%H:%M:%S")
    form.converter = __import__("time").gmtime
    records.setFormatter(form)
    logging.root.addHandler(records)
    configure = logging.basicConfig

    def basic_config(**options):
        """logging.basicConfig; it does what it would do without the runtime's handler."""
        if logging.root.handlers == [records]:
            logging.root.removeHandler(records)
        configure(**options)

    logging.basicConfig = basic_config
