#include "gpu/executor/request_buffers.h"

#include <algorithm>
#include <set>
#include <utility>

#include "decide/kernel_graph/limits.h"
#include "gpu/executor/file_io.h"

namespace lambent::executor {

using kernel_graph::BufferRole;

namespace {

// An object that more kernels than this use is copied to where they look for it, unless it is so
// large that changing them takes less time (about a microsecond each).
constexpr size_t kFewUses = 8;
constexpr Bytes kBytesForAUse = Bytes::mib(1);

}  // namespace

RequestBuffers::RequestBuffers(RequestedInstance instance, DeviceStore& store, Contents& contents,
                               LayeredMemory* layers)
    : instance_(instance),
      store_(store),
      contents_(contents),
      layers_(layers),
      contents_at_(instance.loaded.graph.buffers.size(), 0) {}

void RequestBuffers::pin(const DeviceName& name) {
  store_.pin(name);
  pinned_.push_back(name);
}

void RequestBuffers::release() {
  for (const uint64_t ticket : std::exchange(needs_, {})) store_.unneed(ticket);
  for (const DeviceName& name : std::exchange(pinned_, {})) store_.unpin(name);
  // Those that have become objects go by other names.
  for (const DeviceName& name : std::exchange(parts_, {})) store_.drop(name);
}

Result<bool> RequestBuffers::gather(const kernel_graph::Request& request, bool pipelined) {
  subject_ = protocol::ErrorSubject::kRequest;
  ASSIGN_OR_RETURN(bool complete, gather_constants(pipelined));
  instance_.reserved.release();  // objects lie in what is reserved for inputs
  copied_.resize(request.inputs.size());
  elements_ = request.elements;
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const auto& input = request.inputs[i];
    if (!input.object) continue;
    const auto& buffer = instance_.loaded.graph.buffers[input.buffer];
    const TensorType type = instance_.loaded.codec.type_of(input.buffer, input.elements);
    const bool has_room_behind = request.variant != request.elements;
    const bool is_copied =
        buffer.role == BufferRole::kInOut || request.is_batch() || has_room_behind;
    const auto is_here =
        is_copied ? gather_file(i, *input.object, type) : gather_object(input, type);
    if (!is_here.ok()) {
      subject_ = contents_.has_failed(*input.object) ? protocol::ErrorSubject::kFailedInput
                                                     : protocol::ErrorSubject::kInput;
      return is_here.error().with_context("inputs[" + std::to_string(input.number) +
                                          "].parameters.object ('" + buffer.name + "')");
    }
    complete = complete && *is_here;
  }
  return complete;
}

Result<bool> RequestBuffers::gather_constants(bool pipelined) {
  const uint64_t user = user_of(instance_.id);
  bool complete = true;
  for (const Constant& constant : instance_.loaded.constants) {
    Contents::Content content;
    if (contents_at_[constant.buffer] == 0) {
      ASSIGN_OR_RETURN(content, contents_.pin_constant(constant, user));
      contents_at_[constant.buffer] = content.address;
      pinned_.push_back(constant.name);
    } else {
      ASSIGN_OR_RETURN(content, contents_.look(constant, user));
    }
    complete = complete && (content.is_here || pipelined);
  }
  return complete;
}

// An object that kernels read where it lies.
Result<bool> RequestBuffers::gather_object(const kernel_graph::RequestInput& input,
                                           const TensorType& type) {
  if (contents_at_[input.buffer] != 0) return true;
  ASSIGN_OR_RETURN(const auto address,
                   contents_.pin_object(*input.object, type, user_of(instance_.id)));
  if (!address) return false;
  contents_at_[input.buffer] = *address;
  pinned_.push_back(DeviceName::of(*input.object));
  return true;
}

// An object that is copied, because kernels write there or others of its batch lie beside it.
Result<bool> RequestBuffers::gather_file(size_t number, ObjectId object, const TensorType& type) {
  CopiedObject& copied = copied_[number];
  if (copied.file != nullptr) return true;
  const DeviceName name = DeviceName::of(object);
  const auto* entry = store_.find(name);
  if (copied.is_kept) {
    if (entry->is_kept || entry->leaves) return true;
    // It was written meanwhile: what it takes of the device may be what this request lacks.
    pinned_.erase(std::ranges::find(pinned_, name));
    store_.unpin(name);
    copied.is_kept = false;
  } else if (entry != nullptr && entry->is_kept) {
    // It has no file, and stays on the device in any case.
    RETURN_IF_ERROR(contents_.pin_object(object, type, user_of(instance_.id)));
    pinned_.push_back(name);
    copied.is_kept = true;
    return true;
  }
  ASSIGN_OR_RETURN(copied.file, contents_.host_object(object, type));
  if (copied.file == nullptr) return false;
  // It may have to go for the request's own copy: then that comes from the host.
  needs_.push_back(store_.need(name));
  return true;
}

// A place of the instance's own for a buffer. What it has not written itself before is zeroed,
// unless all of it will be overwritten before a kernel reads it.
Result<void> RequestBuffers::place_own(uint32_t buffer, Bytes size, Bytes overwritten,
                                       CUdeviceptr* address) {
  const DeviceName name = DeviceName::of(instance_.id, buffer);
  if (const auto* entry = store_.find(name)) {
    *address = entry->address;
    // A request that waited for an export comes here again with what it could place.
    if (std::ranges::find(pinned_, name) == pinned_.end()) pin(name);
    return {};
  }
  ASSIGN_OR_RETURN(const auto placed, store_.place(name, size, user_of(instance_.id)));
  *address = placed.address;
  if (!placed.own && overwritten < size) {
    const auto zeroed =
        instance_.loaded.stream().zero(placed.address + overwritten.count, size - overwritten);
    if (!zeroed.ok()) {
      store_.unpin(name);
      return zeroed;
    }
  }
  pinned_.push_back(name);
  return {};
}

Result<void> RequestBuffers::place() {
  const LoadedInstance& loaded = instance_.loaded;
  const auto& buffers = loaded.graph.buffers;
  addresses_ = contents_at_;
  if (loaded.plan.temporaries.count > 0) {
    CUdeviceptr block = loaded.window;
    if (loaded.has_layers()) {
      layers_->begin(instance_.id);
    } else {
      RETURN_IF_ERROR(
          place_own(DeviceName::kTemporaries, loaded.plan.temporaries, Bytes(0), &block));
    }
    for (uint32_t i = 0; i < buffers.size(); ++i) {
      if (buffers[i].role != BufferRole::kTemporary) continue;
      addresses_[i] = block + loaded.plan.offsets[i].count;
    }
  }
  // Of a graph with variants, kernels may read beyond what the request brings.
  for (const uint32_t i : loaded.codec.outputs()) {
    const bool comes_in = buffers[i].role == BufferRole::kInOut;
    const Bytes brought = comes_in ? loaded.codec.size_of(i, elements_) : Bytes(0);
    RETURN_IF_ERROR(place_own(i, loaded.plan.sizes[i], brought, &addresses_[i]));
  }
  for (const uint32_t i : loaded.codec.inputs()) {
    if (addresses_[i] != 0) continue;
    const Bytes brought = loaded.codec.size_of(i, elements_);
    RETURN_IF_ERROR(place_own(i, loaded.plan.sizes[i], brought, &addresses_[i]));
  }
  return {};
}

// Whether the instance's share has room for what its request has pinned and this too, if it is not
// pinned yet. A request that pins more takes from what others were promised; what it can do without
// it has to ask for here.
bool RequestBuffers::has_share_for(const DeviceName& name, Bytes size) const {
  const std::set<DeviceName> pinned(pinned_.begin(), pinned_.end());
  if (pinned.contains(name)) return true;
  Bytes sum = store_.rounded(size) + instance_.loaded.window_size();
  for (const DeviceName& each : pinned) sum += store_.find(each)->size;
  return sum <= instance_.memory;
}

Result<std::vector<TransferPiece>> RequestBuffers::queue_inputs(
    const kernel_graph::Request& request) {
  LoadedInstance& loaded = instance_.loaded;
  std::vector<TransferPiece> pieces;
  Bytes total;
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    ASSIGN_OR_RETURN(auto piece, queue_input(request, i));
    if (!piece) continue;
    total += piece->size;
    pieces.push_back(std::move(*piece));
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

// None: it needs no copy from the host.
Result<std::optional<TransferPiece>> RequestBuffers::queue_input(
    const kernel_graph::Request& request, size_t number) {
  const kernel_graph::RequestInput& input = request.inputs[number];
  const uint32_t i = input.buffer;
  const auto& codec = instance_.loaded.codec;
  const Bytes size = codec.size_of(i, input.elements);
  if (contents_at_[i] != 0) {
    RETURN_IF_ERROR(move_input(i, size));
    return std::optional<TransferPiece>();
  }
  TransferPiece piece;
  piece.device = addresses_[i] + codec.offset_of(i, input.first).count;
  piece.size = size;
  if (!input.object) {
    piece.pointer = const_cast<char*>(input.bytes.data());  // it is only read
    return std::optional(std::move(piece));
  }
  const DeviceName name = DeviceName::of(*input.object);
  const auto* entry = store_.find(name);
  if (entry != nullptr && entry->filled && has_share_for(name, piece.size)) {
    pin(name);
    RETURN_IF_ERROR(
        instance_.loaded.stream().copy_on_device(piece.device, entry->address, piece.size));
    return std::optional<TransferPiece>();
  }
  piece.fd = copied_[number].file->get();
  return std::optional(std::move(piece));
}

// Kernels look for an object where it lies, or it comes to where they look.
Result<void> RequestBuffers::move_input(uint32_t buffer, Bytes size) {
  const LoadedInstance& loaded = instance_.loaded;
  const size_t uses = loaded.program->uses(buffer);
  const bool cheap_to_copy = uses > kFewUses && size <= kBytesForAUse * uses;
  const Bytes whole = loaded.plan.sizes[buffer];
  CUdeviceptr own = 0;
  if (!cheap_to_copy || !has_share_for(DeviceName::of(instance_.id, buffer), whole)) return {};
  if (!place_own(buffer, whole, size, &own).ok()) return {};
  RETURN_IF_ERROR(loaded.stream().copy_on_device(own, contents_at_[buffer], size));
  addresses_[buffer] = own;
  return {};
}

Result<WantedOutputs> RequestBuffers::queue_outputs(const kernel_graph::Request& request,
                                                    const InvocationId& invocation,
                                                    const KeptObjects& kept) {
  LoadedInstance& loaded = instance_.loaded;
  WantedOutputs outputs;
  Bytes total = kFlagBytes, keeps;
  uint32_t objects = 0;
  for (size_t i = 0; i < request.outputs.size(); ++i) {
    const auto& wanted = request.outputs[i];
    WantedOutput output;
    output.buffer = wanted.buffer;
    output.size = loaded.codec.size_of(wanted.buffer, wanted.elements);
    output.as_object = wanted.as_object;
    // Counted in the caller's order, so that it knows their names before they exist.
    if (output.as_object) {
      output.type = loaded.codec.type_of(wanted.buffer, wanted.elements);
      output.object = {invocation, objects++};
    }
    output.from =
        addresses_[wanted.buffer] + loaded.codec.offset_of(wanted.buffer, wanted.first).count;
    output.lies = DeviceName::of(instance_.id, wanted.buffer);
    if (request.is_batch()) {
      RETURN_IF_ERROR(copy_part(output, i, wanted.on_device, keeps, kept));
    } else {
      RETURN_IF_ERROR(copy_output(output));
    }
    const bool may_keep = wanted.on_device && output.stays;
    const Bytes lies = may_keep ? store_.find(output.lies)->size : Bytes(0);
    const bool is_large = is_shareable(output.size) && is_shareable(lies);
    output.is_kept = is_large && kept.has_room(keeps + lies);
    if (output.is_kept) {
      keeps += lies;
    } else {
      output.offset = total.count;
      total += output.size;
    }
    outputs.all.push_back(std::move(output));
  }
  outputs.are_inline = total <= loaded.out->size();
  if (!outputs.are_inline) return outputs;
  char* out = static_cast<char*>(loaded.out->pointer());
  for (const WantedOutput& output : outputs.all) {
    if (output.is_kept) continue;
    RETURN_IF_ERROR(loaded.stream().copy_to_host(out + output.offset, output.from, output.size));
  }
  return outputs;
}

// Copies an object that many kernels write: else all of these would have to look elsewhere in the
// next request.
Result<void> RequestBuffers::copy_output(WantedOutput& output) {
  const LoadedInstance& loaded = instance_.loaded;
  const size_t uses = loaded.program->uses(output.buffer);
  if (!output.as_object || uses <= kFewUses || output.size > kBytesForAUse * uses) return {};
  CUdeviceptr copy = 0;
  const DeviceName name = DeviceName::of(instance_.id, output.buffer | kCopiedOutput);
  const Bytes whole = loaded.plan.sizes[output.buffer];
  if (!has_share_for(name, whole)) return {};
  if (!place_own(name.number, whole, output.size, &copy).ok()) return {};
  RETURN_IF_ERROR(loaded.stream().copy_on_device(copy, output.from, output.size));
  output.lies = name;
  return {};
}

// What other requests of the batch have made lies beside it, so that only a copy can become an
// object of its own. One that is to be kept takes memory beside the instance's, as others do when
// the instance takes another place for its next request.
Result<void> RequestBuffers::copy_part(WantedOutput& output, size_t number, bool on_device,
                                       Bytes keeps, const KeptObjects& kept) {
  output.stays = false;
  if (!output.as_object) return {};
  const DeviceName name = DeviceName::of(
      instance_.id, kCopiedOutput | static_cast<uint32_t>(limits::kGraphBuffers + number));
  const bool can_keep =
      on_device && is_shareable(output.size) && kept.has_room(keeps + store_.rounded(output.size));
  if (!can_keep && !has_share_for(name, output.size)) return {};
  const auto placed = store_.place(name, output.size, user_of(instance_.id));
  if (!placed.ok()) return {};
  pinned_.push_back(name);
  parts_.push_back(name);
  RETURN_IF_ERROR(
      instance_.loaded.stream().copy_on_device(placed->address, output.from, output.size));
  output.lies = name;
  output.stays = true;
  return {};
}

Bytes RequestBuffers::pinned_size() const {
  Bytes sum;
  for (const DeviceName& name : std::set<DeviceName>(pinned_.begin(), pinned_.end())) {
    if (const auto* entry = store_.find(name)) sum += entry->size;
  }
  return sum;
}

Bytes RequestBuffers::keep_objects(std::span<const WantedOutput> outputs) {
  Bytes kept;
  for (const WantedOutput& output : outputs) {
    if (!output.as_object || !output.stays) continue;
    // It stays where it is, by another name; the instance takes another place next time.
    const auto pin = std::find(pinned_.begin(), pinned_.end(), output.lies);
    const DeviceName name = DeviceName::of(output.object);
    // An invocation that is run again makes the same objects again.
    store_.drop(name);
    if (store_.find(name) != nullptr) continue;
    store_.rename(output.lies, name);
    DeviceStore::Entry& entry = *store_.find(name);
    entry.type = output.type;
    kept += entry.size;
    *pin = name;
  }
  return kept;
}

}  // namespace lambent::executor
