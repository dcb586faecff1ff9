#include "gpu/executor/requests.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "core/base/packet.h"
#include "gpu/executor/file_io.h"

namespace lambent::executor {

using Stage = RequestUnderWay::Stage;

namespace {

// Objects of one answer: their files travel with it, beside its payload.
constexpr size_t kMostObjects = kMostPacketFds - 1;

Result<std::string> payload_of(const OwnedFd& file) {
  struct stat status {};
  if (fstat(file.get(), &status) != 0) return error_from_errno("fstat of a payload", errno);
  const auto size = static_cast<uint64_t>(status.st_size);
  std::string payload(size, '\0');
  RETURN_IF_ERROR(read_fully(file.get(), 0, payload.data(), size));
  return payload;
}

Result<void> check_outputs(const kernel_graph::Request& request) {
  const auto objects = std::count_if(request.outputs.begin(), request.outputs.end(),
                                     [](const auto& output) { return output.as_object; });
  if (static_cast<size_t>(objects) <= kMostObjects) return {};
  return Error{ErrorCode::kOutOfRange, "outputs: a request can make " +
                                           std::to_string(kMostObjects) + " objects, not " +
                                           std::to_string(objects)};
}

bool waits_for_contents(const RequestUnderWay& request) {
  return request.stage == Stage::kContents || request.run.awaits_constant();
}

}  // namespace

Requests::Requests(Dependencies dependencies, bool pipelined, Hooks hooks)
    : with_(dependencies),
      pipelined_(pipelined),
      hooks_(std::move(hooks)),
      early_(with_.connection, with_.loop.clock()),
      decodes_(std::make_unique<DeviceThread>(with_.loop, with_.context)),
      writer_(std::make_unique<AnswerWriter>(with_.loop, with_.context, with_.to_host)) {}

void Requests::stop() {
  decodes_.reset();
  writer_.reset();
}

RequestUnderWay* Requests::find(SandboxId instance) {
  const auto found = requests_.find(instance);
  return found == requests_.end() ? nullptr : found->second.get();
}

RequestUnderWay* Requests::find(SandboxId instance, uint64_t number) {
  RequestUnderWay* request = find(instance);
  return request != nullptr && request->number == number ? request : nullptr;
}

void Requests::send_error(const InvocationId& invocation, Error error) {
  protocol::Finished finished;
  finished.invocation = invocation;
  finished.error = std::move(error);
  with_.connection.send(std::move(finished));
}

void Requests::start(const RequestedInstance& instance, Instant received, protocol::Run message,
                     std::vector<OwnedFd> fds) {
  if (message.payload_attached && fds.empty()) {
    return send_error(message.invocation, {ErrorCode::kInvalidArgument, "a payload did not come"});
  }
  const uint64_t number = ++last_number_;
  auto made = std::make_unique<RequestUnderWay>(
      number, instance, with_.store, with_.contents, with_.layers,
      [this, id = instance.id, number](CUresult result) {
        with_.loop.post([this, id, number, result] { layer_ended(id, number, result); });
      });
  RequestUnderWay& request = *made;
  requests_.emplace(instance.id, std::move(made));
  request.received = received;
  request.on_device = when_device_answers(request);
  request.message = std::move(message);
  if (request.message.payload_attached) {
    decode_elsewhere(request, std::move(fds.front()));
  } else {
    decode(request);
  }
}

void Requests::decode(RequestUnderWay& request) {
  auto decoded =
      request.instance.loaded.codec.decode(request.message.content_type, request.message.payload);
  if (!decoded.ok()) return fail(request, decoded.error());
  request.request = std::move(*decoded);
  gather(request);
}

// Long ones are read, and decoded, by another thread. The request stays until then.
void Requests::decode_elsewhere(RequestUnderWay& request, OwnedFd payload) {
  request.stage = Stage::kCopyIn;
  auto outcome = std::make_shared<Result<void>>();
  auto file = std::make_shared<OwnedFd>(std::move(payload));
  decodes_->run(
      [&request, file, outcome] {
        *outcome = [&]() -> Result<void> {
          auto& message = request.message;
          ASSIGN_OR_RETURN(message.payload, payload_of(*file));
          ASSIGN_OR_RETURN(request.request, request.instance.loaded.codec.decode(
                                                message.content_type, message.payload));
          return {};
        }();
      },
      [this, &request, outcome] {
        if (request.run.is_withdrawn()) return end_withdrawn(request);
        request.stage = Stage::kContents;
        if (!outcome->ok()) return fail(request, outcome->error());
        gather(request);
      });
}

// Pins what comes from elsewhere; goes on when all of it is there.
void Requests::gather(RequestUnderWay& request) {
  request.awaits_room = false;
  if (auto good = check_outputs(request.request); !good.ok()) return fail(request, good.error());
  const auto complete = request.buffers.gather(request.request, pipelined_);
  if (!complete.ok()) {
    return await_room(request, complete.error()) ? void() : fail(request, complete.error());
  }
  if (!*complete) return;
  request.began = with_.loop.clock().now();
  auto placed = request.buffers.place();
  if (!placed.ok()) {
    return await_room(request, placed.error()) ? void() : fail(request, placed.error());
  }
  request.stage = Stage::kCopyIn;
  auto copies = request.buffers.queue_inputs(request.request);
  if (!copies.ok()) return fail(request, copies.error());
  if (copies->empty()) return copied_in(request);
  copy_in(request, std::move(*copies));
}

// What is exported to others stays where it is until they have it, which is soon; pages of layers
// that lie free go to the device; and kept objects can be evicted once they are written. A request
// for which there is too little memory meanwhile tries again then.
bool Requests::await_room(RequestUnderWay& request, const Error& error) {
  const bool is_short = error.code == ErrorCode::kResourceExhausted;
  if (is_short && with_.layers != nullptr && with_.layers->pages().size() > Bytes(0) &&
      !std::exchange(request.has_asked_for_pages, true)) {
    ++pages_asked_;
    with_.layers->give_to_device([this] {
      --pages_asked_;
      if (!with_.watch.has_ended()) hooks_.progress();
    });
  }
  const bool writes = is_short && with_.kept.make_room();
  request.awaits_room = is_short && (pages_asked_ > 0 || !with_.exports.empty() || writes);
  return request.awaits_room;
}

// The request goes on when all of them are on their way: its stream waits for them.
void Requests::copy_in(RequestUnderWay& request, std::vector<TransferPiece> pieces) {
  const auto last = static_cast<uint32_t>(pieces.size() - 1);
  const SandboxId id = request.instance.id;
  TransferEngine::Transfer transfer;
  transfer.owner = user_of(id);
  transfer.urgent = true;
  transfer.pieces = std::move(pieces);
  transfer.on_queued = [this, last, id, number = request.number](uint32_t piece,
                                                                 const cuda::Event& arrival) {
    RequestUnderWay* waiting = find(id, number);
    if (piece != last || waiting == nullptr) return;
    const auto waits = waiting->instance.loaded.stream().wait_for(arrival);
    if (!waits.ok()) return fail(*waiting, waits.error());
    copied_in(*waiting);
  };
  transfer.on_end = [this, id, number = request.number](Result<void> outcome) {
    RequestUnderWay* waiting = find(id, number);
    if (outcome.ok() || waiting == nullptr) return;
    // Once it runs, only a broken context can be the cause, and its stream tells of that too.
    if (waiting->stage == Stage::kCopyIn) fail(*waiting, outcome.error());
  };
  with_.to_device.start(std::move(transfer));
}

void Requests::copied_in(RequestUnderWay& request) {
  request.launched_at = with_.loop.clock().now();
  request.stage = Stage::kRunning;
  request.run.begin(request.buffers.addresses(), request.request.variant);
  advance(request);
}

// Queues what the device can do without the host, and a call back when it has.
void Requests::advance(RequestUnderWay& request) {
  const auto next = request.run.advance();
  if (request.run.has_launched_apart() && !std::exchange(has_printed_apart_, true)) {
    std::fprintf(stderr, "lambent-executor: calls of cuBLAS are not launched as graphs: %s\n",
                 to_string(*request.instance.loaded.program->why_apart()).c_str());
  }
  if (!next.ok()) return fail(request, next.error());
  Result<void> queued;
  if (*next == ProgramRun::Next::kEnd) queued = end_program(request);
  if (*next == ProgramRun::Next::kDevice) queued = call_back(request);
  if (!queued.ok()) fail(request, queued.error());
}

Result<void> Requests::end_program(RequestUnderWay& request) {
  ASSIGN_OR_RETURN(request.outputs, request.buffers.queue_outputs(
                                        request.request, request.message.invocation, with_.kept));
  EarlyAnswers::prepare(request);
  writer_->prepare(request);
  return call_back(request);
}

Result<void> Requests::call_back(RequestUnderWay& request) {
  const auto on_answer = [](CUstream, CUresult result, void* waiting) {
    static_cast<RequestUnderWay*>(waiting)->on_device(result);
  };
  return request.instance.loaded.stream().call_back(on_answer, &request);
}

void Requests::progress() {
  std::vector<SandboxId> waiting;
  for (const auto& [id, request] : requests_) {
    if (waits_for_contents(*request)) waiting.push_back(id);
  }
  for (const SandboxId id : waiting) {
    RequestUnderWay* request = find(id);
    if (with_.watch.has_ended() || request == nullptr || !waits_for_contents(*request)) continue;
    if (request->run.awaits_constant()) {
      advance(*request);
    } else {
      gather(*request);
    }
  }
}

void Requests::layer_came(SandboxId instance) {
  RequestUnderWay* request = find(instance);
  if (with_.watch.has_ended() || request == nullptr) return;
  if (request->run.awaits_layer()) advance(*request);
}

void Requests::withdraw(SandboxId instance) {
  RequestUnderWay& request = *requests_.at(instance);
  request.run.withdraw();
  if (request.run.awaits_constant() || request.run.awaits_layer() || request.awaits_room) {
    return fail(request, {ErrorCode::kUnavailable, "it was removed"});
  }
  // What another thread or the device still works on goes when that has ended.
  if (request.stage == Stage::kContents) end_withdrawn(request);
}

void Requests::look_for_faults() {
  for (const auto& [id, request] : requests_) {
    const auto idle = request->instance.loaded.stream().is_idle();
    if (!idle.ok() && with_.watch.end_if_broken(idle.error(), id)) return;
  }
}

void Requests::blame(SandboxId suspect, const Error& error) {
  const RequestUnderWay* request = find(suspect);
  if (request == nullptr || request->run.is_withdrawn() || requests_.size() != 1) return;
  send_error(request->message.invocation, error);
}

}  // namespace lambent::executor
