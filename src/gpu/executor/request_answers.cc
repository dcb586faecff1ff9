// Requests: from the device's answer to a Finished, or to an error.
#include <set>
#include <utility>

#include "core/base/check.h"
#include "gpu/executor/requests.h"

namespace lambent::executor {

using Stage = RequestUnderWay::Stage;

namespace {

constexpr size_t kNamedKernels = 4;

void add_kernels(const std::vector<kernel_graph::Step>& steps, std::set<std::string>& names) {
  for (const auto& step : steps) {
    if (const auto* launch = std::get_if<kernel_graph::Launch>(&step)) {
      names.insert(launch->kernel);
    } else {
      add_kernels(std::get<kernel_graph::Repeat>(step).steps, names);
    }
  }
}

// A fault does not report its kernel: these may have done it.
Error explain(const kernel_graph::KernelGraph& graph, const Error& error) {
  std::set<std::string> names;
  add_kernels(graph.steps, names);
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

}  // namespace

protocol::Finished begin_finished(const RequestUnderWay& request) {
  protocol::Finished finished;
  finished.invocation = request.message.invocation;
  finished.objects_time = request.began - request.received;
  finished.copy_in_time = request.launched_at - request.began;
  finished.device_memory = finished.device_memory_peak = request.buffers.pinned_size();
  return finished;
}

// What the driver calls back. It lies in the request, which is gone once it was answered: from then
// on only what is copied here is used.
std::function<void(CUresult)> Requests::when_device_answers(RequestUnderWay& request) {
  return [this, id = request.instance.id, number = request.number, &request](CUresult result) {
    Requests& requests = *this;
    loop::EventLoop& loop = with_.loop;
    const SandboxId instance = id;
    const uint64_t request_number = number;
    auto unsent = result == CUDA_SUCCESS ? requests.early_.answer(request) : std::nullopt;
    loop.post([&requests, instance, request_number, result, unsent = std::move(unsent)] {
      if (unsent) return requests.answered_early(*unsent);
      requests.device_answered(instance, request_number, result);
    });
  };
}

void Requests::answered_early(std::string unsent) {
  if (with_.watch.has_ended()) return;
  settle_answered();
  if (!unsent.empty()) with_.connection.send(std::move(unsent));
}

void Requests::settle_answered() {
  for (const SandboxId id : early_.take_answered()) {
    RequestUnderWay* request = find(id);
    CHECK(request != nullptr, "a request stays until it is settled");
    release(*request);
    hooks_.ended(id);
  }
}

void Requests::device_answered(SandboxId instance, uint64_t number, CUresult result) {
  if (with_.watch.has_ended()) return;
  RequestUnderWay* found = find(instance, number);
  CHECK(found != nullptr, "a request stays while the device works on it");
  RequestUnderWay& request = *found;
  if (const auto good = with_.driver.check(result, "kernels"); !good.ok()) {
    return fail(request, good.error());
  }
  if (request.failure) return fail(request, *request.failure);
  if (request.run.is_withdrawn()) return end_withdrawn(request);
  if (!request.run.has_ended()) {
    request.run.device_answered();
    return advance(request);
  }
  request.ran = with_.loop.clock().now();
  if (request.instance.loaded.has_layers()) with_.layers->end(instance);
  request.stage = Stage::kCopyOut;
  writer_->write(request, [this, &request](Result<AnswerWriter::Answer> answer) {
    if (!answer.ok()) return fail(request, answer.error());
    if (request.run.is_withdrawn()) return end_withdrawn(request);
    send(request, std::move(*answer));
  });
}

void Requests::layer_ended(SandboxId instance, uint64_t number, CUresult result) {
  const RequestUnderWay* request = find(instance, number);
  // Of an error the next call back tells, or the look after requests.
  if (with_.watch.has_ended() || request == nullptr || result != CUDA_SUCCESS) return;
  if (request->stage != Stage::kRunning || request->failure) return;
  with_.layers->layer_ended(instance);
  layer_came(instance);
}

void Requests::send(RequestUnderWay& request, AnswerWriter::Answer answer) {
  const LoadedInstance& loaded = request.instance.loaded;
  const SandboxId id = request.instance.id;
  protocol::Finished finished = begin_finished(request);
  if (loaded.has_layers()) finished.device_memory_peak += with_.layers->peak(id);
  std::vector<OwnedFd> fds;
  finished.content_type = std::string(kernel_graph::RequestCodec::content_type(request.request));
  finished.payload_attached = answer.file.valid();
  if (finished.payload_attached) {
    fds.push_back(std::move(answer.file));
  } else {
    finished.payload = std::move(answer.payload);
  }
  auto& outputs = request.outputs.all;
  for (uint32_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].as_object) continue;
    finished.objects.push_back({outputs[i].object, outputs[i].type, i, outputs[i].is_kept});
    if (!outputs[i].is_kept) fds.push_back(std::move(outputs[i].file));
  }
  finished.run_time = request.ran - request.launched_at;
  finished.copy_out_time = with_.loop.clock().now() - request.ran;
  finished.device_memory -= request.buffers.keep_objects(outputs);
  // First what was made, because some of it may have to go at once.
  with_.connection.send(std::move(finished), std::move(fds));
  for (const WantedOutput& output : outputs) {
    if (output.is_kept) with_.kept.keep(output.object);
  }
  release(request);
  hooks_.ended(id);
}

// The request ends with an error; what is queued for it ends first.
void Requests::fail(RequestUnderWay& request, Error error) {
  const SandboxId id = request.instance.id;
  const LoadedInstance& loaded = request.instance.loaded;
  request.run.stop_waiting();
  // The call that met a fault may have reported another error.
  if (const auto fault = with_.watch.fault()) error = with_.driver.check(*fault, "kernels").error();
  const bool has_run = request.stage == Stage::kRunning;
  if (with_.watch.end_if_broken(has_run ? explain(loaded.graph, error) : error, id)) return;
  const auto idle = loaded.stream().is_idle();
  if (idle.ok() && !*idle) {
    request.stage = Stage::kRunning;
    request.failure = std::move(error);
    const auto queued = call_back(request);
    if (!queued.ok()) with_.watch.end_if_broken(queued.error(), id);
    return;
  }
  if (request.run.is_withdrawn()) return end_withdrawn(request);
  protocol::Finished finished;
  finished.invocation = request.message.invocation;
  finished.error = std::move(error);
  finished.subject = request.buffers.subject();
  release(request);
  with_.connection.send(std::move(finished));
  hooks_.ended(id);
}

void Requests::end_withdrawn(RequestUnderWay& request) {
  const SandboxId id = request.instance.id;
  const InvocationId invocation = request.message.invocation;
  release(request);
  send_error(invocation, {ErrorCode::kUnavailable, "the instance was removed"});
  hooks_.ended(id);
}

// The request is gone afterwards.
void Requests::release(RequestUnderWay& request) {
  const SandboxId id = request.instance.id;
  request.buffers.release();
  if (request.instance.loaded.has_layers()) with_.layers->end(id);
  requests_.erase(id);
  if (with_.layers != nullptr) with_.layers->room_came();
}

}  // namespace lambent::executor
