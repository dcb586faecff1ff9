// What lambent-worker takes of its machine before it builds anything: folders and their lock, open
// files, signals, the driver of its GPUs. Used by its main, before the loop runs.
#pragma once

#include <string>
#include <vector>

#include "bin/installation.h"
#include "bin/worker_config.h"
#include "core/base/fd.h"
#include "core/base/log.h"
#include "core/base/result.h"
#include "node/worker/sandbox_plan.h"

namespace lambent {

// The folders that the worker needs, and the lock that keeps a second worker out of them.
// ALREADY_EXISTS if there is one.
Result<OwnedFd> make_folders(const WorkerConfig& config);

// Readable requests to stop, once SIGTERM and SIGINT are blocked everywhere, and those to give way
// to the installed program, SIGUSR2; with `reloads` also those to read certificates again, SIGHUP.
// Otherwise SIGHUP is the end, because it says that the worker's terminal is gone.
Result<OwnedFd> open_signals(bool reloads);

// Of a worker that was not told: NVIDIA's GPUs where they can be used, else the emulated one.
void choose_gpu(WorkerConfig& config, const Installation& installation);

// Why a worker that is to have GPUs of NVIDIA's was told of none, and what to do.
Error gpu_missing(Error error, const WorkerConfig& config, const Installation& installation);

// Where libcuda.so.1 lies; an emulated GPU is made again. NOT_FOUND if
// there is no driver, FAILED_PRECONDITION if nothing says that this machine has a GPU for it.
Result<worker::GpuDriver> find_driver(const WorkerConfig& config, const Installation& installation);

// Where it makes the node of an emulated GPU, for EmulatedNodeServer to take over.
std::string node_image(const worker::GpuDriver& driver);

// Paths of cuBLAS that executors try, in this order; none: they use their own kernels. NOT_FOUND if
// one was named that is not there.
Result<std::vector<std::string>> find_cublas(const WorkerConfig& config,
                                             const worker::GpuDriver& driver);

}  // namespace lambent
