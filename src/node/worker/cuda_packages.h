// CudaPackages: which functions' code has Python packages that bring NVIDIA's own CUDA runtime. It
// does not run on an emulated GPU, and its owner learns so at the deployment. Used by Deployments
// on the loop thread.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "core/domain/function.h"
#include "core/loop/work_thread.h"
#include "node/worker/code_counts.h"

namespace lambent::worker {

class CudaPackages {
 public:
  static constexpr size_t kMost = 4096;  // codes; what is not in use goes first

  // `matters`: the GPU is emulated; else nothing is looked for. `codes`: those of functions. They
  // outlive it.
  CudaPackages(bool matters, const CodeCounts& codes) : matters_(matters), codes_(codes) {}

  // Which package in the folder, or in the environment that it is, brings it; empty: none. Blocks.
  static std::string find(const std::string& folder);

  // The same on the thread of files; `then` on the loop thread. Of no folder: nothing, at once.
  void look(loop::WorkThread& files, const Result<std::string>& folder,
            std::function<void(std::string package)> then) const;
  // Blocks; before the loop runs. Of no folder: nothing.
  void recover(const std::string& code_sha256, const Result<std::string>& folder);
  // `package`: of this code; empty: it has none.
  void put(const std::string& code_sha256, const std::string& package);
  // What the owner of a function on an emulated GPU should know; empty: nothing.
  std::string warning(const FunctionSpec& spec) const;

 private:
  const bool matters_;
  const CodeCounts& codes_;
  std::map<std::string, std::string> packages_;  // by code
};

}  // namespace lambent::worker
