// The executor's requests whose temporaries come and go layer by layer: what the loop does where
// one begins, and when the device has done one.
#include <utility>

#include "gpu/executor/executor.h"

namespace lambent::executor {

Result<void> Executor::use_layers() {
  const bool wanted =
      options_.pool == ExecutorPool::kLayered || options_.pool == ExecutorPool::kLayeredFineGrained;
  if (!wanted) return {};
  LayeredMemory::Hooks hooks;
  hooks.progress = [this](SandboxId id) { layer_came(id); };
  hooks.make_room = [this](Bytes size) -> LayeredMemory::Room {
    store_->make_room(size);
    const auto leaving = pool_->begin_unmapping(size);
    if (leaving.empty()) return {};
    return {.give = [this, leaving] { pool_->unmap(leaving); },
            .then = [this, leaving] { pool_->forget(leaving); }};
  };
  hooks.waits = [this] { return !exports_->empty() || trimmer_->is_returning(); };
  ASSIGN_OR_RETURN(
      layers_, LayeredMemory::create(
                   loop_, driver_, context_, ordinal_,
                   {.rule = rule(), .interval = options_.pool_interval, .hold = options_.pool_hold},
                   std::move(hooks)));
  return {};
}

bool Executor::has_layers(const Instance& instance) const {
  return instance.loaded != nullptr && instance.loaded->layers.has_value();
}

// Counted by the pages' own pool, not by that of all the rest.
Bytes Executor::window_of(const Instance& instance) const {
  return has_layers(instance) ? instance.loaded->layers->page * instance.loaded->layers->pages
                              : Bytes(0);
}

// False if its memory has to come first. Where it is there, the layer is launched behind the one
// before, and the host hears when that has ended.
Result<bool> Executor::begin_layer(Instance& instance, uint32_t layer) {
  RequestUnderWay& request = *instance.request;
  if (instance.is_removed) return Error{ErrorCode::kUnavailable, "it was removed"};
  ASSIGN_OR_RETURN(const bool there, layers_->is_there(instance.id, layer));
  request.awaits_layer = !there;
  if (!there) return false;
  const cuda::Stream& stream = instance.loaded->stream();
  if (layer > 0) {
    const auto on_answer = [](CUstream, CUresult result, void* ended) {
      static_cast<RequestUnderWay*>(ended)->on_layer(result);
    };
    RETURN_IF_ERROR(stream.call_back(on_answer, &request));
  }
  // What others had there is not the function's to see.
  auto foreign = layers_->begin_layer(instance.id, layer);
  for (const PagePool::Run& run : foreign) RETURN_IF_ERROR(stream.zero(run.address, run.size));
  layers_->clean(instance.id, std::move(foreign));
  return true;
}

void Executor::layer_ended(SandboxId id, uint64_t number, CUresult result) {
  Instance* instance = find_request(id, number);
  // Of an error the next call back tells, or the look after requests.
  if (watch_.has_ended() || instance == nullptr || result != CUDA_SUCCESS) return;
  if (instance->request->stage != RequestUnderWay::Stage::kRunning || instance->request->failure)
    return;
  layers_->layer_ended(id);
  layer_came(id);
}

void Executor::layer_came(SandboxId id) {
  Instance* instance = find(id);
  if (watch_.has_ended() || instance == nullptr || instance->request == nullptr) return;
  if (std::exchange(instance->request->awaits_layer, false)) advance(*instance);
}

}  // namespace lambent::executor
