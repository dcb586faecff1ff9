"""python3 -m lambent.onnx MODEL.onnx FOLDER: a model as the package of a kernel function."""
import argparse
import os
import resource
import sys

# Of the process, before foreign bytes are read: a model that wants more is refused.
MEMORY_BYTES = 16 * 2**30
CPU_SECONDS = 1800

# Exit codes, which src/bin/verbs_of_functions.cc knows: a good model, but not for kernels; the packages
# of lambent[onnx] are not there.
NOT_COVERED = 3
LACKS_PACKAGES = 4


REQUIREMENTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "requirements.txt")


def _limit(which: int, most: int) -> None:
    soft, hard = resource.getrlimit(which)
    if hard == resource.RLIM_INFINITY or most < hard:
        resource.setrlimit(which, (most, most))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 -m lambent.onnx", description=__doc__)
    parser.add_argument("model", help="a file in the format of ONNX")
    parser.add_argument("folder", help="where the package is written")
    parser.add_argument("--name", default="model", help="of the function")
    parser.add_argument("--batch-size", type=int, default=1, help="for the first dimension of inputs, where it is open")
    parser.add_argument("--batch", type=int, default=1,
                        help="kernels for batches of 1, 2, 4 and so on up to it; requests are put together")
    parser.add_argument("--batch-wait-ms", type=float, default=0, help="so long a request waits for others")
    parser.add_argument("--batch-slo-ms", type=float, default=0, help="batches grow while a run takes at most half of it")
    parser.add_argument("--shape", action="append", default=[], metavar="INPUT=1,3,224,224",
                        help="of an input whose dimensions are open")
    parser.add_argument("--precision", default="", help="fp16: weights of 32-bit floating point are kept in 16 bits")
    parser.add_argument("--memory-gib", type=int, default=MEMORY_BYTES // 2**30, help="that the compiler may take")
    arguments = parser.parse_args()
    _limit(resource.RLIMIT_AS, arguments.memory_gib * 2**30)
    _limit(resource.RLIMIT_CPU, CPU_SECONDS)
    _limit(resource.RLIMIT_CORE, 0)
    from . import ModelError, NotCovered, import_model
    try:
        batches = (arguments.batch_wait_ms, arguments.batch_slo_ms) if arguments.batch > 1 else None
        summary = import_model(arguments.model, arguments.folder, name=arguments.name, batch=arguments.batch_size,
                               shapes=arguments.shape, precision=arguments.precision, most=arguments.batch, batches=batches)
    except ImportError as error:
        print("lambent.onnx: %s: making kernels of a model needs the packages of lambent[onnx] "
              "(pip install -r %s), or uv" % (error, REQUIREMENTS), file=sys.stderr)
        return LACKS_PACKAGES
    except NotCovered as error:
        print("lambent.onnx: %s" % error, file=sys.stderr)
        return NOT_COVERED
    except (ModelError, OSError) as error:
        print("lambent.onnx: %s" % error, file=sys.stderr)
        return 1
    except MemoryError:
        print("lambent.onnx: the model takes more memory than %d GiB" % arguments.memory_gib, file=sys.stderr)
        return 1
    print(summary)
    return 0


if __name__ == "__main__":
    sys.exit(main())
