// The executor's requests: from a Run until the device has done its work. Each stage ends by asking
// another thread or the device to do something; its answer on the loop begins the next.
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/check.h"
#include "core/base/packet.h"
#include "core/domain/limits.h"
#include "gpu/executor/executor.h"
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

Error busy(const char* why) { return {ErrorCode::kFailedPrecondition, why}; }

}  // namespace

void Executor::handle(protocol::Run message, std::vector<OwnedFd> fds) {
  const Instant received = loop_.clock().now();
  const auto refuse = [&](Error error) {
    protocol::Finished finished;
    finished.invocation = message.invocation;
    finished.error = std::move(error);
    connection_.send(std::move(finished));
  };
  Instance* instance = find(message.instance);
  if (instance == nullptr || instance->is_removed) {
    return refuse({ErrorCode::kNotFound, "there is no such instance"});
  }
  if (instance->request != nullptr) return refuse(busy("the instance has a request already"));
  if (!instance->is_in) return refuse(busy("the instance's memory is out"));
  if (!instance->is_usable) return refuse(busy("the instance is not ready"));
  if (message.payload_attached && fds.empty()) {
    return refuse({ErrorCode::kInvalidArgument, "a payload did not come"});
  }
  instance->request = std::make_unique<RequestUnderWay>();
  RequestUnderWay& request = *instance->request;
  request.number = ++requests_;
  request.received = received;
  // Of which nothing is there any more once the request was answered.
  request.on_device = [this, id = instance->id, number = request.number,
                       &request](CUresult result) {
    Executor& executor = *this;
    const SandboxId instance_id = id;
    const uint64_t request_number = number;
    auto unsent =
        result == CUDA_SUCCESS ? executor.answer_early(instance_id, request) : std::nullopt;
    executor.loop_.post(
        [&executor, instance_id, request_number, result, unsent = std::move(unsent)] {
          if (unsent) return executor.answered_early(*unsent);
          executor.device_answered(instance_id, request_number, result);
        });
  };
  request.on_layer = [this, id = instance->id, number = request.number](CUresult result) {
    loop_.post([this, id, number, result] { layer_ended(id, number, result); });
  };
  request.message = std::move(message);
  if (!request.message.payload_attached) return decode(*instance);

  // Long ones are read, and understood, where that holds nobody up. The request stays until then.
  request.stage = Stage::kCopyIn;
  auto outcome = std::make_shared<Result<void>>();
  auto file = std::make_shared<OwnedFd>(std::move(fds.front()));
  decodes_->run(
      [&request, &codec = instance->loaded->codec, file, outcome] {
        *outcome = [&]() -> Result<void> {
          ASSIGN_OR_RETURN(request.message.payload, payload_of(*file));
          ASSIGN_OR_RETURN(request.request,
                           codec.decode(request.message.content_type, request.message.payload));
          return {};
        }();
      },
      [this, id = instance->id, number = request.number, outcome] {
        Instance* waiting = find_request(id, number);
        if (waiting->is_removed) return remove(id);
        waiting->request->stage = Stage::kContents;
        if (!outcome->ok()) return fail(*waiting, outcome->error());
        gather(*waiting);
      });
}

void Executor::decode(Instance& instance) {
  RequestUnderWay& request = *instance.request;
  auto decoded =
      instance.loaded->codec.decode(request.message.content_type, request.message.payload);
  if (!decoded.ok()) return fail(instance, decoded.error());
  request.request = std::move(*decoded);
  gather(instance);
}

Result<void> Executor::check_outputs(const kernel_graph::Request& request) const {
  const auto objects = std::count_if(request.outputs.begin(), request.outputs.end(),
                                     [](const auto& output) { return output.as_object; });
  if (static_cast<size_t>(objects) <= kMostObjects) return {};
  return Error{ErrorCode::kOutOfRange, "outputs: a request can make " +
                                           std::to_string(kMostObjects) + " objects, not " +
                                           std::to_string(objects)};
}

void Executor::handle(protocol::ObjectOpened message, std::vector<OwnedFd> fds) {
  fds.resize(std::max<size_t>(fds.size(), 2));
  contents_->opened(message, std::move(fds[0]), std::move(fds[1]));
}

// Pins what comes from elsewhere; goes on when all of it is there.
void Executor::gather(Instance& instance) {
  RequestUnderWay& request = *instance.request;
  request.awaits_room = false;
  if (auto good = check_outputs(request.request); !good.ok()) return fail(instance, good.error());
  const auto complete = gather_contents(instance);
  if (!complete.ok()) {
    return await_room(instance, complete.error()) ? void() : fail(instance, complete.error());
  }
  if (!*complete) return;
  request.began = loop_.clock().now();
  auto placed = place_buffers(instance);
  if (!placed.ok()) {
    return await_room(instance, placed.error()) ? void() : fail(instance, placed.error());
  }
  request.stage = Stage::kCopyIn;
  auto copies = queue_inputs(instance);
  if (!copies.ok()) return fail(instance, copies.error());
  if (copies->empty()) return copied_in(instance);

  copy_in(instance, std::move(*copies));
}

// The request goes on when all of them are on their way: its stream waits for them.
void Executor::copy_in(Instance& instance, std::vector<TransferPiece> pieces) {
  const auto last = static_cast<uint32_t>(pieces.size() - 1);
  TransferEngine::Transfer transfer;
  transfer.owner = user_of(instance.id);
  transfer.urgent = true;
  transfer.pieces = std::move(pieces);
  transfer.on_queued = [this, last, id = instance.id, number = instance.request->number](
                           uint32_t piece, const cuda::Event& arrival) {
    Instance* waiting = find_request(id, number);
    if (piece != last || waiting == nullptr) return;
    const auto waits = waiting->loaded->stream().wait_for(arrival);
    if (!waits.ok()) return fail(*waiting, waits.error());
    copied_in(*waiting);
  };
  transfer.on_end = [this, id = instance.id,
                     number = instance.request->number](Result<void> outcome) {
    Instance* waiting = find_request(id, number);
    if (outcome.ok() || waiting == nullptr) return;
    // Once it runs, only a broken context can be the cause, and its stream tells of that too.
    if (waiting->request->stage == Stage::kCopyIn) fail(*waiting, outcome.error());
  };
  to_device_->start(std::move(transfer));
}

void Executor::copied_in(Instance& instance) {
  RequestUnderWay& request = *instance.request;
  request.launched_at = loop_.clock().now();
  request.stage = Stage::kRunning;
  note_coming(instance);
  instance.loaded->program->bind(request.addresses);
  advance(instance);
}

void Executor::advance(Instance& instance) {
  for (;;) {
    const auto goes_on = step(instance);
    if (!goes_on.ok()) return fail(instance, goes_on.error());
    if (!*goes_on) return;
  }
}

// One instruction, or as much of it as may be queued; false if the device has to answer first.
Result<bool> Executor::step(Instance& instance) {
  RequestUnderWay& request = *instance.request;
  LoadedInstance& loaded = *instance.loaded;
  const auto& instructions = loaded.program->instructions();
  if (request.instruction == instructions.size()) {
    RETURN_IF_ERROR(queue_outputs(instance));
    prepare_early(instance);
    RETURN_IF_ERROR(call_back(instance));
    return false;
  }
  const Instruction& now = instructions[request.instruction];
  switch (now.kind) {
    case Instruction::Kind::kLaunch: {
      ASSIGN_OR_RETURN(const bool all, launch(instance, now));
      if (!all) return false;
      ++request.instruction;
      break;
    }
    case Instruction::Kind::kLayer: {
      ASSIGN_OR_RETURN(const bool begun, begin_layer(instance, now.graph));
      if (!begun) return false;
      ++request.instruction;
      break;
    }
    case Instruction::Kind::kLoop:
      return launch_loop(instance, now);
    case Instruction::Kind::kZeroFlag:
      RETURN_IF_ERROR(loaded.stream().zero(request.addresses[now.buffer], Bytes(4)));
      ++request.instruction;
      break;
    case Instruction::Kind::kBegin:
      request.rounds.push_back(now.times);
      ++request.instruction;
      break;
    case Instruction::Kind::kCheck:
      request.reads_flag = true;
      RETURN_IF_ERROR(loaded.stream().copy_to_host(loaded.out->pointer(),
                                                   request.addresses[now.buffer], Bytes(4)));
      RETURN_IF_ERROR(call_back(instance));
      return false;
    case Instruction::Kind::kEnd:
      if (--request.rounds.back() > 0) {
        request.instruction = now.target;
      } else {
        request.rounds.pop_back();
        ++request.instruction;
      }
      break;
  }
  return true;
}

Result<void> Executor::call_back(Instance& instance) {
  instance.request->queued = 0;
  const auto on_answer = [](CUstream, CUresult result, void* request) {
    static_cast<RequestUnderWay*>(request)->on_device(result);
  };
  return instance.loaded->stream().call_back(on_answer, instance.request.get());
}

void Executor::device_answered(SandboxId id, uint64_t number, CUresult result) {
  if (watch_.has_ended()) return;
  Instance* instance = find_request(id, number);
  CHECK(instance != nullptr, "a request stays while the device works on it");
  RequestUnderWay& request = *instance->request;
  if (const auto good = driver_.check(result, "kernels"); !good.ok()) {
    return fail(*instance, good.error());
  }
  if (request.failure) return fail(*instance, *request.failure);
  if (instance->is_removed) return remove(id);
  const auto& instructions = instance->loaded->program->instructions();
  if (request.instruction == instructions.size()) {
    request.ran = loop_.clock().now();
    if (has_layers(*instance)) layers_->end(instance->id);
    return copy_out(*instance);
  }
  if (std::exchange(request.reads_flag, false)) {
    uint32_t flag = 0;
    memcpy(&flag, instance->loaded->out->pointer(), sizeof(flag));
    if (flag != 0) {
      request.rounds.pop_back();
      request.instruction = instructions[request.instruction].target;
    } else {
      ++request.instruction;
    }
  }
  advance(*instance);
}

}  // namespace lambent::executor
