#include "emulator/emulated_cuda/gates.h"

#include <algorithm>

namespace lambent::emulated_cuda {

void add_gate(Context& context, const CompletionPtr& end) {
  const MutexLock lock(context.order);
  // No other code takes them off a context that is given no work.
  std::erase_if(context.gates, [](const CompletionPtr& gate) { return gate->done(); });
  context.gates.push_back(end);
}

CUresult submit_between(Process& process, Context& current,
                        const std::vector<std::shared_ptr<Context>>& contexts,
                        const std::function<CUresult()>& submit_it) {
  Stream& stream = *current.legacy;
  std::vector<Context*> others;
  for (const auto& context : contexts) {
    const bool is_new = std::find(others.begin(), others.end(), context.get()) == others.end();
    if (context.get() != &current && is_new) others.push_back(context.get());
  }
  if (others.empty() || stream.capturing) return submit_it();
  std::vector<CompletionPtr> pending = ends_of(current);
  for (Context* other : others) {
    for (auto& end : ends_of(*other)) pending.push_back(std::move(end));
  }
  submit(process, current, stream, std::move(pending), [](int64_t begin_ns) { return begin_ns; });
  if (CUresult result = submit_it()) return result;
  const CompletionPtr end = stream.last();
  add_gate(current, end);
  for (Context* other : others) add_gate(*other, end);
  return CUDA_SUCCESS;
}

}  // namespace lambent::emulated_cuda
