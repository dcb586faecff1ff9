// Values that lie on devices, between processes on the emulated driver. Each process loads it for
// itself, after the fork.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <stdlib.h>

#include <random>

#include "gpu/cuda_abi/driver_types.h"
#include "gpu/stage_channel/testing/testing.h"

#ifndef LAMBENT_BINARY_DIR
#define LAMBENT_BINARY_DIR ""
#endif

namespace lambent::stage_channel {
namespace {

const char kDriver[] = LAMBENT_BINARY_DIR "/lib/emulated/libcuda.so.1";

// The driver as a user's program has it, with a context. Whatever fails ends the process.
class Device {
 public:
  explicit Device(const std::string& node, const char* faults = nullptr) {
    setenv("EMULATED_CUDA_NODE", node.c_str(), 1);
    setenv("EMULATED_CUDA_CONFIG", "tiny", 1);
    if (faults != nullptr) setenv("EMULATED_CUDA_FAULTS", faults, 1);
    library_ = dlopen(kDriver, RTLD_NOW | RTLD_LOCAL);
    CUcontext context = nullptr;
    call<CUresult(unsigned)>("cuInit", 0U);
    call<CUresult(CUcontext*, CUdevice)>("cuDevicePrimaryCtxRetain", &context, 0);
    call<CUresult(CUcontext)>("cuCtxSetCurrent", context);
  }
  CUdeviceptr allocate(size_t bytes) {
    CUdeviceptr address = 0;
    call<CUresult(CUdeviceptr*, size_t)>("cuMemAlloc_v2", &address, bytes > 0 ? bytes : 1);
    return address;
  }
  void write(CUdeviceptr to, const std::vector<char>& bytes) {
    if (bytes.empty()) return;
    call<CUresult(CUdeviceptr, const void*, size_t)>(
        "cuMemcpyHtoD_v2", to, static_cast<const void*>(bytes.data()), bytes.size());
  }
  std::vector<char> read(CUdeviceptr from, size_t count) {
    std::vector<char> bytes(count);
    if (count == 0) return bytes;
    call<CUresult(void*, CUdeviceptr, size_t)>("cuMemcpyDtoH_v2", static_cast<void*>(bytes.data()),
                                               from, count);
    return bytes;
  }

 private:
  template <typename Function, typename... Arguments>
  void call(const char* name, Arguments... arguments) {
    auto* function =
        library_ == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library_, name));
    if (function == nullptr || function(arguments...) != CUDA_SUCCESS) {
      fprintf(stderr, "%s failed\n", name);
      _exit(3);
    }
  }

  void* library_ = nullptr;
};

class DeviceChannelTest : public ChannelTest {
 protected:
  static Status send(Sender& sender, uint64_t job, CUdeviceptr address, size_t bytes) {
    Outgoing outgoing = tensor(std::vector<char>(bytes));
    outgoing.address = address;
    outgoing.on_device = true;
    return sender.send(job, 1, &outgoing, 1, 0, kLong);
  }
  // Sends values of all sizes from its device, until one cannot be sent.
  bool send_all(const std::string& path, const char* faults = nullptr, uint64_t rounds = 2) {
    Device device(node(), faults);
    Sender sender;
    if (sender.open(path.c_str()) != Status::kDone) return false;
    const CUdeviceptr buffer = device.allocate(16 * kMiB);
    for (uint64_t job = 0; job < rounds * kSizes.size(); ++job) {
      const auto value = value_of(job, kSizes[job % kSizes.size()]);
      device.write(buffer, value);
      const Status status = send(sender, job, buffer, value.size());
      // What was sent is the caller's again.
      device.write(buffer, std::vector<char>(value.size()));
      if (status == Status::kDevice) continue;
      if (status != Status::kDone) return false;
    }
    return faults == nullptr ? *sender.note() == 0 : true;
  }
  // Receives them onto its device; how many were as they should be.
  size_t receive_all(const std::string& path, std::string* note = nullptr, uint64_t rounds = 2) {
    Device device(node());
    Receiver receiver;
    if (receiver.open(path.c_str()) != Status::kDone) return 0;
    size_t right = 0;
    const CUdeviceptr buffer = device.allocate(16 * kMiB);
    for (uint64_t job = 0; job < rounds * kSizes.size(); ++job) {
      if (receiver.receive(kLong) != Status::kDone) break;
      const size_t bytes = receiver.arrival().entry[0].bytes;
      if (receiver.take(0, buffer, true, 0, kLong) == Status::kDone &&
          device.read(buffer, bytes) == value_of(job, bytes)) {
        ++right;
      }
      receiver.release();
    }
    if (note != nullptr) *note = receiver.note();
    return right;
  }
  std::string node() const { return folder_ + "/node"; }
};

TEST_F(DeviceChannelTest, ValuesOfManySizesGoFromDeviceToDevice) {
  const std::string path = make(2, 16 * kMiB);
  const pid_t sender = in_child([&] { return send_all(path); });
  const pid_t receiver = in_child([&] {
    std::string note;
    return receive_all(path, &note) == 2 * kSizes.size() && note.empty();
  });
  EXPECT_EQ(status_of(sender), 0);
  EXPECT_EQ(status_of(receiver), 0);
}

TEST_F(DeviceChannelTest, WithoutPageLockedMemoryValuesStillArriveAndANoteSaysWhy) {
  const std::string path = make(2, 16 * kMiB);
  const pid_t sender = in_child([&] { return send_all(path); });
  const pid_t receiver = in_child([&] {
    setenv("EMULATED_CUDA_FAULTS", "fail cuMemHostRegister from 1 with CUDA_ERROR_NOT_SUPPORTED",
           1);
    std::string note;
    const size_t right = receive_all(path, &note);
    return right == 2 * kSizes.size() && note.find("cuMemHostRegister") != std::string::npos;
  });
  EXPECT_EQ(status_of(sender), 0);
  EXPECT_EQ(status_of(receiver), 0);
}

TEST_F(DeviceChannelTest, ACopyThatFailsFailsItsValueAloneAtWhicheverCallItIs) {
  for (const char* call : {"cuMemcpyDtoHAsync", "cuEventRecord", "cuEventSynchronize"}) {
    const std::string faults = std::string("fail ") + call + " call 9 with CUDA_ERROR_UNKNOWN";
    SCOPED_TRACE(faults);
    const std::string path = make(2, 16 * kMiB);
    const pid_t sender = in_child([&] { return send_all(path, faults.c_str(), 1); });
    const pid_t receiver =
        in_child([&] { return receive_all(path, nullptr, 1) == kSizes.size() - 1; });
    EXPECT_EQ(status_of(sender), 0);
    EXPECT_EQ(status_of(receiver), 0);
  }
}

TEST_F(DeviceChannelTest, ValuesOfTheHostAndOfTheDeviceGoTogether) {
  const std::string path = make(1, 16 * kMiB);
  const auto first = value_of(0, 5 * kMiB), second = value_of(1, 300),
             third = value_of(2, 7 * kMiB);
  const pid_t sender = in_child([&] {
    Device device(node());
    Sender end;
    Outgoing outgoing[] = {tensor(first), tensor(second), tensor(third)};
    for (const int i : {0, 2}) {
      const CUdeviceptr buffer = device.allocate(outgoing[i].entry.bytes);
      device.write(buffer, i == 0 ? first : third);
      outgoing[i].address = buffer;
      outgoing[i].on_device = true;
    }
    return end.open(path.c_str()) == Status::kDone &&
           end.send(0, 1, outgoing, 3, 0, kLong) == Status::kDone;
  });
  const pid_t receiver = in_child([&] {
    Device device(node());
    Receiver end;
    if (end.open(path.c_str()) != Status::kDone || end.receive(kLong) != Status::kDone)
      return false;
    // The other way round: where values come from says nothing about where they go.
    std::vector<char> one(first.size()), three(third.size());
    const CUdeviceptr two = device.allocate(second.size());
    return end.take(2, reinterpret_cast<uint64_t>(three.data()), false, 0, kLong) ==
               Status::kDone &&
           end.take(0, reinterpret_cast<uint64_t>(one.data()), false, 0, kLong) == Status::kDone &&
           end.take(1, two, true, 0, kLong) == Status::kDone && one == first && three == third &&
           device.read(two, second.size()) == second;
  });
  EXPECT_EQ(status_of(sender), 0);
  EXPECT_EQ(status_of(receiver), 0);
}

TEST_F(DeviceChannelTest, ASenderThatDiesWhileItCopiesLeavesNoReceiverWaiting) {
  for (uint32_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const std::string path = make(1 + random() % 2, 16 * kMiB);
    const uint64_t last = random() % kSizes.size();
    const pid_t sender = in_child([&] { return send_all(path); });
    const pid_t receiver = in_child([&] {
      Device device(node());
      Receiver end;
      if (end.open(path.c_str()) != Status::kDone) return false;
      const CUdeviceptr buffer = device.allocate(16 * kMiB);
      for (uint64_t job = 0;; ++job) {
        Status status = end.receive(-1);
        if (status == Status::kDone && job == last) kill(sender, SIGKILL);
        if (status == Status::kDone) status = end.take(0, buffer, true, 0, -1);
        if (status == Status::kPeerGone) return job >= last;
        if (status != Status::kDone) return false;
        end.release();
      }
    });
    EXPECT_EQ(status_of(receiver), 0);
    EXPECT_TRUE(WIFSIGNALED(status_of(sender)));
  }
}

}  // namespace
}  // namespace lambent::stage_channel
