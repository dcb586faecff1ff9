#include "emulator/emulated_cuda/compilations.h"

#include <utility>

namespace lambent::emulated_cuda {

PtxCode Compilations::once(const std::string& key, const std::function<PtxCode()>& compile) {
  const auto mine = std::make_shared<Running>();
  {
    MutexLock lock(mutex_);
    const auto [at, is_first] = running_.try_emplace(key, mine);
    if (!is_first) {
      const std::shared_ptr<Running> other = at->second;
      ++waiting_;
      while (!other->result) changed_.wait(lock);
      --waiting_;
      return *other->result;
    }
  }
  PtxCode made = compile();
  const MutexLock lock(mutex_);
  mine->result = made;
  running_.erase(key);
  changed_.notify_all();
  return made;
}

size_t Compilations::waiting() const {
  const MutexLock lock(mutex_);
  return waiting_;
}

Compilations::Compiler::Compiler(Compilations& all) : all_(all) {
  MutexLock lock(all_.mutex_);
  ++all_.waiting_;
  while (all_.compilers_ >= kMostCompilers) all_.changed_.wait(lock);
  --all_.waiting_;
  ++all_.compilers_;
}

Compilations::Compiler::~Compiler() {
  const MutexLock lock(all_.mutex_);
  --all_.compilers_;
  all_.changed_.notify_all();
}

}  // namespace lambent::emulated_cuda
