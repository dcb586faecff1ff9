#include "node/worker/kernel_descriptions.h"

#include <algorithm>

#include "node/worker/kernel_package.h"

namespace lambent::worker {
namespace {

// Of so many packages it remembers what they take and give.
constexpr size_t kMostKnown = 256;

}  // namespace

void KernelDescriptions::describe(const FunctionSpec& spec, Done done) {
  const std::string key = spec.code_sha256 + "/" + spec.handler;
  const auto found = std::find_if(known_.begin(), known_.end(),
                                  [&key](const Known& each) { return each.first == key; });
  if (found != known_.end()) {
    known_.splice(known_.begin(), known_, found);
    return done(known_.front().second);
  }
  auto read = std::make_shared<Result<ModelDescription>>(ModelDescription());
  const KernelPackageOptions options{code_.folder(spec), spec.handler, ""};
  const bool queued = files_.run([read, options] { *read = describe_kernel_package(options); },
                                 [this, read, key, done, alive = std::weak_ptr(alive_)] {
                                   if (alive.expired()) return;
                                   if (read->ok()) {
                                     known_.emplace_front(key, **read);
                                     if (known_.size() > kMostKnown) known_.pop_back();
                                   }
                                   done(std::move(*read));
                                 });
  if (!queued) done(Error{ErrorCode::kResourceExhausted, "too much work for the disk at once"});
}

}  // namespace lambent::worker
