// Where the buffers of the executor's requests lie: in objects and constants that others use too,
// or in places of the instance's own; and what is copied between them on the instance's stream.
#include <algorithm>
#include <set>
#include <utility>

#include "gpu/executor/executor.h"
#include "gpu/executor/file_io.h"

namespace lambent::executor {

using kernel_graph::BufferRole;

namespace {

// An object that more kernels than this use is copied to where they look for it, unless it is so
// large that changing them takes less time (about a microsecond each).
constexpr size_t kFewUses = 8;
constexpr Bytes kBytesForAUse = Bytes::mib(1);

}  // namespace

Result<bool> Executor::gather_contents(Instance& instance) {
  RequestUnderWay& request = *instance.request;
  const LoadedInstance& loaded = *instance.loaded;
  request.subject = protocol::ErrorSubject::kRequest;
  request.contents.resize(loaded.graph.buffers.size(), 0);
  request.files.resize(loaded.graph.buffers.size());
  bool complete = true;
  for (const Constant& constant : loaded.constants) {
    Contents::Content content;
    if (request.contents[constant.buffer] == 0) {
      ASSIGN_OR_RETURN(content, contents_->pin_constant(constant, user_of(instance.id)));
      request.contents[constant.buffer] = content.address;
      request.pinned.push_back(constant.name);
    } else {
      ASSIGN_OR_RETURN(content, contents_->look(constant, user_of(instance.id)));
    }
    complete = complete && (content.is_here || options_.pipelined);
  }
  instance.reserved->release();  // objects lie in what is reserved for inputs
  for (const auto& input : request.request.inputs) {
    if (!input.object) continue;
    const auto& buffer = loaded.graph.buffers[input.buffer];
    const auto explain = [&](const Error& error) {
      request.subject = contents_->has_failed(*input.object) ? protocol::ErrorSubject::kFailedInput
                                                             : protocol::ErrorSubject::kInput;
      return error.with_context("inputs[" + std::to_string(input.number) +
                                "].parameters.object ('" + buffer.name + "')");
    };
    if (buffer.role == BufferRole::kInOut) {
      if (request.files[input.buffer] != nullptr) continue;
      auto file = contents_->host_object(*input.object, buffer.type);
      if (!file.ok()) return explain(file.error());
      complete = complete && *file != nullptr;
      request.files[input.buffer] = std::move(*file);
      // It may have to go for the request's own copy: then that comes from the host.
      if (request.files[input.buffer] != nullptr) {
        request.needs.push_back(store_->need(DeviceName::of(*input.object)));
      }
      continue;
    }
    if (request.contents[input.buffer] != 0) continue;
    const auto address = contents_->pin_object(*input.object, buffer.type, user_of(instance.id));
    if (!address.ok()) return explain(address.error());
    complete = complete && address->has_value();
    if (!*address) continue;
    request.contents[input.buffer] = **address;
    request.pinned.push_back(DeviceName::of(*input.object));
  }
  return complete;
}

// A place of the instance's own for a buffer. What it has not written itself before is zeroed,
// unless all of it will be overwritten before a kernel reads it.
Result<void> Executor::place_own(Instance& instance, uint32_t buffer, Bytes size,
                                 bool is_overwritten, CUdeviceptr* address) {
  const DeviceName name = DeviceName::of(instance.id, buffer);
  auto& pinned = instance.request->pinned;
  if (const auto* entry = store_->find(name)) {
    *address = entry->address;
    // A request that waited for an export comes here again with what it could place.
    if (std::ranges::find(pinned, name) != pinned.end()) return {};
    store_->pin(name);
  } else {
    ASSIGN_OR_RETURN(const auto placed, store_->place(name, size, user_of(instance.id)));
    *address = placed.address;
    if (!placed.own && !is_overwritten) {
      const auto zeroed = instance.loaded->stream().zero(placed.address, size);
      if (!zeroed.ok()) {
        store_->unpin(name);
        return zeroed;
      }
    }
  }
  pinned.push_back(name);
  return {};
}

Result<void> Executor::place_buffers(Instance& instance) {
  RequestUnderWay& request = *instance.request;
  const LoadedInstance& loaded = *instance.loaded;
  const auto& buffers = loaded.graph.buffers;
  request.addresses = request.contents;
  if (loaded.plan.temporaries.count > 0) {
    CUdeviceptr block = loaded.window;
    if (has_layers(instance)) {
      layers_->begin(instance.id);
    } else {
      RETURN_IF_ERROR(
          place_own(instance, DeviceName::kTemporaries, loaded.plan.temporaries, false, &block));
    }
    for (uint32_t i = 0; i < buffers.size(); ++i) {
      if (buffers[i].role != BufferRole::kTemporary) continue;
      request.addresses[i] = block + loaded.plan.offsets[i].count;
    }
  }
  for (const uint32_t i : loaded.codec.outputs()) {
    const bool comes_in = buffers[i].role == BufferRole::kInOut;
    RETURN_IF_ERROR(place_own(instance, i, loaded.plan.sizes[i], comes_in, &request.addresses[i]));
  }
  for (const uint32_t i : loaded.codec.inputs()) {
    if (request.addresses[i] != 0) continue;
    RETURN_IF_ERROR(place_own(instance, i, loaded.plan.sizes[i], true, &request.addresses[i]));
  }
  return {};
}

// Whether the instance's share has room for what its request has pinned and this too, if it is not
// pinned yet. A request that pins more takes from what others were promised; what it can do without
// it has to ask for here.
bool Executor::has_share_for(const Instance& instance, const DeviceName& name, Bytes size) {
  const std::set<DeviceName> pinned(instance.request->pinned.begin(),
                                    instance.request->pinned.end());
  if (pinned.contains(name)) return true;
  Bytes sum = pool_->rounded(size) + window_of(instance);
  for (const DeviceName& each : pinned) sum += store_->find(each)->size;
  return sum <= instance.memory;
}

// Queues what is short and what lies on the device; returns the rest.
Result<std::vector<TransferPiece>> Executor::queue_inputs(Instance& instance) {
  RequestUnderWay& request = *instance.request;
  LoadedInstance& loaded = *instance.loaded;
  std::vector<TransferPiece> pieces;
  Bytes total;
  for (const auto& input : request.request.inputs) {
    const uint32_t i = input.buffer;
    const Bytes size = loaded.plan.sizes[i];
    if (request.contents[i] != 0) {
      // Kernels look for an object where it lies, or it comes to where they look.
      const bool cheap_to_copy =
          loaded.program->uses(i) > kFewUses && size <= kBytesForAUse * loaded.program->uses(i);
      CUdeviceptr own = 0;
      if (!cheap_to_copy || !has_share_for(instance, DeviceName::of(instance.id, i), size))
        continue;
      if (!place_own(instance, i, size, true, &own).ok()) continue;
      RETURN_IF_ERROR(loaded.stream().copy_on_device(own, request.contents[i], size));
      request.addresses[i] = own;
      continue;
    }
    TransferPiece piece;
    piece.device = request.addresses[i];
    piece.size = size;
    if (input.object) {
      const DeviceName name = DeviceName::of(*input.object);
      const auto* entry = store_->find(name);
      if (entry != nullptr && entry->filled && has_share_for(instance, name, size)) {
        store_->pin(name);
        request.pinned.push_back(name);
        RETURN_IF_ERROR(loaded.stream().copy_on_device(piece.device, entry->address, size));
        continue;
      }
      piece.fd = request.files[i]->get();
    } else {
      piece.pointer = const_cast<char*>(input.bytes.data());  // it is only read
    }
    total += size;
    pieces.push_back(std::move(piece));
  }
  if (total > loaded.in->size()) return pieces;
  char* next = static_cast<char*>(loaded.in->pointer());
  for (const TransferPiece& piece : pieces) {
    RETURN_IF_ERROR(read_host_side(piece, 0, next, piece.size.count));
    RETURN_IF_ERROR(loaded.stream().copy_to_device(piece.device, next, piece.size));
    next += piece.size.count;
  }
  return std::vector<TransferPiece>();
}

Result<void> Executor::queue_outputs(Instance& instance) {
  RequestUnderWay& request = *instance.request;
  LoadedInstance& loaded = *instance.loaded;
  Bytes total = kFlagBytes;
  uint32_t objects = 0;
  for (const auto& wanted : request.request.outputs) {
    WantedOutput output;
    output.buffer = wanted.buffer;
    output.size = loaded.plan.sizes[wanted.buffer];
    output.as_object = wanted.as_object;
    // Counted in the caller's order, so that it knows their names before they exist.
    if (output.as_object) output.object = {request.message.invocation, objects++};
    output.from = request.addresses[wanted.buffer];
    output.lies = DeviceName::of(instance.id, wanted.buffer);
    output.offset = total.count;
    total += output.size;
    const size_t uses = loaded.program->uses(wanted.buffer);
    if (output.as_object && uses > kFewUses && output.size <= kBytesForAUse * uses) {
      // Else all of these kernels would have to look elsewhere in the next request.
      CUdeviceptr copy = 0;
      const DeviceName name = DeviceName::of(instance.id, wanted.buffer | kCopiedOutput);
      if (has_share_for(instance, name, output.size) &&
          place_own(instance, name.number, output.size, true, &copy).ok()) {
        RETURN_IF_ERROR(loaded.stream().copy_on_device(copy, output.from, output.size));
        output.lies = name;
      }
    }
    request.outputs.push_back(std::move(output));
  }
  request.outputs_inline = total <= loaded.out->size();
  if (!request.outputs_inline) return {};
  char* out = static_cast<char*>(loaded.out->pointer());
  for (const WantedOutput& output : request.outputs) {
    RETURN_IF_ERROR(loaded.stream().copy_to_host(out + output.offset, output.from, output.size));
  }
  return {};
}

}  // namespace lambent::executor
