// The compilations of this process: one for threads that ask for the same code at a time, and no
// more compilers at once than a machine bears, whether or not code is kept (code_cache.h is for
// other processes). Used by ptx_compiler.cc, any thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/base/mutex.h"
#include "emulator/emulated_cuda/ptx_compiler.h"

namespace lambent::emulated_cuda {

class Compilations {
 public:
  static constexpr size_t kMostCompilers = 4;  // at once

  // What `compile` returns. While it runs, others that ask for the same key wait and get the same.
  PtxCode once(const std::string& key, const std::function<PtxCode()>& compile);
  // Threads that wait for another one's code, or for their compiler.
  size_t waiting() const;

  // Held while a compiler runs; waits for a free one.
  class Compiler {
   public:
    explicit Compiler(Compilations& all);
    ~Compiler();
    Compiler(const Compiler&) = delete;
    Compiler& operator=(const Compiler&) = delete;

   private:
    Compilations& all_;
  };

 private:
  struct Running {
    std::optional<PtxCode> result;
  };

  mutable Mutex mutex_;
  Condition changed_;
  std::map<std::string, std::shared_ptr<Running>> running_ GUARDED_BY(mutex_);
  size_t compilers_ GUARDED_BY(mutex_) = 0;
  size_t waiting_ GUARDED_BY(mutex_) = 0;
};

}  // namespace lambent::emulated_cuda
