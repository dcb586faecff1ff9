// The executor's answers: from what the device has computed to a Finished, or to an error.
#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "core/base/sealed_memory.h"
#include "gpu/executor/executor.h"

namespace lambent::executor {

using Stage = RequestUnderWay::Stage;

namespace {

// An answer by value that is larger is written by another thread.
constexpr Bytes kInlineAnswer = Bytes::kib(64);
constexpr size_t kNamedKernels = 4;

}  // namespace

void Executor::copy_out(Instance& instance) {
  RequestUnderWay& request = *instance.request;
  request.stage = Stage::kCopyOut;
  const char* out = static_cast<const char*>(instance.loaded->out->pointer());
  for (WantedOutput& output : request.outputs) {
    if (!output.as_object) {
      if (!request.outputs_inline) output.bytes.resize(output.size.count);
      continue;
    }
    auto file = request.outputs_inline ? sealed_memory({out + output.offset, output.size.count})
                                       : new_memory(output.size);
    if (!file.ok()) return fail(instance, file.error());
    output.file = std::move(*file);
  }
  if (request.outputs_inline) return answer(instance);

  TransferEngine::Transfer transfer;
  transfer.owner = user_of(instance.id);
  for (WantedOutput& output : request.outputs) {
    transfer.pieces.push_back({.device = output.from, .size = output.size});
    if (output.as_object) {
      transfer.pieces.back().fd = output.file.get();
    } else {
      transfer.pieces.back().pointer = output.bytes.data();
    }
  }
  transfer.on_end = [this, id = instance.id, number = request.number](Result<void> outcome) {
    Instance* waiting = find_request(id, number);
    if (!outcome.ok()) return fail(*waiting, outcome.error());
    seal_objects(*waiting);
  };
  to_host_->start(std::move(transfer));
}

// Of a large file that takes its time.
void Executor::seal_objects(Instance& instance) {
  RequestUnderWay& request = *instance.request;
  const bool has_objects = std::any_of(request.outputs.begin(), request.outputs.end(),
                                       [](const auto& output) { return output.as_object; });
  if (!has_objects) return answer(instance);
  auto outcome = std::make_shared<Result<void>>();
  answers_->run(
      [&request, outcome] {
        for (const WantedOutput& output : request.outputs) {
          if (outcome->ok() && output.as_object) *outcome = seal(output.file.get());
        }
      },
      [this, id = instance.id, number = request.number, outcome] {
        Instance* waiting = find_request(id, number);
        if (!outcome->ok()) return fail(*waiting, outcome->error());
        answer(*waiting);
      });
}

void Executor::answer(Instance& instance) {
  RequestUnderWay& request = *instance.request;
  if (instance.is_removed) return remove(instance.id);
  const char* out = static_cast<const char*>(instance.loaded->out->pointer());
  Bytes by_value;
  std::vector<kernel_graph::AnswerOutput> outputs;
  for (const WantedOutput& output : request.outputs) {
    if (output.as_object) {
      outputs.push_back({.object = output.object});
      continue;
    }
    by_value += output.size;
    outputs.push_back({.bytes = request.outputs_inline
                                    ? std::string_view(out + output.offset, output.size.count)
                                    : std::string_view(output.bytes)});
  }
  // What cannot be sent is found out before anything becomes an object.
  struct Encoded {
    Result<std::string> payload = std::string();
    OwnedFd file;
  };
  auto encoded = std::make_shared<Encoded>();
  auto write = [&request, &codec = instance.loaded->codec, outputs = std::move(outputs), encoded] {
    encoded->payload = codec.encode(request.request, outputs);
    if (!encoded->payload.ok()) return;
    if (encoded->payload->size() <= protocol::kInlinePayload.count) return;
    auto file = sealed_memory(*encoded->payload);
    if (file.ok()) {
      encoded->file = std::move(*file);
    } else {
      encoded->payload = file.error();
    }
  };
  auto send = [this, id = instance.id, number = request.number, encoded] {
    Instance* waiting = find_request(id, number);
    if (waiting->is_removed) return remove(id);
    if (!encoded->payload.ok()) return fail(*waiting, encoded->payload.error());
    RequestUnderWay& answered = *waiting->request;
    protocol::Finished finished = begin_finished(*waiting);
    std::vector<OwnedFd> fds;
    finished.content_type = std::string(kernel_graph::RequestCodec::content_type(answered.request));
    finished.payload_attached = encoded->file.valid();
    if (finished.payload_attached) {
      fds.push_back(std::move(encoded->file));
    } else {
      finished.payload = std::move(*encoded->payload);
    }
    for (uint32_t i = 0; i < answered.outputs.size(); ++i) {
      WantedOutput& output = answered.outputs[i];
      if (!output.as_object) continue;
      const auto& type = waiting->loaded->graph.buffers[output.buffer].type;
      finished.objects.push_back({output.object, type, i});
      fds.push_back(std::move(output.file));
    }
    finish(*waiting, std::move(finished), std::move(fds));
  };
  if (by_value <= kInlineAnswer) {
    write();
    send();
  } else {
    answers_->run(std::move(write), std::move(send));
  }
}

// What is known before its end.
protocol::Finished Executor::begin_finished(const Instance& instance) const {
  const RequestUnderWay& request = *instance.request;
  protocol::Finished finished;
  finished.invocation = request.message.invocation;
  finished.objects_time = request.began - request.received;
  finished.copy_in_time = request.launched_at - request.began;
  const std::set<DeviceName> counted(request.pinned.begin(), request.pinned.end());
  for (const DeviceName& name : counted) {
    if (const auto* entry = store_->find(name)) finished.device_memory_peak += entry->size;
  }
  finished.device_memory = finished.device_memory_peak;
  if (has_layers(instance)) finished.device_memory_peak += layers_->peak(instance.id);
  return finished;
}

void Executor::finish(Instance& instance, protocol::Finished finished, std::vector<OwnedFd> fds) {
  RequestUnderWay& request = *instance.request;
  finished.run_time = request.ran - request.launched_at;
  finished.copy_out_time = loop_.clock().now() - request.ran;
  for (WantedOutput& output : request.outputs) {
    if (!output.as_object) continue;
    // It stays where it is, by another name; the instance takes another place next time.
    const auto pin = std::find(request.pinned.begin(), request.pinned.end(), output.lies);
    const DeviceName name = DeviceName::of(output.object);
    // An invocation that is run again makes the same objects again.
    store_->drop(name);
    if (store_->find(name) != nullptr) continue;
    store_->rename(output.lies, name);
    DeviceStore::Entry& entry = *store_->find(name);
    entry.type = instance.loaded->graph.buffers[output.buffer].type;
    finished.device_memory -= entry.size;
    *pin = name;
  }
  // First what was made, for some of it may have to go at once.
  connection_.send(std::move(finished), std::move(fds));
  release(instance);
}

void Executor::release(Instance& instance) {
  for (const uint64_t ticket : instance.request->needs) store_->unneed(ticket);
  for (const DeviceName& name : instance.request->pinned) store_->unpin(name);
  if (has_layers(instance)) layers_->end(instance.id);
  instance.request.reset();
  instance.last_request = loop_.now();
  trimmer_->watch();
  settle_in(instance);
  if (layers_ != nullptr) layers_->room_came();
}

// A fault says nothing of its kernel: these may have done it.
Error Executor::explain(const Instance& instance, const Error& error) const {
  std::set<std::string> names;
  const std::function<void(const std::vector<kernel_graph::Step>&)> collect =
      [&](const std::vector<kernel_graph::Step>& steps) {
        for (const auto& step : steps) {
          if (const auto* launch = std::get_if<kernel_graph::Launch>(&step)) {
            names.insert(launch->kernel);
          } else {
            collect(std::get<kernel_graph::Repeat>(step).steps);
          }
        }
      };
  collect(instance.loaded->graph.steps);
  std::string list;
  size_t named = 0;
  for (const std::string& name : names) {
    if (named++ == kNamedKernels) {
      list += ", ...";
      break;
    }
    list += (list.empty() ? "" : ", ") + name;
  }
  return {ErrorCode::kInternal,
          (names.size() == 1 ? "kernel " : "one of the kernels ") + list + ": " + error.message};
}

// The request ends with an error; what is queued for it ends first.
void Executor::fail(Instance& instance, Error error) {
  RequestUnderWay& request = *instance.request;
  request.awaits_constant = request.awaits_layer = false;
  // The call that met a fault may have said something else of it.
  if (const auto fault = watch_.fault()) error = driver_.check(*fault, "kernels").error();
  if (watch_.end_if_broken(request.stage == Stage::kRunning ? explain(instance, error) : error,
                           instance.id)) {
    return;
  }
  const auto idle = instance.loaded->stream().is_idle();
  if (idle.ok() && !*idle) {
    request.stage = Stage::kRunning;
    request.failure = std::move(error);
    const auto queued = call_back(instance);
    if (!queued.ok()) watch_.end_if_broken(queued.error(), instance.id);
    return;
  }
  if (instance.is_removed) return remove(instance.id);
  protocol::Finished finished;
  finished.invocation = request.message.invocation;
  finished.error = std::move(error);
  finished.subject = request.subject;
  release(instance);
  connection_.send(std::move(finished));
}

}  // namespace lambent::executor
