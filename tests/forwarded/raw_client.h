// RawClient: a process of a client as the executor sees it, which may say whatever it likes.
// Included by tests and the benchmark; one thread.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>

#include "core/base/check.h"
#include "core/base/fd.h"
#include "core/base/packet.h"
#include "gpu/cuda_abi/driver_types.h"
#include "gpu/forward_ring/greeting.h"
#include "gpu/forward_ring/ring.h"
#include "gpu/forward_ring/shared_memory.h"
#include "gpu/forward_ring/waiting.h"

namespace lambent::forwarded_testing {

using forward_ring::Call;
using forward_ring::CallCode;

class RawClient {
 public:
  explicit RawClient(const std::string& path)
      : socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    CHECK(path.size() < sizeof(address.sun_path), "a short path");
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    CHECK(connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0,
          "the client's socket is there");
    const forward_ring::Hello hello;
    CHECK(send_packet(socket_.get(), {reinterpret_cast<const char*>(&hello), sizeof(hello)}).ok(),
          "the executor listens");
    std::array<char, sizeof(forward_ring::Welcome)> buffer;
    auto packet = receive_packet(socket_.get(), buffer);
    CHECK(packet.ok() && *packet, "a welcome");
    std::memcpy(&welcome, buffer.data(), sizeof(welcome));
    if (welcome.refused != 0) return;
    CHECK((*packet)->fds.size() == 1, "a welcome with its memory");
    CHECK(memory_.map((*packet)->fds[0].get()), "memory that is sealed");
    writer_ = forward_ring::CallWriter(memory_.pages());
  }

  forward_ring::SharedPages& pages() { return *memory_.pages(); }
  void hang_up() { socket_.reset(); }
  void say(const std::string& words) { (void)send_packet(socket_.get(), words).ok(); }
  // As write(), but waits for nothing: false if there is no room.
  bool try_write(const Call& call, const std::string& data = {}) {
    if (!writer_.has_room(data.size())) return false;
    writer_.write(call, data.data(), data.size());
    return true;
  }
  bool was_hung_up_on(int most_ms = 30'000) {
    pollfd waiting = {socket_.get(), POLLIN, 0};
    return poll(&waiting, 1, most_ms) == 1;
  }

  static Call call_of(CallCode code, std::initializer_list<uint64_t> arguments) {
    Call call;
    call.code = static_cast<uint16_t>(code);
    std::copy(arguments.begin(), arguments.end(), call.arguments);
    return call;
  }
  void write(const Call& call, const void* data = nullptr, size_t bytes = 0) {
    forward_ring::wait_until(
        pages().control.client_waits_for_room, nullptr, 1000,
        [&] { return writer_.has_room(bytes); }, [] { return true; });
    writer_.write(call, data, bytes);
  }
  void send(CallCode code, std::initializer_list<uint64_t> arguments, const void* data = nullptr,
            size_t bytes = 0) {
    write(call_of(code, arguments), data, bytes);
  }
  // Waits for the answer; DEVICE_UNAVAILABLE if the executor hung up instead.
  CUresult ask(CallCode code, std::initializer_list<uint64_t> arguments) {
    return ask_with(call_of(code, arguments), {});
  }
  CUresult ask_with(Call call, const std::string& data) {
    call.slot = 0;
    write(call, data.data(), data.size());
    ++asked_;
    forward_ring::AnswerSlot& slot = pages().slots[0];
    const bool may_spin = pages().control.may_spin.load() != 0;
    const bool came = forward_ring::wait_until(
        slot.client_sleeps, may_spin ? &budget_ : nullptr, 100,
        [&] { return slot.answered.load(std::memory_order_acquire) == asked_; },
        [&] { return !was_hung_up_on(0); });
    return came ? static_cast<CUresult>(slot.result) : CUDA_ERROR_DEVICE_UNAVAILABLE;
  }
  uint64_t value(size_t index) { return pages().slots[0].values[index]; }
  // A copy through the first chunk.
  CUresult copy(CallCode code, uint64_t stream, uint64_t address, uint64_t bytes) {
    send(code, {stream, address, 0, bytes});
    return wait_for_chunk();
  }
  CUresult wait_for_chunk() {
    ++chunk_uses_;
    forward_ring::ChunkState& chunk = pages().chunks[0];
    const bool came = forward_ring::wait_until(
        chunk.client_sleeps, &budget_, 100, [&] { return chunk.done.load() == chunk_uses_; },
        [&] { return !was_hung_up_on(0); });
    return came ? static_cast<CUresult>(chunk.result.load()) : CUDA_ERROR_DEVICE_UNAVAILABLE;
  }
  // More of the image that the next call takes, through the first chunk.
  CUresult upload(const std::string& image) {
    CUresult result = CUDA_SUCCESS;
    for (size_t at = 0; at < image.size() && result == CUDA_SUCCESS;) {
      const size_t part = std::min(image.size() - at, forward_ring::kChunkBytes);
      std::memcpy(pages().chunk_bytes[0], image.data() + at, part);
      send(CallCode::kUpload, {0, part});
      result = wait_for_chunk();
      at += part;
    }
    return result;
  }
  // A context, and its default stream.
  bool begin() {
    if (ask(CallCode::kCreateContext, {}) != CUDA_SUCCESS) return false;
    context = value(0);
    stream = value(1);
    return true;
  }

  forward_ring::Welcome welcome;
  uint64_t context = 0, stream = 0;

 private:
  OwnedFd socket_;
  forward_ring::SharedMemory memory_;
  forward_ring::CallWriter writer_;
  forward_ring::SpinBudget budget_;
  uint32_t asked_ = 0, chunk_uses_ = 0;
};

}  // namespace lambent::forwarded_testing
