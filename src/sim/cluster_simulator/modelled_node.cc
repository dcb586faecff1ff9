#include "sim/cluster_simulator/modelled_node.h"

#include <algorithm>

namespace lambent::cluster_simulator {

void ModelledNode::Pool::add(Idle sandbox, Bytes size) {
  by_use.insert(sandbox);
  by_function[sandbox.function].push_back(sandbox.used);
  memory += size;
}

void ModelledNode::Pool::take(uint32_t function, Bytes size) {
  const auto found = by_function.find(function);
  by_use.erase({found->second.back(), function});
  found->second.pop_back();
  if (found->second.empty()) by_function.erase(found);
  memory -= size;
}

ModelledNode::Idle ModelledNode::Pool::take_oldest(const std::vector<FunctionModel>& functions) {
  const Idle oldest = *by_use.begin();
  by_use.erase(by_use.begin());
  const auto found = by_function.find(oldest.function);
  found->second.pop_front();
  if (found->second.empty()) by_function.erase(found);
  memory -= functions[oldest.function].memory;
  return oldest;
}

void ModelledNode::make_room(Bytes size) {
  while (busy_memory_ + resident_.memory + size > total_memory() && !resident_.by_use.empty()) {
    const Idle moved = resident_.take_oldest(functions_);
    swapped_.add(moved, functions_[moved.function].memory);
  }
  while (swapped_.memory > model_.host_memory) swapped_.take_oldest(functions_);
}

std::optional<ModelledNode::Begun> ModelledNode::begin() {
  if (queue_.empty() || running_ == model_.slots()) return std::nullopt;
  const auto [invocation, function] = queue_.front();
  const FunctionModel& model = functions_[function];
  if (busy_memory_ + model.memory > total_memory()) return std::nullopt;
  queue_.pop_front();
  ++running_;
  Begun begun{.invocation = invocation, .function = function, .takes = model.run};
  if (resident_.has(function)) {
    resident_.take(function, model.memory);
    begun.start = Start::kWarm;
  } else {
    if (swapped_.has(function)) {
      swapped_.take(function, model.memory);
      begun.start = Start::kSwapIn;
      begun.takes +=
          from_seconds(static_cast<double>(model.memory.count) / model_.link_bytes_per_s);
    } else {
      begun.takes += model.start;
      begun.fetched = read_files(function);
      if (begun.fetched) begun.takes -= model.fetch;
    }
    make_room(model.memory);
  }
  busy_memory_ += model.memory;
  return begun;
}

bool ModelledNode::read_files(uint32_t function) {
  const Bytes size = functions_[function].files;
  if (size == Bytes()) return false;
  const auto found = files_.find(function);
  const bool were_here = found != files_.end();
  if (were_here) {
    files_by_use_.erase({found->second, function});
    files_size_ -= size;
  }
  files_[function] = ++uses_;
  files_by_use_.insert({uses_, function});
  files_size_ += size;
  while (files_size_ > model_.page_cache) {
    const Idle oldest = *files_by_use_.begin();
    files_by_use_.erase(files_by_use_.begin());
    files_.erase(oldest.function);
    files_size_ -= functions_[oldest.function].files;
  }
  return were_here;
}

void ModelledNode::end(uint32_t function) {
  const Bytes size = functions_[function].memory;
  --running_;
  busy_memory_ -= size;
  resident_.add({++uses_, function}, size);
}

routing::Warmth ModelledNode::warmth(uint32_t function) const {
  if (resident_.has(function)) return routing::Warmth::kResident;
  if (swapped_.has(function)) return routing::Warmth::kSwappedOut;
  return files_.contains(function) ? routing::Warmth::kFetched : routing::Warmth::kNone;
}

std::vector<std::pair<uint32_t, routing::Warmth>> ModelledNode::warm_functions() const {
  std::vector<std::pair<uint32_t, routing::Warmth>> warm;
  for (const auto& [function, used] : resident_.by_function) {
    warm.emplace_back(function, routing::Warmth::kResident);
  }
  for (const auto& [function, used] : swapped_.by_function) {
    if (!resident_.has(function)) warm.emplace_back(function, routing::Warmth::kSwappedOut);
  }
  for (const auto& [function, used] : files_) {
    if (!resident_.has(function) && !swapped_.has(function)) {
      warm.emplace_back(function, routing::Warmth::kFetched);
    }
  }
  std::sort(warm.begin(), warm.end());
  return warm;
}

}  // namespace lambent::cluster_simulator
