// KernelDescriptions: what kernel functions take and give, read from their packages once and kept
// for those who speak the Open Inference Protocol. On the loop thread.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <utility>

#include "core/domain/function.h"
#include "core/domain/inference.h"
#include "node/worker/code_store.h"

namespace lambent::worker {

class KernelDescriptions {
 public:
  using Done = std::function<void(Result<ModelDescription>)>;

  // Both outlive it.
  KernelDescriptions(const CodeStore& code, loop::WorkThread& files) : code_(code), files_(files) {}

  // INVALID_ARGUMENT if the package has no graph; RESOURCE_EXHAUSTED: too much work for the disk.
  // `done` is called once, perhaps before this returns.
  void describe(const FunctionSpec& spec, Done done);

 private:
  // A package is the same as long as its digest is.
  using Known = std::pair<std::string, ModelDescription>;

  const CodeStore& code_;
  loop::WorkThread& files_;
  std::list<Known> known_;  // the last asked for first
  // What is still read then ends in nothing.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace lambent::worker
