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
  Seat* seat = find(message.seat);
  if (seat == nullptr || seat->is_removed) {
    return refuse({ErrorCode::kNotFound, "there is no such seat"});
  }
  if (seat->request != nullptr) return refuse(busy("the seat has a request already"));
  if (!seat->is_in) return refuse(busy("the seat's memory is out"));
  if (!seat->is_usable) return refuse(busy("the seat is not ready"));
  if (message.payload_attached && fds.empty()) {
    return refuse({ErrorCode::kInvalidArgument, "a payload did not come"});
  }
  seat->request = std::make_unique<RequestUnderWay>();
  RequestUnderWay& request = *seat->request;
  request.number = ++requests_;
  request.received = received;
  // Of which nothing is there any more once the request was answered.
  request.on_device = [this, id = seat->id, number = request.number, &request](CUresult result) {
    Executor& executor = *this;
    const SandboxId seat_id = id;
    const uint64_t request_number = number;
    auto unsent = result == CUDA_SUCCESS ? executor.answer_early(seat_id, request) : std::nullopt;
    executor.loop_.post([&executor, seat_id, request_number, result, unsent = std::move(unsent)] {
      if (unsent) return executor.answered_early(*unsent);
      executor.device_answered(seat_id, request_number, result);
    });
  };
  request.on_layer = [this, id = seat->id, number = request.number](CUresult result) {
    loop_.post([this, id, number, result] { layer_ended(id, number, result); });
  };
  request.message = std::move(message);
  if (!request.message.payload_attached) return decode(*seat);

  // Long ones are read, and understood, where that holds nobody up. The request stays until then.
  request.stage = Stage::kCopyIn;
  auto outcome = std::make_shared<Result<void>>();
  auto file = std::make_shared<OwnedFd>(std::move(fds.front()));
  decodes_->run(
      [&request, &codec = seat->loaded->codec, file, outcome] {
        *outcome = [&]() -> Result<void> {
          ASSIGN_OR_RETURN(request.message.payload, payload_of(*file));
          ASSIGN_OR_RETURN(request.request,
                           codec.decode(request.message.content_type, request.message.payload));
          return {};
        }();
      },
      [this, id = seat->id, number = request.number, outcome] {
        Seat* waiting = find_request(id, number);
        if (waiting->is_removed) return remove(id);
        waiting->request->stage = Stage::kContents;
        if (!outcome->ok()) return fail(*waiting, outcome->error());
        gather(*waiting);
      });
}

void Executor::decode(Seat& seat) {
  RequestUnderWay& request = *seat.request;
  auto decoded = seat.loaded->codec.decode(request.message.content_type, request.message.payload);
  if (!decoded.ok()) return fail(seat, decoded.error());
  request.request = std::move(*decoded);
  gather(seat);
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
void Executor::gather(Seat& seat) {
  RequestUnderWay& request = *seat.request;
  request.awaits_room = false;
  if (auto good = check_outputs(request.request); !good.ok()) return fail(seat, good.error());
  const auto complete = gather_contents(seat);
  if (!complete.ok()) {
    return await_room(seat, complete.error()) ? void() : fail(seat, complete.error());
  }
  if (!*complete) return;
  request.began = loop_.clock().now();
  auto placed = place_buffers(seat);
  if (!placed.ok()) {
    return await_room(seat, placed.error()) ? void() : fail(seat, placed.error());
  }
  request.stage = Stage::kCopyIn;
  auto copies = queue_inputs(seat);
  if (!copies.ok()) return fail(seat, copies.error());
  if (copies->empty()) return copied_in(seat);

  copy_in(seat, std::move(*copies));
}

// The request goes on when all of them are on their way: its stream waits for them.
void Executor::copy_in(Seat& seat, std::vector<TransferPiece> pieces) {
  const auto last = static_cast<uint32_t>(pieces.size() - 1);
  TransferEngine::Transfer transfer;
  transfer.owner = user_of(seat.id);
  transfer.urgent = true;
  transfer.pieces = std::move(pieces);
  transfer.on_queued = [this, last, id = seat.id, number = seat.request->number](
                           uint32_t piece, const cuda::Event& arrival) {
    Seat* waiting = find_request(id, number);
    if (piece != last || waiting == nullptr) return;
    const auto waits = waiting->loaded->stream().wait_for(arrival);
    if (!waits.ok()) return fail(*waiting, waits.error());
    copied_in(*waiting);
  };
  transfer.on_end = [this, id = seat.id, number = seat.request->number](Result<void> outcome) {
    Seat* waiting = find_request(id, number);
    if (outcome.ok() || waiting == nullptr) return;
    // Once it runs, only a broken context can be the cause, and its stream tells of that too.
    if (waiting->request->stage == Stage::kCopyIn) fail(*waiting, outcome.error());
  };
  to_device_->start(std::move(transfer));
}

void Executor::copied_in(Seat& seat) {
  RequestUnderWay& request = *seat.request;
  request.launched_at = loop_.clock().now();
  request.stage = Stage::kRunning;
  note_coming(seat);
  seat.loaded->program->bind(request.addresses);
  advance(seat);
}

void Executor::advance(Seat& seat) {
  for (;;) {
    const auto goes_on = step(seat);
    if (!goes_on.ok()) return fail(seat, goes_on.error());
    if (!*goes_on) return;
  }
}

// One instruction, or as much of it as may be queued; false if the device has to answer first.
Result<bool> Executor::step(Seat& seat) {
  RequestUnderWay& request = *seat.request;
  LoadedSeat& loaded = *seat.loaded;
  const auto& instructions = loaded.program->instructions();
  if (request.instruction == instructions.size()) {
    RETURN_IF_ERROR(queue_outputs(seat));
    prepare_early(seat);
    RETURN_IF_ERROR(call_back(seat));
    return false;
  }
  const Instruction& now = instructions[request.instruction];
  switch (now.kind) {
    case Instruction::Kind::kLaunch: {
      ASSIGN_OR_RETURN(const bool all, launch(seat, now));
      if (!all) return false;
      ++request.instruction;
      break;
    }
    case Instruction::Kind::kLayer: {
      ASSIGN_OR_RETURN(const bool begun, begin_layer(seat, now.graph));
      if (!begun) return false;
      ++request.instruction;
      break;
    }
    case Instruction::Kind::kLoop:
      return launch_loop(seat, now);
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
      RETURN_IF_ERROR(call_back(seat));
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

Result<void> Executor::call_back(Seat& seat) {
  seat.request->queued = 0;
  const auto on_answer = [](CUstream, CUresult result, void* request) {
    static_cast<RequestUnderWay*>(request)->on_device(result);
  };
  return seat.loaded->stream().call_back(on_answer, seat.request.get());
}

void Executor::device_answered(SandboxId id, uint64_t number, CUresult result) {
  if (ended_) return;
  Seat* seat = find_request(id, number);
  CHECK(seat != nullptr, "a request stays while the device works on it");
  RequestUnderWay& request = *seat->request;
  if (const auto good = driver_.check(result, "kernels"); !good.ok()) {
    return fail(*seat, good.error());
  }
  if (request.failure) return fail(*seat, *request.failure);
  if (seat->is_removed) return remove(id);
  const auto& instructions = seat->loaded->program->instructions();
  if (request.instruction == instructions.size()) {
    request.ran = loop_.clock().now();
    if (has_layers(*seat)) layers_->end(seat->id);
    return copy_out(*seat);
  }
  if (std::exchange(request.reads_flag, false)) {
    uint32_t flag = 0;
    memcpy(&flag, seat->loaded->out->pointer(), sizeof(flag));
    if (flag != 0) {
      request.rounds.pop_back();
      request.instruction = instructions[request.instruction].target;
    } else {
      ++request.instruction;
    }
  }
  advance(*seat);
}

}  // namespace lambent::executor
